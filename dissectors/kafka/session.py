"""Frames of one connection in, messages out that know what the connection said before.

1. A response says nothing of itself: it is read by the oldest request with its correlation id, since ids repeat on real
   wires. Pairing needs eight bytes of a response; a body that is cut or cannot be read does not change it.
2. What all APIs have in common is told by marks in their layouts (``marks``); rules by API stand in one table.
3. While a handshake of version 0, or a raw token, waits for its answer, the client's next frame cannot be told apart:
   it waits too.
4. Produce with acks=0 is never answered.

Sources: ``NetworkClient``, ``KafkaApis`` and ``SaslServerAuthenticator`` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, TypeAlias

from dissectors.kafka import bodies, embedded, fetching, heads, rows
from dissectors.kafka.bodies import Body, Version
from dissectors.kafka.fetching import Fetching, Sessions
from dissectors.kafka.formats import NO_CONTEXT, Context
from dissectors.kafka.marks import collect, taught, texts
from dissectors.kafka.notes import notes_of
from dissectors.kafka.recorddata import Produced, RecordData, complete, replace_all
from dissectors.kafka.releases import release_of
from dissectors.kafka.sasl import Login, Sasl
from mqsniff.dissector import NO_FRAME, WAIT_PEER, Sized
from mqsniff.framing import FramedDissector
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Asked, Frame, Message, Problem, Secret, Side, Skipped, Value
from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Malformed

PROTOCOL: Final = "kafka"
UNASKED: Final = "Response"
"""Name of a response whose request was not seen."""
TOKEN: Final = "SaslToken"  # noqa: S105  # a name, no secret

PRODUCE: Final = 0
FETCH_SNAPSHOT: Final = 59
WAITS: Final = {fetching.FETCH: "max_wait_ms", fetching.SHARE_FETCH: "max_wait_ms", 11: "rebalance_timeout_ms"}
"""API key -> field that allows the broker to hold the answer."""

HELD_NS: Final = 500 * MILLISECOND_NS
SERVED_NS: Final = 20 * MILLISECOND_NS
"""An answer later than the first, or than nine tenths of its limit, was held; one within the second was not."""
GROUPS_MAX: Final = 1024
NO_GROUP: Final[tuple[Context, int | None]] = (NO_CONTEXT, None)
LAYOUTS_MAX: Final = 1024
"""Responses whose layouts are remembered, for whoever asks to have them explained."""

_CORRELATION: Final = Struct(">i")


@dataclass(slots=True)
class Question:
    """What a request left for its response."""

    version: Version
    message: Message
    fetching: Fetching | None = None
    produced: tuple[Produced, ...] = ()
    group: Context = NO_CONTEXT
    """What is known of the group that it is about."""
    inner: Version | None = None
    """The request that an envelope forwards."""
    token: bool = False


@dataclass(slots=True)
class Reply:
    """A response being read, and what it answers."""

    message: Message
    body: dict[str, Any]
    asked: Asked
    question: Question


RequestRule: TypeAlias = Callable[[Message, dict[str, Any], Question], None]
ResponseRule: TypeAlias = Callable[[Reply], None]


class Session:
    """What one connection has said so far."""

    def __init__(self, owner: FramedDissector) -> None:
        self._owner = owner
        self._limits = owner.settings.limits
        self._identity = owner.identity
        self._records = RecordData(owner.settings)
        self._sessions = Sessions(owner.settings.limits.handles_max)
        self._groups: dict[Any, tuple[Context, int | None]] = {}
        self._layouts: dict[tuple[Side, int], Layout] = {}
        self._sasl = Sasl()
        self._gate: Asked | None = None
        self._spoken = False
        self._lost = [False, False]
        self._unsure = False
        self._answered_ts = 0
        self._request_rules: dict[int, RequestRule] = {
            10: self._find_coordinator,
            11: self._join,
            14: self._sync,
            17: self._handshake,
            18: self._introduce,
            36: self._authenticate,
            58: self._envelope,
        }
        self._response_rules: dict[int, ResponseRule] = {
            PRODUCE: self._produced,
            fetching.FETCH: self._fetched,
            fetching.SHARE_FETCH: self._fetched,
            11: self._joined,
            17: self._shook,
            18: self._offered,
            36: self._authenticated,
            58: self._enveloped,
        }

    # ---- framing

    def lost(self, side: Side) -> None:
        """Frames of a side were missed, or may have been."""
        self._lost[side] = True

    def found(self, side: Side) -> None:
        """A side is in step again, on a frame that was searched for."""
        self._lost[side] = True
        self._unsure = self._unsure or side is Side.SERVER

    def client_size(self, head: bytes) -> Sized:
        """Size of the client's next frame."""
        gate = self._gate
        if gate is not None and self._answer_may_come(gate):
            return WAIT_PEER
        if self._is_token(head):
            return heads.follow_sized(head, 0)
        return heads.follow_request(head)

    def _answer_may_come(self, gate: Asked) -> bool:
        owner = self._owner
        return owner.gaps_of(Side.SERVER) == gate.gaps_before and owner.may_wait(Side.CLIENT)

    def _is_token(self, head: bytes) -> bool:
        """Whether the client's frame is a raw token: in an exchange, or in one that began without a handshake."""
        if self._sasl.raw or self._gate is not None:
            return not isinstance(heads.probe_request(head), int)
        return not self._spoken and len(head) > 4 and head[4] == heads.GSSAPI_TOKEN

    def server_size(self, head: bytes) -> Sized:
        """Size of the server's next frame."""
        if self._owner.questions(TOKEN):
            return heads.follow_sized(head, 0)
        size = heads.follow_sized(head, heads.RESPONSE_MIN)
        if not self._unsure or not isinstance(size, int) or self._lost[Side.CLIENT]:
            return size
        if len(head) < 8 or self._owner.questions(_CORRELATION.unpack_from(head, 4)[0]):
            return size
        return size if not self._owner.fed(Side.CLIENT) or self._owner.gaps_of(Side.CLIENT) else NO_FRAME

    # ---- frames

    def client_frame(self, frame: Frame) -> Message | Skipped:
        """The message of a client's frame."""
        data = frame.data
        if self._is_token(data):
            return self._client_token(frame)
        self._spoken = True
        self._sasl.raw = False
        if len(data) < 12:
            return _cut_head(frame)
        return self._request(frame)

    def server_frame(self, frame: Frame) -> Message | Skipped:
        """The message of a server's frame."""
        self._unsure = False
        if self._owner.questions(TOKEN):
            return self._server_token(frame)
        return _cut_head(frame) if len(frame.data) < 8 else self._response(frame)

    def layout_of(self, frame: Frame) -> Layout | None:
        """The layout by which a response was decoded a while ago."""
        return self._layouts.get((frame.side, frame.offset))

    # ---- requests

    def _request(self, frame: Frame) -> Message:
        data = frame.data
        key, number, correlation = heads.REQUEST_HEAD.unpack_from(data, 4)
        version = bodies.version_of(key, number)
        try:
            client_id, pos, tags = bodies.read_request_header(data, version)
            body, problems = bodies.read_request_body(version, data, pos, frame.size, self._limits)
            if tags:
                body.value["header_unknown_tags"] = tags
        except Malformed as error:
            client_id, body = None, bodies.raw_body(data, 12, frame.size)
            problems = [Problem("malformed", "error", str(error), "header")] if frame.whole else []
        value = body.value
        message = Message(frame, PROTOCOL, version.name, "request", value, number, str(correlation), problems=problems)
        message.client_id = client_id
        if client_id is not None and self._identity.client_id is None:
            self._identity.client_id = client_id
        question = Question(version, message)
        if body.marks is not None:
            self._read_request(message, body, key, question)
        if key == PRODUCE and value.get("acks") == 0:
            message.kind = "oneway"
            self._owner.settle(self._owner.ask(correlation, question, expects=0), "oneway")
            return message
        asked = self._owner.ask(correlation, question, wait_limit_ns=self._wait_limit_ns(key, value))
        if key == 17 and number == 0:
            self._gate = asked
        return message

    def _read_request(self, message: Message, body: Body, key: int, question: Question) -> None:
        """What a request's body tells, once it is decoded."""
        assert body.layout is not None
        value, layout = body.value, body.layout
        self._name(message, body)
        if key == PRODUCE:
            question.produced = tuple(self._records.produced(message, layout))
        rule = self._request_rules.get(key)
        if rule is not None:
            rule(message, value, question)
        if embedded.holder_of(layout) is not None:
            message.problems += embedded.open_bytes(layout, value, question.group)
        if key in rows.KEYS:
            message.partitions = rows.rows_of(layout, value)
            if key in fetching.KEYS:
                self._fetch(message, key, value, question)
        message.notes += notes_of(key, "request", layout, value, message.partitions)

    def _name(self, message: Message, body: Body) -> None:
        """Topics, ids and groups of a body, and what it teaches."""
        marks = body.marks
        assert marks is not None
        if marks.topics is not None:
            message.topics = texts(marks.topics, body.value)
        if marks.topic_ids is not None:
            message.topic_ids = texts(marks.topic_ids, body.value)
            if marks.taught is not None:
                message.teaches = taught(marks.taught, body.value)
        if marks.groups is not None:
            groups = texts(marks.groups, body.value)
            message.group = groups[0] if len(groups) == 1 else message.group
            if message.group and self._identity.group is None:
                self._identity.group = message.group

    def _wait_limit_ns(self, key: int, body: dict[str, Any]) -> int | None:
        """How long the broker may hold the answer; None where the request gives no such leave."""
        if key == 14:
            limit = self._groups.get(body.get("group_id"), NO_GROUP)[1]
        elif key in WAITS:
            limit = body.get(WAITS[key], body.get("session_timeout_ms"))
        else:
            return None
        return limit * MILLISECOND_NS if isinstance(limit, int) and limit > 0 else None

    def _fetch(self, message: Message, key: int, body: dict[str, Any], question: Question) -> None:
        """What a fetch is about, all partitions of its session included."""
        question.fetching = fetch = self._sessions.request(key, body, message.partitions)
        by_id = "topic_id" in (message.partitions[0] if message.partitions else ()) and bool(message.topic_ids)
        names = tuple(dict.fromkeys(topic for topic, _ in fetch.partitions))
        if question.version.version >= 13 or key != fetching.FETCH or by_id:
            message.topic_ids = message.topic_ids if len(message.topic_ids) > len(names) else names
        else:
            message.topics = message.topics if len(message.topics) > len(names) else names
        if fetch.replica >= 0:
            message.notes += (("follower", fetch.replica),)
        elif fetch.replica != fetching.CONSUMER:
            message.notes += (("reader", fetch.reader),)
        if len(fetch.partitions) > len(message.partitions):
            message.notes += (("session_partitions", len(fetch.partitions)),)

    # ---- rules of requests

    def _find_coordinator(self, message: Message, body: dict[str, Any], _: Question) -> None:
        keys = body.get("coordinator_keys") or [body.get("key")]
        if body.get("key_type", 0) == 0 and len(keys) == 1 and isinstance(keys[0], str):
            message.group = keys[0]

    def _join(self, message: Message, body: dict[str, Any], question: Question) -> None:
        question.group = Context(body.get("protocol_type"))
        if len(self._groups) >= GROUPS_MAX:
            self._groups.clear()
        timeout = body.get("rebalance_timeout_ms", body.get("session_timeout_ms"))
        self._groups[message.group] = (question.group, timeout)

    def _sync(self, message: Message, _: dict[str, Any], question: Question) -> None:
        question.group = self._groups.get(message.group, NO_GROUP)[0]

    def _introduce(self, _: Message, body: dict[str, Any], __: Question) -> None:
        words = [body.get("client_software_name"), body.get("client_software_version")]
        told = " ".join(word for word in words if isinstance(word, str) and word)
        self._identity.client_software = told or self._identity.client_software

    def _envelope(self, message: Message, body: dict[str, Any], question: Question) -> None:
        question.inner = embedded.open_request(body, self._limits, message.problems)
        if question.inner is not None:
            message.notes += (("forwards", question.inner.name),)

    # ---- responses

    def _response(self, frame: Frame) -> Message:
        data = frame.data
        (correlation,) = _CORRELATION.unpack_from(data, 4)
        asked = self._owner.answer(correlation)
        if asked is None:
            return self._unmatched(frame, correlation)
        question: Question = asked.context
        version, asking = question.version, question.message
        if asked is self._gate:
            self._gate = None
        tags = None
        try:
            pos = 8
            if version.flexible_response:
                tags, pos = bodies.read_header_tags(data, pos)
            body, problems = bodies.read_response_body(version, data, pos, frame.size, self._limits)
        except Malformed as error:
            body = bodies.raw_body(data, 8, frame.size)
            problems = [Problem("malformed", "error", str(error), "header")] if frame.whole else []
        if tags:
            body.value["header_unknown_tags"] = tags
        message = Message(
            frame,
            PROTOCOL,
            version.name,
            "response",
            body.value,
            version.version,
            str(correlation),
            client_id=asking.client_id,
            problems=problems,
        )
        message.group = asking.group
        if body.layout is not None:
            self._read_response(Reply(message, body.value, asked, question), body)
        message.topics = message.topics or asking.topics
        message.topic_ids = message.topic_ids or asking.topic_ids
        self._answered_ts = frame.last_ts_ns
        return message

    def _unmatched(self, frame: Frame, correlation: int) -> Message:
        body = bodies.raw_body(frame.data, 8, frame.size).value
        return Message(frame, PROTOCOL, UNASKED, "response", body, correlation=str(correlation))

    def _read_response(self, reply: Reply, body: Body) -> None:
        """What a response's body tells, once it is decoded."""
        assert body.layout is not None
        assert body.marks is not None
        message, value, key, layout = reply.message, body.value, reply.question.version.key, body.layout
        if len(self._layouts) >= LAYOUTS_MAX:
            self._layouts.clear()
        self._layouts[message.frame.side, message.frame.offset] = layout
        self._name(message, body)
        if body.marks.errors is not None:
            _judge(reply, body)
        throttle = value.get("throttle_time_ms")
        if throttle is not None:
            reply.asked.throttle_ns = throttle * MILLISECOND_NS
        if body.marks.records is not None:
            self._read_records(reply, body)
        if embedded.holder_of(layout) is not None:
            message.problems += embedded.open_bytes(layout, value, reply.question.group)
        rule = self._response_rules.get(key)
        if key in rows.KEYS:
            message.partitions = rows.rows_of(layout, value)
        if rule is not None:
            rule(reply)
        if reply.asked.wait_limit_ns is not None and reply.asked.held is None:
            reply.asked.held = self._held(reply.asked, message, served=_served(message))
        message.notes += notes_of(key, "response", layout, value, message.partitions)

    def _read_records(self, reply: Reply, body: Body) -> None:
        """Record data of a fetch; any other is told by its size."""
        assert body.layout is not None
        fetch = reply.question.fetching
        if fetch is not None or reply.question.version.key == FETCH_SNAPSHOT:
            self._records.delivered(reply.message, body.layout, fetch)
        elif body.marks is not None and body.marks.records is not None:
            replace_all(body.marks.records, body.value)

    def _held(self, asked: Asked, message: Message, *, served: bool) -> bool | None:
        """Whether the broker made the client wait; None where it cannot be told."""
        assert asked.wait_limit_ns is not None
        elapsed = message.frame.first_ts_ns - max(asked.frame.last_ts_ns, self._answered_ts)
        if elapsed <= SERVED_NS:
            return False
        if elapsed >= min(HELD_NS, asked.wait_limit_ns * 9 // 10):
            return True
        return None if served else elapsed > SERVED_NS

    # ---- rules of responses

    def _produced(self, reply: Reply) -> None:
        if reply.question.produced:
            complete(reply.question.produced, reply.message)

    def _fetched(self, reply: Reply) -> None:
        fetch = reply.question.fetching
        if fetch is None:
            return
        self._sessions.answered(fetch, reply.body)
        if fetch.replica >= 0:
            reply.message.notes += (("follower", fetch.replica),)
        for row in reply.message.partitions:
            place = fetching.place_of(row)
            row["reader"] = fetch.reader
            if place is not None:
                row["offset"] = fetch.partitions.get(place)

    def _joined(self, reply: Reply) -> None:
        """The group has chosen a protocol; SyncGroup says it since version 5 only."""
        protocol = reply.body.get("protocol_name")
        if isinstance(protocol, str) and reply.message.group in self._groups:
            known, timeout = self._groups[reply.message.group]
            self._groups[reply.message.group] = (Context(known.protocol_type, protocol), timeout)

    def _offered(self, reply: Reply) -> None:
        offered = reply.body.get("api_keys")
        if not offered or reply.message.error_code:
            return
        ranges = [tuple(one.get(name, -1) for name in ("api_key", "min_version", "max_version")) for one in offered]
        release = release_of(ranges)
        if release is not None:
            self._identity.server_software = f"Apache Kafka {release}"
            reply.message.notes += (("release", release),)

    def _enveloped(self, reply: Reply) -> None:
        embedded.open_response(reply.body, reply.question.inner, self._limits, reply.message.problems)

    # ---- SASL

    def _handshake(self, _: Message, body: dict[str, Any], __: Question) -> None:
        mechanism = body.get("mechanism")
        self._sasl.mechanism = mechanism if isinstance(mechanism, str) else None
        self._identity.mechanism = self._sasl.mechanism

    def _shook(self, reply: Reply) -> None:
        version, asked = reply.question.version.version, reply.question.message.body
        mechanism = asked.get("mechanism")
        if reply.message.error_code == 0:
            self._sasl.begin(mechanism if isinstance(mechanism, str) else None, raw=version == 0)
        elif reply.message.error_code:
            self._identity.close_reason = "authentication"

    def _authenticate(self, message: Message, body: dict[str, Any], _: Question) -> None:
        token = body.get("auth_bytes")
        if isinstance(token, Secret):
            self._log_in(message, self._sasl.client_token(token.data))

    def _authenticated(self, reply: Reply) -> None:
        code = reply.message.error_code
        if code:
            self._identity.close_reason = "authentication"
        elif code == 0 and "session_lifetime_ms" in reply.body and self._identity.close_reason == "authentication":
            self._identity.close_reason = None

    def _log_in(self, message: Message, login: Login) -> None:
        """What a client's token says of who it is."""
        if self._sasl.mechanism is not None:
            message.notes += (("mechanism", self._sasl.mechanism),)
        if login.user is not None:
            self._identity.user = login.user
            message.notes += (("user", login.user),)
        if login.authzid is not None:
            message.notes += (("authzid", login.authzid),)
        message.notes += login.claims

    def _client_token(self, frame: Frame) -> Message:
        token = frame.data[4:]
        if not self._spoken:
            self._spoken = True
            self._sasl.begin("GSSAPI", raw=True)
            self._identity.mechanism = "GSSAPI"
        message = self._token(frame, "request")
        self._log_in(message, self._sasl.client_token(token))
        self._gate = self._owner.ask(TOKEN, None)
        return message

    def _server_token(self, frame: Frame) -> Message:
        self._owner.answer(TOKEN)
        self._gate = None
        message = self._token(frame, "response")
        outcome = self._sasl.server_token(frame.data[4:])
        if outcome is not None:
            message.notes += (("authenticated", outcome),)
            message.error_count = 0 if outcome else 1
            if not outcome:
                self._identity.close_reason = "authentication"
        return message

    def _token(self, frame: Frame, kind: Any) -> Message:
        body: dict[str, Value] = {"token": Secret(frame.data[4:])}
        return Message(frame, PROTOCOL, TOKEN, kind, body)


def _cut_head(frame: Frame) -> Skipped:
    """A frame of which not even the header is there."""
    return Skipped(
        frame.side,
        frame.offset,
        frame.size,
        "the header of a frame was cut",
        "truncated",
        frame.first_ts_ns,
        frame.first_packet,
    )


def _judge(reply: Reply, body: Body) -> None:
    """Errors of a response: its own, else the first inside; partial where some inside went well."""
    assert body.marks is not None
    assert body.marks.errors is not None
    message, codes = reply.message, list[Any]()
    collect(body.marks.errors, body.value, codes)
    if not codes:
        return
    failed = [code for code in codes if code]
    message.error_count = len(failed)
    message.error_code = failed[0] if failed else 0
    if not failed:
        return
    message.error_name = rows.error_name(failed[0])
    own = sum(name in body.value for name in body.marks.errors.fields)
    if not any(codes[:own]) and len(failed) < len(codes) - own:
        reply.asked.status = "partial"


def _served(message: Message) -> bool:
    """Whether there was something to answer with."""
    return bool(message.error_code) or any(row.get("wire_bytes") for row in message.partitions)
