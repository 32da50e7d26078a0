"""The bytes of connections: contiguous runs and losses, each with its place in stream, time and capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mqsniff.model.values import Side


class Mark(NamedTuple):
    """From this stream offset on, bytes came with this packet and were released by that one.

    ``release`` is the ordinal of the packet that let the bytes through: their own for bytes in order, the one that
    filled (or gave up) a hole for bytes that had to wait.
    """

    offset: int
    ts_ns: int
    packet: int
    release: int


@dataclass(slots=True)
class Chunk:
    """Contiguous bytes of one side at an absolute stream offset. ``marks`` is not empty and starts at or before it."""

    side: Side
    offset: int
    data: bytes
    marks: list[Mark]


@dataclass(slots=True)
class Gap:
    """Bytes of one side that the capture lost. ``known`` is false where a layer cannot tell how many they were."""

    side: Side
    offset: int
    length: int
    mark: Mark
    """Time and packet at which the loss was noticed; ``mark.offset`` is ``offset``."""
    known: bool = True
