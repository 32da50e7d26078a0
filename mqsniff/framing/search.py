"""Strict looks at bytes of unknown standing: where in a run frames start, and whether they start at all.

1. A frame is believed with a second one, or the exact end of the run, behind it; one over ``search_sure`` needs two,
   one that ``probe`` vouches for needs none where the capture lost what stood behind it.
   A run also ends, for one look, where the peer begins to speak: who waits for an answer sends no second frame.
2. An answer that needs more bytes is no answer: whoever asks keeps the bytes and asks again.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from mqsniff.dissector import NEED, Probed, Sure, Verdict
from mqsniff.framing.sidestream import SideStream
from mqsniff.limits import Limits
from mqsniff.model import Side


class Run(Enum):
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


def find(prober: Prober, limits: Limits, stream: SideStream, stop: int, run: Run) -> bool:
    """Move ``position`` to the first frame that can be believed; false when there is none (yet) before ``stop``."""
    if stop < stream.search_wants and run is Run.OPEN:
        return False
    data = stream.data()
    base, side = stream.base, stream.side
    at, end = stream.position - base, stop - base
    while (at := prober.scan(side, data, at)) < end:
        believed, wants = _believe(prober, limits, side, data, at, end=end, run=run)
        if believed or wants:
            stream.position = base + at
            stream.search_wants = base + wants
            return believed
        at += 1
    stream.position = stop
    stream.search_wants = stop + 1
    return False


def _believe(
    prober: Prober, limits: Limits, side: Side, data: bytes, at: int, *, end: int, run: Run
) -> tuple[bool, int]:
    """(whether a frame starts at ``at``, else the index that must be there before asking again, 0 for never)."""
    head_max = prober.probe_max or prober.head_max
    behind = 0
    needed = 1
    while True:
        size = prober.probe(side, data[at : min(at + head_max, end)])
        if size is NEED:
            return False, 0 if run is Run.ENDED or at + head_max <= end else end + 1
        if not isinstance(size, int) or not 0 < size <= limits.search_max:
            return False, 0
        if isinstance(size, Sure) and behind == 0 and run is Run.ENDED and at + size > end:
            return True, 0
        if behind == 0 and size > limits.search_sure:
            needed = 2
        if behind == needed:
            return True, 0
        behind += 1
        at += size
        if at >= end:
            if at == end and run is not Run.OPEN:
                return True, 0
            return False, 0 if run is Run.ENDED else at + 1


def verdict_at(prober: Prober, side: Side, data: bytes, start: int) -> Verdict:
    """What the bytes from ``start`` on say of the protocol: YES for two frames, MAYBE for a lone one."""
    head_max = prober.probe_max or prober.head_max
    size = prober.probe(side, data[start : start + head_max])
    if not isinstance(size, int):
        return Verdict.MORE if size is NEED else Verdict.NO
    behind = data[start + size : start + size + head_max]
    if not behind:
        return Verdict.YES if isinstance(size, Sure) else Verdict.MAYBE
    following = prober.probe(side, behind)
    if isinstance(following, int):
        return Verdict.YES
    return Verdict.MAYBE if following is NEED else Verdict.NO
