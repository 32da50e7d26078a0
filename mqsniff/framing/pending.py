"""Pending requests of one connection: a frame opens them; a reply, or the end of the connection, resolves them.

1. One first-in-first-out queue per key, since ids repeat on real wires.
2. A request that expects no reply (``expects`` 0) ends as ``oneway`` when a later one of its key is answered, when
   more than ``unanswered_max`` of them stand in its queue (``refusals_max`` if it settled a delivery), or at the end.
3. At most ``pending_max`` are pending; beyond that the oldest one ends without a reply.
4. If the first reply is older than its request, it has a ``clock`` problem.
5. A pending request does not keep the bytes of its message: a delivered entry may wait for its settlement for hours,
   and a request for a reply that was never captured. What a reply needs of its request, besides names, belongs in the
   context.
6. Bodies of pending requests are kept for ``handles_max`` topics and partitions together; beyond that the oldest ones
   lose their body and their rows of partitions.
7. A delivery that a command settles ends when that command does (``awaits``): the reply to the command may refuse the
   settlement. The delivery counts as answered at once, so that its key may be used again. At most ``pending_max``
   deliveries wait like this; beyond that the oldest ends as ``unanswered``.
8. A gap comes after a request if a packet after the request showed it, also if the request is decoded later: a frame
   that a search found waits for the next one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from mqsniff.limits import KIB, Limits
from mqsniff.model import ExchangeStatus, Frame, Link, Message, Pending, Problem, Side

BYTES_KEPT: Final = KIB
"""Largest frame whose bytes a pending request may keep: copying its message would cost more."""
SHORT_QUEUE: Final = 16
GAPS_KEPT: Final = 16
"""Gaps of a side whose packets are known."""
PENDING_STATE: Final = 2048
"""Bytes that a pending request takes, with its message."""


def forget_bytes(pending: Sequence[Pending]) -> None:
    """Replace the message of these requests by a copy without bytes and records; the original stays as it was."""
    message = pending[0].message
    if message is None:
        return
    light = replace(message, frame=replace(message.frame, data=b""), records=(), pending=(), resolved=(), answered=())
    for each in pending:
        each.message, each.frame = light, light.frame


def _later(packets: dict[Side, deque[int]], side: Side, frame: Frame) -> int:
    """How many gaps of a side were shown by packets after a frame (rule 8)."""
    return sum([packet > frame.last_packet for packet in packets.get(side, ())])


class PendingRequests:
    """The pending requests by key, and those that the frame being decoded opened, answered or ended."""

    __slots__ = (
        "_answered",
        "_closed",
        "_count",
        "_frame",
        "_gap_packets",
        "_heavy",
        "_limits",
        "_loss_packets",
        "_named",
        "_opened",
        "_queues",
        "_settling",
        "_wide",
        "gaps",
        "losses",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queues: dict[Any, list[Pending] | deque[Pending]] = {}
        """Short queues are lists, since an empty deque takes 760 bytes and most keys have one request."""
        self._count = 0
        self._frame: Frame | None = None
        self._opened: list[Pending] = []
        self._answered: list[Pending] = []
        self._closed: list[Pending] = []
        self._heavy: tuple[Pending, ...] = ()
        self._wide: dict[Pending, int] = {}
        """Pending requests that name topics or partitions, oldest first -> how many."""
        self._named = 0
        self._settling: dict[Pending, None] = {}
        """Deliveries that were settled and wait for the end of the settling command (rule 7), oldest first."""
        self.gaps = [0, 0]
        """Gaps seen so far, by side."""
        self.losses = [0, 0]
        """Of these gaps, those in which whole frames may be lost: not the ones inside a frame of known size."""
        self._gap_packets: dict[Side, deque[int]] = {}
        self._loss_packets: dict[Side, deque[int]] = {}
        """The packets that showed the last of these gaps."""

    @property
    def state_size(self) -> int:
        """Bytes that pending requests take, nearly."""
        return PENDING_STATE * (self._count + len(self._settling))

    def note_gap(self, side: Side, packet: int) -> None:
        """Bytes of a side were lost, as a packet shows."""
        self.gaps[side] += 1
        self._gap_packets.setdefault(side, deque(maxlen=GAPS_KEPT)).append(packet)

    def note_loss(self, side: Side, packet: int) -> None:
        """Whole frames may be lost in a gap that was noted."""
        self.losses[side] += 1
        self._loss_packets.setdefault(side, deque(maxlen=GAPS_KEPT)).append(packet)

    def begin(self, frame: Frame) -> None:
        """Start on a frame, which is decoded next."""
        self._frame = frame
        if self._opened or self._answered or self._closed:  # of a frame that became no message
            self._opened.clear()
            self._answered.clear()
            self._closed.clear()

    def finish(self, message: Message) -> None:
        """The frame became this message: note in it what the frame opened, answered and ended."""
        if self._opened:
            for pending in self._opened:
                pending.message = message
            message.pending = tuple(self._opened)
            self._opened.clear()
            if len(message.frame.data) > BYTES_KEPT:
                self._heavy = message.pending
        if self._answered:
            for pending in self._answered:
                if pending.answer is None:
                    pending.answer = message
                    if message.frame.first_ts_ns < pending.frame.last_ts_ns:
                        message.problems.append(Problem("clock", "warning", "the answer comes before its request"))
                pending.last_answer = message
            message.answers = len(self._answered)
            message.answered = tuple(self._answered)
            self._answered.clear()
        if self._closed:
            message.resolved = tuple(self._closed)
            self._closed.clear()

    def taken(self) -> None:
        """The message was consumed: drop bytes that its requests hold, and bodies beyond the limit (rules 5 and 6)."""
        if self._heavy:
            forget_bytes(self._heavy)
            self._widen(self._heavy[0])
            self._heavy = ()

    def _widen(self, pending: Pending) -> None:
        """Count the names of one more pending request of a large message; drop the oldest bodies beyond the limit."""
        message = pending.message
        if message is None or pending.status is not None or pending.expects <= 0:
            return
        names = len(message.topics) + len(message.topic_ids) + len(message.partitions)
        if not names:
            return
        self._wide[pending] = names
        self._named += names
        while self._named > self._limits.handles_max and len(self._wide) > 1:
            if not isinstance(self._wide, OrderedDict):
                self._wide = OrderedDict(self._wide)  # as in ``_end_oldest``
            oldest = next(iter(self._wide))
            self._narrow(oldest)
            assert oldest.message is not None
            oldest.message.body, oldest.message.partitions = {}, ()

    def _narrow(self, pending: Pending) -> None:
        self._named -= self._wide.pop(pending, 0)

    def expect_reply(
        self, key: Any, context: Any, expects: int, link: Link, wait_limit_ns: int | None, *, in_order: bool
    ) -> Pending:
        """Open a pending request for the frame being decoded."""
        assert self._frame is not None
        pending = Pending(key, link, self._frame, context, expects, wait_limit_ns, in_order)
        peer = self._frame.side.peer
        pending.gaps_before, pending.losses_before = self.gaps[peer], self.losses[peer]
        if pending.gaps_before:
            pending.gaps_before -= _later(self._gap_packets, peer, self._frame)
            pending.losses_before -= _later(self._loss_packets, peer, self._frame)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = []
        elif len(queue) == SHORT_QUEUE:
            queue = self._queues[key] = deque(queue)
        queue.append(pending)
        self._count += 1
        self._opened.append(pending)
        if expects == 0 and len(queue) > self._limits.unanswered_max:
            oldest = queue[0]
            if oldest.expects == 0 and (oldest.awaited_by is None or len(queue) > self._limits.refusals_max):
                self.resolve(oldest, "oneway")
        if self._count > self._limits.pending_max:
            self._end_oldest()
        return pending

    def reply_to(self, key: Any) -> Pending | None:
        """Resolve the oldest request of the key that expects a reply; earlier ones that expect none end as one-way."""
        queue = self._queues.get(key)
        if not queue:
            return None
        while queue and queue[0].expects == 0:
            self.resolve(queue[0], "oneway")
        if not queue:
            return None
        pending = queue[0]
        self.resolve(pending, answered=True)
        return pending

    def open(self, key: Any) -> Sequence[Pending]:
        """The pending requests of a key, oldest first: a live view, do not resolve any while iterating."""
        return self._queues.get(key, ())

    def resolve(
        self,
        pending: Pending,
        status: ExchangeStatus | None = None,
        *,
        answered: bool = False,
        awaits: Pending | None = None,
    ) -> None:
        """Count one reply, or end the request without one; it leaves its queue when no more replies are expected.

        A delivery settled by a command that is itself pending (``awaits``) ends with that command (rule 7); if it
        waits for a command already, it ends now.
        """
        if answered:
            self._answered.append(pending)
            pending.expects -= 1
            if pending.expects > 0:
                return
        pending.status = status or pending.status
        if pending in self._settling:
            del self._settling[pending]
        else:
            self._remove(pending)
        if awaits is not None:
            pending.awaits = awaits
            if awaits.open:
                if awaits.awaited_by is None:
                    awaits.awaited_by = []
                awaits.awaited_by.append(pending)
                self._settling[pending] = None
                if len(self._settling) > self._limits.pending_max:
                    if not isinstance(self._settling, OrderedDict):
                        self._settling = OrderedDict(self._settling)  # as in ``_end_oldest``
                    oldest = next(iter(self._settling))
                    self.resolve(oldest, oldest.status or "unanswered")
                return
        pending.open = False
        self._closed.append(pending)
        if pending.awaited_by is not None:
            self._end_settled(pending, pending.awaited_by)
            pending.awaited_by = None

    def _end_settled(self, command: Pending, waiting: list[Pending]) -> None:
        """End the deliveries that a command settled, except those that have ended before."""
        doubtful = self.losses[command.frame.side.peer] > command.losses_before
        for settled in waiting:
            if settled in self._settling:
                del self._settling[settled]
                settled.open = False
                if doubtful:
                    self._doubt(settled, command)
                self._closed.append(settled)

    def _doubt(self, settled: Pending, command: Pending) -> None:
        """Mark a settlement as lost if its refusal may stand in frames that the capture lost."""
        unrefused = command.expects == 0 and command.status in (None, "oneway") and command not in self._answered
        if unrefused and self.losses[command.frame.side.peer] > command.losses_before:
            settled.status = settled.status or "lost"

    def _remove(self, pending: Pending) -> None:
        queue = self._queues[pending.key]
        if queue[0] is pending:
            del queue[0]
        else:
            queue.remove(pending)
        self._count -= 1
        if self._wide:
            self._narrow(pending)
        if not queue:
            del self._queues[pending.key]

    def _end_oldest(self) -> None:
        """End the first request of the first queue: the peer never replies."""
        if not isinstance(self._queues, OrderedDict):
            self._queues = OrderedDict(self._queues)  # a dict looks for its first entry among all that were deleted
        oldest = next(iter(self._queues.values()))[0]
        self.resolve(oldest, "unanswered" if oldest.expects else "oneway")

    def left(self) -> Iterator[Pending]:
        """All requests still pending, in the order in which they were sent."""
        rest = [pending for queue in self._queues.values() for pending in queue]
        rest += self._settling
        for settled in self._settling:
            if settled.awaits is not None:
                self._doubt(settled, settled.awaits)
                settled.awaits.awaited_by = None  # no cycle is left behind
        self._queues.clear()
        self._settling.clear()
        self._count = 0
        yield from sorted(rest, key=lambda pending: pending.frame.release)
