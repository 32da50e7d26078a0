"""Frames of one connection in, messages out that know what the connection said before.

1. A response says nothing of itself: it is read by the oldest request with its correlation id, since ids repeat on real
   wires. Pairing needs eight bytes of a response; a body that is cut or cannot be read does not change it.
2. What all APIs have in common is told by marks in their layouts (``marks``); rules by API stand in one table.
3. Produce with acks=0 is never answered.

Sources: ``NetworkClient`` and ``KafkaApis`` of Apache Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from dissectors.kafka import bodies, embedded, fetching, heads, rows
from dissectors.kafka.bodies import API_VERSIONS, Body
from dissectors.kafka.fetching import Sessions
from dissectors.kafka.logins import SASL_HANDSHAKE, Logins
from dissectors.kafka.marks import taught, texts
from dissectors.kafka.membership import JOIN_GROUP, SYNC_GROUP, Membership
from dissectors.kafka.notes import notes_of
from dissectors.kafka.outcomes import judge, was_held
from dissectors.kafka.questions import PROTOCOL, Question, Reply, RequestRule, ResponseRule
from dissectors.kafka.recorddata import RecordData, complete, replace_all
from dissectors.kafka.releases import release_of
from mqsniff.dissector import NO_FRAME, WAIT_PEER, Sized
from mqsniff.framing import FramedDissector
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Frame, Message, Problem, Side, Skipped
from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Malformed

UNASKED: Final = "Response"
"""Name of a response whose request was not seen."""

PRODUCE: Final = 0
FETCH_SNAPSHOT: Final = 59
ENVELOPE: Final = 58
FETCH_BY_ID: Final = 13
"""First version of Fetch that names topics by id only."""
LAYOUTS_MAX: Final = 1024
"""Responses whose layouts are remembered, for whoever asks to have them explained."""

_CORRELATION: Final = Struct(">i")


class Session:
    """What one connection has said so far."""

    def __init__(self, owner: FramedDissector) -> None:
        self._owner = owner
        self._limits = owner.settings.limits
        self._identity = owner.identity
        self._records = RecordData(owner.settings)
        self._sessions = Sessions(owner.settings.limits.handles_max)
        self._membership = Membership()
        self._logins = Logins(owner)
        self._layouts: dict[tuple[Side, int], Layout] = {}
        self._requests_lost = False
        self._unsure = False
        """Whether the server's next frame was found by a search."""
        self._answered_ts = 0
        self._request_rules: dict[int, RequestRule] = {
            **self._logins.request_rules,
            **self._membership.request_rules,
            API_VERSIONS: self._introduce,
            ENVELOPE: self._envelope,
        }
        self._response_rules: dict[int, ResponseRule] = {
            PRODUCE: self._produced,
            fetching.FETCH: self._fetched,
            fetching.SHARE_FETCH: self._fetched,
            **self._logins.response_rules,
            **self._membership.response_rules,
            API_VERSIONS: self._offered,
            ENVELOPE: self._enveloped,
        }

    # ---- framing

    def lost(self, side: Side) -> None:
        """Frames of a side were missed, or may have been."""
        self._requests_lost = self._requests_lost or side is Side.CLIENT

    def found(self, side: Side) -> None:
        """A side is in step again, on a frame that was searched for."""
        self.lost(side)
        self._unsure = self._unsure or side is Side.SERVER

    def closed(self, side: Side) -> None:
        """No more bytes of a side come."""
        if side is Side.SERVER:
            self._logins.server_closed()

    def client_size(self, head: bytes) -> Sized:
        """Size of the client's next frame."""
        if self._logins.must_wait():
            return WAIT_PEER
        return heads.follow_sized(head, 0) if self._logins.is_token(head) else heads.follow_request(head)

    def server_size(self, head: bytes) -> Sized:
        """Size of the server's next frame; one that a search found has to answer something, where that can be told."""
        if self._logins.expects_token():
            return heads.follow_sized(head, 0)
        size = heads.follow_sized(head, heads.RESPONSE_MIN)
        if not self._unsure or not isinstance(size, int) or len(head) < 8 or self._blind():
            return size
        return size if self._owner.questions(_CORRELATION.unpack_from(head, 4)[0]) else NO_FRAME

    def _blind(self) -> bool:
        """Whether there may be requests that were not seen."""
        owner = self._owner
        return self._requests_lost or owner.gaps_of(Side.CLIENT) > 0 or not owner.fed(Side.CLIENT)

    # ---- frames

    def client_frame(self, frame: Frame) -> Message | Skipped:
        """The message of a client's frame."""
        data = frame.data
        if self._logins.is_token(data):
            return self._logins.client_token(frame)
        self._logins.request_seen()
        return _cut_head(frame) if len(data) < 12 else self._request(frame)

    def server_frame(self, frame: Frame) -> Message | Skipped:
        """The message of a server's frame."""
        self._unsure = False
        if self._logins.expects_token():
            return self._logins.server_token(frame)
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
            for batch in message.records:
                batch.constant["ack"] = "none"
            return message
        asked = self._owner.ask(correlation, question, wait_limit_ns=self._wait_limit_ns(key, message))
        if key == SASL_HANDSHAKE:
            self._logins.asked(number, asked)
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

    def _wait_limit_ns(self, key: int, message: Message) -> int | None:
        """How long the broker may hold the answer; None where the request gives no such leave."""
        if key in (JOIN_GROUP, SYNC_GROUP):
            return self._membership.rebalance_ns(message.group)
        limit = message.body.get("max_wait_ms") if key in (fetching.FETCH, fetching.SHARE_FETCH) else None
        return limit * MILLISECOND_NS if isinstance(limit, int) and limit > 0 else None

    def _fetch(self, message: Message, key: int, body: dict[str, Any], question: Question) -> None:
        """What a fetch is about, all partitions of its session included."""
        question.fetching = fetch = self._sessions.request(key, body, message.partitions)
        names = tuple(dict.fromkeys(topic for topic, _ in fetch.partitions))
        if key != fetching.FETCH or question.version.version >= FETCH_BY_ID:
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
            judge(reply, body.marks.errors, value)
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
        if reply.asked.wait_limit_ns is not None:
            reply.asked.held = was_held(reply, reply.asked.wait_limit_ns, self._answered_ts)
        message.notes += notes_of(key, "response", layout, value, message.partitions)

    def _read_records(self, reply: Reply, body: Body) -> None:
        """Record data of a fetch; any other is told by its size."""
        assert body.layout is not None
        fetch = reply.question.fetching
        if fetch is not None or reply.question.version.key == FETCH_SNAPSHOT:
            self._records.delivered(reply.message, body.layout, fetch)
        elif body.marks is not None and body.marks.records is not None:
            replace_all(body.marks.records, body.value)

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
