"""Commands of a client of nsqd: frames in, messages with their questions and records out."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.nsq import frames
from dissectors.nsq.lines import Read, number, number_or_text, read_command, text
from dissectors.nsq.publishing import batch_of, deliver_at, read_messages
from dissectors.nsq.rules import bent, check_body_size, check_command, check_identify, check_size
from dissectors.nsq.session import Session
from dissectors.nsq.tables import COMMANDS, MAGIC_V2
from mqsniff.model import Event, Frame, Message, Secret, Value
from mqsniff.spec.wire import text_or_bytes


class ClientSide:
    """The client of one connection."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.opening = True
        """Whether the magic is still due."""
        self.foreign = False
        """Whether the magic was another protocol's: nothing behind it is a command."""

    def decode(self, frame: Frame) -> Iterator[Event]:
        """Give the events of a frame."""
        if self.opening:
            return self._decode_magic(frame)
        session = self._session
        session.negotiation.waiting = False
        session.client_seen = True
        session.unanswered_heartbeats = 0
        read = read_command(frame.data, COMMANDS)
        message = _message_of(frame, read)
        message.problems += check_command(read, session.state)
        match read.line.word:
            case b"FIN" | b"REQ":
                return self._decode_settlement(message, read)
            case b"PUB" | b"DPUB" | b"MPUB":
                return self._decode_publish(message, read)
            case b"IDENTIFY":
                return self._decode_identify(message, read)
            case _:
                return self._decode_other(message, read)

    def _decode_magic(self, frame: Frame) -> Iterator[Event]:
        self.opening = False
        message = Message(frame, "nsq", "MAGIC", "oneway", {"magic": frames.magic(frame.data)})
        self._ask(message, expects=0)
        if frame.data != MAGIC_V2:
            self.foreign = True
            message.problems.append(bent("format", "the connection does not begin with the magic of nsqd"))
        yield message

    def _decode_settlement(self, message: Message, read: Read) -> Iterator[Event]:
        raw = read.params.get("message_id", b"")
        message.correlation = text(raw)
        message.topics, message.group = self._session.topics, self._session.group
        if "timeout_ms" in read.params:
            message.notes = (("timeout_ms", message.body["timeout_ms"]),)
        self._ask(message, expects=0, message_id=message.correlation)
        delivered = self._session.deliveries.pop(raw)
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
        if self._session.settings.records and sizes:
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
        messages = read_messages(frame.data, read.start, frame.size, self._session.settings.limits.elements_max)
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
        yield from self._session.negotiation.ask(fields if readable else None, frame.offset + frame.size)

    def _learn_client(self, fields: dict[str, Value]) -> None:
        agent, client_id = fields.get("user_agent"), fields.get("client_id")
        if isinstance(agent, str):
            self._session.identity.client_software = agent
        if isinstance(client_id, str):
            self._session.identity.client_id = client_id
        self._session.state.heartbeats_off = fields.get("heartbeat_interval") == -1

    def _decode_other(self, message: Message, read: Read) -> Iterator[Event]:
        """SUB, RDY, TOUCH, CLS, NOP, AUTH and what no table knows."""
        expects = 1 if message.kind == "request" and read.command else 0
        match read.line.word:
            case b"SUB":
                self._subscribe(message, read)
            case b"RDY":
                self._session.deliveries.credit = number(read.params.get("count", b"1")) or 0
                message.notes = (("count", message.body.get("count", 1)),)
            case b"TOUCH":
                message.correlation = text(read.params.get("message_id", b""))
                message.topics, message.group = self._session.topics, self._session.group
                self._session.deliveries.touch(read.params.get("message_id", b""))
            case b"AUTH":
                size = read.size or 0
                message.body["secret"] = Secret(message.frame.data[read.start : read.start + max(size, 0)])
                message.problems += check_body_size(size)
                self._session.identity.mechanism = "AUTH"
        self._ask(message, expects=expects, message_id=message.correlation)
        yield message

    def _subscribe(self, message: Message, read: Read) -> None:
        channel = read.params.get("channel")
        message.group = self._session.group = None if channel is None else text(channel)
        self._session.topics = message.topics
        self._session.state.subscribed = True
        self._session.identity.group = self._session.group



def _message_of(frame: Frame, read: Read) -> Message:
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

