"""Frames of one remoting connection in, messages with their questions, records and partitions out.

1. Both sides ask: a question is named by who asked it and its opaque, and answers come in any order.
2. A response is read by the code of its request. One that nobody asked for is called RESPONSE; its body is read where it
   shows by itself what it is (stored messages).
3. A code that a binary header cut to 16 bits is taken for the code it was cut from, and noted.
4. What a poll answers when there is nothing is no error; ``held`` says whether the broker made the client wait.
5. Of a frame that was cut, the header is read first, and what stands in it.

Source: RemotingCommand, NettyRemotingAbstract and the processors of apache/rocketmq.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from dissectors.rocketmq import frames
from dissectors.rocketmq.bodies import Mentions, body_checksum_ok, plain, read_body
from dissectors.rocketmq.detection import sides_swapped
from dissectors.rocketmq.extfields import read_ext
from dissectors.rocketmq.messages import MESSAGE_KINDS, Content, read_messages, shows_stored
from dissectors.rocketmq.notes import Notes
from dissectors.rocketmq.records import complete
from dissectors.rocketmq.rows import partition_rows, request_notes, response_notes
from dissectors.rocketmq.settlements import Settlements
from dissectors.rocketmq.tables import Part, Request, tables
from mqsniff.dissector import Probed, Sample, Settings, Sized, Verdict
from mqsniff.framing import FramedDissector
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Asked, Event, Frame, Kind, Message, RecordBatch, Side, Value

PROTOCOL: Final = "rocketmq"
UNASKED: Final = "RESPONSE"
"""Name of a response whose request was not seen."""

ACKS: Final = frozenset({200051, 200053})
BATCH_ACK: Final = 200151
POPS: Final = frozenset({200050, 200070})
END_TRANSACTION: Final = 37
CHECK_TRANSACTION_STATE: Final = 39
PULLS: Final = frozenset({11, 361})
SUSPEND: Final = 0x2
"""Bit of a pull's sysFlag: the broker may hold it."""
GO_AWAY: Final = 1500
DLEDGER_OK: Final = 200

HELD_NS: Final = 500 * MILLISECOND_NS
SERVED_NS: Final = 20 * MILLISECOND_NS
"""A poll answered later than the first was held, one answered with data before the second was not; between them, nobody
can tell."""
WAIT_MAX_MS: Final = 1 << 40


@dataclass(slots=True)
class Question:
    """What a request left for its response."""

    request: Request | None
    name: str
    topics: tuple[str, ...]
    group: str | None
    ext: dict[str, Any]
    records: tuple[RecordBatch, ...] = ()
    half: Asked | None = None


@dataclass(slots=True)
class _Parts:
    """What was read of a frame: its ext fields by their names, and its body."""

    ext: dict[str, Any]
    mentions: Mentions
    content: Content | None = None
    body: dict[str, Value] = field(default_factory=dict)


