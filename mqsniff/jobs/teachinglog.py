"""Topic names that a worker learned, in a file without a name that the others read as it grows."""

from __future__ import annotations

import marshal
import os
import tempfile
from collections.abc import Iterator
from typing import Final, NamedTuple

from mqsniff.jobs.places import Place
from mqsniff.topics import Teaching

_LENGTH: Final = 4


class PlacedTeaching(NamedTuple):
    """A topic name, and the place of the message that taught it."""

    place: Place
    taught: Teaching


class TeachingLog:
    """What one worker learned; to be made before the workers are. Only its worker writes."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="mqsniff-")  # noqa: SIM115  # it lives as long as the run
        self._read_to = 0

    def write(self, teaching: PlacedTeaching) -> None:
        """Add a name."""
        data = marshal.dumps(tuple(teaching))
        self._file.write(len(data).to_bytes(_LENGTH, "little") + data)
        self._file.flush()

    def news(self) -> Iterator[PlacedTeaching]:
        """What was added since the last call in this process."""
        number = self._file.fileno()
        while len(head := os.pread(number, _LENGTH, self._read_to)) == _LENGTH:
            size = int.from_bytes(head, "little")
            data = os.pread(number, size, self._read_to + _LENGTH)
            if len(data) < size:
                return
            self._read_to += _LENGTH + size
            yield PlacedTeaching(*marshal.loads(data))  # noqa: S302  # our own bytes

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
