"""Questions of commands in, their answers later: what the two have to do with each other.

1. Answers come in the order of their questions only where nothing else is said: brokers work on many at once.
2. An answer speaks of the topics and the group of its question.
3. An answer that a question of its kind never gets is paired all the same, with a problem.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from mqsniff.framing import FramedDissector
from mqsniff.model import Message, Pending, Problem
from mqsniff_pulsar.commands import answers_of


class CommandPairing:
    """The open questions of a connection, as rules use them."""

    def __init__(self, owner: FramedDissector) -> None:
        self._owner = owner

    def expect_reply(self, key: Hashable, context: Any = None, *, expects: int = 1) -> Pending:
        """Open a question of the frame being decoded."""
        return self._owner.expect_reply(key, context, expects=expects, in_order=False)

    def deliver(self, key: Hashable, context: Any) -> Pending:
        """Open the question of a delivered entry, which a settlement ends."""
        return self._owner.expect_reply(key, context, link="settlement", in_order=False)

    def oldest(self, key: Hashable) -> Pending | None:
        """The oldest open question of a key."""
        return next(iter(self._owner.pending(key)), None)

    def reply_to(self, message: Message, key: Hashable, *, last: bool = True) -> Pending | None:
        """The question of this key that the message answers, None where none is open; more come unless ``last``."""
        pending = self.oldest(key)
        if pending is None:
            return None
        if not last:
            pending.expects += 1
        self._owner.resolve(pending, answered=True)
        question = pending.message
        if question is not None:
            message.topics = message.topics or question.topics
            message.group = message.group or question.group
            message.client_id = message.client_id or question.client_id
            if message.name != "ERROR" and message.name not in answers_of(question.name):
                detail = f"{message.name} is no answer to {question.name}"
                message.problems.append(Problem("unmatched", "warning", detail))
        return pending

    def end_unanswered(self, key: Hashable) -> None:
        """End the questions of a key that expected no answer: none will come any more."""
        for pending in [pending for pending in self._owner.pending(key) if pending.expects == 0]:
            self._owner.resolve(pending, "oneway")

    def resolve(self, pending: Pending, by: str, *, last: bool = True, awaits: Pending | None = None) -> None:
        """The message settles a delivered entry, or part of it; the last part with ``awaits``, its own question."""
        pending.extra["settled_by"] = by
        pending.status = None if last else "partial"
        if not last:
            pending.expects += 1
        self._owner.resolve(pending, answered=True, awaits=awaits)

    def give_up(self, pending: Pending, by: str) -> None:
        """Because of the message, this delivery will not be settled any more."""
        pending.extra.setdefault("settled_by", by)
        self._owner.resolve(pending, pending.status or "unanswered")
