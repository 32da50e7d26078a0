"""The state of a remoting connection; decodes each frame into a message.

1. Both sides send requests: the key of a request is its sender and its opaque. Responses come in any order.
2. A response is decoded by the code of its request. Without a request its name is RESPONSE, and its body is decoded
   only if it begins with a stored message.
3. A code that a binary header cut to 16 bits is replaced by the code that it was cut from, with a problem.
4. Responses of normal operation (``ordinary``), such as an empty poll, are no errors. ``held`` says whether the broker
   held the request.
5. If a frame was cut, its header is decoded as far as it goes.

Source: RemotingCommand, NettyRemotingAbstract and the processors of apache/rocketmq.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mqsniff.codecs.inflation import InflationBudget
from mqsniff.framing import FramedDissector
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Frame, Message, MessageKind, Pending, RecordBatch, Side, Value
from mqsniff.spec.wire import as_name
from mqsniff_rocketmq import rows
from mqsniff_rocketmq.bodies import Mentions, body_checksum_ok, plain, read_body
from mqsniff_rocketmq.extfields import note_missing, read_ext
from mqsniff_rocketmq.headers import RemotingHeader, read_header
from mqsniff_rocketmq.heads import BINARY, ONEWAY, RESPONSE
from mqsniff_rocketmq.messages import MESSAGE_KINDS, Content, Data, read_messages, shows_stored
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.ordinary import ORDINARY
from mqsniff_rocketmq.records import complete
from mqsniff_rocketmq.settlements import Command, Settlements
from mqsniff_rocketmq.tables import CodePart, Request, tables

PROTOCOL: Final = "rocketmq"
UNASKED: Final = "RESPONSE"
"""Name of a response whose request was not seen."""
UNKNOWN: Final = "unknown"
"""Name of a request without a code."""

PULLS: Final = frozenset({11, 361})
POPS: Final = frozenset({200050, 200070})
ACKS: Final = frozenset({200051, 200053})
BATCH_ACK: Final = 200151
END_TRANSACTION: Final = 37
CHECK_TRANSACTION_STATE: Final = 39

STORED_ANYHOW: Final = frozenset({10, 11, 12})
"""FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT: the message is stored, but may be lost later."""
GO_AWAY: Final = 1500
DLEDGER_OK: Final = 200
SUSPEND: Final = 0x2
"""Bit of a pull's sysFlag: the broker may hold the pull."""

SERVED_NS: Final = 20 * MILLISECOND_NS
"""A poll answered within this time, and nine tenths of its limit, was not held, whatever the response contains."""
OLD_NS: Final = 1000 * MILLISECOND_NS
"""Messages older than the poll by this much existed when it arrived: clocks differ by less."""
WAIT_MAX_MS: Final = 1 << 40
REMARK_MAX: Final = 120
"""Characters of an error's remark in a note: the first line of what is often a Java stack trace."""
PARTS_MAX: Final = 256
"""Responses whose classes are kept for ``spans``."""


@dataclass(slots=True)
class RemotingRequest:
    """What a response needs of its request."""

    request: Request | None
    ext: dict[str, Any]
    records: tuple[RecordBatch, ...] = ()
    half: Pending | None = None
    """The pending settlement of the transaction that it began."""


@dataclass(slots=True)
class _Reading:
    """A frame being decoded, and its fields so far: typed, under their long names."""

    frame: Frame
    header: RemotingHeader
    stop: int
    """Offset of the body."""
    notes: ProblemNotes
    part: CodePart
    ext: dict[str, Any]
    mentions: Mentions
    content: Content | None = None


