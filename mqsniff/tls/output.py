"""What comes out of TLS: plain bytes, holes, problems, and for observers its records."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from mqsniff.model import Mark, Problem, Side


class Plain(NamedTuple):
    """Bytes without TLS."""

    side: Side
    data: bytes
    mark: Mark


class Hole(NamedTuple):
    """Plain bytes are missing here; unknown number, or so many where they were clear text."""

    side: Side
    size: int | None
    mark: Mark


class TlsNotice(NamedTuple):
    """A problem and its place."""

    problem: Problem
    mark: Mark


class SeenRecord(NamedTuple):
    """A record that was walked over, as observers see it."""

    side: Side
    kind: int
    """Type of its content (RFC 8446 section 5.1); the outer one where it was not opened."""
    number: int | None
    """Sequence number with which it was opened; None for one in clear, and for one that did not open."""
    start: int
    """Stream offset of its head."""
    stop: int
    first: Mark
    """Of the packet in which it begins."""
    last: Mark
    """Of the packet that completed it."""
    plain: tuple[int, int]
    """Offsets of its data among the plain bytes of its side, from the beginning of TLS on; empty without data."""
    opened: bool
    """Whether its content was read."""


WatchRecord: TypeAlias = Callable[[SeenRecord], None]
TlsOutput: TypeAlias = Plain | Hole | TlsNotice
