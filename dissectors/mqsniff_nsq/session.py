"""The state of a connection to nsqd: pending commands and deliveries.

1. Commands wait in one queue, REPLY, in the order in which nsqd executes them; their context is a SentCommand.
2. Every delivered message has the topic and channel of the connection's SUB. Commands and frames of a consumer belong
   to that channel; messages published on the same connection do not.
3. nsqd does not reply to a FIN or REQ that succeeds. A delivery settled by one may still be refused until nsqd replies
   to a later command, or sends anything at least ``refusal_ns`` later: it executes commands in order, without delay.
4. A delivery is open from its MESSAGE until FIN or REQ, or until the same message is delivered again on the connection:
   then its time has run out. TOUCH extends the time.
5. The time is in the reply to IDENTIFY (``msg_timeout``; ``max_msg_timeout`` bounds extensions). If that reply was not
   seen, only another delivery shows that the time ran out. At most ``limit`` deliveries are kept.

Source: nsqio/nsq 1.3.0, ``nsqd/channel.go`` (processInFlightQueue, TouchMessage).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from mqsniff.framing import FramedDissector
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import ExchangeStatus, Identity, Pending, Side, Upgrade, Value
from mqsniff_nsq.lines import text
from mqsniff_nsq.negotiation import Negotiation
from mqsniff_nsq.replies import ABOUT_MESSAGES, ReplyTarget, SentCommand, lost_replies
from mqsniff_nsq.rules import State

# ---- deliveries

TIMEOUT: Final = "timeout"
"""``settled_by`` of a delivery that the client did not settle in time."""
_MAX_MS: Final = 1 << 40


class Deliveries:
    """The open deliveries by message id, how long they may take, and the credit that the client gave.

    The context of a delivery's Pending is the time when it was delivered, or last extended.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[bytes, Pending] = {}
        self._timeout_ns: int | None = None
        self._most_ns: int | None = None
        self.credit = 0
        """The count of the last RDY."""

    def learn(self, timeout_ms: Value, most_ms: Value) -> None:
        """Take the timeouts from the reply to IDENTIFY."""
        self._timeout_ns, self._most_ns = _ns(timeout_ms), _ns(most_ms)

    def add(self, message_id: bytes, attempts: int | None, pending: Pending) -> None:
        """A message was delivered."""
        if len(self._open) >= self._limit:
            del self._open[next(iter(self._open))]
        self._open[message_id] = pending
        pending.context = pending.frame.last_ts_ns
        pending.extra = {
            "attempts": attempts,
            "touches": 0,
            "in_flight": len(self._open),
            "credit": self.credit,
        }

    def pop(self, message_id: bytes) -> Pending | None:
        """Remove and return the open delivery of a message; None if there is none."""
        pending = self._open.pop(message_id, None)
        return pending if pending is not None and pending.open else None

    def touch(self, message_id: bytes, ts_ns: int) -> None:
        """The client requested more time."""
        pending = self._open.get(message_id)
        if pending is not None:
            pending.extra["touches"] += 1
            pending.context = ts_ns

    def touch_refused(self, message_id: bytes, ts_ns: int) -> bool:
        """Note a refused TOUCH; returns whether the time of the delivery had run out."""
        pending = self._open.get(message_id)
        if pending is None:
            return False
        pending.extra["touches"] = max(0, pending.extra["touches"] - 1)
        pending.context = pending.frame.last_ts_ns
        return self.note(pending, ts_ns)

    def has_run_out(self, pending: Pending, ts_ns: int) -> bool:
        """Whether the time of a delivery has run out by ``ts_ns``; false if unknown."""
        if self._timeout_ns is None:
            return False
        until: int = pending.context + self._timeout_ns
        if self._most_ns is not None:
            until = min(until, pending.frame.last_ts_ns + self._most_ns)
        return ts_ns >= until

    def note(self, pending: Pending, ts_ns: int) -> bool:
        """Mark a delivery whose time has run out; returns whether it has, now or before."""
        if self.has_run_out(pending, ts_ns):
            pending.extra["timed_out"] = True
        return "timed_out" in pending.extra

    def end(self, ts_ns: int) -> None:
        """The connection is over: mark the open deliveries whose time has run out."""
        for pending in self._open.values():
            if pending.open and self.note(pending, ts_ns):
                pending.extra["settled_by"] = TIMEOUT


