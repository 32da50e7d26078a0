"""KRaft's metadata log, as fetched by controllers and brokers: how it is known, and the topics that its records name.

1. Its topic id is the same in every cluster. The 2.8 preview called it otherwise, and fetched it by name.
2. A TopicRecord names a topic's id once and for all: replicas learn names from nothing else.

Source: KIP-500; ``Topic.CLUSTER_METADATA_TOPIC_NAME``, ``TopicRecord`` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mqsniff.spec.wire import Malformed, as_name
from mqsniff_kafka.formats.internaltopics import METADATA_TOPICS, decode_framed
from mqsniff_kafka.marks import METADATA_LOG
from mqsniff_kafka.records.reading import RecordDataReading

PAGE: Final = "cluster_metadata"
TOPIC_RECORD: Final = 2
TYPE_AT: Final = 1
"""Where a record has its type, behind the version of its frame: varints of one byte, so far."""


def is_metadata_log(topic: str | None) -> bool:
    """Whether a name or an id is the metadata log's."""
    return topic in METADATA_TOPICS or topic == METADATA_LOG[0]


def topics_named(reading: RecordDataReading) -> Iterator[tuple[str, str]]:
    """(topic id, name) of each topic that opened records of the log name."""
    for batch in reading.records:
        if batch.values is None or batch.constant.get("control"):
            continue
        for start, stop in zip(*batch.values, strict=True):
            if start >= 0 and batch.data[start + TYPE_AT : stop][:1] == bytes((TOPIC_RECORD,)):
                yield from _named(batch.data[start:stop])


def _named(value: bytes) -> Iterator[tuple[str, str]]:
    try:
        record = decode_framed(PAGE, value)["value"]
    except Malformed:
        return
    name, topic_id = as_name(record.get("name")), record.get("topic_id")
    if name is not None and isinstance(topic_id, str):
        yield topic_id, name
