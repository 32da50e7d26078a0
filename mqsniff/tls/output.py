"""What comes out of TLS: plain bytes, holes, and problems."""

from __future__ import annotations

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


TlsOutput: TypeAlias = Plain | Hole | TlsNotice
