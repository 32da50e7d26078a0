"""Messages that nsqd delivered on one connection and what became of them: the questions that FIN and REQ settle.

1. A delivery is open from its MESSAGE until FIN, REQ or another delivery of the same message on the connection, which
   means that its time ran out. TOUCH extends it.
2. Its time is told by the answer to IDENTIFY (``msg_timeout``, and ``max_msg_timeout`` for what TOUCH extends); where
   that was not seen, only another delivery tells that it ran out.
3. At most ``limit`` are kept.

Source: nsqio/nsq 1.3.0, ``nsqd/channel.go`` (processInFlightQueue, TouchMessage).
"""

from __future__ import annotations

from typing import Final

from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Pending, Value

TIMEOUT: Final = "timeout"
"""What ended a delivery that the client did not end in time."""
_MAX_MS: Final = 1 << 40


class Deliveries:
    """The open deliveries by message id, how long they may take, and the credit that the client gave.

    The context of a delivery's question is when it was delivered, or its time was extended last.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[bytes, Pending] = {}
        self._timeout_ns: int | None = None
        self._most_ns: int | None = None
        self.credit = 0
        """The count of the last RDY."""

    def learn(self, timeout_ms: Value, most_ms: Value) -> None:
        """What the answer to IDENTIFY says of the time of a delivery."""
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
        """The open delivery of a message, open no more; None when there is none."""
        pending = self._open.pop(message_id, None)
        return pending if pending is not None and pending.open else None

    def touch(self, message_id: bytes, ts_ns: int) -> None:
        """The client asked for more time."""
        pending = self._open.get(message_id)
        if pending is not None:
            pending.extra["touches"] += 1
            pending.context = ts_ns

    def touch_refused(self, message_id: bytes, ts_ns: int) -> bool:
        """A TOUCH came too late; gives whether the time of the delivery had run out by then."""
        pending = self._open.get(message_id)
        if pending is None:
            return False
        pending.extra["touches"] = max(0, pending.extra["touches"] - 1)
        pending.context = pending.frame.last_ts_ns
        return self.note(pending, ts_ns)

    def has_run_out(self, pending: Pending, ts_ns: int) -> bool:
        """Whether the time of a delivery has run out by ``ts_ns``; false where nobody can tell."""
        if self._timeout_ns is None:
            return False
        until: int = pending.context + self._timeout_ns
        if self._most_ns is not None:
            until = min(until, pending.frame.last_ts_ns + self._most_ns)
        return ts_ns >= until

    def note(self, pending: Pending, ts_ns: int) -> bool:
        """Say of a delivery that its time has run out, if that is so; gives whether it has, now or before."""
        if self.has_run_out(pending, ts_ns):
            pending.extra["timed_out"] = True
        return "timed_out" in pending.extra

    def end(self, ts_ns: int) -> None:
        """The connection is over: say of the deliveries that nobody ended whether their time has run out."""
        for pending in self._open.values():
            if pending.open and self.note(pending, ts_ns):
                pending.extra["settled_by"] = TIMEOUT


def _ns(milliseconds: Value) -> int | None:
    """A time of the answer to IDENTIFY; None for what is none."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int) or not 0 < milliseconds < _MAX_MS:
        return None
    return milliseconds * MILLISECOND_NS