def _ns(milliseconds: Value) -> int | None:
    """A timeout of the reply to IDENTIFY; None if it is none."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int) or not 0 < milliseconds < _MAX_MS:
        return None
    return milliseconds * MILLISECOND_NS


# ---- session

REPLY: Final = "reply"
LOOK_BACK: Final = 1_024
"""Pending commands that are searched for the one that a reply answers: bounds the cost of a hostile queue."""


class NsqSession:
    """One connection."""

    def __init__(self, dissector: FramedDissector) -> None:
        self._dissector = dissector
        self._lost: list[Pending] = []
        self._about: dict[str | None, list[Pending]] = {}
        """Commands that name a message, by message id, oldest first; some of them have ended."""
        self._waiting: deque[Pending] = deque()
        """Commands that wait for a reply; some of them have ended."""
        self._refused: list[ReplyTarget] = []
        self.settings = dissector.settings
        self.state = State()
        self.negotiation = Negotiation()
        self.deliveries = Deliveries(dissector.settings.limits.pending_max)
        self.topics: tuple[str, ...] = ()
        self.group: str | None = None
        self.now_ns = 0
        """Time of the frame that was decoded last."""
        self.due_ns = 0
        """Time of the next look for commands that were not refused for ``refusal_ns``."""
        self.client_seen = False
        self.unanswered_heartbeats = 0

    @property
    def identity(self) -> Identity:
        """Client and server of the connection."""
        return self._dissector.identity

    def client_fed(self) -> int:
        """Stream offset after the client's last byte."""
        return self._dissector.fed(Side.CLIENT)

    def placed(self, upgrades: Iterable[Upgrade]) -> list[Upgrade]:
        """The layers, each beginning no earlier than after the last frame of a side in the layer before."""
        return [
            replace(upgrade, at={side: max(at, self._dissector.passed(side)) for side, at in upgrade.at.items()})
            for upgrade in upgrades
        ]

    def client_sent(self) -> None:
        """Note a command: it answers heartbeats, and the client waits for no layer."""
        self.client_seen = True
        self.unanswered_heartbeats = 0
        self.negotiation.waiting = False

    def server_closed(self) -> None:
        """The server closed first: if a heartbeat was unanswered, that was the cause."""
        if self.client_seen and self.unanswered_heartbeats and self.identity.close_reason is None:
            self.identity.close_reason = "keepalive missed"

    # ---- requests and replies

    def expect_reply(self, sent: SentCommand, *, expects: int) -> Pending:
        """Open a request for the command being decoded; ``expects`` 0: it gets a reply only if it fails."""
        pending = self._dissector.expect_reply(REPLY, sent, expects=expects)
        if self._refused and any(match.fits(sent) for match in self._refused):
            self._dissector.resolve(pending, "error")
            self._refused = []
        elif expects:
            self._waiting.append(pending)
        elif sent.name in ABOUT_MESSAGES:
            self._remember(pending)
        return pending

    def _remember(self, pending: Pending) -> None:
        """Index a command by its message id."""
        index, about = self._about, pending.context.about
        if about in index:
            index[about] = [*_open_ones(index[about]), pending]
            return
        index[about] = [pending]
        if len(index) > 2 * self.settings.limits.refusals_max:
            self._about = {about: still for about, each in index.items() if (still := _open_ones(each))}

    def expect_settlement(self, message_id: bytes, attempts: int | None) -> bool:
        """Open a delivery for the message being decoded; returns whether an earlier one has timed out."""
        timed_out = False
        again = self.deliveries.pop(message_id)
        if again is not None:
            timed_out = self._deliver_again(again)
        elif attempts != 1 and (fin := self._open_command("FIN", text(message_id))):
            timed_out = self._deliver_after_fin(fin)
        pending = self._dissector.expect_reply(("message", message_id), link="settlement", in_order=False)
        self.deliveries.add(message_id, attempts, pending)
        return timed_out

    def _deliver_again(self, open_one: Pending) -> bool:
        """End a delivery whose message comes again unsettled: timed out, or the capture lost its settlement."""
        if self._dissector.gaps_of(Side.CLIENT) > open_one.gaps_before:
            self._dissector.resolve(open_one, "lost")
            return False
        open_one.extra |= {"timed_out": True, "settled_by": TIMEOUT}
        self._dissector.resolve(open_one, "unanswered")
        return True

    @staticmethod
    def _deliver_after_fin(fin: Pending) -> bool:
        """A message comes again after a FIN that was not refused: its time ran out before the FIN arrived."""
        for settled in fin.awaited_by or ():
            settled.status, settled.extra["timed_out"] = "unanswered", True
        return fin.awaited_by is not None

    def settle_delivery(self, message_id: bytes, by: str, about: str | None) -> None:
        """Settle the delivery of a message, if there is one, by the command being decoded; nsqd may refuse it."""
        delivered = self.deliveries.pop(message_id)
        in_time = delivered is not None and not self.deliveries.has_run_out(delivered, self.now_ns)
        command = self.expect_reply(SentCommand(by, about, in_time), expects=0)
        if delivered is not None:
            delivered.extra["settled_by"] = by
            self._dissector.resolve(delivered, answered=True, awaits=command)

    def refused(self, command: Pending, ts_ns: int) -> bool:
        """Note a refused command; returns whether a delivery had timed out."""
        sent: SentCommand = command.context
        if sent.name == "TOUCH":
            return self.deliveries.touch_refused((sent.about or "").encode(), ts_ns)
        timed_out = False
        for settled in command.awaited_by or ():
            settled.status = None
            timed_out |= self.deliveries.note(settled, ts_ns)
        return timed_out

    def server_sent(self, ts_ns: int) -> None:
        """The server sends: settlements that it did not refuse in time have succeeded (rule 3)."""
        grace = self.settings.limits.refusal_ns
        queue = self._dissector.pending(REPLY)
        while queue and queue[0].expects == 0 and queue[0].frame.last_ts_ns < ts_ns - grace:
            self._end_unanswered(queue[0])
        oldest = queue[0].frame.last_ts_ns if queue and queue[0].expects == 0 else ts_ns
        self.due_ns = max(oldest + grace, ts_ns + grace // 4)

    def _end_unanswered(self, pending: Pending) -> None:
        """End a command that will get no reply any more."""
        about = pending.context.about
        each = self._about.pop(about, None)
        if each and (len(each) > 1 or each[0] is not pending):
            self._about[about] = [other for other in each if other.open and other is not pending]
        self._dissector.resolve(pending, "oneway" if pending.expects == 0 else self._unanswered_status(pending))

    def end(self) -> None:
        """The connection is over."""
        self.deliveries.end(self.now_ns)

    def replied(self, pending: Pending, status: ExchangeStatus | None = None) -> None:
        """Resolve the command that the reply being decoded answers."""
        self._dissector.resolve(pending, status, answered=True)

    def find_answered(self, targets: Sequence[ReplyTarget], *, failed: bool = False) -> Pending | None:
        """The oldest command that a reply can answer; those before it end unanswered."""
        if len(targets[0].names) > 1:
            for pending in self._lost:
                if pending.status is None:
                    self._dissector.resolve(pending, "lost")
        self._lost.clear()
        for target in targets:
            for pending in self._candidates(target, failed=failed):
                if pending.open and (failed or pending.expects > 0) and target.fits(pending.context):
                    self._end_before(pending)
                    return pending
        return None

    def _candidates(self, target: ReplyTarget, *, failed: bool) -> Iterable[Pending]:
        """Commands that a reply may answer, oldest first; found by message id if the reply has one."""
        if not failed:
            return islice(self._still_waiting(), LOOK_BACK)
        if target.about is not None and target.names <= ABOUT_MESSAGES:
            return self._about.get(target.about, ())
        return islice(self._dissector.pending(REPLY), LOOK_BACK)

    def _still_waiting(self) -> deque[Pending]:
        """Commands that wait for a reply, oldest first; the first of them is open."""
        waiting = self._waiting
        while waiting and not waiting[0].open:
            waiting.popleft()
        return waiting

    def _open_command(self, name: str, about: str) -> Pending | None:
        """The oldest open command of this name about a message."""
        each = (pending for pending in self._about.get(about, ()) if pending.open and pending.context.name == name)
        return next(each, None)

    def _end_before(self, pending: Pending) -> None:
        """End the commands before this one: they get no reply any more."""
        queue = self._dissector.pending(REPLY)
        while queue[0] is not pending:
            self._end_unanswered(queue[0])

    def refuse_next(self, targets: list[ReplyTarget]) -> None:
        """A command was refused by its head, before its body had come: the next command that fits has failed."""
        self._refused = targets

    def _unanswered_status(self, pending: Pending) -> ExchangeStatus:
        return "lost" if self._dissector.gaps_of(Side.SERVER) > pending.gaps_before else "unanswered"

    def lose_replies(self, length: int) -> None:
        """``length`` bytes of the server are lost: note the commands whose replies were probably among them.

        They end with the next reply, so that it finds its own command, unless that reply names its command.
        """
        waiting = (pending for pending in self._still_waiting() if pending.open)
        self._lost += islice(waiting, lost_replies(length))


def _open_ones(commands: Iterable[Pending]) -> list[Pending]:
    return [pending for pending in commands if pending.open]
