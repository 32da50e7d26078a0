"""Group requests and their answers in; what later ones of the same group leave unsaid, out.

1. SyncGroup names the group's protocol since version 5 only: before, it is known from JoinGroup. So is how long a
   rebalance may take.
2. A coordinator is looked for by group or by transactional id; only the first is a group.
"""

from __future__ import annotations

from typing import Any, Final

from dissectors.kafka.formats import NO_CONTEXT, Context
from dissectors.kafka.questions import Question, Reply
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Message
from mqsniff.spec.wire import as_name

FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
SYNC_GROUP: Final = 14
GROUP: Final = 0
"""Key type of FindCoordinator."""

GROUPS_MAX: Final = 1024
_UNKNOWN: Final[tuple[Context, Any]] = (NO_CONTEXT, None)


class Membership:
    """The groups that one connection spoke of."""

    def __init__(self) -> None:
        self._groups: dict[Any, tuple[Context, Any]] = {}
        self.request_rules = {FIND_COORDINATOR: self._find, JOIN_GROUP: self._join, SYNC_GROUP: self._sync}
        self.response_rules = {JOIN_GROUP: self._joined}

    def rebalance_ns(self, group: Any) -> int | None:
        """How long a rebalance of the group may take; None where nobody told."""
        timeout = self._groups.get(group, _UNKNOWN)[1]
        return timeout * MILLISECOND_NS if isinstance(timeout, int) and timeout > 0 else None

    def _find(self, message: Message, body: dict[str, Any], _: Question) -> None:
        keys = body.get("coordinator_keys") or [body.get("key")]
        if body.get("key_type", GROUP) == GROUP and len(keys) == 1:
            message.group = as_name(keys[0])

    def _join(self, message: Message, body: dict[str, Any], question: Question) -> None:
        question.group = Context(body.get("protocol_type"))
        if len(self._groups) >= GROUPS_MAX:
            self._groups.clear()
        timeout = body.get("rebalance_timeout_ms", body.get("session_timeout_ms"))
        self._groups[message.group] = (question.group, timeout)

    def _sync(self, message: Message, _: dict[str, Any], question: Question) -> None:
        question.group = self._groups.get(message.group, _UNKNOWN)[0]

    def _joined(self, reply: Reply) -> None:
        """The group has chosen a protocol."""
        protocol, group = reply.body.get("protocol_name"), reply.message.group
        if isinstance(protocol, str) and group in self._groups:
            known, timeout = self._groups[group]
            self._groups[group] = (Context(known.protocol_type, protocol), timeout)
