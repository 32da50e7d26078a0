"""Decodes requests, and keeps what their responses need.

1. Marks in the layouts tell what all APIs have in common (``fieldpaths``); rules for single APIs are one table.
2. A Produce with acks=0 gets no response.

Sources: ``NetworkClient`` and ``KafkaApis`` of Apache Kafka.
"""

from __future__ import annotations

from typing import Any, Final

from mqsniff.framing import FramedDissector
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Frame, Message, Problem
from mqsniff.spec.wire import Malformed, as_name
from mqsniff_kafka import bodies, embedded, fetching, heads, rows
from mqsniff_kafka.bodies import API_VERSIONS, KafkaBody
from mqsniff_kafka.contexts import ENVELOPE, PRODUCE, PROTOCOL, RequestContext, RequestRule
from mqsniff_kafka.logins import SASL_HANDSHAKE
from mqsniff_kafka.membership import GROUP_KEYS, JOIN_GROUP, SYNC_GROUP
from mqsniff_kafka.notes import name_message, notes_of
from mqsniff_kafka.pairing import ResponsePairing
from mqsniff_kafka.shared import SharedParts

FETCH_BY_ID: Final = 13
"""First version of Fetch that names topics by id only."""


class Requests:
    """The requests of one connection."""

    __slots__ = (
        "_identity",
        "_limits",
        "_owner",
        "_pairing",
        "_row_keys",
        "_settings",
        "_shared",
    )

    def __init__(
        self,
        owner: FramedDissector,
        shared: SharedParts,
        *,
        pairing: ResponsePairing,
    ) -> None:
        self._owner = owner
        self._pairing = pairing
        self._settings = settings = owner.settings
        self._limits = settings.limits
        self._row_keys = rows.KEYS if "partitions" in settings.wanted or "notes" in settings.wanted else fetching.KEYS
        """APIs whose partitions are collected: fetch sessions need theirs in any case."""
        self._identity = owner.identity
        self._shared = shared

    def message_of(self, frame: Frame) -> Message:
        """The message of a frame that has a whole head; opens its pending request."""
        data = frame.data
        key, number, correlation = heads.REQUEST_HEAD.unpack_from(data, 4)
        version = bodies.version_of(key, number)
        try:
            header = bodies.read_request_header(data, version)
            body, problems = bodies.read_request_body(version, data, header.stop, frame.size, self._limits)
            client_id = header.client_id
            if header.tags:
                body = body.with_tags(header.tags)
        except Malformed as error:
            client_id, body = None, bodies.raw_body(data, 12, frame.size)
            problems = [Problem("malformed", "error", str(error), "header")] if frame.whole else []
        value = body.value
        message = Message(frame, PROTOCOL, version.name, "request", value, number, str(correlation), problems=problems)
        if client_id is not None:
            known = self._identity.client_id
            if client_id == known:
                client_id = known  # one text for all messages: it is hashed once
            else:
                self._identity.name_client(client_id)
        message.client_id = client_id
        context = RequestContext(version)
        if body.marks is not None:
            self._read(message, body, key, context)
        if key == PRODUCE and value.get("acks") == 0:
            message.kind = "oneway"
            self._owner.resolve(self._owner.expect_reply(correlation, context, expects=0), "oneway")
            for batch in message.records:
                batch.constant["ack"] = "none"
            return message
        self._pairing.add_request(correlation, context)
        pending = self._owner.expect_reply(correlation, context, wait_limit_ns=self._wait_limit_ns(key, message))
        if key == SASL_HANDSHAKE:
            self._shared.logins.handshake_sent(number, pending)
        return message

    def _read(self, message: Message, body: KafkaBody, key: int, context: RequestContext) -> None:
        """Fill the message from its decoded body."""
        assert body.layout is not None
        assert body.marks is not None
        marks, value, layout = body.marks, body.value, body.layout
        name_message(message, body, self._identity)
        message.finite = marks.finite and key != ENVELOPE
        if key == PRODUCE:
            context.produced = tuple(self._shared.records.produced(message, layout))
        if (rule := self._rule(key)) is not None:
            rule(message, value, context)
        if embedded.holder_of(layout) is not None:
            message.finite = False
            message.problems += embedded.open_bytes(layout, value, context.group)
        if key in self._row_keys:
            message.partitions = rows.rows_of(layout, value)
            if key in fetching.KEYS:
                self._fetch(message, key, value, context)
        if "notes" in self._settings.wanted:
            message.notes += notes_of(key, "request", layout, value, message.partitions)

    def _rule(self, key: int) -> RequestRule | None:
        """The rule of a single API. Found anew each time: a table for each connection would be larger than the rest."""
        if key == API_VERSIONS:
            return self._introduce
        if key == ENVELOPE:
            return self._envelope
        return self._shared.logins.request_rule(key) or (
            self._shared.membership.request_rule(key) if key in GROUP_KEYS else None
        )

    def _wait_limit_ns(self, key: int, message: Message) -> int | None:
        """How long the broker may hold the response; None if the request does not allow it to."""
        if key in (JOIN_GROUP, SYNC_GROUP):
            return self._shared.membership.rebalance_ns(message.group)
        limit = message.body.get("max_wait_ms") if key in (fetching.FETCH, fetching.SHARE_FETCH) else None
        return limit * MILLISECOND_NS if isinstance(limit, int) and limit > 0 else None

    def _fetch(self, message: Message, key: int, body: dict[str, Any], context: RequestContext) -> None:
        """Fill topics and notes of a fetch, with all partitions of its session."""
        context.fetching = fetch = self._shared.sessions.request(key, body, message.partitions)
        names = tuple(dict.fromkeys(topic for topic, _ in fetch.partitions))
        if key != fetching.FETCH or context.version.version >= FETCH_BY_ID:
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

    def _introduce(self, _: Message, body: dict[str, Any], __: RequestContext) -> None:
        words = [as_name(body.get(name)) for name in ("client_software_name", "client_software_version")]
        software = " ".join(word for word in words if word)
        self._identity.client_software = software or self._identity.client_software

    def _envelope(self, message: Message, body: dict[str, Any], context: RequestContext) -> None:
        context.inner = embedded.open_request(body, self._limits, message.problems)
        if context.inner is not None:
            message.notes += (("forwards", context.inner.name),)
