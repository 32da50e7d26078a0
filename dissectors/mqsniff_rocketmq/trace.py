r"""Message traces: reports of clients on their own sends and consumptions, as text in a topic.

    record \x02 record \x02 …        record: kind \x01 field \x01 field …

Source: TraceDataEncoder of apache/rocketmq.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mqsniff.model import Value
from mqsniff_rocketmq.texts import ENTRY_END, NAME_END

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"

FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Pub": (
            *("time", "region", "group", "topic", "message_id", "tags", "keys", "store_host", "body_length", "cost_ms"),
            *("message_type", "offset_message_id", "success", "client_host"),
        ),
        "SubBefore": ("time", "region", "group", "request_id", "message_id", "retry_times", "keys", "client_host"),
        "SubAfter": ("request_id", "message_id", "cost_ms", "success", "keys", "context_code", "time", "group"),
        "EndTransaction": (
            *("time", "region", "group", "topic", "message_id", "tags", "keys", "store_host", "message_type"),
            *("transaction_id", "transaction_state", "from_transaction_check"),
        ),
        "Recall": ("time", "region", "group", "topic", "message_id", "success"),
    }
)
"""Kind -> its fields in order; newer clients add fields at the end."""

_NUMBERS: Final = frozenset({"time", "body_length", "cost_ms", "message_type", "retry_times", "context_code"})
_BOOLS: Final = {"true": True, "false": False}


def read_trace(value: bytes) -> Value | None:
    """The records of a trace message; None if it is none."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    records: list[Value] = []
    for line in text.split(ENTRY_END):
        if line:
            record = _read_record(line.split(NAME_END))
            if record is None:
                return None
            records.append(record)
    return records or None


def _read_record(words: list[str]) -> dict[str, Value] | None:
    names = FIELDS.get(words[0])
    if names is None:
        return None
    record: dict[str, Value] = {"kind": words[0]}
    for name, word in zip(names, words[1:], strict=False):
        if name in _NUMBERS and word.isdecimal() and len(word) < 19:
            record[name] = int(word)
        else:
            record[name] = _BOOLS.get(word, word)
    if len(words) - 1 > len(names):
        record["unknown_fields"] = list(words[len(names) + 1 :])
    return record
