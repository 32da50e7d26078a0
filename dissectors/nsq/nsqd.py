"""The connection of a client to nsqd (protocol V2): frames of both sides in, messages, questions and upgrades out.

1. Commands that nsqd answers stand in one queue (REPLY) with those that it answers only when they fail.
2. A delivered message is a question that FIN or REQ of its id settles.
3. The topic and channel of the connection's SUB are those of every message that is delivered on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from dissectors.nsq import commands, frames, replies
from dissectors.nsq.deliveries import Deliveries
from dissectors.nsq.lines import HEAD_MAX, INT32, Read, number, number_or_text, read_command, size_of, text
from dissectors.nsq.negotiation import Negotiation
from dissectors.nsq.publishing import batch_of, deliver_at, read_messages
from dissectors.nsq.rules import State, bent, check_body_size, check_command, check_identify, check_size
from dissectors.nsq.tables import (
    COMMANDS,
    ERRORS,
    ERRORS_HISTORIC,
    HEARTBEAT,
    MAGIC_SIZE,
    MAGIC_V2,
    MESSAGE_HEAD,
    describe_nsqd,
)
from mqsniff.dissector import NEED, NO_FRAME, WAIT_PEER, Probed, Sample, Settings, Sized, Table, Verdict, Walk, Walked
from mqsniff.framing import FramedDissector
from mqsniff.model import (
    Asked,
    Event,
    Frame,
    Gap,
    Message,
    Problem,
    Secret,
    Side,
    Status,
    Undecoded,
    Upgrade,
    Value,
)
from mqsniff.spec.wire import Malformed, text_or_bytes

REPLY: Final = "reply"
"""Key of all questions that nsqd answers in order."""

LOOK_BACK: Final = 1_024
"""Open commands that are looked through for the one that a reply is for: a hostile queue must not cost more."""

BAD_PROTOCOL: Final = b"\x00\x00\x00\x12\x00\x00\x00\x01E_BAD_PROTOCOL"


class Nsq(FramedDissector):
    """nsqd's TCP protocol, version 2."""

    names = ("nsq",)
    ports = frozenset({4150})
    head_max = HEAD_MAX
    probe_max = 256

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._opening = True
        self._foreign = False
        self._state = State()
        self._negotiation = Negotiation()
        self._deliveries = Deliveries(settings.limits.questions_max)
        self._topics: tuple[str, ...] = ()
        self._group: str | None = None
        self._lost: list[Asked] = []
        self._unanswered_heartbeats = 0
        self._client_seen = False
        self._closed: list[Side] = []

    @classmethod
    def describe(cls) -> dict[str, Table]:
        """What is known of the protocol, as tables."""
        return describe_nsqd()

    # ---- detection and framing

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        """Both sides; a magic with any line behind it and a server that answers in frames are enough together."""
        if server.from_start and server.data == BAD_PROTOCOL:
            return Verdict.YES
        verdict = super().detect(client, server)
        if (
            verdict is Verdict.MAYBE
            and min(cls.detect_side(side, sample) for side, sample in zip(Side, (client, server), strict=True))
            >= Verdict.MAYBE
        ):
            return Verdict.YES
        return verdict

    @classmethod
    def detect_side(cls, side: Side, sample: Sample) -> Verdict:
        """As every framed protocol, but a client's stream opens with the magic, and the short commands prove little."""
        verdict = super().detect_side(side, sample)
        if side is Side.SERVER:
            return verdict
        if sample.from_start:
            return cls._detect_opening(sample.data)
        if verdict is Verdict.YES and all(
            commands.is_weak(sample.data[start:]) or not isinstance(cls.probe(side, sample.data[start:]), int)
            for start in sample.starts
        ):
            return Verdict.MAYBE
        return verdict

    @classmethod
    def _detect_opening(cls, data: bytes) -> Verdict:
        if not data.startswith(MAGIC_V2):
            return Verdict.MORE if MAGIC_V2.startswith(data) else Verdict.NO
        behind = commands.probe(data[MAGIC_SIZE : MAGIC_SIZE + cls.head_max])
        return Verdict.YES if isinstance(behind, int) else Verdict.MAYBE

    @classmethod
    def probe(cls, side: Side, head: bytes) -> Probed:
        """Size of the frame that must start here."""
        return commands.probe(head) if side is Side.CLIENT else frames.probe(head)

    @classmethod
    def scan(cls, side: Side, data: bytes, start: int) -> int:
        """First offset where a frame may start."""
        return commands.scan(data, start) if side is Side.CLIENT else frames.scan(data, start)

    def start(self, side: Side, *, in_step: bool) -> None:
        """Say before the first byte of a side whether the stream was seen from its beginning."""
        super().start(side, in_step=in_step)
        if side is Side.CLIENT:
            self._opening = self._state.whole = in_step

    def frame_size(self, side: Side, head: bytes) -> Sized:
        """Size of the frame that starts here."""
        if side is Side.CLIENT:
            if self._opening:
                return MAGIC_SIZE if len(head) >= MAGIC_SIZE else NEED
            if self._foreign:
                return NO_FRAME
            if self._negotiation.waiting and self.may_wait(side):
                return WAIT_PEER
        if self._negotiation.waiting or self._negotiation.looking[side]:
            layer = self._negotiation.layer_of(side, head, plain=_looks_plain(side, head))
            if layer is not None:
                return layer
        return size_of(head, COMMANDS) if side is Side.CLIENT else frames.size_of(head)

    def walk(self, side: Side, walk: Walk, data: bytes) -> Walked:  # noqa: ARG002  # only MPUB is walked
        """Go on through the messages of an MPUB."""
        return commands.walk_messages(walk, data)

    # ---- losses and the end

    def gap(self, gap: Gap) -> Iterator[Event]:
        """Take note of lost bytes of a side."""
        if gap.side is Side.CLIENT:
            self._state.whole = False
            self._unanswered_heartbeats = 0
        elif self._negotiation.waiting:
            self._negotiation.look()
        yield from super().gap(gap)

    def missed(self, side: Side, length: int | None) -> None:
        """Replies that were lost leave their commands unanswered, so that the next ones find theirs."""
        if side is Side.CLIENT:
            self._opening = False
        elif length is not None:
            waiting = (asked for asked in self.questions(REPLY) if asked.expects > 0)
            self._lost += islice(waiting, replies.replies_in(length))

    def close(self, side: Side) -> Iterator[Event]:
        """No more bytes of a side will come."""
        yield from super().close(side)
        silent = self._client_seen and self._unanswered_heartbeats > 0
        if side is Side.SERVER and silent and not self._closed and self.identity.close_reason is None:
            self.identity.close_reason = "keepalive missed"
        self._closed.append(side)

    # ---- frames of the client

    def decode(self, frame: Frame) -> Iterator[Event]:
        """Give the events of a frame."""
        self._negotiation.looking[frame.side] = False
        if frame.side is Side.SERVER:
            return self._decode_server(frame)
        if self._opening:
            return self._decode_magic(frame)
        self._negotiation.waiting = False
        self._client_seen = True
        self._unanswered_heartbeats = 0
        read = read_command(frame.data, COMMANDS)
        message = self._message_of(frame, read)
        message.problems = check_command(read, self._state)
        match read.line.word:
            case b"FIN" | b"REQ":
                return self._decode_settlement(message, read)
            case b"PUB" | b"DPUB" | b"MPUB":
                return self._decode_publish(message, read)
            case b"IDENTIFY":
                return self._decode_identify(message, read)
            case _:
                return self._decode_other(message, read)

    def _message_of(self, frame: Frame, read: Read) -> Message:
        """What all commands have in common: their name and their parameters."""
        name, kind = (read.command.name, read.command.kind) if read.command else (read.line.name, "request")
        body: dict[str, Value] = {
            path: number_or_text(raw) if path in ("count", "defer_ms", "timeout_ms") else text_or_bytes(raw)
            for path, raw in read.params.items()
        }
        if read.extra:
            body["extra_params" if read.command else "params"] = [
                Secret(raw) if name == "AUTH" else text_or_bytes(raw) for raw in read.extra
            ]
        topics = (text(read.params["topic"]),) if "topic" in read.params else ()
        return Message(frame, "nsq", name, kind, body, topics=topics)

    def _ask(self, message: Message, *, expects: int, message_id: str | None = None) -> Asked:
        name = "unknown" if message.name.startswith("unknown") else message.name
        return self.ask(REPLY, (name, message_id), expects=expects)

    def _decode_magic(self, frame: Frame) -> Iterator[Event]:
        self._opening = False
        message = Message(frame, "nsq", "MAGIC", "oneway", {"magic": frames.magic(frame.data)})
        self._ask(message, expects=0)
        if frame.data != MAGIC_V2:
            self._foreign = True
            message.problems.append(bent("format", "the connection does not begin with the magic of nsqd"))
        yield message

    def _decode_settlement(self, message: Message, read: Read) -> Iterator[Event]:
        raw = read.params.get("message_id", b"")
        message.correlation = text(raw)
        message.topics, message.group = self._topics, self._group
        if "timeout_ms" in read.params:
            message.notes = (("timeout_ms", message.body["timeout_ms"]),)
        self._ask(message, expects=0, message_id=message.correlation)
        delivered = self._deliveries.pop(raw)
        if delivered is not None:
            delivered.extra["settled_by"] = message.name
            self.settle(delivered, answered=True)
        yield message

    def _decode_publish(self, message: Message, read: Read) -> Iterator[Event]:
        frame, size = message.frame, read.size or 0
        topic = message.topics[0] if message.topics else None
        if read.line.word == b"MPUB":
            sizes, starts = self._read_mpub(message, read)
        else:
            sizes, starts = ([size] if size > 0 else []), [read.start]
            message.body["body"] = {"size": size}
            message.problems += check_size(size, "body")
        defer = number(read.params.get("defer_ms"))
        if defer is not None:
            message.notes = (("defer_ms", defer),)
        message.partitions = ({"topic": topic, "records": len(sizes), "wire_bytes": sum(sizes)},)
        if self.settings.records and sizes:
            due = deliver_at(frame.last_ts_ns, defer)
            constant = {"direction": "produce", "topic": topic, "deliver_at_ts": due}
            message.records = (batch_of(frame.data, starts[: len(sizes)], sizes, **constant),)
        self._ask(message, expects=1)
        yield message

    def _read_mpub(self, message: Message, read: Read) -> tuple[list[int], list[int]]:
        frame, size = message.frame, read.size or 0
        message.body["body_size"] = size
        message.problems += check_body_size(size)
        if size <= 0:
            return [], []
        messages = read_messages(frame.data, read.start, frame.size, self.settings.limits.elements_max)
        if messages.count is not None:
            message.body["num_messages"] = messages.count
            message.body["messages"] = messages.body
            message.notes = (("count", messages.count),)
        message.problems += messages.check(size, whole=frame.whole)
        return messages.sizes, messages.starts

    def _decode_identify(self, message: Message, read: Read) -> Iterator[Event]:
        frame, size = message.frame, read.size or 0
        message.problems += check_body_size(size)
        raw = frame.data[read.start : read.start + max(size, 0)]
        fields, readable = frames.json_body(raw)
        message.body |= fields if size > 0 else {"size": size}
        if readable:
            message.problems += check_identify(fields)
            self._learn_client(fields)
            message.notes = tuple((name, fields[name]) for name in ("user_agent",) if name in fields)
        elif frame.whole:
            message.problems.append(bent("format", "the body is no JSON object"))
        self._ask(message, expects=1)
        yield message
        yield from self._negotiation.ask(fields if readable else None, frame.offset + frame.size)

    def _learn_client(self, fields: dict[str, Value]) -> None:
        agent, client_id = fields.get("user_agent"), fields.get("client_id")
        if isinstance(agent, str):
            self.identity.client_software = agent
        if isinstance(client_id, str):
            self.identity.client_id = client_id
        self._state.heartbeats_off = fields.get("heartbeat_interval") == -1

    def _decode_other(self, message: Message, read: Read) -> Iterator[Event]:
        """SUB, RDY, TOUCH, CLS, NOP, AUTH and what no table knows."""
        expects = 1 if message.kind == "request" and read.command else 0
        match read.line.word:
            case b"SUB":
                self._subscribe(message, read)
            case b"RDY":
                self._deliveries.credit = number(read.params.get("count", b"1")) or 0
                message.notes = (("count", message.body.get("count", 1)),)
            case b"TOUCH":
                message.correlation = text(read.params.get("message_id", b""))
                message.topics, message.group = self._topics, self._group
                self._deliveries.touch(read.params.get("message_id", b""))
            case b"AUTH":
                size = read.size or 0
                message.body["secret"] = Secret(message.frame.data[read.start : read.start + max(size, 0)])
                message.problems += check_body_size(size)
                self.identity.mechanism = "AUTH"
        self._ask(message, expects=expects, message_id=message.correlation)
        yield message

    def _subscribe(self, message: Message, read: Read) -> None:
        channel = read.params.get("channel")
        message.group = self._group = None if channel is None else text(channel)
        self._topics = message.topics
        self._state.subscribed = True
        self.identity.group = self._group

    # ---- frames of the server

    def _decode_server(self, frame: Frame) -> Iterator[Event]:
        (frame_type,) = INT32.unpack_from(frame.data, 4)
        data = frame.data[frames.HEAD :]
        match frame_type:
            case frames.RESPONSE:
                said = frames.word_of(data, frame.size - frames.HEAD)
                return (
                    self._decode_heartbeat(frame) if said == HEARTBEAT else self._decode_response(frame, said or data)
                )
            case frames.ERROR:
                return self._decode_error(frame, data)
            case frames.MESSAGE:
                return self._decode_delivery(frame)
        return iter((self._odd_frame(frame, frame_type, data),))

    def _odd_frame(self, frame: Frame, frame_type: int, data: bytes) -> Message:
        body: dict[str, Value] = {"frame_type": frame_type, "data": Undecoded(data)}
        problems = [Problem("unknown_code", "warning", "a frame type that the protocol does not have", "frame_type")]
        return Message(frame, "nsq", f"unknown({frame_type})", "push", body, problems=problems)

    def _decode_heartbeat(self, frame: Frame) -> Iterator[Event]:
        self._unanswered_heartbeats += 1
        message = Message(frame, "nsq", "HEARTBEAT", "push", {"data": HEARTBEAT.decode()})
        if self._unanswered_heartbeats == 2 and self._client_seen:
            message.problems.append(bent("unmatched", "two heartbeats without a command of the client behind them"))
        yield message

    def _decode_response(self, frame: Frame, said: bytes) -> Iterator[Event]:
        body: dict[str, Value] = {"data": frames.said(said)}
        fields: dict[str, Value] | None = None
        names = replies.BY_WORD.get(said, replies.ANY)
        if said.startswith(b"{"):
            body, readable = frames.json_body(said)
            fields = body if readable else None
            names = replies.answered_by_json(fields)
        message = Message(frame, "nsq", "RESPONSE", "response", body, error_count=0)
        message.notes = tuple((name, body[name]) for name in ("data", "version", "identity") if name in body)
        asked = self._asked_for(replies.Blame(names))
        upgrade = None
        if said == b"OK":
            upgrade = self._negotiated(frame, asked)
        elif said.startswith(b"{") and names == replies.JSON_AUTH and fields is not None:
            self._authorize(fields)
        elif said.startswith(b"{") and (asked is None or asked.context[0] == "IDENTIFY"):
            upgrade = self._answer_identify(frame, fields, asked)
        if asked is not None:
            self.settle(asked, answered=True)
        yield message
        if upgrade is not None:
            yield upgrade

    def _answer_identify(self, frame: Frame, fields: dict[str, Value] | None, asked: Asked | None) -> Upgrade | None:
        """The JSON that answers IDENTIFY: the first layer that it switches on; an OK follows each of them."""
        layers = self._negotiation.answer(fields)
        if fields is not None:
            self._learn_server(fields)
        if asked is not None:
            asked.expects += layers
        return self._begin_layer(frame) if layers else None

    def _negotiated(self, frame: Frame, asked: Asked | None) -> Upgrade | None:
        """An OK: inside a new layer it may switch on the next one."""
        if self._negotiation.due:
            return self._begin_layer(frame)
        if asked is not None and asked.context[0] == "IDENTIFY":
            self._negotiation.refuse()
        return None

    def _begin_layer(self, frame: Frame) -> Upgrade:
        client_at = None if self._state.whole else self.fed(Side.CLIENT)
        return self._negotiation.begin(frame.offset + frame.size, client_at)

    def _learn_server(self, fields: dict[str, Value]) -> None:
        state, version, most = self._state, fields.get("version"), fields.get("max_rdy_count")
        if isinstance(version, str):
            self.identity.server_software = f"nsqd {version}"
        if isinstance(most, int):
            state.max_rdy_count = most
            state.told.add("max_rdy_count")
        state.auth_required = fields.get("auth_required") is True

    def _authorize(self, fields: dict[str, Value]) -> None:
        self._state.authorized = True
        user = fields.get("identity")
        if isinstance(user, str):
            self.identity.user = user

    def _decode_error(self, frame: Frame, data: bytes) -> Iterator[Event]:
        code, description = frames.read_error(data)
        body: dict[str, Value] = {"code": code, "description": description}
        message = Message(frame, "nsq", "ERROR", "response", body, error_name=code, error_count=1)
        message.notes = (("description", description),) if description else ()
        error = ERRORS.get(code) or ERRORS_HISTORIC.get(code)
        if error is None:
            message.problems.append(Problem("unknown_code", "warning", "an error code that is not known", "code"))
        elif error.fatal:
            self.identity.close_reason = "too large" if "too big" in description else error.cause
        asked = self._asked_for(*replies.blamed(code, description), failed=True)
        if asked is not None:
            asked.expects = 1
            self.settle(asked, "error", answered=True)
        if asked is None or asked.context[0] == "IDENTIFY":
            self._negotiation.refuse()
        yield message

    def _asked_for(self, *blames: replies.Blame, failed: bool = False) -> Asked | None:
        """The oldest command that a reply can be for; those before it will not be answered any more."""
        if len(blames[0].names) > 1:
            for asked in self._lost:
                if asked.status is None:
                    self.settle(asked, "lost")
        self._lost = []
        for blame in blames:
            passed = []
            for asked in islice(self.questions(REPLY), LOOK_BACK):
                if (failed or asked.expects > 0) and blame.fits(*asked.context):
                    for other in passed:
                        self.settle(other, self._status_of_passed(other))
                    return asked
                passed.append(asked)
        return None

    def _status_of_passed(self, asked: Asked) -> Status:
        if asked.expects == 0:
            return "oneway"
        return "lost" if self.gaps_of(Side.SERVER) > asked.gaps_before else "unanswered"

    def _decode_delivery(self, frame: Frame) -> Iterator[Event]:
        head = frames.read_message(frame.data)
        size = frame.size - frames.HEAD - MESSAGE_HEAD
        if size < 0:
            raise Malformed("a message shorter than its head")
        message_id = None if head.message_id is None else text(head.message_id)
        told = {"timestamp": head.timestamp, "attempts": head.attempts, "message_id": message_id}
        body: dict[str, Value] = {name: value for name, value in told.items() if value is not None}
        body["body"] = {"size": size}
        message = Message(frame, "nsq", "MESSAGE", "push", body, topics=self._topics, group=self._group)
        message.notes = tuple((label, body[name]) for label, name in _DELIVERY_NOTES if name in body)
        topic = self._topics[0] if self._topics else None
        message.partitions = ({"topic": topic, "records": 1, "wire_bytes": size},)
        if head.message_id is not None:
            self._deliver(message, head.message_id, head.attempts)
        if self.settings.records:
            start = frames.HEAD + MESSAGE_HEAD
            constant = {"direction": "deliver", "topic": topic, "record_ts": head.timestamp}
            constant |= {"attempts": head.attempts, "message_id": message_id}
            message.records = (batch_of(frame.data, [start], [size], **constant),)
        yield message

    def _deliver(self, message: Message, message_id: bytes, attempts: int | None) -> None:
        if not frames.is_message_id(message_id):
            message.problems.append(bent("format", "a message id that is not 16 hex digits", "message_id"))
        again = self._deliveries.pop(message_id)
        if again is not None:
            self.settle(again, "unanswered")
        asked = self.ask(("message", message_id), link="settlement", in_order=False)
        self._deliveries.add(message_id, attempts, asked)


_DELIVERY_NOTES: Final = (("id", "message_id"), ("attempts", "attempts"))


def _looks_plain(side: Side, head: bytes) -> bool | None:
    """Whether a frame of this layer starts here; None when more bytes must tell."""
    if side is Side.CLIENT:
        return commands.may_begin(head)
    size = frames.probe(head)
    return None if size is NEED else size is not NO_FRAME
