"""An exchange in; what it tells of the members of groups, and of brokers to connect to, out.

1. A member that has to name itself first (MEMBER_ID_REQUIRED) has not joined yet.
2. In groups whose brokers assign (KIP-848), the epoch of a member is its generation; an epoch below 0 is a farewell.
3. Answers that name the leader of a partition where a broker was not (KIP-951) redirect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mqsniff.model import Assignment, EndpointNews, EndpointReason, MemberNews, Message, News
from mqsniff.spec.wire import as_name

_HEARTBEATS: Final = frozenset(("ConsumerGroupHeartbeat", "ShareGroupHeartbeat"))


def news_of(request: Message | None, answer: Message | None) -> Iterator[News]:
    """What an exchange tells."""
    if request is None or answer is None:
        return
    match request.name:
        case "JoinGroup" | "SyncGroup" | "LeaveGroup" if not answer.error_code:
            yield from _classic(request, answer)
        case name if name in _HEARTBEATS and not answer.error_code:
            yield from _heartbeat(request, answer)
        case "Metadata" | "DescribeCluster":
            yield from _endpoints(answer.body.get("brokers"), "lookup")
        case "FindCoordinator":
            yield from _endpoints(answer.body.get("coordinators", [answer.body]), "lookup")
        case "Produce" | "Fetch":
            yield from _endpoints(answer.body.get("node_endpoints"), "redirect")


def _classic(request: Message, answer: Message) -> Iterator[News]:
    """Groups whose members assign."""
    group, asked, told = request.group, _fields(request), _fields(answer)
    if group is None:
        return
    match request.name:
        case "JoinGroup":
            member = as_name(told.get("member_id"))
            leader = member is not None and told.get("leader") == told.get("member_id")
            yield MemberNews(group, "joined", member, _number(told.get("generation_id")), leader=leader)
        case "SyncGroup":
            held = told.get("assignment")
            assignment = _assignment(held.get("assigned_partitions")) if isinstance(held, dict) else None
            member, generation = as_name(asked.get("member_id")), _number(asked.get("generation_id"))
            yield MemberNews(group, "assigned", member, generation, assignment)
        case "LeaveGroup":
            for one in asked.get("members", [asked]) or ():
                yield MemberNews(group, "left", as_name(one.get("member_id")))


def _heartbeat(request: Message, answer: Message) -> Iterator[News]:
    """Groups whose brokers assign: what happens is what changes (rule 2)."""
    group, asked, told = request.group, _fields(request), _fields(answer)
    member = as_name(told.get("member_id")) or as_name(asked.get("member_id"))
    before, epoch = _number(asked.get("member_epoch")), _number(told.get("member_epoch"))
    if group is None or before is None or epoch is None:
        return
    if before < 0:
        yield MemberNews(group, "left", member)
        return
    if epoch != before:
        yield MemberNews(group, "joined", member, epoch)
    held = told.get("assignment")
    if isinstance(held, dict):
        yield MemberNews(group, "assigned", member, epoch, _assignment(held.get("topic_partitions")))


def _assignment(topics: Any) -> Assignment | None:
    """The partitions of a member, by topic or its id."""
    if not isinstance(topics, list):
        return None
    found = [(as_name(one.get("topic")) or one.get("topic_id"), one.get("partitions")) for one in topics]
    return tuple((topic, tuple(partitions or ())) for topic, partitions in found if isinstance(topic, str))


def _endpoints(nodes: Any, reason: EndpointReason) -> Iterator[EndpointNews]:
    """Nodes with a host and a port."""
    listed: Iterable[Any] = nodes if isinstance(nodes, list) else ()
    for node in listed:
        host, port = as_name(node.get("host")), node.get("port")
        if host and isinstance(port, int) and port > 0:
            yield EndpointNews(reason, host, port)


def _fields(message: Message) -> dict[str, Any]:
    return message.body


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None
