"""Searches a side that is out of step for its next frame; gives the frame's offset and the bytes skipped before it.

1. The first offset that ``confirmation`` accepts is the result; packets are examined one at a time.
2. If a frame begins with a packet and its rest was lost, its size tells where the next frame begins.
3. ``probe`` and ``frame_size`` may disagree: the same offset is never given twice in a row.
4. A frame accepted by its bytes is also checked against the state of the connection (``confirm``). While that answers
   MORE, the search stays at this offset until more bytes come, at most ``wait_max`` of them.
5. ``scan`` looks at each buffered byte once, though it is asked packet by packet and looks beyond the packet's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from mqsniff.dissector import Candidate, Verdict, WorkCount
from mqsniff.framing.confirmation import ENDED, OPEN, PAUSED, Prober, RunEnd, confirm_frame, frame_starts, probe_size
from mqsniff.framing.streambuffer import SEARCH, STEP, StreamBuffer
from mqsniff.limits import Limits
from mqsniff.model import Gap, Mark, ProblemKind, Side, Skipped

EXPECTED_MAX: Final = 64
"""Most frame starts that a search expects by rule 2."""
_NONE: Final[frozenset[int]] = frozenset()


class Searcher(Prober, Protocol):
    """The methods of a framed dissector that are used here."""

    def confirm(self, side: Side, candidate: Candidate, /) -> Verdict:
        """Whether a frame that was accepted by its bytes fits the state of the connection."""
        ...


class Search:
    """The search of one side: what it has examined and what it skips."""

    __slots__ = (
        "_expected",
        "_found_at",
        "_missing",
        "_missing_from",
        "_scanned",
        "_seen",
        "_skip_from",
        "_skip_mark",
        "_skip_why",
        "_stream",
        "_wants",
        "_work",
    )

    def __init__(self, stream: StreamBuffer, work: WorkCount) -> None:
        self._stream = stream
        self._work = work
        self._wants = 0
        """A new attempt is useless before the stream reaches this offset."""
        self._seen = 0
        self._found_at = -1
        self._expected: set[int] | frozenset[int] = _NONE
        """Ends of frames that begin with a packet and whose rest was lost: frames must start there (rule 2)."""
        self._skip_from = 0
        self._skip_why = ""
        self._skip_mark: Mark | None = None
        self._missing = False
        self._missing_from: int | None = None
        self._scanned = (-1, 0)
        """(end of the buffered bytes, offset that ``scan`` gave for them): packets after ask not again (rule 5)."""

    # ---- out of step

    def miss(self, start: int | None) -> None:
        """Note that frames may be missing from this offset on; None if the size of the loss is unknown."""
        if not self._missing or start is None:
            self._missing_from = start
        self._missing = True

    def missed(self) -> int | None:
        """Number of bytes before ``position`` that may have been frames, as noted by ``miss``; None if unknown."""
        start, self._missing = self._missing_from, False
        return None if start is None else self._stream.position - start

    def begin(self, why: str) -> None:
        """Start to search at ``position``."""
        stream = self._stream
        stream.mode = SEARCH
        self.miss(stream.position)
        self._skip_from = stream.position
        if stream.position == self._found_at:  # rule 3
            stream.position += 1
        self._skip_why = why
        self._skip_mark = None
        stream.walked = None
        self._seen = stream.position
        self._wants = stream.position + 1
        stream.wants = 0

    def begin_at(self, offset: int) -> None:
        """Start to search at ``offset``: the bytes before it went elsewhere and were reported there."""
        self._stream.jump(offset)
        self.begin(self._skip_why)

    @property
    def skips_nothing(self) -> bool:
        """Whether no byte came that the search has not given to a frame or reported."""
        return self._stream.end == self._skip_from

    # ---- looking

    def unseen_packets(self) -> Iterator[tuple[int, int]]:
        """(stream offset, release) of the end of each packet that the search has not examined yet."""
        stream = self._stream
        self._skip_mark = self._skip_mark or stream.mark_of(self._skip_from)
        stream.forget_marks(stream.position)
        for stop, release in stream.packet_ends():
            if stop > self._seen:
                self._seen = stop
                yield stop, release

    def find(self, prober: Searcher, limits: Limits, stop: int, run: RunEnd, *, beyond: int = -1) -> bool:
        """Move ``position`` to the first frame that is accepted; false when there is none (yet) before ``stop``.

        ``beyond``: stream offset of the first captured byte after the lost ones that ended the run; -1 if unknown.
        """
        if stop < self._wants and (run is OPEN or (run is PAUSED and stop + 1 < self._wants)):
            return False
        stream = self._stream
        data = stream.data()
        base, side = stream.base, stream.side
        at, end = stream.position - base, stop - base
        while (at := self._scan(prober, data, at, end)) < end:
            if base + at in self._expected and frame_starts(prober, side, data, at, end):
                accepted, wants = True, 0
            else:
                accepted, wants = confirm_frame(prober, limits, side, data, at, end=end, run=run, beyond=beyond - base)
            if accepted:
                final = run is ENDED or end - at > limits.wait_max
                accepted, wants = self._confirm(prober, data, at, end, final=final)
            if accepted or wants:
                stream.position = base + at
                self._wants = base + wants
                return accepted
            self._work.refused_heads += 1
            at += 1
        stream.position = stop
        self._wants = stop + 1
        return False

    def _scan(self, prober: Searcher, data: bytes, at: int, end: int) -> int:
        """First index >= ``at`` that is worth a probe; a place beyond ``end`` is remembered for the packets after."""
        stream = self._stream
        until, offset = self._scanned
        if until == stream.end and stream.base + at <= offset:
            return offset - stream.base
        found = prober.scan(stream.side, data, at)
        if found >= end:
            self._scanned = stream.end, stream.base + found
        return found

    def _confirm(self, prober: Searcher, data: bytes, at: int, end: int, *, final: bool) -> tuple[bool, int]:
        """(whether the frame at ``at`` fits; if not, the index up to which bytes are needed to try again, 0: never)."""
        stream = self._stream
        size = prober.probe(stream.side, data[at : min(at + probe_size(prober), end)])
        assert isinstance(size, int), "probe said so before"
        start = stream.base + at
        begins, ends = stream.begins_packet(start), stream.ends_packet(start + size)
        release = stream.mark_of(min(start + size, stream.base + end) - 1).release
        verdict = prober.confirm(stream.side, Candidate(data, at, end, size, begins, ends, release, final))
        if verdict is Verdict.MORE and not final:
            return False, end + 1
        return verdict is not Verdict.NO, 0

    def expect_behind(self, prober: Prober, limits: Limits, gap: Gap) -> int:
        """Before a gap: remember where frames end that seem to begin with a buffered packet (rule 2).

        Returns the stream offset of the first byte after the gap.
        """
        beyond, stream = gap.offset + gap.length, self._stream
        data, base = stream.data(), stream.base
        expected = {offset for offset in self._expected if offset >= stream.end}
        for start in stream.packet_starts():
            size = prober.probe(stream.side, data[start - base : start - base + probe_size(prober)])
            if isinstance(size, int) and 0 < size <= limits.search_sure and start + size > beyond:
                if len(expected) >= EXPECTED_MAX:
                    break
                expected.add(start + size)
        self._expected = expected or _NONE
        return beyond

    # ---- skipped bytes

    def found(self) -> Skipped | None:
        """End the search, since ``position`` is at a frame; gives the skipped bytes, if any."""
        self._stream.mode = STEP
        self._expected = _NONE
        self._found_at = self._stream.position
        return self._skipped()

    def unfound(self) -> Skipped | None:
        """Skip the whole run, since it has no frame, and search on after it."""
        stream = self._stream
        stream.position = stream.end
        skipped = self._skipped()
        self._skip_from = stream.position
        self._skip_mark = None
        return skipped

    def skip_rest(self, why: str, kind: ProblemKind) -> Skipped:
        """Skip all buffered bytes."""
        stream = self._stream
        self._skip_from, self._skip_why, self._skip_mark = stream.position, why, None
        stream.position = stream.end
        stream.walked = None
        skipped = self._skipped(kind)
        assert skipped is not None
        return skipped

    def _skipped(self, kind: ProblemKind = "undecoded") -> Skipped | None:
        stream = self._stream
        length = stream.position - self._skip_from
        if length <= 0:
            return None
        first = self._skip_mark or stream.mark_of(self._skip_from)
        return Skipped(stream.side, self._skip_from, length, self._skip_why, kind, first.ts_ns, first.packet)

    def rewind(self, offset: int) -> None:
        """The bytes from ``offset`` on were handed back: they count as not examined."""
        self._seen = min(self._seen, offset)
