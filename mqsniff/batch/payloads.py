"""Payloads of bundles in; files on the disks of this machine, and a pointer for each payload, out; and back.

1. Only a session whose driver and workers share one machine has such files: Spark then moves pointers, not payloads of
   up to a megabyte, which it would copy a dozen times and write twice (decision 034).
2. Payloads of less than ``STORED_MIN`` bytes stay in their rows: many small reads would cost more.
3. Each attempt of a task writes a file of its own, which nothing changes later. The driver deletes the folder at the
   end of the run, Spark with its other temporary files if the driver is killed.
"""

from __future__ import annotations

import os
import struct
from collections import OrderedDict
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from mqsniff.limits import KIB

STORED_MIN: Final = 4 * KIB
OPEN_MAX: Final = 64
"""Files that a task has open at the same time."""
_POINTER: Final = struct.Struct("<QI")
"""Offset and size; the path of the file follows."""


class PayloadError(Exception):
    """A payload could not be written or read: a failure of the task."""


class PayloadWriter:
    """Writes the payloads of one attempt of a task to a file, which is made with the first of them.

    Without a folder all payloads stay in their rows; so they do where workers, as another user or in a container,
    may not write to it.
    """

    def __init__(self, folder: str, attempt: str) -> None:
        self._path = os.fsencode(Path(folder, attempt)) if folder and os.access(folder, os.W_OK) else b""
        self._file: int | None = None
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)

    def store(self, payload: bytes | memoryview) -> bytes | None:
        """Store a payload; returns its pointer, None if it stays in its row."""
        if not self._path or len(payload) < STORED_MIN:
            return None
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            written = 0
            while written < len(payload):  # a disk that is nearly full takes a part
                written += os.write(self._file, payload[written:] if written else payload)
        except OSError as error:
            raise PayloadError(f"temporary file: {error}") from error
        pointer = _POINTER.pack(self._size, len(payload)) + self._path
        self._size += len(payload)
        return pointer


class PayloadReader:
    """Reads payloads from the files of any number of tasks."""

    def __init__(self) -> None:
        self._files: OrderedDict[bytes, int] = OrderedDict()
        """Open files by path, the one that was used last at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def read(self, pointer: bytes) -> bytes:
        """The payload of a pointer; PayloadError if it is not there as it was written."""
        offset, size = _POINTER.unpack_from(pointer)
        try:
            payload = os.pread(self._opened(pointer[_POINTER.size :]), size, offset)
        except OSError as error:
            raise PayloadError(f"temporary file: {error}") from error
        if len(payload) != size:
            raise PayloadError("temporary file: it is shorter than it was")
        return payload

    def _opened(self, path: bytes) -> int:
        file = self._files.pop(path, None)
        if file is None:
            if len(self._files) >= OPEN_MAX:
                os.close(self._files.popitem(last=False)[1])
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._files[path] = file
        return file
