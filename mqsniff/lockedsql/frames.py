"""A file descriptor in, frames out, and back: a kind (1 byte), a size (8 bytes), the bytes.

1. Commands send requests (pickled: the query process trusts its command) and get answers back, which are JSON or Arrow
   IPC: a command trusts nothing that its query process sends, and bounds the size of a frame.
2. The end of the stream between two frames is an end; inside of one it is one too, since the other process died.
"""

from __future__ import annotations

import os
import struct
from typing import Any, Final, NamedTuple

DONE: Final = b"D"
"""JSON: the answer to a request, or the end of its rows."""
ROWS: Final = b"R"
"""Arrow IPC: a stream of a schema and at most one batch of rows."""
ERROR: Final = b"E"
"""JSON: one line of text, why a request has no answer."""
REQUEST: Final = b"Q"
"""A pickled tuple: the name of a request, and what belongs to it."""

_HEAD: Final = struct.Struct("<cQ")
_PIECE: Final = 1 << 20


class ProcessFrame(NamedTuple):
    """A kind and bytes."""

    kind: bytes
    payload: bytearray


class FrameSizeError(Exception):
    """A frame that is larger than it may be."""


def write_frame(descriptor: int, kind: bytes, payload: Any) -> None:
    """Write a frame of bytes, or of what has some (PEP 3118); raises OSError, such as BrokenPipeError."""
    view = memoryview(payload).cast("B")
    _write(descriptor, memoryview(_HEAD.pack(kind, len(view))))
    _write(descriptor, view)


def read_frame(descriptor: int, most: int) -> ProcessFrame | None:
    """The next frame, None at the end; raises FrameSizeError for one of more than ``most`` bytes."""
    head = _read(descriptor, _HEAD.size)
    if head is None:
        return None
    kind, size = _HEAD.unpack(head)
    if size > most:
        raise FrameSizeError(f"{size} bytes")
    payload = _read(descriptor, size)
    return None if payload is None else ProcessFrame(kind, payload)


def _write(descriptor: int, view: memoryview) -> None:
    while view:
        view = view[os.write(descriptor, view[:_PIECE]) :]


def _read(descriptor: int, size: int) -> bytearray | None:
    """So many bytes; None if the stream ends before them."""
    read = bytearray()
    while len(read) < size:
        piece = os.read(descriptor, min(size - len(read), _PIECE))
        if not piece:
            return None
        read += piece
    return read
