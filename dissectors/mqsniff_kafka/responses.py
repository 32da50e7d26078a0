"""Decodes responses by the requests that they answer.

1. A response names neither its API nor its version: these come from its request (``pairing``). Pairing needs eight
   bytes of a response; it works too if the body is cut or cannot be read.
2. Marks in the layouts tell what all APIs have in common (``fieldpaths``); rules for single APIs are one table.
3. ``judge`` decides whether a response is a success, a partial success or an error; ``was_held`` whether the broker
   held the request.

Sources: ``NetworkClient`` and ``KafkaApis`` of Apache Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from mqsniff.dissector import Candidate
from mqsniff.framing import FramedDissector
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Frame, Message, Pending, Problem, Side
from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Malformed
from mqsniff_kafka import bodies, embedded, fetching, rows
from mqsniff_kafka.bodies import API_VERSIONS, KafkaBody, Version
from mqsniff_kafka.contexts import (
    ENVELOPE,
    FETCH_SNAPSHOT,
    PRODUCE,
    PROTOCOL,
    RequestContext,
    ResponseContext,
    ResponseRule,
)
from mqsniff_kafka.fetching import Fetching
from mqsniff_kafka.fieldpaths import BodyFields, Branch, collect, texts
from mqsniff_kafka.membership import GROUP_KEYS
from mqsniff_kafka.notes import name_message, notes_of
from mqsniff_kafka.ordinary import ORDINARY
from mqsniff_kafka.pairing import ResponsePairing
from mqsniff_kafka.records.data import complete, replace_all
from mqsniff_kafka.releases import release_of
from mqsniff_kafka.shared import SharedParts

# ---- the outcome of a response

SERVED_NS: Final = 20 * MILLISECOND_NS
"""A response within this time, and nine tenths of the wait limit, was not held, whatever it contains."""
REFUSED_NS: Final = 100 * MILLISECOND_NS
"""A fetch error within this time ended no wait: brokers refuse at once, nine times in ten within 20 ms. A later error
did, as when the leader of a partition changes."""
OLD_NS: Final = 1000 * MILLISECOND_NS
"""Data older than their request by this much existed when it arrived: clocks differ by less."""
WAITED_ERRORS: Final = frozenset({25, 27})
"""UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS: the only errors of JoinGroup and SyncGroup that may end a wait."""
TIME_MAX: Final = (1 << 63) - 1


def judge(reply: ResponseContext, errors: Branch, body: BodyFields) -> None:
    """Fill in the error of a response: its own, else the first inside. The status is partial if some inside succeeded.

    A code of normal operation (``ordinary``) is shown if there is no error, and counts as none.
    """
    message = reply.message
    if errors.lone and body.get(errors.lone) == 0:
        message.error_code = message.error_count = 0
        return
    codes: list[Any] = []
    collect(errors, body, codes)
    if not codes:
        return
    nonzero = [code for code in codes if code]
    message.error_code = message.error_count = 0
    if not nonzero:
        return
    pending = reply.pending.message.body if reply.pending.message is not None else {}
    failed = [code for code in nonzero if not ORDINARY.has(message.name, code, pending)]
    message.error_count = len(failed)
    message.error_code = (failed or nonzero)[0]
    message.error_name = rows.error_name(message.error_code)
    own = sum(name in body for name in errors.fields)
    if failed and not any(codes[:own]) and len(failed) < len(codes) - own:
        reply.pending.status = "partial"


def was_held(reply: ResponseContext, limit_ns: int, previous_ns: int) -> bool:
    """Whether the broker held the request; ``previous_ns``: time of the last byte of the response before.

    It did if the response is late, has no error that is sent at once, and no data that existed before.
    """
    message, fetch = reply.message, reply.request.fetching
    elapsed = message.frame.first_ts_ns - max(reply.pending.frame.last_ts_ns, previous_ns)
    if elapsed <= min(SERVED_NS, limit_ns * 9 // 10):
        return False
    if message.error_code:
        return elapsed > REFUSED_NS if fetch is not None else message.error_code in WAITED_ERRORS
    if fetch is None or not any(row.get("wire_bytes") for row in message.partitions):
        return True
    if fetch.there or fetch.patient:
        return fetch.patient
    return not fetch.unsure or _newest_ns(reply.body) >= reply.pending.frame.last_ts_ns - OLD_NS


def _newest_ns(body: BodyFields) -> int:
    """The time of the newest batch of a fetch; TIME_MAX if a batch has none."""
    times = [
        head.get("max_timestamp", head.get("timestamp", -1))
        for topic in body.get("responses") or ()
        for partition in topic.get("partitions") or ()
        for head in (partition.get("records") or {}).get("batches", ())
    ]
    return max(times) * MILLISECOND_NS if times and min(times) >= 0 else TIME_MAX


# ---- responses

UNASKED: Final = "Response"
"""Name of a response whose request was not seen."""
ECHOING: Final = frozenset({PRODUCE, fetching.FETCH, 2, 8})
"""APIs whose responses name topics of the request only: Produce, Fetch, ListOffsets, OffsetCommit."""
LAYOUTS_MAX: Final = 1024
"""Responses whose layouts are kept for ``spans``."""

CORRELATION: Final = Struct(">i")


class Responses:
    """The responses of one connection."""

    __slots__ = (
        "_answered_ts",
        "_forwarded",
        "_identity",
        "_layouts",
        "_limits",
        "_owner",
        "_row_keys",
        "_settings",
        "_shared",
        "pairing",
    )

    def __init__(
        self,
        owner: FramedDissector,
        shared: SharedParts,
    ) -> None:
        self._owner = owner
        self._settings = settings = owner.settings
        self._limits = settings.limits
        self._row_keys = rows.KEYS if "partitions" in settings.wanted or "notes" in settings.wanted else fetching.KEYS
        """APIs whose partitions are collected: fetch sessions need theirs in any case."""
        self._identity = owner.identity
        self._shared = shared
        self._layouts: dict[int, Layout] | None = None
        """Where spans are wanted: layouts of responses by the frame's offset."""
        self._forwarded: dict[int, Version] | None = None
        """Of envelopes: what they forward the response to, by the frame's offset."""
        self._answered_ts = 0
        self.pairing = ResponsePairing(owner, self._fits)

    def layout_of(self, frame: Frame) -> Layout | None:
        """The layout of a recent response; None unless spans are wanted."""
        return None if self._layouts is None else self._layouts.get(frame.offset)

    def forwarded_of(self, frame: Frame) -> Version | None:
        """The request whose response an envelope forwards; None for another response, or where nobody explains."""
        return None if self._forwarded is None else self._forwarded.get(frame.offset)

    def message_of(self, frame: Frame) -> Message:
        """The message of a frame that has a correlation id; resolves its request."""
        (correlation,) = CORRELATION.unpack_from(frame.data, 4)
        pending = self.pairing.reply_to(correlation, frame)
        if pending is None or pending.message is None:
            self._answered_ts = frame.last_ts_ns
            possible = self.pairing.in_doubt
            return self._doubtful(frame, correlation, possible) if possible else self._unmatched(frame, correlation)
        context: RequestContext = pending.context
        version, request = context.version, pending.message
        body, problems = self._body_of(version, frame)
        message = Message(
            frame,
            PROTOCOL,
            version.name,
            "response",
            body.value,
            version.version,
            str(correlation),
            client_id=request.client_id,
            problems=problems,
        )
        message.group = request.group
        message.judged = body.judged
        reply = ResponseContext(message, body.value, pending, context)
        if body.layout is not None:
            self._read(reply, body)
        if pending.wait_limit_ns is not None:
            pending.held = was_held(reply, pending.wait_limit_ns, self._answered_ts)
        message.topics = message.topics or request.own_topics  # the pipeline may have filled names into the request
        message.topic_ids = message.topic_ids or request.topic_ids
        self._answered_ts = frame.last_ts_ns
        return message

    def may_be(self, correlation: int, candidate: Candidate) -> bool:
        """Whether a frame that a search found decodes as the response to an earlier request of its correlation id."""
        data = candidate.frame
        frame = Frame(Side.SERVER, 0, candidate.size, data, 0, 0, 0, 0, 0)
        for pending in self._owner.pending(correlation):
            if pending.frame.release > candidate.release:
                break
            if not frame.whole or not self._body_of(pending.context.version, frame)[1]:
                return True
        return False

    def _body_of(self, version: Version, frame: Frame) -> tuple[KafkaBody, list[Problem]]:
        data, tags = frame.data, None
        try:
            pos = 8
            if version.flexible_response:
                tags, pos = bodies.read_header_tags(data, pos)
            body, problems = bodies.read_response_body(version, data, pos, frame.size, self._limits)
        except Malformed as error:
            body = bodies.raw_body(data, 8, frame.size)
            problems = [Problem("malformed", "error", str(error), "header")] if frame.whole else []
        if tags:
            body = body.with_tags(tags)
        return body, problems

    def _fits(self, pending: Pending, frame: Frame) -> bool:
        """Whether a response may answer a request: its body decodes, and its topics are those of the request."""
        if not frame.whole or pending.message is None:
            return True
        version: Version = pending.context.version
        body, problems = self._body_of(version, frame)
        if problems or body.marks is None:
            return not problems
        fetch = pending.context.fetching
        if version.key not in ECHOING or (fetch is not None and fetch.session is not None):
            return True  # a session may have more topics than were seen
        named = {*texts(body.marks.topics, body.value), *texts(body.marks.topic_ids, body.value)}
        return named <= {*pending.message.topics, *pending.message.topic_ids}

    def _doubtful(self, frame: Frame, correlation: int, possible: tuple[Pending, ...]) -> Message:
        """The message of a response that may answer several requests, decoded if all have the same key and version."""
        context: RequestContext = possible[0].context
        version, number = context.version, context.version.version
        detail = "answers were lost before this one, so it is unknown which of the requests with its id it answers"
        problem = Problem("unmatched", "warning", detail)
        if any((one.context.version.key, one.context.version.version) != (version.key, number) for one in possible):
            message = self._unmatched(frame, correlation)
            message.problems.append(problem)
            return message
        body, problems = self._body_of(version, frame)
        message = Message(frame, PROTOCOL, version.name, "response", body.value, number, str(correlation))
        message.problems = [*problems, problem]
        if body.layout is not None:
            fetch = None if context.fetching is None else Fetching({}, context.fetching.replica)
            reply = ResponseContext(
                message, body.value, Pending(correlation, "answer", frame), RequestContext(version, fetch)
            )
            self._read(reply, body)
        return message

    def _unmatched(self, frame: Frame, correlation: int) -> Message:
        body = bodies.raw_body(frame.data, 8, frame.size).value
        return Message(frame, PROTOCOL, UNASKED, "response", body, correlation=str(correlation))

    def _read(self, reply: ResponseContext, body: KafkaBody) -> None:
        """Fill the message from its decoded body."""
        assert body.layout is not None
        assert body.marks is not None
        message, value, key, layout = reply.message, body.value, reply.request.version.key, body.layout
        if "spans" in self._settings.wanted:
            self._remember(message.frame, layout)
        name_message(message, body, self._identity)
        message.finite = body.marks.finite and key != ENVELOPE
        if body.marks.errors is not None:
            judge(reply, body.marks.errors, value)
        throttle = value.get("throttle_time_ms")
        if throttle is not None:
            reply.pending.throttle_ns = throttle * MILLISECOND_NS
        if body.marks.records is not None:
            self._read_records(reply, body)
        if embedded.holder_of(layout) is not None:
            message.finite = False
            message.problems += embedded.open_bytes(layout, value, reply.request.group)
        rule = self._rule(key)
        if key in self._row_keys:
            message.partitions = rows.rows_of(layout, value)
        if rule is not None:
            rule(reply)
        if "notes" in self._settings.wanted:
            message.notes += notes_of(key, "response", layout, value, message.partitions)

    def _rule(self, key: int) -> ResponseRule | None:
        """The rule of a single API."""
        if key == PRODUCE:
            return self._produced
        if key in (fetching.FETCH, fetching.SHARE_FETCH):
            return self._fetched
        if key == API_VERSIONS:
            return self._offered
        if key == ENVELOPE:
            return self._enveloped
        return self._shared.logins.response_rule(key) or (
            self._shared.membership.response_rule(key) if key in GROUP_KEYS else None
        )

    def _remember(self, frame: Frame, layout: Layout) -> None:
        """Keep the layout of a response, for ``layout_of``."""
        if self._layouts is None or self._forwarded is None or len(self._layouts) >= LAYOUTS_MAX:
            self._layouts, self._forwarded = {}, {}
        self._layouts[frame.offset] = layout

    def _read_records(self, reply: ResponseContext, body: KafkaBody) -> None:
        """Read the record data of a fetch; replace any other by its size."""
        assert body.layout is not None
        fetch = reply.request.fetching
        if fetch is not None:
            self._shared.records.delivered(reply.message, body.layout, fetch)
        elif reply.request.version.key == FETCH_SNAPSHOT:
            self._shared.records.snapshot(reply.message, body.layout)
        elif body.marks is not None and body.marks.records is not None:
            replace_all(body.marks.records, body.value)

    # ---- rules of responses

    def _produced(self, reply: ResponseContext) -> None:
        if reply.request.produced:
            complete(reply.request.produced, reply.message)

    def _fetched(self, reply: ResponseContext) -> None:
        fetch = reply.request.fetching
        if fetch is None:
            return
        self._shared.sessions.answered(fetch, reply.body)
        if fetch.replica >= 0:
            reply.message.notes += (("follower", fetch.replica),)
        for row in reply.message.partitions:
            row["reader"] = fetch.reader
            self._shared.sessions.answered_partition(fetch, row)

    def _offered(self, reply: ResponseContext) -> None:
        offered = reply.body.get("api_keys")
        if not offered or reply.message.error_code:
            return
        ranges = [tuple(one.get(name, -1) for name in ("api_key", "min_version", "max_version")) for one in offered]
        release = release_of(ranges)
        if release is not None:
            self._identity.server_software = f"Apache Kafka {release}"
            reply.message.notes += (("release", release),)

    def _enveloped(self, reply: ResponseContext) -> None:
        inner = reply.request.inner
        if inner is not None and self._forwarded is not None:
            self._forwarded[reply.message.frame.offset] = inner
        embedded.open_response(reply.body, inner, self._limits, reply.message.problems)
