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

    def add(self, message_id: bytes, attempts: int | None, asked: Pending) -> None:
        """A message was delivered."""
        if len(self._open) >= self._limit:
            del self._open[next(iter(self._open))]
        self._open[message_id] = asked
        asked.context = asked.frame.last_ts_ns
        asked.extra = {
            "attempts": attempts,
            "touches": 0,
            "in_flight": len(self._open),
            "credit": self.credit,
        }

    def pop(self, message_id: bytes) -> Pending | None:
        """The open delivery of a message, open no more; None when there is none."""
        asked = self._open.pop(message_id, None)
        return asked if asked is not None and asked.open else None

    def touch(self, message_id: bytes, ts_ns: int) -> None:
        """The client asked for more time."""
        asked = self._open.get(message_id)
        if asked is not None:
            asked.extra["touches"] += 1
            asked.context = ts_ns

    def touch_refused(self, message_id: bytes, ts_ns: int) -> bool:
        """A TOUCH came too late; gives whether the time of the delivery had run out by then."""
        asked = self._open.get(message_id)
        if asked is None:
            return False
        asked.extra["touches"] = max(0, asked.extra["touches"] - 1)
        asked.context = asked.frame.last_ts_ns
        return self.note(asked, ts_ns)

    def has_run_out(self, asked: Pending, ts_ns: int) -> bool:
        """Whether the time of a delivery has run out by ``ts_ns``; false where nobody can tell."""
        if self._timeout_ns is None:
            return False
        until: int = asked.context + self._timeout_ns
        if self._most_ns is not None:
            until = min(until, asked.frame.last_ts_ns + self._most_ns)
        return ts_ns >= until

    def note(self, asked: Pending, ts_ns: int) -> bool:
        """Say of a delivery that its time has run out, if that is so; gives whether it has, now or before."""
        if self.has_run_out(asked, ts_ns):
            asked.extra["timed_out"] = True
        return "timed_out" in asked.extra

    def end(self, ts_ns: int) -> None:
        """The connection is over: say of the deliveries that nobody ended whether their time has run out."""
        for asked in self._open.values():
            if asked.open and self.note(asked, ts_ns):
                asked.extra["settled_by"] = TIMEOUT


def _ns(milliseconds: Value) -> int | None:
    """A time of the answer to IDENTIFY; None for what is none."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int) or not 0 < milliseconds < _MAX_MS:
        return None
    return milliseconds * MILLISECOND_NS