class RocketMQ(FramedDissector):
    """RocketMQ remoting between clients, brokers, name servers, proxies and controllers."""

    names: ClassVar[tuple[str, ...]] = (PROTOCOL,)
    ports: ClassVar[frozenset[int]] = frozenset({9876, 10909, 10911, 8080, 10811, 19876, 20911})
    head_max: ClassVar[int] = frames.PROBE_MAX

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._tables = tables()
        self._settlements = Settlements(self)

    # ---- framing and detection

    @classmethod
    def probe(cls, side: Side, head: bytes) -> Probed:  # noqa: ARG003  # both sides send the same frames
        """Size of the frame that must start here."""
        return frames.probe(head)

    @classmethod
    def scan(cls, side: Side, data: bytes, start: int) -> int:  # noqa: ARG003  # both sides send the same frames
        """The next offset where a head may start."""
        return frames.scan(data, start)

    def frame_size(self, side: Side, head: bytes) -> Sized:  # noqa: ARG002  # both sides send the same frames
        """Size of the frame that starts here on a side that is in step."""
        return frames.frame_size(head)

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        """One strict head is proof enough; sides that a guess has swapped are refused, so that the other way is tried."""
        verdict = super().detect(client, server)
        if verdict in (Verdict.NO, Verdict.MORE) or client.from_start or server.from_start:
            return verdict
        return Verdict.NO if sides_swapped(client, server) else verdict

    @classmethod
    def _detect_at(cls, side: Side, data: bytes, start: int) -> Verdict:
        """A lone frame is enough: no other protocol has such a head."""
        verdict = super()._detect_at(side, data, start)
        return Verdict.YES if verdict is Verdict.MAYBE else verdict

    # ---- decoding

    def decode(self, frame: Frame) -> Iterator[Event]:
        """The message of a frame."""
        notes = Notes(self.settings.limits)
        header, stop = frames.read_header(frame.data, notes)
        flag = header.flag
        if flag is None:
            flag = frames.RESPONSE if self._looks_answered(header.code, frame.side) else 0
        if flag & ~(frames.RESPONSE | frames.ONEWAY):
            notes.note("out_of_range", "info", "flag has bits that mean nothing", "flag")
        if flag & frames.RESPONSE:
            yield self._response(frame, header, stop, notes)
        else:
            yield self._request(frame, header, stop, notes, oneway=flag & frames.ONEWAY != 0)

    def _looks_answered(self, code: int | None, side: Side) -> bool:
        """Whether a header that lost its flag is a response's: on the server's side, unless only requests have the code."""
        return side is Side.SERVER and (code not in self._tables.requests or self._tables.response_name(code) is not None)

    # ---- requests

    def _request(
        self, frame: Frame, header: frames.Header, stop: int, notes: Notes, *, oneway: bool
    ) -> Message:
        request = self._known(header, notes)
        name = request.name if request is not None else f"unknown({header.code})"
        part = request.request if request is not None else Part(self._tables.common)
        parts = self._read(frame, header, stop, part, notes, owed=True)
        message = self._message(frame, header, parts, name, "oneway" if oneway else "request", notes)
        self._check_request(request, parts, frame.data[stop:], notes)
        self._learn(frame.side, header, parts)
        self._reader_of(request, parts)
        if header.opaque is not None:
            self._ask(frame.side, header.opaque, request, message, parts, oneway=oneway)
        if request is not None:
            self._settle(request, message, parts)
            message.partitions = partition_rows(part.header, parts.ext, parts.content)
        message.notes = request_notes(part.header, parts.ext, parts.content)
        return message

    def _known(self, header: frames.Header, notes: Notes) -> Request | None:
        """The request of a code; one that was cut to 16 bits is found again."""
        code = header.code
        if code is None:
            notes.note("missing_field", "warning", "a request without a code", "code")
            return None
        request = self._tables.requests.get(code)
        if request is None and header.serialize_type == frames.BINARY and (request := self._tables.cut.get(code)):
            notes.note("out_of_range", "warning", f"code {request.code} was cut to 16 bits: {code}", "code")
        if request is None:
            notes.note("unknown_code", "warning", "a request code without a name", "code")
        return request

    def _check_request(self, request: Request | None, parts: _Parts, raw: bytes, notes: Notes) -> None:
        crc = parts.ext.get("body_crc32")
        if crc and request is not None and request.request.body == "register-broker" and not body_checksum_ok(raw, crc):
            notes.note("checksum", "error", "bodyCrc32 is not the body's", "body")

    def _reader_of(self, request: Request | None, parts: _Parts) -> None:
        if parts.content is not None and request is not None and request.records == "other":
            for batch in parts.content.records:
                batch.constant["reader"] = "other"

    def _ask(
        self, side: Side, opaque: int, request: Request | None, message: Message, parts: _Parts, *, oneway: bool
    ) -> None:
        """Open the question of a request."""
        context = Question(request, message.name, message.topics, message.group, parts.ext, message.records)
        key = (side, opaque)
        if oneway:
            asked = self.ask(key, context, expects=0, in_order=False)
            self.settle(asked, "oneway")
            for batch in message.records:
                batch.constant.setdefault("ack", "none")
            return
        wait = self._wait_limit_ns(request, parts.ext) if request is not None else None
        self.ask(key, context, wait_limit_ns=wait, in_order=False)
        if request is not None and request.records == "produced":
            context.half = self._settlements.half_sent(parts.ext)

    def _wait_limit_ns(self, request: Request, ext: dict[str, Any]) -> int | None:
        """How long the broker may hold the answer; None where the request gives no such leave."""
        limit = ext.get(request.waits) if request.waits else None
        if type(limit) is not int or not 0 < limit < WAIT_MAX_MS:
            return None
        flag = ext.get("sys_flag")
        if request.code in PULLS and not (type(flag) is int and flag & SUSPEND):
            return None
        return limit * MILLISECOND_NS

    def _settle(self, request: Request, message: Message, parts: _Parts) -> None:
        """Tie what a request says of messages that were delivered or half sent before."""
        if request.code in ACKS:
            self._settlements.acked(message.name, parts.ext)
        elif request.code == BATCH_ACK:
            self._settlements.batch_acked(message.name, message.body.get("body"))
        elif request.code == END_TRANSACTION:
            self._settlements.ended(parts.ext)
        elif request.code == CHECK_TRANSACTION_STATE and parts.content is not None:
            self._settlements.checked(parts.ext, next(iter(parts.content.properties), None))

    # ---- responses

    def _response(self, frame: Frame, header: frames.Header, stop: int, notes: Notes) -> Message:
        asked = self.answer((frame.side.peer, header.opaque)) if header.opaque is not None else None
        question = asked.context if asked is not None else Question(None, UNASKED, (), None, {})
        request: Request | None = question.request
        part = request.response if request is not None else Part(self._tables.common)
        if request is None and shows_stored(frame.data, stop):
            part = part._replace(body="stored-messages")
        code = header.code
        failed = self._failed(code, request)
        parts = self._read(frame, header, stop, part, notes, owed=code == 0)
        message = self._message(frame, header, parts, question.name, "response", notes)
        message.topics = message.topics or question.topics
        message.group = question.group
        self._error(message, code, request, notes, failed=failed)
        if asked is not None:
            self._answered(asked, question, message, parts, failed=failed)
        if parts.content is not None:
            for batch in parts.content.records:
                batch.constant["reader"] = request.records if request is not None else "other"
        if request is not None:
            message.partitions = partition_rows(part.header, parts.ext, parts.content, question.ext, message)
        message.notes = response_notes(header, parts.ext, parts.content, failed=failed)
        if code == GO_AWAY:
            self.identity.close_reason = "go away"
        if frame.side is Side.SERVER and self.identity.server_software is None:
            self.identity.server_software = self._software(header)
        return message

    def _failed(self, code: int | None, request: Request | None) -> bool:
        """Whether a response code is an error for this request."""
        if request is None:
            return code not in (0, None)
        if request.codes == "dledger" and code == DLEDGER_OK:
            return False
        return code not in (0, None) and code not in request.nothing

    def _error(
        self, message: Message, code: int | None, request: Request | None, notes: Notes, *, failed: bool
    ) -> None:
        message.error_count = int(failed)
        message.error_code = code if failed else 0
        if failed and code is not None:
            name = self._tables.response_name(code, request.codes if request is not None else "")
            if name is None:
                notes.note("unknown_code", "info", "a response code without a name", "code")
            message.error_name = name or f"unknown({code})"

    def _answered(
        self, asked: Asked, question: Question, message: Message, parts: _Parts, *, failed: bool
    ) -> None:
        """What an answer does to its question."""
        if asked.wait_limit_ns is not None and not failed:
            asked.held = _held(message.frame.first_ts_ns - asked.frame.last_ts_ns, served=parts.content is not None)
        for batch in question.records:
            if not failed:
                complete(batch, parts.ext)
        if failed and question.half is not None:
            self._settlements.half_refused(question.half)
        request = question.request
        if request is not None and request.code in POPS and parts.content is not None:
            self._settlements.popped(parts.content.stored, parts.content.properties, question.ext, parts.ext)

    # ---- what both have

    def _read(
        self, frame: Frame, header: frames.Header, stop: int, part: Part, notes: Notes, *, owed: bool
    ) -> _Parts:
        """The ext fields and the body."""
        whole = frame.whole or len(frame.data) >= stop
        owed = owed and whole and bool(part.header.required)
        ext = header.ext
        if owed and part.optional and not any(name in part.header.fields for name in ext or ()):
            owed = False
        parts = _Parts(read_ext(ext or {}, part.header, notes, owed=owed), Mentions())
        size = frame.size - stop
        if size <= 0:
            return parts
        raw = frame.data[stop:]
        if part.body in MESSAGE_KINDS:
            parts.content = read_messages(part.body, raw, size, parts.ext, self.settings, notes)
            parts.body["body"] = parts.content.value
            parts.mentions.topics += parts.content.topics
        elif len(raw) == size:
            parts.body["body"] = read_body(part.body, raw, notes, parts.mentions)
        else:
            parts.body["body"] = {"size": size}
        return parts

    def _message(
        self, frame: Frame, header: frames.Header, parts: _Parts, name: str, kind: Kind, notes: Notes
    ) -> Message:
        """A message with everything that does not depend on what it is."""
        body: dict[str, Value] = {"serialize_type": header.serialize_type, **header.fields}
        if "unknown_fields" in body:
            body["unknown_fields"] = plain(body["unknown_fields"])
        if header.has_ext:
            body["ext_fields"] = parts.ext if header.ext is not None else None
        body |= parts.body
        fields = parts.ext
        message = Message(frame, PROTOCOL, name, kind, body, problems=notes.problems)
        message.correlation = str(header.opaque) if header.opaque is not None else None
        message.topics = _topics(fields, parts.mentions)
        message.group = _group(fields) or parts.mentions.group
        client = fields.get("client_id")
        message.client_id = client if isinstance(client, str) else parts.mentions.client
        if parts.content is not None:
            message.records = parts.content.records
        return message

    def _learn(self, side: Side, header: frames.Header, parts: _Parts) -> None:
        """What a request tells of its sender."""
        identity = self.identity
        if side is Side.SERVER:
            identity.server_software = identity.server_software or self._software(header)
            return
        if identity.client_software is None:
            identity.client_software = self._software(header)
        client = parts.ext.get("client_id") or parts.mentions.client
        if client and identity.client_id is None and isinstance(client, str):
            identity.client_id = client
        user = parts.ext.get("access_key")
        if user and identity.user is None and isinstance(user, str):
            identity.user, identity.mechanism = user, "ACL"

    def _software(self, header: frames.Header) -> str | None:
        """ "RocketMQ JAVA 5.5.0"."""
        language = self._tables.language_name(header.fields.get("language"))
        version = self._tables.version_name(header.fields.get("version"))
        words = [word for word in ("RocketMQ", language, version) if word]
        return " ".join(words) if len(words) > 1 else None
