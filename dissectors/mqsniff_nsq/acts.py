"""A message of nsqd's protocol in, what it does to messages that were delivered out: for ``mqsniff trace`` alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mqsniff.model import Act, Message

_MEMBERS: Final = {"SUB": "subscribes", "CLS": "stops: no more messages"}


def acts_of(message: Message) -> Iterator[Act]:
    """What a FIN, REQ or TOUCH does to its message, and a SUB or CLS to its channel."""
    body, topic = message.body, next(iter(message.topics), None)
    message_id = body.get("message_id")
    if message.name in _MEMBERS:
        yield Act("member", _MEMBERS[message.name], topic)
    if not isinstance(message_id, str):
        return
    match message.name:
        case "FIN":
            yield Act("ack", "finished", topic, message_id=message_id)
        case "REQ":
            wait = body.get("timeout_ms")
            when = f"in {wait} ms" if isinstance(wait, int) and wait else "at once"
            yield Act("nack", f"requeued, to come again {when}", topic, message_id=message_id)
        case "TOUCH":
            yield Act("extend", "asked for more time", topic, message_id=message_id)
