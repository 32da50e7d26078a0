"""The commands of Pulsar's binary protocol as data: their senders, replies and notes.

1. Framing, pairing, notes and ``mqsniff protocols`` all use this table.
2. A command has the number of its field in BaseCommand, and by default its name.

Sources: PulsarApi.proto; ``ServerCnx``, ``ClientCnx`` and ``PulsarDecoder`` of Apache Pulsar 5.0.0-M1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from mqsniff.model import MessageKind, Side

Pair: TypeAlias = Literal["", "r", "s", "w", "t"]
"""The id that pairs requests and replies (``ID_FIELDS``); "": by a rule of session.py, or not at all."""

ID_FIELDS: Final[Mapping[Pair, str]] = {"r": "request_id", "s": "session_id", "w": "watch_id", "t": "watch_id"}
"""Requests, sessions of scalable topics, watches of topics and of transaction coordinators: separate counters."""

NO_REQUEST: Final = (1 << 64) - 1
"""request_id of a message without a request: an ERROR after CONNECT, a close by the broker."""


class PulsarCommand(NamedTuple):
    """One command."""

    type: int
    name: str
    side: Side | None
    """The sender; None: both sides."""
    kind: MessageKind
    """The usual kind; rules of session.py change a few."""
    pair: Pair = ""
    notes: tuple[str, ...] = ()
    """Fields that are shown in a line of text."""
    error: str = ""
    """Field of the error code."""

    @property
    def tag(self) -> bytes:
        """First bytes of a BaseCommand with this command: its number, and the tag of its field."""
        tag = self.type << 3 | 2
        return bytes((0x08, self.type, tag)) if tag < 0x80 else bytes((0x08, self.type, tag & 0x7F | 0x80, tag >> 7))


_C, _S, _BOTH = Side.CLIENT, Side.SERVER, None
_RESULT = ("message",)
_TXN = ("txnid_most_bits", "txnid_least_bits")

_TABLE: Final = (
    PulsarCommand(2, "CONNECT", _C, "request", "", ("client_version", "auth_method_name", "proxy_to_broker_url")),
    PulsarCommand(3, "CONNECTED", _S, "response", "", ("server_version", "max_message_size")),
    PulsarCommand(4, "SUBSCRIBE", _C, "request", "r", ("consumer_id", "sub_type", "consumer_name", "durable")),
    PulsarCommand(5, "PRODUCER", _C, "request", "r", ("producer_id", "producer_name", "producer_access_mode")),
    PulsarCommand(6, "SEND", _C, "request", "", ("num_messages",)),
    PulsarCommand(7, "SEND_RECEIPT", _S, "response"),
    PulsarCommand(8, "SEND_ERROR", _S, "response", "", _RESULT, "error"),
    PulsarCommand(9, "MESSAGE", _S, "push", "", ("redelivery_count",)),
    PulsarCommand(10, "ACK", _C, "oneway", "", ("ack_type", "validation_error"), "validation_error"),
    PulsarCommand(11, "FLOW", _C, "oneway", "", ("consumer_id", "message_permits")),
    PulsarCommand(12, "UNSUBSCRIBE", _C, "request", "r", ("consumer_id", "force")),
    PulsarCommand(13, "SUCCESS", _S, "response", "r"),
    PulsarCommand(14, "ERROR", _S, "response", "", _RESULT, "error"),
    PulsarCommand(15, "CLOSE_PRODUCER", _BOTH, "request", "", ("producer_id", "assigned_broker_service_url")),
    PulsarCommand(16, "CLOSE_CONSUMER", _BOTH, "request", "", ("consumer_id", "assigned_broker_service_url")),
    PulsarCommand(17, "PRODUCER_SUCCESS", _S, "response", "", ("producer_name", "last_sequence_id", "producer_ready")),
    PulsarCommand(18, "PING", _BOTH, "request"),
    PulsarCommand(19, "PONG", _BOTH, "response"),
    PulsarCommand(20, "REDELIVER_UNACKNOWLEDGED_MESSAGES", _C, "oneway", "", ("consumer_id",)),
    PulsarCommand(21, "PARTITIONED_METADATA", _C, "request", "r"),
    PulsarCommand(
        *(22, "PARTITIONED_METADATA_RESPONSE", _S, "response", "r"),
        notes=("response", "partitions", "message"),
        error="error",
    ),
    PulsarCommand(23, "LOOKUP", _C, "request", "r", ("authoritative", "advertised_listener_name")),
    PulsarCommand(
        *(24, "LOOKUP_RESPONSE", _S, "response", "r"),
        notes=("response", "broker_service_url", "authoritative", "proxy_through_service_url", "message"),
        error="error",
    ),
    PulsarCommand(25, "CONSUMER_STATS", _C, "request", "r", ("consumer_id",)),
    PulsarCommand(
        *(26, "CONSUMER_STATS_RESPONSE", _S, "response", "r"),
        notes=("available_permits", "unacked_messages", "msg_backlog", "error_message"),
        error="error_code",
    ),
    PulsarCommand(27, "REACHED_END_OF_TOPIC", _S, "push", "", ("consumer_id",)),
    PulsarCommand(28, "SEEK", _C, "request", "r", ("consumer_id", "message_publish_time")),
    PulsarCommand(29, "GET_LAST_MESSAGE_ID", _C, "request", "r", ("consumer_id",)),
    PulsarCommand(30, "GET_LAST_MESSAGE_ID_RESPONSE", _S, "response", "r"),
    PulsarCommand(31, "ACTIVE_CONSUMER_CHANGE", _S, "push", "", ("consumer_id", "is_active")),
    PulsarCommand(32, "GET_TOPICS_OF_NAMESPACE", _C, "request", "r", ("namespace", "mode", "topics_pattern")),
    PulsarCommand(33, "GET_TOPICS_OF_NAMESPACE_RESPONSE", _S, "response", "r", ("filtered", "changed")),
    PulsarCommand(34, "GET_SCHEMA", _C, "request", "r"),
    PulsarCommand(35, "GET_SCHEMA_RESPONSE", _S, "response", "r", ("error_message",), "error_code"),
    PulsarCommand(36, "AUTH_CHALLENGE", _S, "response"),
    PulsarCommand(37, "AUTH_RESPONSE", _C, "request"),
    PulsarCommand(38, "ACK_RESPONSE", _S, "response", "", _RESULT, "error"),
    PulsarCommand(39, "GET_OR_CREATE_SCHEMA", _C, "request", "r", ("producer_name",)),
    PulsarCommand(40, "GET_OR_CREATE_SCHEMA_RESPONSE", _S, "response", "r", ("error_message",), "error_code"),
    PulsarCommand(50, "NEW_TXN", _C, "request", "r", ("tc_id", "txn_ttl_millis")),
    PulsarCommand(51, "NEW_TXN_RESPONSE", _S, "response", "r", (*_TXN, "message"), "error"),
    PulsarCommand(52, "ADD_PARTITION_TO_TXN", _C, "request", "r", _TXN),
    PulsarCommand(53, "ADD_PARTITION_TO_TXN_RESPONSE", _S, "response", "r", (*_TXN, "message"), "error"),
    PulsarCommand(54, "ADD_SUBSCRIPTION_TO_TXN", _C, "request", "r", _TXN),
    PulsarCommand(55, "ADD_SUBSCRIPTION_TO_TXN_RESPONSE", _S, "response", "r", (*_TXN, "message"), "error"),
    PulsarCommand(56, "END_TXN", _C, "request", "r", (*_TXN, "txn_action")),
    PulsarCommand(57, "END_TXN_RESPONSE", _S, "response", "r", (*_TXN, "message"), "error"),
    PulsarCommand(58, "END_TXN_ON_PARTITION", _C, "request", "r", (*_TXN, "txn_action")),
    PulsarCommand(59, "END_TXN_ON_PARTITION_RESPONSE", _S, "response", "r", (*_TXN, "message"), "error"),
    PulsarCommand(60, "END_TXN_ON_SUBSCRIPTION", _C, "request", "r", (*_TXN, "txn_action")),
    PulsarCommand(61, "END_TXN_ON_SUBSCRIPTION_RESPONSE", _S, "response", "r", (*_TXN, "message"), "error"),
    PulsarCommand(62, "TC_CLIENT_CONNECT_REQUEST", _C, "request", "r", ("tc_id",)),
    PulsarCommand(63, "TC_CLIENT_CONNECT_RESPONSE", _S, "response", "r", _RESULT, "error"),
    PulsarCommand(64, "WATCH_TOPIC_LIST", _C, "request", "r", ("watcher_id", "namespace", "topics_pattern")),
    PulsarCommand(65, "WATCH_TOPIC_LIST_SUCCESS", _S, "response", "r", ("watcher_id",)),
    PulsarCommand(66, "WATCH_TOPIC_UPDATE", _S, "push", "", ("watcher_id",)),
    PulsarCommand(67, "WATCH_TOPIC_LIST_CLOSE", _C, "request", "r", ("watcher_id",)),
    PulsarCommand(68, "TOPIC_MIGRATED", _S, "push", "", ("resource_type", "resource_id", "broker_service_url")),
    PulsarCommand(70, "SCALABLE_TOPIC_LOOKUP", _C, "request", "s", ("session_id", "create_if_missing")),
    PulsarCommand(71, "SCALABLE_TOPIC_UPDATE", _S, "response", "s", ("session_id", "message"), "error"),
    PulsarCommand(72, "SCALABLE_TOPIC_CLOSE", _C, "oneway", "", ("session_id",)),
    PulsarCommand(73, "SCALABLE_TOPIC_SUBSCRIBE", _C, "request", "r", ("consumer_id", "consumer_type")),
    PulsarCommand(74, "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE", _S, "response", "r", _RESULT, "error"),
    PulsarCommand(75, "SCALABLE_TOPIC_ASSIGNMENT_UPDATE", _S, "push", "", ("consumer_id",)),
    PulsarCommand(76, "WATCH_SCALABLE_TOPICS", _C, "request", "w", ("watch_id", "namespace")),
    PulsarCommand(77, "WATCH_SCALABLE_TOPICS_UPDATE", _S, "response", "w", ("watch_id", "message"), "error"),
    PulsarCommand(78, "WATCH_SCALABLE_TOPICS_CLOSE", _C, "oneway", "", ("watch_id",)),
    PulsarCommand(79, "WATCH_TC_ASSIGNMENTS", _C, "request", "t", ("watch_id",)),
    PulsarCommand(80, "WATCH_TC_ASSIGNMENTS_UPDATE", _S, "response", "t", ("watch_id", "message"), "error"),
    PulsarCommand(81, "WATCH_TC_ASSIGNMENTS_CLOSE", _C, "oneway", "", ("watch_id",)),
)

COMMANDS: Final[Mapping[int, PulsarCommand]] = {command.type: command for command in _TABLE}
"""By number."""

BY_NAME: Final[Mapping[str, PulsarCommand]] = {command.name: command for command in _TABLE}

UNREMARKABLE: Final[Mapping[str, object]] = {
    "durable": True,
    "is_active": None,
    "last_sequence_id": -1,
    "mode": "PERSISTENT",
    "producer_access_mode": "Shared",
    "producer_ready": True,
}
"""Field of notes -> its default, which is not shown; for all others False and empty text."""

PAYLOAD: Final = frozenset({"SEND", "MESSAGE"})
"""Commands that message data follow."""

_OWN_ANSWERS: Final[Mapping[str, tuple[str, ...]]] = {
    "CONNECT": ("CONNECTED", "AUTH_CHALLENGE"),
    "AUTH_CHALLENGE": ("AUTH_RESPONSE",),
    "AUTH_RESPONSE": ("CONNECTED", "AUTH_CHALLENGE"),
    "PRODUCER": ("PRODUCER_SUCCESS",),
    "SEND": ("SEND_RECEIPT", "SEND_ERROR"),
    "PING": ("PONG",),
    "TC_CLIENT_CONNECT_REQUEST": ("TC_CLIENT_CONNECT_RESPONSE",),
    "WATCH_TOPIC_LIST": ("WATCH_TOPIC_LIST_SUCCESS",),
    "SCALABLE_TOPIC_LOOKUP": ("SCALABLE_TOPIC_UPDATE",),
    "WATCH_SCALABLE_TOPICS": ("WATCH_SCALABLE_TOPICS_UPDATE",),
    "WATCH_TC_ASSIGNMENTS": ("WATCH_TC_ASSIGNMENTS_UPDATE",),
    **dict.fromkeys(("SUBSCRIBE", "UNSUBSCRIBE", "SEEK", "WATCH_TOPIC_LIST_CLOSE"), ("SUCCESS",)),
    **dict.fromkeys(("CLOSE_PRODUCER", "CLOSE_CONSUMER"), ("SUCCESS",)),
}


def answers_of(name: str) -> tuple[str, ...]:
    """Replies to a command that succeeds; ERROR may answer CONNECT and every command with a request_id."""
    response = f"{name}_RESPONSE"
    return _OWN_ANSWERS.get(name) or ((response,) if response in BY_NAME else ())
