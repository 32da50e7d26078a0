"""Strict looks at bytes of unknown standing: whether frames start at a place, and what that says of the protocol.

1. A frame is believed with a second one, or the exact end of the run, behind it; one over ``search_sure`` needs two,
   one that ``probe`` vouches for needs none where the capture lost what stood behind it. The first captured byte behind
   lost ones is as exact an end: captures that cut their packets lose the end of every frame.
   A run also ends, for one look, where the peer begins to speak: who waits for an answer sends no second frame.
2. An answer that needs more bytes is no answer: whoever asks keeps the bytes and asks again.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from mqsniff.dissector import NEED, Probed, Sample, Verdict
from mqsniff.limits import Limits
from mqsniff.model import ProvenSize, Side


class RunEnd(Enum):
    """What is known of the bytes behind those at hand."""

    OPEN = "more may come at once"
    PAUSED = "the peer speaks now: a frame may end exactly here"
    ENDED = "they are lost, or there are none"


class Prober(Protocol):
    """What a framed dissector brings for this."""

    @property
    def head_max(self) -> int:
        """``probe`` never needs more bytes."""
        ...

    @property
    def probe_max(self) -> int:
        """Nor more than this, if it is not 0."""
        ...

    def probe(self, side: Side, head: bytes, /) -> Probed:
        """Size of the frame that must start here."""
        ...

    def scan(self, side: Side, data: bytes, start: int, /) -> int:
        """First offset >= ``start`` where ``probe`` is worth asking."""
        ...


def probe_size(prober: Prober) -> int:
    """As many bytes as ``probe`` can want."""
    return prober.probe_max or prober.head_max


def frame_starts(prober: Prober, side: Side, data: bytes, at: int, end: int) -> bool:
    """Whether a frame starts at a place to which the one before points."""
    return isinstance(prober.probe(side, data[at : min(at + probe_size(prober), end)]), int)


def confirm_frame(
    prober: Prober, limits: Limits, side: Side, data: bytes, at: int, *, end: int, run: RunEnd, beyond: int
) -> tuple[bool, int]:
    """(whether a frame starts at ``at``, else the index that must be there before asking again, 0 for never).

    ``beyond``: index of the first byte behind those that were lost where the run ended; negative where nobody knows.
    """
    head_max = probe_size(prober)
    behind = 0
    needed = 1
    while True:
        size = prober.probe(side, data[at : min(at + head_max, end)])
        if size is NEED:
            return False, 0 if run is RunEnd.ENDED or at + head_max <= end else end + 1
        if not isinstance(size, int) or not 0 < size <= limits.search_max:
            return False, 0
        if isinstance(size, ProvenSize) and behind == 0 and run is RunEnd.ENDED and at + size > end:
            return True, 0
        if behind == 0 and size > limits.search_sure:
            needed = 2
        if behind == needed:
            return True, 0
        behind += 1
        at += size
        if at >= end:
            if at in (end, beyond) and run is not RunEnd.OPEN:
                return True, 0
            return False, 0 if run is RunEnd.ENDED else at + 1


def verdict_at(prober: Prober, side: Side, data: bytes, start: int) -> Verdict:
    """What the bytes from ``start`` on say of the protocol: YES for two frames, MAYBE for a lone one."""
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
    """What a sample says of the protocol: the best of its likely starts, never NO where its beginning was not seen."""
    if sample.from_start:
        return verdict_at(prober, side, sample.data, 0)
    verdicts = (verdict_at(prober, side, sample.data, start) for start in sample.starts)
    return max(verdicts, default=Verdict.NO) or Verdict.MORE
