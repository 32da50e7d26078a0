"""Decodes the commands of a client of nsqd."""

from __future__ import annotations

from collections.abc import Iterator

from mqsniff.model import Event, Frame, Message, Secret, Upgrade, Value
from mqsniff.spec.wire import text_or_bytes
from mqsniff_nsq import frames
from mqsniff_nsq.lines import ParsedCommand, number, number_or_text, read_command, text
from mqsniff_nsq.publishing import batch_of, deliver_at, read_messages
from mqsniff_nsq.replies import SentCommand
from mqsniff_nsq.rules import (
    UnknownRow,
    check_body_size,
    check_command,
    check_identify,
    check_size,
    odd_magic,
    spec_violations,
)
from mqsniff_nsq.session import NsqSession
from mqsniff_nsq.tables import COMMANDS, MAGIC_V2


class ClientSide:
    """The client of one connection."""

    def __init__(self, session: NsqSession) -> None:
        self._session = session
        self.opening = True
        """Whether the magic has not come yet."""
        self.magic_at = -1
        """Offset of the magic; -1: not seen."""
        self.foreign = False
        """Whether the magic was wrong: then only what ``probe`` accepts is a command."""
        self.unknown = UnknownRow(session.settings.limits.unknown_max)

    def decode(self, frame: Frame) -> Iterator[Event]:
        """Give the events of a frame."""
        if self.opening:
            yield self._magic(frame)
            return
        session = self._session
        session.client_sent()
        read = read_command(frame.data, COMMANDS)
        message = _message_of(frame, read)
        message.problems += check_command(read, session.state)
        message.problems += self.unknown.add(read)
        upgrades = self._enrich(message, read)
        answered = read.command is not None and read.command.kind == "request"
        if read.line.word in (b"FIN", b"REQ"):
            session.settle_delivery(_message_id(read), message.name, message.correlation)
        else:
            sent = SentCommand(message.name if read.command else "unknown", _about(message, read))
            session.expect_reply(sent, expects=int(answered))
        yield message
        yield from session.placed(upgrades)

    def _magic(self, frame: Frame) -> Message:
        self.opening = False
        self.magic_at = frame.offset
        message = Message(frame, "nsq", "MAGIC", "oneway", {"magic": frames.magic(frame.data)})
        if frame.data != MAGIC_V2:
            self.foreign = True
            message.problems.append(odd_magic(frame.data, "nsqd"))
        self._session.expect_reply(SentCommand("MAGIC"), expects=0)
        return message

    def _enrich(self, message: Message, read: ParsedCommand) -> list[Upgrade]:
        """Apply the rules of single commands; returns the layers that an IDENTIFY begins at once."""
        match read.line.word:
            case b"FIN" | b"REQ" | b"TOUCH":
                self._about_delivery(message, read)
            case b"PUB" | b"DPUB":
                self._publish(message, read)
            case b"MPUB":
                self._publish_many(message, read)
            case b"RDY":
                message.group = self._session.group
                self._session.deliveries.credit = number(read.params.get("count", b"1")) or 0
                message.notes = (("count", message.body.get("count", 1)),)
            case b"CLS" | b"NOP":
                message.group = self._session.group
            case b"SUB":
                self._subscribe(message, read)
            case b"IDENTIFY":
                return self._identify(message, read)
            case b"AUTH":
                self._authorize(message, read)
        return []

    # ---- consumers

    def _subscribe(self, message: Message, read: ParsedCommand) -> None:
        session, channel = self._session, read.params.get("channel")
        session.topics = message.topics
        session.group = session.identity.group = message.group = None if channel is None else text(channel)
        session.state.subscribed = True

    def _about_delivery(self, message: Message, read: ParsedCommand) -> None:
        session, message_id = self._session, _message_id(read)
        message.correlation = text(message_id)
        message.topics, message.group = session.topics, session.group
        if "timeout_ms" in message.body:
            message.notes = (("timeout_ms", message.body["timeout_ms"]),)
        if message.name == "TOUCH":
            session.deliveries.touch(message_id, message.frame.last_ts_ns)

    # ---- producers

    def _publish(self, message: Message, read: ParsedCommand) -> None:
        size = read.size or 0
        message.body["body"] = {"size": size}
        message.problems += check_size(size, "body")
        if "defer_ms" in message.body:
            message.notes = (("defer_ms", message.body["defer_ms"]),)
        self._produced(message, read, [read.start], [size] if size > 0 else [])

    def _publish_many(self, message: Message, read: ParsedCommand) -> None:
        frame, size = message.frame, read.size or 0
        message.body["body_size"] = size
        message.problems += check_body_size(size)
        if size <= 0:
            return
        messages = read_messages(frame.data, read.start, frame.size, self._session.settings.limits.elements_max)
        if messages.count is not None:
            message.body["num_messages"] = messages.count
            message.body["messages"] = messages.body
            message.notes = (("count", messages.count),)
        message.problems += messages.check(size, whole=frame.whole)
        self._produced(message, read, messages.starts, messages.sizes)

    def _produced(self, message: Message, read: ParsedCommand, starts: list[int], sizes: list[int]) -> None:
        frame, topic = message.frame, next(iter(message.topics), None)
        message.partitions = ({"topic": topic, "records": len(sizes), "wire_bytes": sum(sizes)},)
        if "records" in self._session.settings.wanted and sizes:
            due = deliver_at(frame.last_ts_ns, number(read.params.get("defer_ms")))
            constant = {"direction": "produce", "topic": topic, "deliver_at_ts": due}
            message.records = (batch_of(frame.data, starts, sizes, constant),)

    # ---- identification and authorization

    def _identify(self, message: Message, read: ParsedCommand) -> list[Upgrade]:
        frame, size = message.frame, read.size or 0
        message.problems += check_body_size(size)
        fields, readable = frames.json_body(frame.data[read.start : read.start + max(size, 0)])
        message.body |= fields if size > 0 else {"size": size}
        if readable:
            message.problems += check_identify(fields)
            message.notes = tuple((name, fields[name]) for name in ("client_id", "user_agent") if name in fields)
            self._learn(fields)
        elif frame.whole and size > 0:
            message.problems.append(spec_violations("format", "the body is not a JSON object"))
        return self._session.negotiation.request(fields if readable else None, frame.offset + frame.size)

    def _learn(self, fields: dict[str, Value]) -> None:
        identity, agent, client_id = self._session.identity, fields.get("user_agent"), fields.get("client_id")
        if isinstance(agent, str):
            identity.client_software = agent
        if isinstance(client_id, str):
            identity.client_id = client_id
        self._session.state.heartbeats_off = fields.get("heartbeat_interval") == -1

    def _authorize(self, message: Message, read: ParsedCommand) -> None:
        size = read.size or 0
        message.body["secret"] = Secret(message.frame.data[read.start : read.start + max(size, 0)])
        message.problems += check_body_size(size)
        self._session.identity.mechanism = "AUTH"


def _message_of(frame: Frame, read: ParsedCommand) -> Message:
    """The message with name and parameters, as for every command."""
    command = read.command
    body: dict[str, Value] = {
        path: number_or_text(raw) if path in _NUMBERS else text_or_bytes(raw) for path, raw in read.params.items()
    }
    if read.extra:
        secret = command is not None and command.body == "secret"
        extra: list[Value] = [Secret(raw) if secret else text_or_bytes(raw) for raw in read.extra]
        body["extra_params" if command else "params"] = extra
    topics = (text(read.params["topic"]),) if "topic" in read.params else ()
    if command is None:
        return Message(frame, "nsq", read.line.name, "request", body)
    return Message(frame, "nsq", command.name, command.kind, body, topics=topics)


_NUMBERS = frozenset(("count", "defer_ms", "timeout_ms"))


def _message_id(read: ParsedCommand) -> bytes:
    return read.params.get("message_id", b"")


def _about(message: Message, read: ParsedCommand) -> str | None:
    """The message id or count by which an error may refer to the command."""
    count = read.params.get("count")
    return message.correlation if count is None else text(count)
