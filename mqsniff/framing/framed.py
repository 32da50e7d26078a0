"""What every framed protocol shares: chunks and gaps of two sides in, whole frames out to ``decode``, events on.

1. In step, frame follows frame by ``frame_size``; where it says NO_FRAME the side is searched with ``probe``.
2. A search takes the first offset where ``probe`` names a size and a second frame, or the exact end of the run, stands
   behind it; a candidate over ``search_sure`` needs two. Nothing is emitted before that; the bytes before are Skipped.
3. A hole inside a frame of known size does not end framing: the frame goes out when its end has passed, with the bytes
   before the hole.
4. Any cut of the input gives the same events with the same ``now``: a search sees the packets one by one.
5. Memory a side: ``frame_max`` for a frame, ``search_max`` for a search, ``wait_max`` while it waits for the peer.
6. What ``decode`` raises is contained to its frame.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from mqsniff.dissector import (
    NEED,
    NO_FRAME,
    WAIT_PEER,
    Broken,
    Dissector,
    Probed,
    Sample,
    Settings,
    Sized,
    Switch,
    Verdict,
    Walk,
    Walked,
)
from mqsniff.framing.containment import contained
from mqsniff.framing.questions import Questions
from mqsniff.framing.search import Run, find, verdict_at
from mqsniff.framing.sidestream import Mode, SideStream
from mqsniff.model import Asked, Chunk, Event, Frame, Gap, Link, Side, Skipped, Status, Upgrade

WALK_WINDOW = 64 * 1024
"""Bytes that ``walk`` gets at once."""


class FramedDissector(Dissector):
    """A protocol of frames; authors write ``probe``, ``frame_size`` and ``decode``."""

    head_max: ClassVar[int]
    """``probe`` and ``frame_size`` never need more bytes than this."""
    probe_max: ClassVar[int] = 0
    """``probe`` alone never needs more than this; 0: no less than ``head_max``."""
    head_usual: ClassVar[int] = 64
    """As many as nearly every head has: ``frame_size`` is asked with no more at first, to copy less."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._streams = (SideStream(Side.CLIENT), SideStream(Side.SERVER))
        self._questions = Questions(settings.limits)

    # ---- what authors write

    @classmethod
    @abstractmethod
    def probe(cls, side: Side, head: bytes) -> Probed:
        """Size of the frame that must start here; strict and stateless, for detection and resynchronisation."""

    @abstractmethod
    def frame_size(self, side: Side, head: bytes) -> Sized:
        """Size of the frame that starts here on a side that is in step; may use the connection's state.

        WAIT_PEER is NO_FRAME once ``may_wait`` is false.
        """

    @abstractmethod
    def decode(self, frame: Frame) -> Iterator[Event]:
        """Give the events of a frame; may raise Malformed. ``frame.data`` may be shorter than ``frame.size``."""

    def walk(self, side: Side, walk: Walk, data: bytes) -> Walked:  # noqa: ARG002  # part of the contract
        """Go on where ``frame_size`` said Walk; ``data`` are bytes (at least one) from ``walk.size`` on. Final too."""
        return walk.promised

    def missed(self, side: Side, length: int | None) -> None:
        """A side is in step again: so many bytes before the next frame gave none (None: nobody knows how many)."""

    @classmethod
    def scan(cls, side: Side, data: bytes, start: int) -> int:  # noqa: ARG003  # part of the contract
        """First offset >= ``start`` where ``probe`` is worth asking; speeds a search up, never decides."""
        return start

    # ---- questions and answers

    def ask(
        self,
        key: Any,
        context: Any = None,
        *,
        expects: int = 1,
        link: Link = "answer",
        wait_limit_ns: int | None = None,
        in_order: bool = True,
    ) -> Asked:
        """Open a question that belongs to the frame being decoded; ``expects`` 0: no answer unless it fails."""
        return self._questions.ask(key, context, expects, link, wait_limit_ns, in_order=in_order)

    def answer(self, key: Any) -> Asked | None:
        """The oldest question of this key, now answered by the frame being decoded; None when there is none."""
        return self._questions.answer(key)

    def questions(self, key: Any) -> Sequence[Asked]:
        """The open questions of a key, oldest first."""
        return self._questions.open(key)

    def settle(self, asked: Asked, status: Status | None = None, *, answered: bool = False) -> None:
        """End one question wherever it stands in its queue: answered by this frame, or known to stay without answer."""
        self._questions.settle(asked, status, answered=answered)

    def open_questions(self) -> Iterator[Asked]:
        """Questions that nobody answered, oldest first."""
        return self._questions.left()

    def fed(self, side: Side) -> int:
        """Stream offset behind the last byte of a side that was fed and does not wait behind a gap."""
        return self._streams[side].end

    def passed(self, side: Side) -> int:
        """Stream offset behind the last frame of a side: no layer can begin before it."""
        return self._streams[side].position

    def may_wait(self, side: Side) -> bool:
        """Whether WAIT_PEER can still help a side: not when the peer has closed or too much has waited already."""
        return not (self._streams[side].tired or self._streams[side.peer].closed)

    def gaps_of(self, side: Side) -> int:
        """How many gaps of a side were seen so far."""
        return self._questions.gaps[side]

    # ---- detection

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        """Both sides by ``probe``: one sure side is enough unless the other refutes it."""
        samples = zip(Side, (client, server), strict=True)
        verdicts = [cls.detect_side(side, sample) for side, sample in samples if sample.data]
        if not verdicts:
            return Verdict.MORE
        return Verdict.NO if Verdict.NO in verdicts else max(verdicts)

    @classmethod
    def detect_side(cls, side: Side, sample: Sample) -> Verdict:
        """YES where a frame and a second one behind it start, MAYBE for a lone frame, at any likely start.

        A side joined in the middle never says NO: it may have been joined inside a long frame.
        """
        if sample.from_start:
            return verdict_at(cls, side, sample.data, 0)
        verdicts = (verdict_at(cls, side, sample.data, start) for start in sample.starts)
        return max(verdicts, default=Verdict.NO) or Verdict.MORE

    # ---- what the engine calls

    def start(self, side: Side, *, in_step: bool) -> None:
        """Say before the first byte of a side whether the stream was seen from its beginning."""
        if not in_step:
            self._streams[side].miss(None)
            self._streams[side].lose_step("the capture begins inside the stream")

    def feed(self, chunk: Chunk) -> Iterator[Event]:
        """Take the next bytes of a side."""
        self.now = max(self.now, chunk.marks[0].release)
        stream = self._streams[chunk.side]
        if stream.held:
            stream.hold(chunk)
        else:
            stream.add(chunk)
        yield from self._pause(self._streams[chunk.side.peer])
        if stream.mode is not Mode.WAIT:
            yield from self._advance(stream)
        elif stream.waiting_bytes > self.settings.limits.wait_max:
            self.now = max(self.now, chunk.marks[-1].release)
            yield from self._stop_waiting(stream)
        self.now = max(self.now, chunk.marks[-1].release)

    def gap(self, gap: Gap) -> Iterator[Event]:
        """Take note of lost bytes of a side."""
        self.now = max(self.now, gap.mark.release)
        self._questions.gaps[gap.side] += 1
        yield from self._pass_gap(self._streams[gap.side], gap)
        yield from self._poke(gap.side.peer)

    def close(self, side: Side) -> Iterator[Event]:
        """No more bytes of a side will come: give what still waits."""
        stream, peer = self._streams[side], self._streams[side.peer]
        stream.closed = True
        yield from self._finish(stream)
        if peer.mode is Mode.WAIT:
            yield from self._stop_waiting(peer)

    def surrender(self, side: Side, offset: int) -> list[Chunk | Gap]:
        """Hand back what was fed of a side from this offset on and not decoded yet."""
        return self._streams[side].surrender(offset)

    # ---- the machine of one side

    def _advance(self, stream: SideStream) -> Iterator[Event]:
        """Frames, skips and all that the buffered bytes give, until more are needed."""
        while True:
            match stream.mode:
                case Mode.STEP:
                    yield from self._step(stream)
                    if stream.mode is Mode.STEP:
                        return
                case Mode.SEARCH:
                    skipped, found = self._search(stream)
                    if skipped is not None:
                        yield skipped
                    if not found:
                        return
                case Mode.HOLED:
                    if not stream.swallow():
                        return
                    yield from self._emit(stream, stream.take_holed(self.now))
                case Mode.WAIT:
                    return

    def _step(self, stream: SideStream) -> Iterator[Event]:
        """Frame after frame while the side is in step and the bytes are there. Hot: once a frame."""
        side, frame_max = stream.side, self.settings.limits.frame_max
        while stream.ready():
            size = self._size(stream)
            if isinstance(size, int) and size > 0:
                frame = stream.take(size, self.now) if size <= frame_max else None
                if frame is not None:
                    self.now = max(self.now, stream.told(frame))
                    yield from self._emit(stream, frame)
                    if stream.mode is not Mode.STEP:
                        return
                elif stream.available < min(size, frame_max):
                    stream.want(min(size, frame_max))
                    return
                else:
                    stream.open_holed(size, frame_max)
                    return
            elif size is NEED:
                return
            elif isinstance(size, Switch):
                self.now = max(self.now, stream.mark_of(stream.position + size.needed - 1).release)
                yield Upgrade({side: stream.position}, size.to)
                if stream.available:
                    stream.lose_step("no frame starts here")
                return
            elif size is WAIT_PEER and self.may_wait(side):
                stream.mode = Mode.WAIT
                return
            else:
                stream.lose_step("no frame starts here")
                return

    def _size(self, stream: SideStream) -> Sized:
        """What is known of the size of the frame at hand; where that is NEED, the stream knows how much."""
        answer: Sized = stream.walked or self._head_size(stream)
        while isinstance(answer, Walk):
            stream.walked = walk = answer
            if walk.size > self.settings.limits.frame_max:
                return walk.promised
            ahead = stream.head(WALK_WINDOW, walk.size)
            walked = self.walk(stream.side, walk, ahead) if ahead else NEED
            if isinstance(walked, Broken):
                stream.told_at = stream.position + walk.size + walked.needed - 1
                return walk.promised
            if walked is NEED:
                stream.want(walk.size + len(ahead) + 1)
            answer = walked
        return answer

    def _head_size(self, stream: SideStream) -> Sized:
        stream.told_at = -1
        head = stream.head(min(self.head_usual, self.head_max))
        size = self.frame_size(stream.side, head)
        if size is NEED and self.head_usual <= len(head) < self.head_max:
            head = stream.head(self.head_max)
            size = self.frame_size(stream.side, head)
        if size is NEED:
            if len(head) >= self.head_max:
                return NO_FRAME
            stream.want(len(head) + 1)
        return size

    def _search(self, stream: SideStream) -> tuple[Skipped | None, bool]:
        """Look for the next frame, one packet more at a time: (what was passed over, whether the side is in step)."""
        for stop, release in stream.unseen_packets():
            if find(self, self.settings.limits, stream, stop, Run.OPEN):
                self.now = max(self.now, release)
                return self._found(stream), True
        return None, False

    def _end_run(self, stream: SideStream) -> Iterator[Event]:
        """The bytes being searched have ended (a gap, the close): a frame may end exactly here."""
        while stream.mode is Mode.SEARCH:
            if not find(self, self.settings.limits, stream, stream.end, Run.ENDED):
                if (skipped := stream.unfound()) is not None:
                    yield skipped
                return
            if (skipped := self._found(stream)) is not None:
                yield skipped
            yield from self._step(stream)

    def _pause(self, stream: SideStream) -> Iterator[Event]:
        """The peer speaks: a frame that is being looked for may end exactly here."""
        while stream.mode is Mode.SEARCH and stream.available:
            if not find(self, self.settings.limits, stream, stream.end, Run.PAUSED):
                return
            if (skipped := self._found(stream)) is not None:
                yield skipped
            yield from self._advance(stream)

    def _found(self, stream: SideStream) -> Skipped | None:
        skipped = stream.found()
        self.missed(stream.side, stream.missed())
        return skipped

    def _cut_frame(self, stream: SideStream, why: str) -> Iterator[Event]:
        """In step with part of a frame, whose next byte is lost: a frame with a hole where its size is known."""
        size = self._size(stream)
        if size is NEED and stream.walked is not None:
            size = max(stream.walked.promised, stream.walked.size, stream.available)
        if isinstance(size, int) and size > 0:
            stream.open_holed(size, self.settings.limits.frame_max)
        else:
            yield stream.skip_rest(why, "truncated")

    def _pass_gap(self, stream: SideStream, gap: Gap) -> Iterator[Event]:
        """Go over lost bytes: inside a frame of known size in step, else to a search behind them."""
        if stream.mode is Mode.SEARCH:
            yield from self._end_run(stream)
        if stream.mode is Mode.WAIT:
            stream.hold(gap)
            return
        start = stream.position
        if stream.mode is Mode.STEP and stream.available:
            yield from self._cut_frame(stream, "the head of a frame was cut by a gap")
        if stream.mode is Mode.HOLED:
            inside = gap.known and gap.offset + gap.length <= stream.holed_end
            start = stream.holed_end
            stream.add_hole(gap)
            if inside:
                yield from self._advance(stream)
                return
            yield from self._emit(stream, stream.take_holed(self.now))
        stream.miss(start if gap.known else None)
        stream.jump(gap.offset + gap.length)
        stream.lose_step("behind a gap")

    def _finish(self, stream: SideStream) -> Iterator[Event]:
        """The side has closed: end what is open, unless it waits for the peer."""
        if stream.mode is Mode.SEARCH:
            yield from self._end_run(stream)
        if stream.mode is Mode.STEP and stream.available:
            yield from self._cut_frame(stream, "the head of a frame was cut by the end")
        if stream.mode is Mode.HOLED:
            yield from self._emit(stream, stream.take_holed(self.now))

    def _poke(self, side: Side) -> Iterator[Event]:
        """The peer moved: a side that waited for it may go on."""
        stream = self._streams[side]
        if stream.mode is not Mode.WAIT:
            return
        stream.mode = Mode.STEP
        stream.wants = 0
        yield from self._advance(stream)
        while stream.held and stream.mode is not Mode.WAIT:
            event = stream.unhold()
            if isinstance(event, Gap):
                yield from self._pass_gap(stream, event)
            else:
                stream.add(event)
                yield from self._advance(stream)
        if stream.closed:
            yield from self._finish(stream)

    def _stop_waiting(self, stream: SideStream) -> Iterator[Event]:
        """The peer will not come, or too much waits for it: go on without, for good."""
        stream.tired = True
        yield from self._poke(stream.side)

    def _emit(self, stream: SideStream, frame: Frame) -> Iterator[Event]:
        """Decode a frame, contained; then let the peer go on if it waited for this."""
        self.now = frame.release = max(self.now, frame.release)
        self._questions.begin(frame)
        passed = min(frame.size, stream.position - frame.offset)
        claimed = yield from contained(self.decode, frame, self._questions, type(self).__name__)
        if not claimed:
            yield Skipped(
                frame.side,
                frame.offset,
                passed,
                "a frame that could not be decoded",
                first_ts_ns=frame.first_ts_ns,
                first_packet=frame.first_packet,
            )
        yield from self._poke(stream.side.peer)
