"""What a connection said about its groups: protocol and rebalance timeout, which later requests leave out.

1. SyncGroup has the group's protocol since version 5; for older versions it is taken from JoinGroup, as the rebalance
   timeout is for all.
2. FindCoordinator has a group, a transactional id (which is no group), or a partition of a share group.
3. Only messages that name a group belong to it: clients fetch on other connections, and some (sarama, admin clients)
   use one connection for several groups.
"""

from __future__ import annotations

from typing import Any, Final

from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Message
from mqsniff.spec.wire import as_name
from mqsniff_kafka.contexts import RequestContext, RequestRule, ResponseContext, ResponseRule
from mqsniff_kafka.formats import NO_CONTEXT, FormatContext

FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
SYNC_GROUP: Final = 14
GROUP_KEYS: Final = frozenset({FIND_COORDINATOR, JOIN_GROUP, SYNC_GROUP})
"""APIs that tell of groups."""
GROUP: Final = 0
SHARE: Final = 2
"""Key types of FindCoordinator; the key of a share group is GROUP:TOPIC_ID:PARTITION."""

GROUPS_MAX: Final = 1024
_UNKNOWN: Final[tuple[FormatContext, Any]] = (NO_CONTEXT, None)


class Membership:
    """The groups of one connection."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[Any, tuple[FormatContext, Any]] = {}

    def request_rule(self, key: int) -> RequestRule | None:
        """What requests of an API tell of groups."""
        if key == FIND_COORDINATOR:
            return self._find
        if key == JOIN_GROUP:
            return self._join
        return self._sync if key == SYNC_GROUP else None

    def response_rule(self, key: int) -> ResponseRule | None:
        """What responses of an API tell of groups."""
        return self._joined if key == JOIN_GROUP else None

    def rebalance_ns(self, group: Any) -> int | None:
        """Rebalance timeout of the group; None if unknown."""
        timeout = self._groups.get(group, _UNKNOWN)[1]
        return timeout * MILLISECOND_NS if isinstance(timeout, int) and timeout > 0 else None

    def _find(self, message: Message, body: dict[str, Any], _: RequestContext) -> None:
        keys = body.get("coordinator_keys") or [body.get("key")]
        kind = body.get("key_type", GROUP)
        names = [name for key in keys if (name := as_name(key)) is not None]
        groups = {name.rsplit(":", 2)[0] if kind == SHARE else name for name in names}
        if kind in (GROUP, SHARE) and len(groups) == 1:
            message.group = groups.pop()

    def _join(self, message: Message, body: dict[str, Any], request: RequestContext) -> None:
        request.group = FormatContext(body.get("protocol_type"))
        if len(self._groups) >= GROUPS_MAX:
            self._groups.clear()
        timeout = body.get("rebalance_timeout_ms", body.get("session_timeout_ms"))
        self._groups[message.group] = (request.group, timeout)

    def _sync(self, message: Message, _: dict[str, Any], request: RequestContext) -> None:
        request.group = self._groups.get(message.group, _UNKNOWN)[0]

    def _joined(self, reply: ResponseContext) -> None:
        """Note the protocol that the group has chosen."""
        protocol, group = reply.body.get("protocol_name"), reply.message.group
        if isinstance(protocol, str) and group in self._groups:
            known, timeout = self._groups[group]
            self._groups[group] = (FormatContext(known.protocol_type, protocol), timeout)
