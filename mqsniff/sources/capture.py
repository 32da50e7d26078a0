"""One input in, whatever its compression and format; its PacketBatches out, window by window.

1. An input that is no capture says so in ``info.unreadable`` and has no packets; a capture that is cut or damaged gives
   the packets before that place, and a problem.
2. No batch is empty, and each is valid until the next is asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from mqsniff.codecs.files import RawFile, open_bytes
from mqsniff.limits import Limits
from mqsniff.model import CaptureInfo, PacketBatch
from mqsniff.sources.batches import report
from mqsniff.sources.heads import HEAD_MIN, HEAD_SIZE, parser_for
from mqsniff.sources.window import Window


class CaptureReader:
    """Reads one capture that was opened; making it waits for the first bytes.

    ``on_read`` is told how many bytes of the file itself were read each time.
    """

    def __init__(
        self,
        raw: RawFile,
        info: CaptureInfo,
        limits: Limits,
        window: int,
        on_read: Callable[[int], None] = lambda _size: None,
    ) -> None:
        self._raw = raw
        self._info = info
        self._on_read = on_read
        self._told = 0
        self._source = open_bytes(raw, limits)
        self._window = Window(self._source, window)
        self._need = HEAD_MIN
        info.compression = self._source.compression
        while self._window.left < HEAD_MIN and not self._window.ended:
            self._fill()
        self._parser = parser_for(self._window.head(HEAD_SIZE), info, limits)
        if not self._parser:
            self._explain()

    def next_batch(self) -> PacketBatch | None:
        """The next packets; None at the end."""
        window = self._window
        while self._parser:
            if window.left >= self._need:
                parsed = self._parser.parse(window.buffer, window.start, window.stop, window.offset)
                window.start = parsed.position
                self._need = parsed.need
                self._parser = None if parsed.over else self._parser
                if parsed.batch:
                    return parsed.batch
            elif not window.ended:
                self._fill()
            else:
                self._parser.finish(window.left, window.offset)
                self._parser = None
                self._explain()
        return None

    def close(self) -> None:
        """Give the file back."""
        self._raw.close()

    def _fill(self) -> None:
        self._window.fill(self._need)
        self._on_read(self._raw.taken - self._told)
        self._told = self._raw.taken

    def _explain(self) -> None:
        """Where the bytes ended before their time, say why."""
        if not self._source.failure:
            return
        if self._info.unreadable:
            self._info.unreadable = self._source.failure
        else:
            end = self._window.offset + self._window.left
            report(self._info, self._source.failure, end)
