"""An exchange or a push in; what it tells of the consumers of a subscription, and of brokers to connect to, out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from mqsniff.model import EndpointNews, EndpointReason, MemberNews, Message, News, TopicRole

TELLING: Final = frozenset(
    (
        *("LOOKUP", "SUBSCRIBE", "CLOSE_CONSUMER", "UNSUBSCRIBE"),
        *("ACTIVE_CONSUMER_CHANGE", "TOPIC_MIGRATED", "CLOSE_PRODUCER"),
    )
)
_PARTITION: Final = "-partition-"
_SYSTEM: Final = "/pulsar/system/"


def news_of(request: Message | None, answer: Message | None) -> Iterator[News]:
    """What an exchange, or a push, tells."""
    if answer is None:
        return
    if request is None:
        yield from _push(answer)
    elif request.name == "LOOKUP":
        reason: EndpointReason = "redirect" if answer.body.get("response") == "Redirect" else "lookup"
        yield from _endpoint(answer.body.get("broker_service_url"), reason)
    elif request.group is not None and not answer.error_count:
        if request.name == "SUBSCRIBE":
            yield MemberNews(request.group, "joined", request.client_id)
        elif request.name in {"CLOSE_CONSUMER", "UNSUBSCRIBE"}:
            yield MemberNews(request.group, "left", request.client_id)


def _push(message: Message) -> Iterator[News]:
    """What the broker says unasked: who is active now, and that something moved away."""
    body = message.body
    if message.name == "ACTIVE_CONSUMER_CHANGE" and message.group is not None:
        yield MemberNews(message.group, "told", message.client_id, leader=body.get("is_active") is True)
        return
    if message.name == "CLOSE_CONSUMER" and message.group is not None:
        yield MemberNews(message.group, "left", message.client_id)
    yield from _endpoint(body.get("assigned_broker_service_url") or _migrated(message), "move")


def _migrated(message: Message) -> Any:
    return message.body.get("broker_service_url") if message.name == "TOPIC_MIGRATED" else None


def _endpoint(url: Any, reason: EndpointReason) -> Iterator[EndpointNews]:
    """The host and port of "pulsar://host:port"."""
    if not isinstance(url, str):
        return
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return
    if host and port:
        yield EndpointNews(reason, host, port)


def topic_role(topic: str) -> TopicRole | None:
    """Retry and dead-letter topics, as clients name them, and those of the broker."""
    name = topic.rpartition("/")[2].partition(_PARTITION)[0]
    if _SYSTEM in topic or name.startswith("__"):
        return "internal"
    return "retry" if name.endswith("-RETRY") else "dead letter" if name.endswith("-DLQ") else None
