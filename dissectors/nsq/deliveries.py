"""Messages that nsqd delivered on one connection and what became of them: the questions that FIN and REQ settle.

1. A delivery is open from its MESSAGE until FIN, REQ or another delivery of the same message on the connection, which
   means that its time ran out. TOUCH extends it.
2. Deliveries that time out and go to another connection stay open here: nothing on this one tells.
3. At most ``limit`` are kept.
"""

from __future__ import annotations

from mqsniff.model import Asked


class Deliveries:
    """The open deliveries by message id, and the credit that the client gave."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[bytes, Asked] = {}
        self.credit = 0
        """The count of the last RDY."""

    def add(self, message_id: bytes, attempts: int | None, asked: Asked) -> None:
        """A message was delivered."""
        if len(self._open) >= self._limit:
            del self._open[next(iter(self._open))]
        self._open[message_id] = asked
        asked.extra = {
            "attempts": attempts,
            "touches": 0,
            "in_flight": len(self._open),
            "credit": self.credit,
        }

    def pop(self, message_id: bytes) -> Asked | None:
        """The open delivery of a message, open no more; None when there is none."""
        asked = self._open.pop(message_id, None)
        return asked if asked is not None and asked.status is None else None

    def touch(self, message_id: bytes) -> None:
        """The client asked for more time."""
        asked = self._open.get(message_id)
        if asked is not None:
            asked.extra["touches"] += 1
