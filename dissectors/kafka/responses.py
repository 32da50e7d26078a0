"""A server's frames in, their messages out, read by what they answer.

1. A response says nothing of itself: it is read by the oldest request with its correlation id, since ids repeat on real
   wires. Pairing needs eight bytes of a response; a body that is cut or cannot be read does not change it.
2. Brokers answer in order. Where the capture lost answers, a request whose turn is over, or that cannot have had this
   one, is not the one answered, and never will be: else one loss would shift all pairs of an id that repeats.
3. What all APIs have in common is told by marks in their layouts (``marks``); rules by API stand in one table.

Sources: ``NetworkClient`` and ``KafkaApis`` of Apache Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from dissectors.kafka import bodies, embedded, fetching, rows
from dissectors.kafka.bodies import API_VERSIONS, Body, Version
from dissectors.kafka.fetching import Sessions
from dissectors.kafka.logins import Logins
from dissectors.kafka.membership import Membership
from dissectors.kafka.naming import name_message
from dissectors.kafka.notes import notes_of
from dissectors.kafka.outcomes import judge, was_held
from dissectors.kafka.questions import ENVELOPE, FETCH_SNAPSHOT, PRODUCE, PROTOCOL, Question, Reply, ResponseRule
from dissectors.kafka.records.data import RecordData, complete, replace_all
from dissectors.kafka.releases import release_of
from mqsniff.framing import FramedDissector
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Asked, Frame, Message, Problem, Side
from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Malformed

UNASKED: Final = "Response"
"""Name of a response whose request was not seen."""
LAYOUTS_MAX: Final = 1024
"""Responses whose layouts are remembered where frames are explained."""

CORRELATION: Final = Struct(">i")


class Responses:
    """What one connection is answered."""

    def __init__(
        self, owner: FramedDissector, logins: Logins, membership: Membership, sessions: Sessions, records: RecordData
    ) -> None:
        self._owner = owner
        self._settings = settings = owner.settings
        self._limits = settings.limits
        self._row_keys = rows.KEYS if settings.partitions or settings.notes else fetching.KEYS
        """APIs whose partitions are looked at: fetch sessions need theirs."""
        self._identity = owner.identity
        self._sessions, self._records = sessions, records
        self._layouts: dict[int, Layout] = {}
        self._answered_ts = 0
        self.answered_at = -1
        """Stream offset of the latest request that was answered."""
        self._rules: dict[int, ResponseRule] = {
            PRODUCE: self._produced,
            fetching.FETCH: self._fetched,
            fetching.SHARE_FETCH: self._fetched,
            **logins.response_rules,
            **membership.response_rules,
            API_VERSIONS: self._offered,
            ENVELOPE: self._enveloped,
        }

    def layout_of(self, frame: Frame) -> Layout | None:
        """The layout by which a response was decoded a while ago; None where nobody explains frames."""
        return self._layouts.get(frame.offset)

    def message_of(self, frame: Frame) -> Message:
        """The message of a frame that has a correlation id; its question is answered."""
        (correlation,) = CORRELATION.unpack_from(frame.data, 4)
        if self._owner.gaps_of(Side.SERVER):
            self._pass_over(correlation, frame)
        asked = self._owner.answer(correlation)
        if asked is None or asked.message is None:
            return self._unmatched(frame, correlation)
        self.answered_at = max(self.answered_at, asked.frame.offset)
        question: Question = asked.context
        version, asking = question.version, asked.message
        body, problems = self._body_of(version, frame)
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
            self._read(Reply(message, body.value, asked, question), body)
        message.topics = message.topics or asking.topics
        message.topic_ids = message.topic_ids or asking.topic_ids
        self._answered_ts = frame.last_ts_ns
        return message

    def _body_of(self, version: Version, frame: Frame) -> tuple[Body, list[Problem]]:
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

    def _pass_over(self, correlation: int, frame: Frame) -> None:
        """Rule 2, for an id that several open requests have; where this answer fits none, the oldest in turn has it."""
        owner = self._owner
        candidates, gaps = owner.questions(correlation), owner.gaps_of(Side.SERVER)
        if len(candidates) < 2:
            return
        late: list[Asked] = []
        unfit: list[Asked] = []
        for asked in candidates:
            if asked.gaps_before == gaps:
                break
            if asked.frame.offset < self.answered_at:
                late.append(asked)
            elif frame.whole and self._body_of(asked.context.version, frame)[1]:
                unfit.append(asked)
            else:
                break
        else:
            unfit = []
        for asked in (*late, *unfit):
            owner.settle(asked, "lost")

    def _unmatched(self, frame: Frame, correlation: int) -> Message:
        body = bodies.raw_body(frame.data, 8, frame.size).value
        return Message(frame, PROTOCOL, UNASKED, "response", body, correlation=str(correlation))

    def _read(self, reply: Reply, body: Body) -> None:
        """What a response's body tells, once it is decoded."""
        assert body.layout is not None
        assert body.marks is not None
        message, value, key, layout = reply.message, body.value, reply.question.version.key, body.layout
        if self._settings.explain:
            self._remember(message.frame, layout)
        name_message(message, body, self._identity)
        message.finite = body.marks.finite and key != ENVELOPE
        if body.marks.errors is not None:
            judge(reply, body.marks.errors, value)
        throttle = value.get("throttle_time_ms")
        if throttle is not None:
            reply.asked.throttle_ns = throttle * MILLISECOND_NS
        if body.marks.records is not None:
            self._read_records(reply, body)
        if embedded.holder_of(layout) is not None:
            message.finite = False
            message.problems += embedded.open_bytes(layout, value, reply.question.group)
        rule = self._rules.get(key)
        if key in self._row_keys:
            message.partitions = rows.rows_of(layout, value)
        if rule is not None:
            rule(reply)
        if reply.asked.wait_limit_ns is not None:
            reply.asked.held = was_held(reply, reply.asked.wait_limit_ns, self._answered_ts)
        if self._settings.notes:
            message.notes += notes_of(key, "response", layout, value, message.partitions)

    def _remember(self, frame: Frame, layout: Layout) -> None:
        """Keep the layout of a response for ``layout_of``."""
        if len(self._layouts) >= LAYOUTS_MAX:
            self._layouts.clear()
        self._layouts[frame.offset] = layout

    def _read_records(self, reply: Reply, body: Body) -> None:
        """Record data of a fetch; any other is told by its size."""
        assert body.layout is not None
        fetch = reply.question.fetching
        if fetch is not None:
            self._records.delivered(reply.message, body.layout, fetch)
        elif reply.question.version.key == FETCH_SNAPSHOT:
            self._records.snapshot(reply.message, body.layout)
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
