"""The state of one connection; decodes each frame into a message.

1. Some commands have rules (here, in ``producing``, in ``consuming``). For all others the table of commands names the
   id that pairs them, and ids in their bodies name their producer or consumer.
2. CONNECT, its challenges and CONNECTED have no ids and are paired by order, and so are PING and PONG. An ERROR without
   a request id answers the login.
3. On a live connection the broker requests new credentials by a challenge, which is a request. Its AUTH_RESPONSE gets
   no reply unless it fails (ERROR) or the method has more steps (another challenge).
4. The first update of a session or a watch answers its opening; later updates are pushes. So is the first one if it
   only has changes, since the client sent the state that it knew.

Sources: ``ServerCnx`` and ``ClientCnx`` of Apache Pulsar 5.0.0-M1, and captures.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import orjson

from mqsniff.framing import FramedDissector
from mqsniff.limits import KIB
from mqsniff.model import Frame, Message, Problem, Secret, Side
from mqsniff.spec.wire import as_name
from mqsniff_pulsar.commands import ID_FIELDS, NO_REQUEST
from mqsniff_pulsar.consuming import Consuming
from mqsniff_pulsar.frames import FRAME_ROOM, MESSAGE_MAX, SIZE_MAX
from mqsniff_pulsar.handles import Handles, name_of
from mqsniff_pulsar.pairing import CommandPairing
from mqsniff_pulsar.producing import Producing
from mqsniff_pulsar.reading import FrameReading, read_frame

Rule: TypeAlias = Callable[[FrameReading], None]

_TOPIC_FIELDS: Final = ("topic", "topics", "new_topics", "deleted_topics", "partitions", "subscription")
"""Fields with topics: text, lists of text, or messages with a field ``topic``."""

_CLOSE_REASONS: Final = {
    "AuthenticationError": "authentication",
    "AuthorizationError": "authorization",
    "UnsupportedVersionError": "unsupported version",
}
_LOGIN: Final = "login"
"""Key of the requests that CONNECTED answers."""
_CHALLENGE: Final = "challenge"


class PulsarSession:
    """One connection."""

    def __init__(self, owner: FramedDissector) -> None:
        self._owner = owner
        self._pairing = CommandPairing(owner)
        self._producing = Producing(self._pairing, owner.settings)
        self._consuming = Consuming(self._pairing, owner.settings)
        self._sessions = Handles(str, owner.settings.limits.handles_max)
        self._logging_in = False
        """Whether a CONNECT was seen and no CONNECTED yet."""
        self.message_max = MESSAGE_MAX
        """Largest message that the broker accepts, by CONNECTED."""
        self._rules: Mapping[str, Rule] = {
            **self._producing.rules,
            **self._consuming.rules,
            "CONNECT": self._connect,
            "CONNECTED": self._connected,
            "AUTH_CHALLENGE": self._challenge,
            "AUTH_RESPONSE": self._respond,
            "ERROR": self._error,
            "PING": self._ping,
            "PONG": self._pong,
            "TOPIC_MIGRATED": self._migrated,
        }

    def message(self, frame: Frame) -> Message:
        """The message of the next frame; Malformed if it has no command."""
        reading = read_frame(frame, self._owner.settings.limits)
        message = reading.message
        if frame.size - 4 > self.message_max + FRAME_ROOM:
            self._owner.identity.close_reason = "too large"
            message.problems.append(Problem("out_of_range", "warning", "a frame larger than the broker takes"))
        self._rules.get(message.name, self._by_table)(reading)
        return message

    def unfinished(self, side: Side) -> Iterator[Problem]:
        """Problems of the unfinished chunked messages of a side."""
        return (self._producing if side is Side.CLIENT else self._consuming).chunks.unfinished()

    @property
    def state_size(self) -> int:
        """Bytes of chunks that wait to be joined."""
        return self._producing.chunks.state_size + self._consuming.chunks.state_size

    # ---- commands without a rule

    def _by_table(self, reading: FrameReading) -> None:
        message, command, body = reading.message, reading.command, reading.body
        if "consumer_id" in body:
            self._consuming.name_consumer(message, body["consumer_id"])
        elif "session_id" in body:
            self._name_session(reading)
        message.topics = message.topics or tuple(dict.fromkeys(_topics(body)))
        if command is None or not command.pair:
            return
        number = body.get(ID_FIELDS[command.pair])
        if number is None:
            return
        message.correlation = f"{command.pair}:{number}"
        key = (command.pair, number)
        if command.kind == "request":
            up_to_date = "current_hash" in body  # such a watch may get no update
            self._pairing.expect_reply(key, expects=0 if up_to_date else 1)
            return
        if "diff" in body:  # the client knew the state until now
            self._pairing.end_unanswered(key)
        if self._pairing.reply_to(message, key) is None and command.pair != "r":
            message.kind = "push"

    def _name_session(self, reading: FrameReading) -> None:
        """Note the topic of a session: the lookup of a scalable topic opens it."""
        number, topic = reading.body["session_id"], name_of(reading.body.get("topic"))
        if topic is not None:
            self._sessions.open(number, topic)
        known, _ = self._sessions.get(number, reading.message.frame.side)
        reading.message.topics = (known,) if known else ()

    # ---- login

    def _connect(self, reading: FrameReading) -> None:
        body, identity = reading.body, self._owner.identity
        identity.client_software = _text(body.get("client_version"))
        method = _text(body.get("auth_method_name"))
        identity.mechanism = method
        identity.user = _text(body.get("original_principal")) or self._principal(method, body.get("auth_data"))
        self._logging_in = True
        self._pairing.expect_reply(_LOGIN)

    def _connected(self, reading: FrameReading) -> None:
        message = reading.message
        self._owner.identity.server_software = _text(reading.body.get("server_version"))
        largest = reading.body.get("max_message_size")
        if isinstance(largest, int) and 0 < largest <= SIZE_MAX:
            self.message_max = largest
        flags = reading.body.get("feature_flags") or {}
        self._producing.by_position = bool(flags.get("supports_repl_dedup_by_lid_and_eid"))
        self._logging_in = False
        self._pairing.reply_to(message, _LOGIN)

    def _challenge(self, reading: FrameReading) -> None:
        message = reading.message
        challenge = reading.body.get("challenge") or {}
        data = challenge.get("auth_data")
        is_refresh = isinstance(data, Secret) and data.data == REFRESH
        if is_refresh:
            challenge["auth_data"] = REFRESH.decode()
            message.notes += (("refresh", True),)
            self._logging_in = False
            self._pairing.end_unanswered(_LOGIN)
        message.notes += _named(challenge, "auth_method_name")
        if is_refresh or self._pairing.reply_to(message, _LOGIN) is None:
            message.kind = "request"
        self._pairing.expect_reply(_CHALLENGE)

    def _respond(self, reading: FrameReading) -> None:
        message = reading.message
        response = reading.body.get("response") or {}
        message.notes += _named(response, "auth_method_name")
        identity = self._owner.identity
        identity.user = self._principal(response.get("auth_method_name"), response.get("auth_data")) or identity.user
        self._pairing.reply_to(message, _CHALLENGE)
        # New credentials on a live connection get a reply only if they fail, or if the method has another step.
        self._pairing.expect_reply(_LOGIN, expects=1 if self._logging_in else 0)
        if not self._logging_in:
            message.kind = "response"

    def _principal(self, method: Any, data: Any) -> str | None:
        if isinstance(method, str) and isinstance(data, Secret):
            return principal_of(method, data.data)
        return None

    def _error(self, reading: FrameReading) -> None:
        message = reading.message
        request = reading.body.get("request_id")
        if request != NO_REQUEST:
            message.correlation = f"r:{request}"
            self._pairing.reply_to(message, ("r", request))
            return
        identity = self._owner.identity
        identity.close_reason = _CLOSE_REASONS.get(message.error_name or "", identity.close_reason)
        if self._pairing.reply_to(message, _LOGIN) is None:
            message.kind = "push"

    # ---- keep-alive

    def _ping(self, reading: FrameReading) -> None:
        self._pairing.expect_reply(("ping", reading.message.frame.side))

    def _pong(self, reading: FrameReading) -> None:
        message = reading.message
        self._pairing.reply_to(message, ("ping", message.frame.side.peer))

    # ---- migrated topics

    def _migrated(self, reading: FrameReading) -> None:
        message, body = reading.message, reading.body
        if body.get("resource_type") == "Producer":
            self._producing.name_producer(message, body.get("resource_id"))
        else:
            self._consuming.name_consumer(message, body.get("resource_id"))


def _topics(body: Mapping[str, Any]) -> Iterator[str]:
    """The topics in a body."""
    for field in _TOPIC_FIELDS:
        value = body.get(field)
        for one in value if isinstance(value, list) else (value,):
            topic = as_name(one.get("topic") if isinstance(one, dict) else one)
            if topic is not None:
                yield topic


def _named(body: Mapping[str, Any], field: str) -> tuple[tuple[str, Any], ...]:
    return ((field, body[field]),) if field in body else ()


def _text(value: Any) -> str | None:
    return as_name(value) or None


# ---- authentication data

REFRESH: Final = b"PulsarAuthRefresh"
"""The challenge by which a broker requests new credentials on a live connection: no secret."""

TOKEN_MAX: Final = 64 * KIB
"""Largest token that is parsed."""
USER_MAX: Final = KIB
"""Bytes of a user name that are kept."""


def principal_of(method: str, data: bytes) -> str | None:
    """The user in authentication data; None if it cannot be read.

    ``token``: a JSON Web Token, whose subject is the principal (RFC 7519, section 4.1.2); its signature is not checked.
    ``basic``: user, colon, password. Other methods need their keys.
    """
    match method:
        case "token" if len(data) <= TOKEN_MAX:
            return _subject(data)
        case "basic":
            user, colon, _ = data.partition(b":")
            return user[:USER_MAX].decode(errors="replace") if colon else None
    return None


def _subject(token: bytes) -> str | None:
    parts = token.split(b".")
    if len(parts) != 3:
        return None
    try:
        claims = orjson.loads(urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    except (Base64Error, orjson.JSONDecodeError):
        return None
    subject = claims.get("sub") if isinstance(claims, dict) else None
    return subject if isinstance(subject, str) else None
