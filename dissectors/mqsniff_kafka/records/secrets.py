"""Hides values of records that hold secrets, unless secrets are wanted.

1. KRaft's metadata log holds SCRAM credentials, and configuration entries with secret names.
2. Kafka Connect's workers keep configurations of connectors, and the session key of their group, in a topic of any
   name: such records are recognised by their content. One that looks like them and cannot be read is hidden too.
3. Other batches cost a look at the first bytes of their keys: 0.1 µs a record; a search of the values would cost 1 µs.

Sources: Apache Kafka, ``KafkaConfigBackingStore``, ``UserScramCredentialRecord``, ``ConfigRecord``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from mqsniff.model import RecordBatch, Secret, Value
from mqsniff.spec.wire import Malformed
from mqsniff_kafka.formats.connect import PROPERTIES, SECRET_KEYS, SESSION_KEY, decode_config
from mqsniff_kafka.formats.internaltopics import decode_framed
from mqsniff_kafka.records.reading import RecordDataReading
from mqsniff_kafka.records.snapshots import PAGE, is_metadata_log

_Decode: TypeAlias = Callable[[bytes | None, bytes], Value]


def hide_secrets(reading: RecordDataReading, topic: str | None) -> None:
    """Hide the values of a field's records that hold secrets; ``topic``: its name, or its id if the name is unknown."""
    metadata = is_metadata_log(topic)
    for records in reading.records:
        if records.constant.get("control"):
            continue
        if metadata:
            _hide(records, _metadata)
        elif records.keys is not None and any(map(records.data.startswith, repeat(SECRET_KEYS), records.keys[0])):
            _hide(records, _config)


def may_hold_secret(reading: RecordDataReading, topic: str | None) -> bool:
    """Whether bytes of a field that could not be read as records may hold a secret."""
    unread = [reading.data[reading.stop - reading.cut : reading.stop]]
    unread += [reading.data[slice(*reading.undecoded)]] if reading.undecoded else []
    unread += [reading.data[batch.start : batch.stop] for batch in reading.batches if batch.records is None]
    if is_metadata_log(topic):
        return any(unread)
    return any(key in data for data in unread for key in SECRET_KEYS)


def _hide(records: RecordBatch, decode: _Decode) -> None:
    """Make the values that hold secrets null, with their decoded content (secrets wrapped) in a column."""
    assert records.keys is not None
    assert records.values is not None
    data = records.data
    starts, stops = (list(column) for column in records.values)
    decoded: list[Value] = []
    sizes: list[int | None] = [None] * records.count
    for index, (key_start, key_stop, start, stop) in enumerate(zip(*records.keys, starts, stops, strict=True)):
        key = data[key_start:key_stop] if key_start >= 0 else None
        decoded.append(decode(key, data[start:stop]) if start >= 0 else None)
        if holds_secret(decoded[-1]):
            sizes[index] = stop - start
            starts[index] = stops[index] = -1
    if any(size is not None for size in sizes):
        records.values = starts, stops
        records.columns["value_size"] = sizes
        records.columns["value_encoding"] = [None if size is None else "redacted" for size in sizes]
        records.columns["decoded"] = decoded


def _metadata(_: bytes | None, value: bytes) -> Value:
    """The content of a record of the metadata log; a Secret if it cannot be read."""
    try:
        return decode_framed(PAGE, value)
    except Malformed:
        return Secret(value)


def _config(key: bytes | None, value: bytes) -> Value:
    """The content of a record of Connect's configuration topic; None for any other record."""
    if key is None:
        return None
    try:
        return decode_config(key, value)
    except Malformed:
        return Secret(value) if key == SESSION_KEY or PROPERTIES in value else None


def holds_secret(value: Any) -> bool:
    """Whether a decoded value contains a Secret."""
    if isinstance(value, dict):
        return any(map(holds_secret, value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return any(map(holds_secret, value))
    return isinstance(value, Secret)
