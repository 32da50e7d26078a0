"""Strict checks of bytes out of step: whether a frame starts at an offset, and whether the protocol fits.

1. Accept a candidate if another frame, or the exact end of the captured bytes, follows it. A candidate larger than
   ``search_sure`` needs two frames after it; a ``ProvenSize`` needs none where the bytes after it were lost. The
   first captured byte after lost ones counts as an exact end too: captures that cut their packets lose the end of
   every frame. So does, for one check, the point where the peer starts to send: a side that waits for a reply sends no
   second frame.
2. Where more bytes are needed, nothing is decided: the caller keeps the bytes and calls again.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from mqsniff.dissector import NEED, Probed, Sample, Verdict
from mqsniff.limits import Limits
from mqsniff.model import ProvenSize, Side


class RunEnd(Enum):
    """What is known of the bytes that follow the buffered ones."""

    OPEN = "more may come at once"
    PAUSED = "the peer speaks now: a frame may end exactly here"
    ENDED = "they are lost, or there are none"


OPEN: Final = RunEnd.OPEN
PAUSED: Final = RunEnd.PAUSED
ENDED: Final = RunEnd.ENDED
"""Looked up once: to find a member of an enumeration costs 0.1 µs."""


class Prober(Protocol):
    """The methods of a framed dissector that are used here."""

    @property
    def head_max(self) -> int:
        """``probe`` never needs more bytes."""
        ...

    @property
    def probe_max(self) -> int:
        """If not 0, a lower limit for ``probe``."""
        ...

    def probe(self, side: Side, head: bytes, /) -> Probed:
        """Size of the frame that must start here."""
        ...

    def scan(self, side: Side, data: bytes, start: int, /) -> int:
        """First offset >= ``start`` where ``probe`` may find a frame."""
        ...


def probe_size(prober: Prober) -> int:
    """Most bytes that ``probe`` can need."""
    return prober.probe_max or prober.head_max


def frame_starts(prober: Prober, side: Side, data: bytes, at: int, end: int) -> bool:
    """Whether a frame starts where the frame before it ends."""
    return isinstance(prober.probe(side, data[at : min(at + probe_size(prober), end)]), int)


def confirm_frame(
    prober: Prober, limits: Limits, side: Side, data: bytes, at: int, *, end: int, run: RunEnd, beyond: int
) -> tuple[bool, int]:
    """(whether a frame starts at ``at``; if not, the index up to which bytes are needed to try again, 0: never).

    ``beyond``: index of the first captured byte after the lost ones that ended the run; negative if unknown.
    """
    head_max = probe_size(prober)
    behind = 0
    needed = 1
    while True:
        size = prober.probe(side, data[at : min(at + head_max, end)])
        if size is NEED:
            return False, 0 if run is ENDED or at + head_max <= end else end + 1
        if not isinstance(size, int) or not 0 < size <= limits.search_max:
            return False, 0
        if isinstance(size, ProvenSize) and behind == 0 and run is ENDED and at + size > end:
            return True, 0
        if behind == 0 and size > limits.search_sure:
            needed = 2
        if behind == needed:
            return True, 0
        behind += 1
        at += size
        if at >= end:
            if at in (end, beyond) and run is not OPEN:
                return True, 0
            return False, 0 if run is ENDED else at + 1


def verdict_at(prober: Prober, side: Side, data: bytes, start: int) -> Verdict:
    """Judge the protocol by the bytes from ``start`` on: YES for two frames, MAYBE for a single one."""
    head_max = probe_size(prober)
    size = prober.probe(side, data[start : start + head_max])
    if not isinstance(size, int):
        return Verdict.MORE if size is NEED else Verdict.NO
    behind = data[start + size : start + size + head_max]
    if not behind:
        return Verdict.YES if isinstance(size, ProvenSize) else Verdict.MAYBE
    following = prober.probe(side, behind)
    if isinstance(following, int):
        return Verdict.YES
    return Verdict.MAYBE if following is NEED else Verdict.NO


def verdict_of(prober: Prober, side: Side, sample: Sample) -> Verdict:
    """The best verdict of a sample's likely starts; never NO where the start of the stream was not captured."""
    if sample.from_start:
        return verdict_at(prober, side, sample.data, 0)
    verdicts = (verdict_at(prober, side, sample.data, start) for start in sample.starts)
    return max(verdicts, default=Verdict.NO) or Verdict.MORE
