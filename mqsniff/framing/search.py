"""A side that has lost its step: its bytes in, the place of the next frame and what was passed over out.

1. The first place counts where ``belief`` finds a frame; the packets of a run are looked at one by one.
2. A frame that begins with a packet and whose rest was lost tells where the next one begins, if nothing else does.
3. ``probe`` and ``frame_size`` may disagree: no place is given twice in a row.
4. What is believed by its bytes is held against what the connection knows (``confirm``). Where that cannot be told yet,
   the search stays there until more bytes come, ``wait_max`` of them at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from mqsniff.dissector import Candidate, Verdict
from mqsniff.framing.confirmation import Prober, RunEnd, confirm_frame, frame_starts, probe_size
from mqsniff.framing.streambuffer import Mode, StreamBuffer
from mqsniff.limits import Limits
from mqsniff.model import Gap, Mark, ProblemKind, Side, Skipped

EXPECTED_MAX: Final = 64
"""Places that a search remembers."""


class Searcher(Prober, Protocol):
    """What a framed dissector brings for this."""

    def confirm(self, side: Side, candidate: Candidate, /) -> Verdict:
        """Whether a frame that is believed by its bytes fits what the connection knows."""
        ...


class Search:
    """What the search of one side has seen, and where it stands."""

    def __init__(self, stream: StreamBuffer) -> None:
        self._stream = stream
        self._wants = 0
        """Nothing new can be said before the stream reaches this offset."""
        self._seen = 0
        self._found_at = -1
        self._expected: set[int] = set()
        """Where frames end that begin with a packet and whose rest was lost: the next ones start there."""
        self._skip_from = 0
        self._skip_why = ""
        self._skip_mark: Mark | None = None
        self._missing = False
        self._missing_from: int | None = None

    # ---- losing step

    def miss(self, start: int | None) -> None:
        """Frames may be missing from this offset on; None where nobody knows how much was lost."""
        if not self._missing or start is None:
            self._missing_from = start
        self._missing = True

    def missed(self) -> int | None:
        """How many bytes before ``position`` may have been frames, as ``miss`` has told; None for nobody knows."""
        start, self._missing = self._missing_from, False
        return None if start is None else self._stream.position - start

    def begin(self, why: str) -> None:
        """From ``position`` on, frames have to be searched for."""
        stream = self._stream
        stream.mode = Mode.SEARCH
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
        """The first byte of the side stands here: others had those before it, and named them."""
        self._stream.jump(offset)
        self.begin(self._skip_why)

    # ---- looking

    def unseen_packets(self) -> Iterator[tuple[int, int]]:
        """(stream offset, release) of the end of each packet's bytes that the search has not seen yet."""
        stream = self._stream
        self._skip_mark = self._skip_mark or stream.mark_of(self._skip_from)
        stream.forget_marks(stream.position)
        for stop, release in stream.packet_ends():
            if stop > self._seen:
                self._seen = stop
                yield stop, release

    def find(self, prober: Searcher, limits: Limits, stop: int, run: RunEnd, *, beyond: int = -1) -> bool:
        """Move ``position`` to the first frame that can be believed; false when there is none (yet) before ``stop``.

        ``beyond``: stream offset of the first byte behind those that were lost where the run ended; -1 where nobody
        knows.
        """
        if stop < self._wants and run is RunEnd.OPEN:
            return False
        stream = self._stream
        data = stream.data()
        base, side = stream.base, stream.side
        at, end = stream.position - base, stop - base
        while (at := prober.scan(side, data, at)) < end:
            if base + at in self._expected and frame_starts(prober, side, data, at, end):
                believed, wants = True, 0
            else:
                believed, wants = confirm_frame(prober, limits, side, data, at, end=end, run=run, beyond=beyond - base)
            if believed:
                final = run is RunEnd.ENDED or end - at > limits.wait_max
                believed, wants = self._confirm(prober, data, at, end, final=final)
            if believed or wants:
                stream.position = base + at
                self._wants = base + wants
                return believed
            at += 1
        stream.position = stop
        self._wants = stop + 1
        return False

    def _confirm(self, prober: Searcher, data: bytes, at: int, end: int, *, final: bool) -> tuple[bool, int]:
        """(whether the frame at ``at`` is one, else the index that must be there before asking again, 0 for never)."""
        stream = self._stream
        size = prober.probe(stream.side, data[at : min(at + probe_size(prober), end)])
        if not isinstance(size, int):
            return False, 0
        begins_packet = stream.begins_packet(stream.base + at)
        verdict = prober.confirm(stream.side, Candidate(data, at, end, size, begins_packet, final))
        if verdict is Verdict.MORE and not final:
            return False, end + 1
        return verdict is not Verdict.NO, 0

    def expect_behind(self, prober: Prober, limits: Limits, gap: Gap) -> int:
        """The bytes before a gap are given up: remember where frames end that seem to begin with one of their packets.

        Returns the stream offset of the first byte behind the gap.
        """
        beyond, stream = gap.offset + gap.length, self._stream
        data, base = stream.data(), stream.base
        self._expected = {offset for offset in self._expected if offset >= stream.end}
        for start in stream.packet_starts():
            size = prober.probe(stream.side, data[start - base : start - base + probe_size(prober)])
            if isinstance(size, int) and 0 < size <= limits.search_sure and start + size > beyond:
                if len(self._expected) >= EXPECTED_MAX:
                    break
                self._expected.add(start + size)
        return beyond

    # ---- what was passed over

    def found(self) -> Skipped | None:
        """The search has put ``position`` on a frame: in step again; what was passed over, if anything."""
        self._stream.mode = Mode.STEP
        self._expected.clear()
        self._found_at = self._stream.position
        return self._skipped()

    def unfound(self) -> Skipped | None:
        """The run ended without a frame: all of it is passed over, and the search goes on behind."""
        stream = self._stream
        stream.position = stream.end
        skipped = self._skipped()
        self._skip_from = stream.position
        self._skip_mark = None
        return skipped

    def skip_rest(self, why: str, kind: ProblemKind) -> Skipped:
        """Everything buffered is passed over."""
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
        """The bytes from ``offset`` on were taken back."""
        self._seen = min(self._seen, offset)
