"""Framing of one connection: takes chunks and gaps of both sides, passes frames to ``decode``, gives its events.

1. In step, ``frame_size`` gives the size of each frame; after NO_FRAME the side is searched with ``probe``.
2. A search emits nothing before a frame is accepted; the bytes before that frame become Skipped.
3. A hole inside a frame of known size does not end framing: the frame is decoded when its end has passed, with the
   bytes before the hole.
4. The events and their ``now`` do not depend on how the input is cut into chunks: a search examines packet by packet.
5. Memory per side: ``frame_max`` for a frame, ``search_max`` for a search, ``wait_max`` while it waits for the peer.
6. An exception of ``decode`` costs one frame only (``decode_safely``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from mqsniff.dissector import NEED, WAIT_PEER, LayerChange, WorkCount
from mqsniff.framing.confirmation import ENDED, OPEN, PAUSED
from mqsniff.framing.decoding import decode_safely
from mqsniff.framing.incomplete import IncompleteFrame
from mqsniff.framing.pending import BYTES_KEPT, PendingRequests
from mqsniff.framing.search import Search, Searcher
from mqsniff.framing.sizes import Sizer, cut_size, first_head_size, size_of
from mqsniff.framing.streambuffer import INCOMPLETE, SEARCH, STEP, WAIT, StreamBuffer
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Event, Frame, Gap, Side, Skipped, Upgrade


class Framed(Searcher, Sizer, Protocol):
    """What the machine needs of a dissector."""

    now: int
    """Ordinal of the packet that released the event just taken."""

    @property
    def head_max(self) -> int:
        """Neither ``probe`` nor ``frame_size`` needs more bytes."""
        ...

    def decode(self, frame: Frame, /) -> Iterable[Event]:
        """The events of a frame."""
        ...

    def missed(self, side: Side, length: int | None, /) -> None:
        """A side is in step again."""
        ...


class Machine:
    """The framing of both sides of one connection."""

    __slots__ = (
        "_head_first",
        "_incomplete",
        "_limits",
        "_owner",
        "_requests",
        "_searches",
        "_straight_max",
        "_work",
        "streams",
    )

    def __init__(self, owner: Framed, limits: Limits, requests: PendingRequests, work: WorkCount) -> None:
        self._owner = owner
        self._limits = limits
        self._requests = requests
        self.streams = (StreamBuffer(Side.CLIENT), StreamBuffer(Side.SERVER))
        self._work = work
        self._searches: list[Search | None] = [None, None]
        """Made where a side is out of step: most never are."""
        self._incomplete: list[IncompleteFrame | None] = [None, None]
        self._head_first = first_head_size(owner)
        self._straight_max = min(limits.frame_max, BYTES_KEPT)
        """Largest frame for the fast path; pending requests must drop the bytes of larger ones (``taken``)."""

    # ---- input

    def join_late(self, side: Side) -> None:
        """The capture begins inside the stream of a side."""
        self.streams[side].mode = SEARCH  # its search is made when it says something

    def _search_of(self, stream: StreamBuffer) -> Search:
        """The search of a side."""
        search = self._searches[stream.side]
        if search is None:
            search = self._searches[stream.side] = Search(stream, self._work)
            if stream.mode is SEARCH:  # it was joined late, and nothing of it came so far
                search.miss(None)
                search.begin("the capture begins inside the stream")
        return search

    def feed(self, chunk: Chunk) -> Iterable[Event]:
        """Take the next bytes of a side."""
        events = self._feed_frame(chunk)
        return self._feed(chunk) if events is None else events

    def _feed_frame(self, chunk: Chunk) -> list[Event] | None:
        """The events of a chunk that is exactly one packet and one small frame, on idle sides; None for any other.

        Hot: most packets of small messages. ``_feed`` is its slow twin, at 1.5 times the cost.
        """
        owner, data, marks, stream = self._owner, chunk.data, chunk.marks, self.streams[chunk.side]
        size = len(data)
        if len(marks) > 1 or not 0 < size <= self._straight_max:
            return None
        if not (stream.idle and self.streams[stream.peer].mode is STEP):
            return None
        answer = owner.frame_size(stream.side, data[: self._head_first])
        if answer != size:
            stream.answer = answer
            return None
        owner.now = max(owner.now, marks[0].release)
        frame = stream.whole(chunk, owner.now)
        self._requests.begin(frame)
        return decode_safely(owner.decode, frame, size, self._requests, type(owner).__name__)

    def _feed(self, chunk: Chunk) -> Iterator[Event]:
        self._owner.now = max(self._owner.now, chunk.marks[0].release)
        stream = self.streams[chunk.side]
        if stream.held:
            stream.hold(chunk)
        else:
            if stream.mode is SEARCH:
                search = self._search_of(stream)
                if chunk.offset > stream.end == stream.position:
                    search.begin_at(chunk.offset)
            stream.add(chunk)
        peer = self.streams[stream.peer]
        if peer.mode is SEARCH and peer.available and peer.paused_at != peer.end:
            peer.paused_at = peer.end  # once for each turn of the peer, however its packets are cut
            yield from self._pause(peer)
        if stream.mode is WAIT:
            if stream.waiting_bytes > self._limits.wait_max:
                self._owner.now = max(self._owner.now, chunk.marks[-1].release)
                yield from self._stop_waiting(stream)
        else:
            if stream.mode is STEP:
                yield from self._step(stream)
            if stream.mode is not STEP:
                yield from self._advance(stream)
        self._owner.now = max(self._owner.now, chunk.marks[-1].release)

    def gap(self, gap: Gap) -> Iterator[Event]:
        """Take note of lost bytes of a side."""
        self._owner.now = max(self._owner.now, gap.mark.release)
        self._requests.note_gap(gap.side, gap.mark.packet)
        yield from self._pass_gap(self.streams[gap.side], gap)
        yield from self._resume(gap.side.peer)

    def close(self, side: Side) -> Iterable[Event]:
        """No more bytes of a side will come: give what still waits."""
        stream = self.streams[side]
        stream.closed = True
        peer = self.streams[stream.peer]
        return () if peer.mode is not WAIT and self._gave_all(stream) else self._close(stream, peer)

    def _gave_all(self, stream: StreamBuffer) -> bool:
        """Whether nothing of a side waits."""
        if stream.mode is SEARCH:
            search = self._searches[stream.side]
            return search is None or search.skips_nothing
        return stream.idle

    def _close(self, stream: StreamBuffer, peer: StreamBuffer) -> Iterator[Event]:
        yield from self._finish(stream)
        if peer.mode is WAIT:
            yield from self._stop_waiting(peer)

    def hand_back(self, side: Side, offset: int) -> list[Chunk | Gap]:
        """Hand back what was fed of a side from this offset on and not decoded yet."""
        stream = self.streams[side]
        back = stream.hand_back(offset)
        if (search := self._searches[side]) is not None:
            search.rewind(stream.end)
        return back

    def may_wait(self, side: Side) -> bool:
        """Whether a side may go on waiting for its peer."""
        return not (self.streams[side].stopped_waiting or self.streams[side.peer].closed)

    # ---- one side

    def _advance(self, stream: StreamBuffer) -> Iterator[Event]:
        """All events that the buffered bytes give, until more bytes are needed."""
        while True:
            mode = stream.mode
            if mode is STEP:
                yield from self._step(stream)
                if stream.mode is STEP:
                    return
            elif mode is SEARCH:
                skipped, found = self._search(stream)
                if skipped is not None:
                    yield skipped
                if not found:
                    return
            elif mode is INCOMPLETE:
                incomplete = self._incomplete[stream.side]
                assert incomplete is not None
                if not incomplete.swallow():
                    return
                yield from self._end_incomplete(stream, incomplete)
            else:  # it waits for the peer
                return

    def _step(self, stream: StreamBuffer) -> Iterator[Event]:
        """Frame after frame while the side is in step and the bytes are there. Hot: once a frame."""
        owner, side, frame_max = self._owner, stream.side, self._limits.frame_max
        peer = self.streams[stream.peer]
        while stream.end > stream.position and stream.end >= stream.wants:
            size = size_of(owner, stream, frame_max)
            if isinstance(size, int) and size > 0:
                frame = stream.take(size, owner.now) if size <= frame_max else None
                if frame is not None:
                    owner.now = max(owner.now, stream.size_release(frame))
                    yield from self._events_of(stream, frame)
                    self._requests.taken()
                    if peer.mode is WAIT:
                        yield from self._resume(peer.side)
                    if stream.mode is not STEP:
                        return
                elif stream.available < min(size, frame_max):
                    stream.want(min(size, frame_max))
                    return
                else:
                    self._begin_incomplete(stream, size)
                    return
            elif size is NEED:
                return
            elif isinstance(size, LayerChange):
                owner.now = max(owner.now, stream.mark_of(stream.position + size.needed - 1).release)
                yield Upgrade({side: stream.position}, size.to)
                if stream.available:
                    self._search_of(stream).begin("no frame starts here")
                return
            elif size is WAIT_PEER and self.may_wait(side):
                stream.mode = WAIT
                return
            else:
                self._search_of(stream).begin("no frame starts here")
                return

    def _search(self, stream: StreamBuffer) -> tuple[Skipped | None, bool]:
        """Search for the next frame, packet by packet: (skipped bytes, whether the side is in step)."""
        search = self._search_of(stream)
        for stop, release in search.unseen_packets():
            if search.find(self._owner, self._limits, stop, OPEN):
                self._owner.now = max(self._owner.now, release)
                return self._found(stream), True
        return None, False

    def _end_run(self, stream: StreamBuffer, gap: Gap | None = None) -> Iterator[Event]:
        """Finish a search at a gap or at the close: a frame may end exactly here, or exactly after the gap."""
        search, owner, limits = self._search_of(stream), self._owner, self._limits
        beyond = search.expect_behind(owner, limits, gap) if gap is not None and gap.known else -1
        while stream.mode is SEARCH:
            if not search.find(owner, limits, stream.end, ENDED, beyond=beyond):
                if (skipped := search.unfound()) is not None:
                    yield skipped
                return
            if (skipped := self._found(stream)) is not None:
                yield skipped
            yield from self._step(stream)

    def _pause(self, stream: StreamBuffer) -> Iterator[Event]:
        """The peer sends: the frame that is searched for may end exactly here."""
        search = self._search_of(stream)
        while stream.mode is SEARCH and stream.available:
            if not search.find(self._owner, self._limits, stream.end, PAUSED):
                return
            if (skipped := self._found(stream)) is not None:
                yield skipped
            yield from self._advance(stream)

    def _found(self, stream: StreamBuffer) -> Skipped | None:
        search = self._search_of(stream)
        skipped = search.found()
        self._owner.missed(stream.side, search.missed())
        return skipped

    def _cut_frame(self, stream: StreamBuffer, why: str) -> Iterator[Event]:
        """Handle a frame in step whose next byte is lost: an IncompleteFrame if its size is known, else Skipped."""
        size = cut_size(self._owner, stream, self._limits.frame_max)
        if size is not None:
            self._begin_incomplete(stream, size)
        else:
            yield self._search_of(stream).skip_rest(why, "truncated")

    def _begin_incomplete(self, stream: StreamBuffer, size: int) -> None:
        """Begin a frame that will not be whole, or is larger than ``frame_max``."""
        self._incomplete[stream.side] = IncompleteFrame(stream, size, self._limits.frame_max)

    def _end_incomplete(self, stream: StreamBuffer, incomplete: IncompleteFrame) -> Iterator[Event]:
        """Decode a frame with holes, of which no more bytes come."""
        self._incomplete[stream.side] = None
        yield from self._emit(stream, incomplete.take(self._owner.now))

    def _pass_gap(self, stream: StreamBuffer, gap: Gap) -> Iterator[Event]:
        """Pass lost bytes: stay in step if they lie inside a frame of known size, else search after them."""
        if stream.mode is SEARCH:
            yield from self._end_run(stream, gap)
        if stream.mode is WAIT:
            stream.hold(gap)
            return
        start = stream.position
        if stream.mode is STEP and stream.available:
            yield from self._cut_frame(stream, "the head of a frame was cut by a gap")
        if (incomplete := self._incomplete[stream.side]) is not None:
            inside = gap.known and gap.offset + gap.length <= incomplete.end
            start = incomplete.end
            incomplete.lose(gap)
            if inside:
                yield from self._advance(stream)
                return
            yield from self._end_incomplete(stream, incomplete)
        self._requests.note_loss(stream.side, gap.mark.packet)
        search = self._search_of(stream)
        search.miss(start if gap.known else None)
        stream.jump(gap.offset + gap.length)
        search.begin("after a gap")

    def _finish(self, stream: StreamBuffer) -> Iterator[Event]:
        """Finish a closed side, unless it waits for the peer."""
        if stream.mode is SEARCH:
            yield from self._end_run(stream)
        if stream.mode is STEP and stream.available:
            yield from self._cut_frame(stream, "the head of a frame was cut by the end")
        if (incomplete := self._incomplete[stream.side]) is not None:
            yield from self._end_incomplete(stream, incomplete)

    def _resume(self, side: Side) -> Iterator[Event]:
        """Resume a side that waited for its peer, if it did."""
        stream = self.streams[side]
        if stream.mode is not WAIT:
            return
        stream.mode = STEP
        stream.wants = 0
        yield from self._advance(stream)
        while stream.held and stream.mode is not WAIT:
            event = stream.next_held()
            if isinstance(event, Gap):
                yield from self._pass_gap(stream, event)
            else:
                stream.add(event)
                yield from self._advance(stream)
        if stream.closed:
            yield from self._finish(stream)

    def _stop_waiting(self, stream: StreamBuffer) -> Iterator[Event]:
        """Resume a side for good: the peer sends no more, or too many bytes wait for it."""
        stream.stopped_waiting = True
        yield from self._resume(stream.side)

    def _emit(self, stream: StreamBuffer, frame: Frame) -> Iterator[Event]:
        """The events of a frame; then resume the peer if it waited for this frame."""
        yield from self._events_of(stream, frame)
        self._requests.taken()
        yield from self._resume(stream.peer)

    def _events_of(self, stream: StreamBuffer, frame: Frame) -> list[Event]:
        """Decode a frame with ``decode_safely``. Hot: once a frame."""
        self._owner.now = frame.release = max(self._owner.now, frame.release)
        self._requests.begin(frame)
        reach = min(frame.size, stream.position - frame.offset)
        return decode_safely(self._owner.decode, frame, reach, self._requests, type(self._owner).__name__)
