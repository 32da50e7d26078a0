"""Decoded bodies in; the topics, ids and groups that their messages are about, and the names that they teach, out."""

from __future__ import annotations

from mqsniff.model import Identity, Message
from mqsniff_kafka.bodies import KafkaBody
from mqsniff_kafka.marks import METADATA_LOG, taught, texts


def name_message(message: Message, body: KafkaBody, identity: Identity) -> None:
    """Fill a message's topics, topic ids, group and what it teaches; tell its connection of the group."""
    marks = body.marks
    assert marks is not None
    if marks.topics is not None:
        message.topics = texts(marks.topics, body.value)
    if marks.topic_ids is not None:
        message.topic_ids = texts(marks.topic_ids, body.value)
        if marks.taught is not None:
            message.teaches = taught(marks.taught, body.value)
        if METADATA_LOG[0] in message.topic_ids:
            message.teaches += (METADATA_LOG,)
    if marks.groups is not None:
        groups = texts(marks.groups, body.value)
        message.group = groups[0] if len(groups) == 1 else message.group
        if message.group:
            identity.name_group(message.group)