class RemotingSession:
    """One connection."""

    def __init__(self, dissector: FramedDissector) -> None:
        self._dissector = dissector
        self._settings = dissector.settings
        self._budget = InflationBudget(self._settings.limits, self._settings.work)
        self._identity = dissector.identity
        self._tables = tables()
        self._nothing = CodePart(self._tables.common)
        self._settlements = Settlements(dissector, dissector.settings.limits.pending_max)
        self._answered_parts: dict[tuple[int, int], CodePart] = {}

    def part_of(self, frame: Frame) -> CodePart:
        """The classes of a frame's header and body; of a response only while it is kept for ``spans``."""
        header, _ = read_header(frame.data, ProblemNotes(self._settings.limits))
        if (header.flag or 0) & RESPONSE:
            return self._answered_parts.get((frame.side, frame.offset), self._nothing)
        request = self._known(header, ProblemNotes(self._settings.limits))
        return request.request if request else self._nothing

    def _remember(self, frame: Frame, part: CodePart) -> None:
        """Keep the classes of a response for ``part_of``."""
        if len(self._answered_parts) >= PARTS_MAX:
            self._answered_parts.clear()
        self._answered_parts[frame.side, frame.offset] = part

    def message(self, frame: Frame) -> Message:
        """The message of a frame; Malformed if its header cannot be read."""
        notes = ProblemNotes(self._settings.limits)
        header, stop = read_header(frame.data, notes)
        flag = header.flag
        if flag is None:
            flag = RESPONSE if self._looks_like_response(header.code, frame.side) else 0
        if flag & ~(RESPONSE | ONEWAY):
            notes.note("out_of_range", "info", "flag has bits that mean nothing", "flag")
        reading = _Reading(frame, header, stop, notes, self._nothing, {}, Mentions())
        if flag & RESPONSE:
            return self._response(reading)
        return self._request(reading, oneway=flag & ONEWAY != 0)

    def _looks_like_response(self, code: int | None, side: Side) -> bool:
        """Whether a header whose flag was cut is that of a response: servers send mostly responses."""
        return side is Side.SERVER and (code is None or self._tables.response_name(code) is not None)

    def _read(self, reading: _Reading, part: CodePart, records: str, *, required: bool) -> None:
        """Decode the ext fields, and a body made of messages; ``required``: whether to check required fields."""
        header, frame, stop = part.header, reading.frame, reading.stop
        reading.part = part
        reading.ext = read_ext(reading.header.ext or {}, header, reading.notes)
        present = not part.optional or not header.own.isdisjoint(reading.ext)
        if required and present and header.required and len(frame.data) >= stop:
            note_missing(reading.ext, header, reading.notes)
        if part.body in MESSAGE_KINDS and frame.size > stop:
            data = Data(frame.data[stop:], frame.size - stop, reading.ext, records)
            reading.content = read_messages(part.body, data, self._settings, reading.notes, self._budget)

    def _message(self, reading: _Reading, name: str, kind: MessageKind) -> Message:
        """The message with the fields that requests and responses share."""
        header, ext, mentions, columns = reading.header, reading.ext, reading.mentions, reading.part.header
        message = Message(reading.frame, PROTOCOL, name, kind, self._body(reading), problems=reading.notes.problems)
        message.correlation = None if header.opaque is None else str(header.opaque)
        topic = as_name(ext.get(columns.topic)) if columns.topic else None
        topics = mentions.topics if topic is None else [topic, *mentions.topics]
        message.topics = tuple(dict.fromkeys(topics)) if len(topics) > 1 else tuple(topics)
        for group in columns.groups:
            if named := as_name(ext.get(group)):
                message.group = named
                break
        else:
            message.group = mentions.group
        client = as_name(ext.get(columns.client)) if columns.client else None
        message.client_id = mentions.client if client is None else client
        if reading.content is not None:
            message.records = reading.content.records
        message.notes = rows.notes_of(columns, ext, reading.content)
        return message

    def _body(self, reading: _Reading) -> dict[str, Value]:
        """Every field that was on the wire."""
        header, frame, stop, content = reading.header, reading.frame, reading.stop, reading.content
        body: dict[str, Value] = {"serialize_type": header.serialize_type, "header_size": header.size, **header.fields}
        if "unknown_fields" in body:
            body["unknown_fields"] = plain(body["unknown_fields"])
        if header.has_ext:
            body["ext_fields"] = reading.ext if header.ext is not None else None
        if content is not None:
            body["body"] = content.value
            reading.mentions.topics += content.topics
        elif frame.size > stop:
            if frame.whole:
                body["body"] = read_body(reading.part.body, frame.data[stop:], reading.notes, reading.mentions)
            else:
                body["body"] = {"size": frame.size - stop}
        return body

    # ---- requests

    def _request(self, reading: _Reading, *, oneway: bool) -> Message:
        header, frame = reading.header, reading.frame
        request = self._known(header, reading.notes)
        if request is None:
            self._read(reading, self._nothing, "", required=False)
        else:
            self._read(reading, request.request, request.records, required=True)
        name = request.name if request else UNKNOWN if header.code is None else f"unknown({header.code})"
        message = self._message(reading, name, "oneway" if oneway else "request")
        crc = reading.ext.get("body_crc32")
        if crc and frame.whole and not body_checksum_ok(frame.data[reading.stop :], crc):
            reading.notes.note("checksum", "error", "bodyCrc32 does not match the body", "ext_fields.body_crc32")
        self._learn(reading, message)
        if header.opaque is not None:
            context = RemotingRequest(request, reading.ext, message.records)
            pending = self._open((int(frame.side), header.opaque), context, message, oneway=oneway)
            if request is not None:
                self._settle(request, reading, message, pending)
        message.partitions = rows.request_rows(reading.part.header, reading.ext, reading.content)
        message.partitions += tuple(reading.mentions.queues)
        return message

    def _known(self, header: RemotingHeader, notes: ProblemNotes) -> Request | None:
        """The request of a code, also if the code was cut to 16 bits."""
        code = header.code
        if code is None:
            notes.note("missing_field", "warning", "a request without a code", "code")
            return None
        request = self._tables.requests.get(code)
        if request is None and header.serialize_type == BINARY and (request := self._tables.cut.get(code)):
            detail = f"{code} is what a header of 16 bits left of {request.code}"
            notes.note("out_of_range", "warning", detail, "code")
        if request is None:
            notes.note("unknown_code", "warning", "a request code without a name", "code")
        return request

    def _open(self, key: tuple[int, int], context: RemotingRequest, message: Message, *, oneway: bool) -> Pending:
        """Open a pending request; a one-way request ends at once."""
        request = context.request
        if oneway:
            pending = self._dissector.expect_reply(key, context, expects=0, in_order=False)
            self._dissector.resolve(pending, "oneway")
            for batch in message.records:
                batch.constant["ack"] = "none"
            return pending
        wait = _wait_limit_ns(request, context.ext) if request else None
        pending = self._dissector.expect_reply(key, context, wait_limit_ns=wait, in_order=False)
        if request is not None and request.records == "produced":
            context.half = self._settlements.half_sent(context.ext)
        return pending

    def _settle(self, request: Request, reading: _Reading, message: Message, pending: Pending) -> None:
        """Settle messages that were delivered or half sent before."""
        command = Command(message.name, pending)
        if request.code in ACKS:
            self._settlements.acked(command, reading.ext)
        elif request.code == BATCH_ACK:
            self._settlements.batch_acked(command, message.body.get("body"))
        elif request.code == END_TRANSACTION:
            self._settlements.ended(command, reading.ext)
        elif request.code == CHECK_TRANSACTION_STATE and reading.content is not None:
            self._settlements.checked(reading.ext, next(iter(reading.content.properties), None))

    def _learn(self, reading: _Reading, message: Message) -> None:
        """Note what a request says about its sender."""
        identity = self._identity
        if reading.frame.side is Side.SERVER:
            identity.server_software = identity.server_software or self._software(reading.header)
            return
        identity.client_software = identity.client_software or self._software(reading.header)
        if message.client_id is not None and message.client_id != identity.client_id:
            identity.name_client(message.client_id)
        user = as_name(reading.ext.get("access_key"))
        if identity.user is None and user is not None:
            identity.user, identity.mechanism = user, "ACL"

    def _software(self, header: RemotingHeader) -> str | None:
        """The software of a sender, by its header: "RocketMQ JAVA 5.5.0"."""
        language = self._tables.language_name(header.fields.get("language"))
        version = self._tables.version_name(header.fields.get("version"))
        words = [word for word in (language, version) if word]
        return " ".join(["RocketMQ", *words]) if words else None

    # ---- responses

    def _response(self, reading: _Reading) -> Message:
        header, frame = reading.header, reading.frame
        pending = None if header.opaque is None else self._dissector.reply_to((1 - frame.side, header.opaque))
        context: RemotingRequest | None = pending.context if pending else None
        request = context.request if context else None
        if request is not None:
            self._read(reading, request.response, request.records, required=header.code == 0)
        else:
            shown = shows_stored(frame.data, reading.stop)
            part = self._nothing._replace(body="stored-messages") if shown else self._nothing
            self._read(reading, part, "other", required=False)
        if "spans" in self._settings.wanted:
            self._remember(frame, reading.part)
        answered = pending.message if pending else None
        message = self._message(reading, answered.name if answered else UNASKED, "response")
        self._judge(message, header.code, context, reading.notes)
        if pending is not None and context is not None:
            self._answered(pending, context, reading, message)
        if header.code == GO_AWAY:
            self._identity.close_reason = "go away"
        if frame.side is Side.SERVER and self._identity.server_software is None:
            self._identity.server_software = self._software(header)
        return message

    def _judge(self, message: Message, code: int | None, context: RemotingRequest | None, notes: ProblemNotes) -> None:
        """Fill in the error of a response."""
        if code is None:
            return
        request, ext = (context.request, context.ext) if context else (None, {})
        group = request.response.codes if request else ""
        if group == "dledger":
            code = _dledger_code(code, message.body.get("body"))
            message.judged = message.frame.whole
        if code == 0:
            message.error_code = message.error_count = 0
            return
        message.error_code, message.error_name = code, self._tables.response_name(code, group)
        if ORDINARY.has(message.name, code, ext):
            message.error_count = 0
            return
        message.error_count = 1
        if message.error_name is None:
            message.error_name = f"unknown({code})"
            notes.note("unknown_code", "info", "a response code without a name", "code")
        remark = message.body.get("remark")
        if isinstance(remark, str) and remark.strip():
            message.notes += (("remark", remark.strip().partition("\n")[0][:REMARK_MAX]),)

    def _answered(self, pending: Pending, context: RemotingRequest, reading: _Reading, message: Message) -> None:
        """Take over what only the request says; complete its records, settle what it popped."""
        request, answered, content = context.request, pending.message, reading.content
        if answered is not None:
            message.topics = message.topics or answered.topics
            message.group = message.group or answered.group
        if not message.error_count or message.error_code in STORED_ANYHOW:
            if request is not None and request.records == "produced":
                for batch in context.records:
                    complete(batch, reading.ext)
        elif context.half is not None:
            self._settlements.half_refused(context.half)
        if pending.wait_limit_ns is not None:
            pending.held = not message.error_count and _held(pending, message, content)
        if request is None:
            return
        if request.code in POPS and content is not None:
            self._settlements.popped(message.frame, content.stored, content.properties, context.ext, reading.ext)
        columns = request.request.header
        message.partitions = rows.response_rows(columns, context.ext, reading.part.header, reading.ext, content)
        message.partitions += tuple(reading.mentions.queues)
        for row in message.partitions:
            row["error_code"], row["error_name"] = message.error_code, message.error_name


