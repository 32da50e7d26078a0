"""Decodes the frames of nsqd: responses, errors and messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mqsniff.model import Event, Frame, Message, Pending, Problem, Undecoded, Upgrade, Value
from mqsniff.spec.wire import Malformed
from mqsniff_nsq import frames, replies, tables
from mqsniff_nsq.lines import INT32
from mqsniff_nsq.publishing import batch_of
from mqsniff_nsq.rules import spec_violations
from mqsniff_nsq.session import NsqSession

_BODY_AT: Final = frames.HEAD + tables.MESSAGE_HEAD


class ServerSide:
    """The server of one connection."""

    def __init__(self, session: NsqSession) -> None:
        self._session = session

    def decode(self, frame: Frame) -> Iterator[Event]:
        """Give the events of a frame."""
        if frame.first_ts_ns >= self._session.due_ns:
            self._session.server_sent(frame.first_ts_ns)
        (frame_type,) = INT32.unpack_from(frame.data, 4)
        match frame_type:
            case tables.MESSAGE:
                yield self._delivery(frame)
            case tables.RESPONSE:
                yield from self._response(frame, frames.response_of(frame))
            case tables.ERROR:
                yield self._error(frame)
            case _:
                yield _odd(frame, frame_type)

    # ---- responses

    def _response(self, frame: Frame, content: bytes) -> Iterator[Event]:
        if content == tables.HEARTBEAT:
            yield self._heartbeat(frame)
        elif content.startswith(b"{"):
            yield from self._json(frame, content)
        else:
            names = replies.BY_WORD.get(content, replies.ANY)
            pending = self._session.find_answered([replies.ReplyTarget(names)])
            upgrades = self._ok(frame, pending) if content == b"OK" else []
            yield self._answer(frame, {"data": frames.response_value(content)}, pending)
            yield from self._session.placed(upgrades)

    def _heartbeat(self, frame: Frame) -> Message:
        session = self._session
        session.unanswered_heartbeats += 1
        message = Message(frame, "nsq", "HEARTBEAT", "push", {"data": tables.HEARTBEAT.decode()}, group=session.group)
        if session.unanswered_heartbeats == 2 and session.client_seen:
            message.problems.append(
                spec_violations("unmatched", "two heartbeats without a command of the client after them")
            )
        return message

    def _json(self, frame: Frame, content: bytes) -> Iterator[Event]:
        """Decode the reply to IDENTIFY, which may begin layers, or to AUTH."""
        body, readable = frames.json_body(content)
        fields = body if readable else None
        names = replies.names_answered_by(fields)
        pending = self._session.find_answered([replies.ReplyTarget(names)])
        upgrades: list[Upgrade] = []
        if names == replies.JSON_AUTH and fields is not None:
            self._authorized(fields)
        elif pending is None or pending.context.name == "IDENTIFY":
            upgrades = self._identified(frame, fields, pending)
        yield self._answer(frame, body, pending)
        yield from self._session.placed(upgrades)

    def _answer(self, frame: Frame, body: dict[str, Value], pending: Pending | None) -> Message:
        message = Message(frame, "nsq", "RESPONSE", "response", body, error_count=0)
        message.notes = tuple((name, body[name]) for name in ("data", "version", "identity") if name in body)
        message.group = self._group_of(pending)
        if pending is not None:
            self._session.replied(pending)
        return message

    def _identified(self, frame: Frame, fields: dict[str, Value] | None, pending: Pending | None) -> list[Upgrade]:
        """Begin the layers that the reply to IDENTIFY grants; an OK follows in each of them."""
        layers = self._session.negotiation.answer(fields)
        if fields is not None:
            self._learn(fields)
        if pending is not None:
            pending.expects += layers
        return [self._begin_layer(frame)] if layers else []

    def _ok(self, frame: Frame, pending: Pending | None) -> list[Upgrade]:
        """Handle an OK: in a new layer it may begin the next one; as a reply to IDENTIFY it grants none."""
        negotiation = self._session.negotiation
        if negotiation.due:
            return [self._begin_layer(frame)]
        if pending is not None and pending.context.name == "IDENTIFY":
            negotiation.refuse()
        return []

    def _begin_layer(self, frame: Frame) -> Upgrade:
        session = self._session
        client_at = None if session.state.whole else session.client_fed()
        return session.negotiation.begin(frame.offset + frame.size, client_at)

    def _learn(self, fields: dict[str, Value]) -> None:
        session, version, most = self._session, fields.get("version"), fields.get("max_rdy_count")
        if isinstance(version, str):
            session.identity.server_software = f"nsqd {version}"
        if isinstance(most, int):
            session.state.max_rdy_count, session.state.max_rdy_source = most, "told by the server"
        session.deliveries.learn(fields.get("msg_timeout"), fields.get("max_msg_timeout"))
        session.state.auth_required = fields.get("auth_required") is True

    def _authorized(self, fields: dict[str, Value]) -> None:
        self._session.state.authorized = True
        user = fields.get("identity")
        if isinstance(user, str):
            self._session.identity.user = user

    # ---- errors

    def _error(self, frame: Frame) -> Message:
        session = self._session
        code, description = frames.read_error(frame.data[frames.HEAD :])
        message = Message(frame, "nsq", "ERROR", "response", {"code": code, "description": description})
        message.error_name, message.error_count = code or None, 1
        message.notes = (("description", description),) if description else ()
        error = tables.ERRORS.get(code) or tables.ERRORS_HISTORIC.get(code)
        if error is None:
            message.problems.append(Problem("unknown_code", "warning", "an error code that is not known", "code"))
        elif error.fatal:
            session.identity.close_reason = "too large" if "too big" in description else error.cause
        targets = replies.targets_of_error(code, description)
        pending = session.find_answered(targets, failed=True)
        if pending is None or pending.context.name == "IDENTIFY":
            session.negotiation.refuse()
        message.group = self._group_of(pending)
        if pending is not None:
            if session.refused(pending, frame.first_ts_ns):
                message.notes += (("timed_out", True),)
            pending.expects = 1
            session.replied(pending, "error")
        elif error is not None and error.fatal:
            session.refuse_next(targets)
        return message

    def _group_of(self, pending: Pending | None) -> str | None:
        """The channel of a reply: that of its command, else that of the connection's SUB."""
        if pending is None or pending.message is None:
            return self._session.group
        return pending.message.group

    # ---- messages

    def _delivery(self, frame: Frame) -> Message:
        session, size = self._session, frame.size - _BODY_AT
        if size < 0:
            raise Malformed("a message shorter than its head")
        head = frames.read_message(frame.data)
        fields = head.fields
        body: dict[str, Value] = {name: value for name, value in fields.items() if value is not None}
        body["body"] = {"size": size}
        message = Message(frame, "nsq", "MESSAGE", "push", body, topics=session.topics, group=session.group)
        message.notes = (("id", fields["message_id"]), ("attempts", head.attempts))
        topic = next(iter(session.topics), None)
        message.partitions = ({"topic": topic, "records": 1, "wire_bytes": size},)
        if head.message_id is not None:
            if session.expect_settlement(head.message_id, head.attempts):
                message.notes += (("timed_out", True),)
            if not frames.is_message_id(head.message_id):
                message.problems.append(
                    spec_violations("format", "a message id that is not 16 hex digits", "message_id")
                )
        if "records" in session.settings.wanted:
            constant: dict[str, Any] = {"direction": "deliver", "topic": topic, "record_ts": head.timestamp}
            constant |= {"attempts": head.attempts, "message_id": fields["message_id"]}
            message.records = (batch_of(frame.data, [_BODY_AT], [size], constant),)
        return message


def _odd(frame: Frame, frame_type: int) -> Message:
    body: dict[str, Value] = {"frame_type": frame_type, "data": Undecoded(frame.data[frames.HEAD :])}
    problem = Problem("unknown_code", "warning", "a frame type that the protocol does not have", "frame_type")
    return Message(frame, "nsq", f"unknown({frame_type})", "push", body, problems=[problem])
