"""One capture file that is still being written in, compressed or not; the packets that are complete by now out."""

from __future__ import annotations

import io
import os
from pathlib import Path

from mqsniff.codecs.files import open_bytes
from mqsniff.limits import Limits
from mqsniff.model import CaptureInfo, PacketBatch
from mqsniff.sources.batches import report
from mqsniff.sources.capture import ReadWindow
from mqsniff.sources.heads import HEAD_MIN, HEAD_SIZE, parser_for
from mqsniff.sources.parsers import Parser


class GrowingFile:
    """The bytes of a file as RawBytes; at its end it waits for more, until ``is_final``."""

    compression = ""
    size: int | None = None
    limited = False

    def __init__(self, name: str) -> None:
        self._file = io.FileIO(name)
        self.taken = 0
        self.failure = ""
        self.is_final = False
        self._head = b""

    @property
    def identity(self) -> tuple[int, int]:
        """What tells this file from another one of the same name."""
        status = os.fstat(self._file.fileno())
        return status.st_dev, status.st_ino

    def head(self, size: int) -> bytes:
        """See RawBytes."""
        self._head = self.read(size) or b""
        return self._head

    def read(self, size: int, timeout_s: float | None = None) -> bytes | None:
        """See RawBytes."""
        buffer = bytearray(size)
        taken = self.readinto(memoryview(buffer), timeout_s)
        return None if taken is None else bytes(memoryview(buffer)[:taken])

    def readinto(self, view: memoryview, timeout_s: float | None = None) -> int | None:  # noqa: ARG002  # the contract
        """See RawBytes; None at once where nothing is there now."""
        if self._head:
            taken = min(len(view), len(self._head))
            view[:taken] = self._head[:taken]
            self._head = self._head[taken:]
            return taken
        try:
            taken = self._file.readinto(view) or 0
        except OSError as error:
            self.failure = f"reading failed: {error.strerror}"
            return 0
        self.taken += taken
        return taken if taken or self.is_final else None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class GrowingCapture:
    """Reads the packets of a file as they are written."""

    def __init__(self, name: str, info: CaptureInfo, limits: Limits) -> None:
        """OSError if the file cannot be opened."""
        self._raw = GrowingFile(name)
        self._info = info
        self._limits = limits
        self._source = open_bytes(self._raw, limits)
        info.compression = self._source.compression
        self._window = ReadWindow(self._source, limits.window)
        self._parser: Parser | None = None
        self._need = HEAD_MIN
        self.over = False
        """Whether nothing more can be read, whatever is written."""

    @property
    def is_final(self) -> bool:
        """Whether nothing more will be written."""
        return self._raw.is_final

    @is_final.setter
    def is_final(self, is_final: bool) -> None:
        self._raw.is_final = is_final

    def next_batch(self) -> PacketBatch | None:
        """The next packets; None if there are none now."""
        window = self._window
        while not self.over:
            if self._parser is None and window.left >= HEAD_MIN:
                self._parser = parser_for(window.head(HEAD_SIZE), self._info, self._limits)
                self.over = self._parser is None
            elif self._parser is not None and window.left >= self._need:
                parsed = self._parser.parse(window.buffer, window.start, window.stop, window.offset)
                window.start, self._need, self.over = parsed.position, parsed.need, parsed.over
                if parsed.batch:
                    return parsed.batch
            elif not self._has_grown():
                return None
        return None

    def _has_grown(self) -> bool:
        """Read on; whether there was anything."""
        end = self._window.offset + self._window.left
        self._window.fill(self._need)
        return self._window.offset + self._window.left > end

    def was_replaced(self) -> bool:
        """Whether the name is another file now, or the file has lost bytes that were read."""
        try:
            status = Path(self._info.name).stat()
        except OSError:
            return True
        return (status.st_dev, status.st_ino) != self._raw.identity or status.st_size < self._raw.taken

    def finish(self) -> None:
        """Report what is left at the end."""
        if self._parser is not None and not self.over:
            self._parser.finish(self._window.left, self._window.offset)
        if self._source.failure:
            report(self._info, self._source.failure, self._window.offset + self._window.left)

    def close(self) -> None:
        """Close the file."""
        self._raw.close()