def _dledger_code(code: int, body: Value) -> int:
    """0 if header and body, if any, have the code 200 (success); else the other code."""
    inner = body.get("code", DLEDGER_OK) if isinstance(body, dict) else DLEDGER_OK
    worst = inner if code in (0, DLEDGER_OK) and isinstance(inner, int) else code
    return 0 if worst == DLEDGER_OK else worst


def _wait_limit_ns(request: Request, ext: dict[str, Any]) -> int | None:
    """How long the server may hold the response; None if the request does not allow it to."""
    limit = ext.get(request.waits) if request.waits else None
    if type(limit) is not int or not 0 < limit < WAIT_MAX_MS:
        return None
    flag = ext.get("sys_flag")
    if request.code in PULLS and not (type(flag) is int and flag & SUSPEND):
        return None
    return limit * MILLISECOND_NS


def _held(pending: Pending, answer: Message, content: Content | None) -> bool:
    """Whether the server held a poll: the response is late, and its messages did not exist before."""
    sent_ns, limit_ns = pending.frame.last_ts_ns, pending.wait_limit_ns or 0
    if answer.frame.first_ts_ns - sent_ns <= min(SERVED_NS, limit_ns * 9 // 10):
        return False
    if content is None or not content.stored:
        return True
    return max(message.store_timestamp for message in content.stored) * MILLISECOND_NS >= sent_ns - OLD_NS
