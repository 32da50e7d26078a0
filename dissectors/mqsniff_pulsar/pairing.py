"""Pairs the requests of a connection with their replies.

1. Replies come in any order, unless a rule says otherwise: brokers handle many requests at once.
2. A reply has the topics and the group of its request.
3. A reply whose command does not answer its request is paired too, with a problem.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from mqsniff.framing import FramedDissector
from mqsniff.model import Message, Pending, Problem
from mqsniff_pulsar.commands import answers_of


class CommandPairing:
    """The pending requests of a connection, for the rules of commands."""

    def __init__(self, owner: FramedDissector) -> None:
        self._owner = owner

    def expect_reply(self, key: Hashable, context: Any = None, *, expects: int = 1) -> Pending:
        """Open a request for the frame being decoded."""
        return self._owner.expect_reply(key, context, expects=expects, in_order=False)

    def deliver(self, key: Hashable, context: Any) -> Pending:
        """Open the pending settlement of a delivered entry."""
        return self._owner.expect_reply(key, context, link="settlement", in_order=False)

    def oldest(self, key: Hashable) -> Pending | None:
        """The oldest pending request of a key."""
        return next(iter(self._owner.pending(key)), None)

    def reply_to(self, message: Message, key: Hashable, *, last: bool = True) -> Pending | None:
        """Resolve the request of this key with a message; None if there is none. ``last``: no more replies follow."""
        pending = self.oldest(key)
        if pending is None:
            return None
        if not last:
            pending.expects += 1
        self._owner.resolve(pending, answered=True)
        request = pending.message
        if request is not None:
            message.topics = message.topics or request.topics
            message.group = message.group or request.group
            message.client_id = message.client_id or request.client_id
            if message.name != "ERROR" and message.name not in answers_of(request.name):
                detail = f"{message.name} is no answer to {request.name}"
                message.problems.append(Problem("unmatched", "warning", detail))
        return pending

    def end_unanswered(self, key: Hashable) -> None:
        """End the requests of a key that expect no reply."""
        for pending in [pending for pending in self._owner.pending(key) if pending.expects == 0]:
            self._owner.resolve(pending, "oneway")

    def resolve(self, pending: Pending, by: str, *, last: bool = True, awaits: Pending | None = None) -> None:
        """Settle a delivered entry, or a part of it, by a message; ``awaits``: the message's own request."""
        pending.extra["settled_by"] = by
        pending.status = None if last else "partial"
        if not last:
            pending.expects += 1
        self._owner.resolve(pending, answered=True, awaits=awaits)

    def give_up(self, pending: Pending, by: str) -> None:
        """End a delivery that will not be settled any more."""
        pending.extra.setdefault("settled_by", by)
        self._owner.resolve(pending, pending.status or "unanswered")
