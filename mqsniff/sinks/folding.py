"""Lines that repeat an error in, one line for all of them out: ``x25 in 27 ms``.

1. The first of equal errors is a line as ever. Each further one that follows at once is counted, with its request.
2. What follows at once: the same request again on the same connection, and the same error to it. A request is held back
   until its answer is known, if it is like the one that failed; whatever else comes is told after what was held.
3. A live view must not wait: there ``is_due`` says when what was held is told, though nothing came.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from mqsniff.model import ConnectionInfo, Message, Side
from mqsniff.sinks.lines import milliseconds
from mqsniff.sinks.paint import Role

HELD_S: Final = 1.0
"""How long a live view holds lines back."""
_WHOLE_MS_NS: Final = 10_000_000
"""From here on a span is told in whole milliseconds."""


@dataclass(slots=True)
class RepeatedError:
    """An error that was told once, and how often it came again."""

    key: Hashable
    connection: ConnectionInfo | None
    side: Side | None
    protocol: str
    name: str
    what: str
    role: Role
    first_ns: int
    last_ns: int
    request: Hashable = None
    """What its request is like; None where none is known."""
    count: int = 1
    held: tuple[ConnectionInfo, Message] | None = None
    """A request that may fail in the same way."""
    _since: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108  # looked up late, for tests

    def repeats(self, key: Hashable, ts_ns: int) -> bool:
        """Count an error that is the same; False for another one."""
        if key != self.key:
            return False
        self.count += 1
        self.last_ns = max(self.last_ns, ts_ns)
        self.held = None
        return True

    def holds(self, connection: ConnectionInfo, message: Message) -> bool:
        """Hold a message back if it is the same request again."""
        if self.held is not None or self.request is None or self.request != request_key(connection, message):
            return False
        self.held = connection, message
        return True

    def is_due(self) -> bool:
        """Whether a live view has waited long enough."""
        return time.monotonic() - self._since >= HELD_S

    @property
    def text(self) -> str:
        """How often, in how long a time."""
        span = max(0, self.last_ns - self.first_ns)
        if not span:
            return f"x{self.count}"
        took = f"{span // 1_000_000} ms" if span >= _WHOLE_MS_NS else milliseconds(span)
        return f"x{self.count} in {took}"


def request_key(connection: ConnectionInfo, message: Message) -> Hashable:
    """What makes two requests alike."""
    return connection.connection_id, message.name, message.version, message.topics, message.group, message.kind


def answer_key(connection: ConnectionInfo, message: Message) -> Hashable:
    """What makes two answers with an error alike."""
    error = message.error_name, message.error_code, message.error_count
    return connection.connection_id, message.name, message.version, message.topics, message.group, error
