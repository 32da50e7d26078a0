"""Frames of nsqd: bytes in, messages with the questions that they answer, and upgrades, out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dissectors.nsq import frames, replies
from dissectors.nsq.lines import INT32, text
from dissectors.nsq.rules import bent
from dissectors.nsq.session import Session
from dissectors.nsq.tables import ERROR, ERRORS, ERRORS_HISTORIC, HEARTBEAT, MESSAGE, MESSAGE_HEAD, RESPONSE
from mqsniff.model import Asked, Event, Frame, Message, Problem, Undecoded, Upgrade, Value
from mqsniff.spec.wire import Malformed

_DELIVERY_NOTES: Final = (("id", "message_id"), ("attempts", "attempts"))


class ServerSide:
    """The nsqd of one connection."""

    def __init__(self, session: Session) -> None:
        self._session = session

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
        layers = self._session.negotiation.answer(fields)
        if fields is not None:
            self._learn_server(fields)
        if asked is not None:
            asked.expects += layers
        return self._begin_layer(frame) if layers else None

    def _negotiated(self, frame: Frame, asked: Asked | None) -> Upgrade | None:
        """An OK: inside a new layer it may switch on the next one."""
        if self._session.negotiation.due:
            return self._begin_layer(frame)
        if asked is not None and asked.context[0] == "IDENTIFY":
            self._session.negotiation.refuse()
        return None

    def _begin_layer(self, frame: Frame) -> Upgrade:
        client_at = None if self._session.state.whole else self.fed(Side.CLIENT)
        return self._session.negotiation.begin(frame.offset + frame.size, client_at)

    def _learn_server(self, fields: dict[str, Value]) -> None:
        state, version, most = self._session.state, fields.get("version"), fields.get("max_rdy_count")
        if isinstance(version, str):
            self._session.identity.server_software = f"nsqd {version}"
        if isinstance(most, int):
            state.max_rdy_count = most
            state.told.add("max_rdy_count")
        state.auth_required = fields.get("auth_required") is True

    def _authorize(self, fields: dict[str, Value]) -> None:
        self._session.state.authorized = True
        user = fields.get("identity")
        if isinstance(user, str):
            self._session.identity.user = user

    def _decode_error(self, frame: Frame, data: bytes) -> Iterator[Event]:
        code, description = frames.read_error(data)
        body: dict[str, Value] = {"code": code, "description": description}
        message = Message(frame, "nsq", "ERROR", "response", body, error_name=code, error_count=1)
        message.notes = (("description", description),) if description else ()
        error = ERRORS.get(code) or ERRORS_HISTORIC.get(code)
        if error is None:
            message.problems.append(Problem("unknown_code", "warning", "an error code that is not known", "code"))
        elif error.fatal:
            self._session.identity.close_reason = "too large" if "too big" in description else error.cause
        asked = self._asked_for(*replies.blamed(code, description), failed=True)
        if asked is not None:
            asked.expects = 1
            self.settle(asked, "error", answered=True)
        if asked is None or asked.context[0] == "IDENTIFY":
            self._session.negotiation.refuse()
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
        message = Message(frame, "nsq", "MESSAGE", "push", body, topics=self._session.topics, group=self._session.group)
        message.notes = tuple((label, body[name]) for label, name in _DELIVERY_NOTES if name in body)
        topic = self._session.topics[0] if self._session.topics else None
        message.partitions = ({"topic": topic, "records": 1, "wire_bytes": size},)
        if head.message_id is not None:
            self._deliver(message, head.message_id, head.attempts)
        if self._session.settings.records:
            start = frames.HEAD + MESSAGE_HEAD
            constant = {"direction": "deliver", "topic": topic, "record_ts": head.timestamp}
            constant |= {"attempts": head.attempts, "message_id": message_id}
            message.records = (batch_of(frame.data, [start], [size], **constant),)
        yield message

    def _deliver(self, message: Message, message_id: bytes, attempts: int | None) -> None:
        if not frames.is_message_id(message_id):
            message.problems.append(bent("format", "a message id that is not 16 hex digits", "message_id"))
        again = self._session.deliveries.pop(message_id)
        if again is not None:
            self.settle(again, "unanswered")
        asked = self.ask(("message", message_id), link="settlement", in_order=False)
        self._session.deliveries.add(message_id, attempts, asked)


