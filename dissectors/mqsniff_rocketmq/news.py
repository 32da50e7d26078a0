"""An exchange in; what it tells of the clients of consumer groups, and of brokers to connect to, out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mqsniff.model import EndpointNews, MemberNews, Message, News, TopicRole

TELLING: Final = frozenset(
    (
        *("HEART_BEAT", "UNREGISTER_CLIENT", "NOTIFY_CONSUMER_IDS_CHANGED", "GET_CONSUMER_LIST_BY_GROUP"),
        *("GET_ROUTEINFO_BY_TOPIC", "LOCK_BATCH_MQ", "QUERY_ASSIGNMENT"),
    )
)
_INTERNAL: Final = ("RMQ_SYS_", "rmq_sys_", "SCHEDULE_TOPIC_", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC", "TBW102")


def news_of(request: Message | None, answer: Message | None) -> Iterator[News]:
    """What an exchange tells; a one-way notice of the broker is a request without an answer."""
    if request is None:
        return
    group = request.group
    if request.name == "NOTIFY_CONSUMER_IDS_CHANGED":
        if group is not None:
            yield MemberNews(group, "told", request.client_id)
        return
    if answer is None or answer.error_count:
        return
    match request.name:
        case "HEART_BEAT":
            yield from _heartbeat(request)
        case "UNREGISTER_CLIENT" if group is not None and "consumer_group" in _part(request, "ext_fields"):
            yield MemberNews(group, "left", request.client_id)
        case "GET_CONSUMER_LIST_BY_GROUP" if group is not None:
            for member in _list(_part(answer, "body").get("consumer_id_list")):
                if isinstance(member, str):
                    yield MemberNews(group, "joined", member)
        case "LOCK_BATCH_MQ" | "QUERY_ASSIGNMENT" if group is not None:
            yield from _assigned(group, request, answer)
        case "GET_ROUTEINFO_BY_TOPIC":
            yield from _brokers(answer)


def _heartbeat(request: Message) -> Iterator[MemberNews]:
    """The groups that a client consumes for."""
    for data in _list(_part(request, "body").get("consumer_data_set")):
        name = data.get("group_name") if isinstance(data, dict) else None
        if isinstance(name, str):
            yield MemberNews(name, "joined", request.client_id)


def _assigned(group: str, request: Message, answer: Message) -> Iterator[MemberNews]:
    """The queues that a consumer has from now on."""
    body = _part(answer, "body")
    locked = _list(body.get("lock_ok_m_q_set"))
    told = [one.get("message_queue") for one in _list(body.get("message_queue_assignments")) if isinstance(one, dict)]
    queues: dict[str, list[int]] = {}
    for queue in (*locked, *told):
        topic = queue.get("topic") if isinstance(queue, dict) else None
        number = queue.get("queue_id") if isinstance(queue, dict) else None
        if isinstance(topic, str) and isinstance(number, int) and number >= 0:
            queues.setdefault(topic, []).append(number)
    if queues:
        assignment = tuple((topic, tuple(sorted(numbers))) for topic, numbers in queues.items())
        yield MemberNews(group, "assigned", request.client_id, None, assignment)


def _brokers(answer: Message) -> Iterator[EndpointNews]:
    """The addresses of a route, "ip:port" each."""
    for broker in _list(_part(answer, "body").get("broker_datas")):
        addresses = broker.get("broker_addrs") if isinstance(broker, dict) else None
        for address in addresses.values() if isinstance(addresses, dict) else ():
            host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
            if host and port.isdecimal():
                yield EndpointNews("lookup", host, int(port))


def _part(message: Message, name: str) -> dict[str, Any]:
    part = message.body.get(name)
    return part if isinstance(part, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def topic_role(topic: str) -> TopicRole | None:
    """Retry and dead-letter topics of groups, and those of the broker."""
    if "%RETRY%" in topic:
        return "retry"
    if "%DLQ%" in topic:
        return "dead letter"
    return "internal" if topic.startswith(_INTERNAL) else None
