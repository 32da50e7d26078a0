"""NSQ's protocols as data: commands, errors, frame types, upgrades and limits.

1. Framing, decoding, checks and ``mqsniff protocols`` all use these tables.
2. Limits are nsqd's defaults; each can be configured, and some are in the reply to IDENTIFY.

Sources: nsqio/nsq 1.3.0 (``nsqd/protocol_v2.go``, ``nsqd/client_v2.go``, ``nsqd/options.go``, ``internal/protocol``,
``nsqlookupd/lookup_protocol_v1.go``), https://nsq.io/clients/tcp_protocol_spec.html.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from mqsniff.model import MessageKind

MAGIC_V2: Final = b"  V2"
MAGIC_V1: Final = b"  V1"
MAGIC_SIZE: Final = 4

LINE_MAX: Final = 16_384
"""Most bytes of a command line with its LF: the size of nsqd's read buffer."""

MESSAGE_ID_SIZE: Final = 16
MESSAGE_ID: Final = re.compile(rb"[0-9a-f]{16}")
"""The form that nsqd gives them; it compares them as bytes."""
MESSAGE_HEAD: Final = 26
"""Bytes of a message before its body: timestamp, attempts, message id."""

NAME_MAX: Final = 64
NAME_PATTERN: Final = rb"(?=[^ \n]{1,%d}[ \n])[.a-zA-Z0-9_-]+(?:#ephemeral)?" % NAME_MAX
"""A valid name of a topic or channel, in a command line."""
NAME: Final = re.compile(rb"[.a-zA-Z0-9_-]+(?:#ephemeral)?\Z")

HEARTBEAT: Final = b"_heartbeat_"

MAX_MSG_SIZE: Final = 1_048_576
MAX_BODY_SIZE: Final = 5_242_880
MAX_RDY_COUNT: Final = 2_500
MAX_TIMEOUT_MS: Final = 3_600_000
"""Largest timeout of REQ and DPUB."""

BodyKind = Literal["", "json", "secret", "data", "messages"]


class NsqCommand(NamedTuple):
    """A command of a client: one line, perhaps with a body after it."""

    name: str
    params: tuple[str, ...] = ()
    required: int = 0
    """Number of parameters that are required."""
    body: BodyKind = ""
    kind: MessageKind = "oneway"
    """request: answered when it succeeds, oneway: answered only when it fails."""
    errors: tuple[str, ...] = ()
    since: str = ""


_PUBLISH = ("E_INVALID", "E_BAD_TOPIC", "E_BAD_MESSAGE")
_AUTH = ("E_AUTH_FIRST", "E_AUTH_FAILED", "E_UNAUTHORIZED")

COMMANDS: Final = {
    command.name.encode(): command
    for command in (
        NsqCommand("IDENTIFY", (), 0, "json", "request", ("E_INVALID", "E_BAD_BODY", "E_IDENTIFY_FAILED")),
        NsqCommand(
            "SUB",
            ("topic", "channel"),
            2,
            "",
            "request",
            ("E_INVALID", "E_BAD_TOPIC", "E_BAD_CHANNEL", "E_SUB_FAILED", *_AUTH),
        ),
        NsqCommand("PUB", ("topic",), 1, "data", "request", (*_PUBLISH, "E_PUB_FAILED", *_AUTH)),
        NsqCommand(
            "MPUB", ("topic",), 1, "messages", "request", (*_PUBLISH, "E_BAD_BODY", "E_MPUB_FAILED", *_AUTH), "0.2.16"
        ),
        NsqCommand("DPUB", ("topic", "defer_ms"), 2, "data", "request", (*_PUBLISH, "E_DPUB_FAILED", *_AUTH), "0.3.6"),
        NsqCommand("RDY", ("count",), 0, errors=("E_INVALID",)),
        NsqCommand("FIN", ("message_id",), 1, errors=("E_INVALID", "E_FIN_FAILED")),
        NsqCommand("REQ", ("message_id", "timeout_ms"), 2, errors=("E_INVALID", "E_REQ_FAILED")),
        NsqCommand("TOUCH", ("message_id",), 1, errors=("E_INVALID", "E_TOUCH_FAILED"), since="0.2.17"),
        NsqCommand("CLS", kind="request", errors=("E_INVALID",)),
        NsqCommand("NOP"),
        NsqCommand(
            "AUTH",
            (),
            0,
            "secret",
            "request",
            ("E_INVALID", "E_BAD_BODY", "E_AUTH_DISABLED", "E_AUTH_FAILED", "E_UNAUTHORIZED", "E_AUTH_ERROR"),
            "0.2.29",
        ),
    )
}
"""nsqd's protocol V2, by command word."""

LOOKUPD_COMMANDS: Final = {
    command.name.encode(): command
    for command in (
        NsqCommand("IDENTIFY", (), 0, "json", "request", ("E_INVALID", "E_BAD_BODY")),
        NsqCommand("REGISTER", ("topic", "channel"), 1, "", "request", ("E_INVALID", "E_BAD_TOPIC", "E_BAD_CHANNEL")),
        NsqCommand("UNREGISTER", ("topic", "channel"), 1, "", "request", ("E_INVALID", "E_BAD_TOPIC", "E_BAD_CHANNEL")),
        NsqCommand("PING", kind="request"),
    )
}
"""nsqlookupd's protocol V1, by command word."""


class Error(NamedTuple):
    """A code that opens the text of an error frame."""

    code: str
    meaning: str
    fatal: bool = True
    """Whether nsqd closes the connection after it."""
    cause: str = "protocol error"
    """Close reason of the connection."""
    seen: str = ""
    """For codes that are no longer used: when they were."""


_KEPT = "that message is not in flight to this client (finished, requeued, timed out)"

ERRORS: Final = {
    error.code: error
    for error in (
        Error("E_BAD_PROTOCOL", "the connection did not begin with a known magic"),
        Error("E_INVALID", "the command is unknown, its parameters are wrong, or its state does not allow it"),
        Error("E_BAD_BODY", "the body of IDENTIFY, MPUB or AUTH is missing, too big or cannot be read"),
        Error("E_BAD_TOPIC", "the topic's name is not valid"),
        Error("E_BAD_CHANNEL", "the channel's name is not valid"),
        Error("E_BAD_MESSAGE", "a message to publish is missing, too big or cannot be read"),
        Error("E_PUB_FAILED", "the message could not be queued", cause="server error"),
        Error("E_MPUB_FAILED", "the messages could not be queued", cause="server error"),
        Error("E_DPUB_FAILED", "the deferred message could not be queued", cause="server error"),
        Error("E_SUB_FAILED", "the channel takes no further consumer, or is being deleted", cause="server error"),
        Error("E_FIN_FAILED", _KEPT, fatal=False),
        Error("E_REQ_FAILED", _KEPT, fatal=False),
        Error("E_TOUCH_FAILED", _KEPT, fatal=False),
        Error("E_IDENTIFY_FAILED", "what IDENTIFY asked for could not be done"),
        Error(
            "E_AUTH_FAILED",
            "the authorization server refused, cannot be reached, or the authorization ran out",
            cause="authentication",
        ),
        Error("E_UNAUTHORIZED", "the authorization does not cover this topic and channel", cause="authentication"),
        Error("E_AUTH_FIRST", "AUTH is required before this command", cause="authentication"),
        Error("E_AUTH_DISABLED", "this nsqd asks nobody for authorization", cause="authentication"),
        Error("E_AUTH_ERROR", "the answer to AUTH could not be sent", cause="authentication"),
    )
}
"""The codes of nsqd 1.3.0."""

ERRORS_HISTORIC: Final = {
    error.code: error
    for error in (
        Error("E_MISSING_PARAMS", "parameters are missing", seen="2012-10 to 2013-01"),
        Error("E_BODY_TOO_BIG", "the body is too big", cause="too large", seen="2013-01"),
        Error("E_MSG_TOO_BIG", "a message is too big", cause="too large", seen="2013-01"),
        Error("E_PUT_FAILED", "the message could not be queued", cause="server error", seen="2012-10 to 2013-01"),
        Error("E_CLOSE_FAILED", "the subscription could not be closed", seen="2012-07"),
        Error("E_WRITE_TIMEOUT", "the client was too slow to read", cause="server error", seen="2012-07 to 2012-10"),
        Error(
            "E_TOO_MANY_CHANNEL_CONSUMERS",
            "the channel takes no further consumer",
            cause="server error",
            seen="1.2.0; E_SUB_FAILED since",
        ),
    )
}
"""Codes that older servers send."""

LOOKUPD_ERRORS: Final = {
    error.code: error
    for error in (
        Error("E_BAD_PROTOCOL", "the connection did not begin with a known magic"),
        Error("E_INVALID", "the command is unknown, its parameters are wrong, or IDENTIFY is missing or repeated"),
        Error("E_BAD_BODY", "the body of IDENTIFY cannot be read or lacks fields"),
        Error("E_BAD_TOPIC", "the topic's name is not valid"),
        Error("E_BAD_CHANNEL", "the channel's name is not valid"),
    )
}
"""The codes of nsqlookupd 1.3.0; each closes the connection."""


class FrameType(NamedTuple):
    """A kind of frame from nsqd."""

    number: int
    name: str
    carries: str


RESPONSE, ERROR, MESSAGE = range(3)

FRAME_TYPES: Final = (
    FrameType(RESPONSE, "RESPONSE", "OK, CLOSE_WAIT, JSON (IDENTIFY, AUTH); _heartbeat_ is shown as HEARTBEAT"),
    FrameType(ERROR, "ERROR", "a code and a description"),
    FrameType(MESSAGE, "MESSAGE", "timestamp, attempts, message id, body"),
)


class UpgradeField(NamedTuple):
    """A layer that the reply to IDENTIFY may grant; the table is in the order in which they begin."""

    field: str
    to: str
    form: str


UPGRADES: Final = (
    UpgradeField("tls_v1", "tls", "TLS 1.0 or newer; the client begins the handshake"),
    UpgradeField("snappy", "snappy", "Snappy framing format, a stream a direction"),
    UpgradeField("deflate", "deflate", "raw DEFLATE (RFC 1951), a stream a direction"),
)


class ValueRange(NamedTuple):
    """The values that nsqd takes for a field of IDENTIFY."""

    low: int
    high: int
    also: tuple[int, ...] = ()
    """Values outside of the range that have a meaning (0: the default, -1: off)."""


IDENTIFY_RANGES: Final = {
    "heartbeat_interval": ValueRange(1_000, 60_000, (-1, 0)),
    "output_buffer_size": ValueRange(64, 65_536, (-1, 0)),
    "output_buffer_timeout": ValueRange(25, 30_000, (-1, 0)),
    "deflate_level": ValueRange(1, 6, (0,)),
    "sample_rate": ValueRange(0, 99),
    "msg_timeout": ValueRange(1_000, 900_000, (0,)),
}

LOOKUPD_IDENTIFY_FIELDS: Final = ("broadcast_address", "tcp_port", "http_port", "version")
"""Fields without which nsqlookupd refuses IDENTIFY."""
