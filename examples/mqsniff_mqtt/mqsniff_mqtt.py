"""MQTT 3.1.1 (OASIS Standard, 29 October 2014): frames in, messages out.

1. A packet is type and flags (1 byte), the remaining length (1 to 4 bytes), and so many bytes. Numbers of chapters in
   comments are those of the standard.
2. Packet identifiers are per sender: what waits for an answer is found by (type of the answer, who answers,
   identifier).
3. A client's PUBLISH is a request when its QoS is above 0. A server's PUBLISH is a push, which the client settles by
   PUBACK (QoS 1) or PUBREC (QoS 2: from then on the client owns the message, 4.3.3). PUBREL asks for PUBCOMP, whoever
   sends it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqsniff.plugin import (
    NEED,
    NO_FRAME,
    Event,
    Frame,
    FramedDissector,
    Malformed,
    Message,
    Pending,
    Probed,
    Problem,
    ProvenSize,
    RecordBatch,
    Secret,
    Side,
    Undecoded,
    Value,
)

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = range(8, 15)
NAMES = (
    *("reserved(0)", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK"),
    *("UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "reserved(15)"),
)
CLIENT_ONLY = {CONNECT, SUBSCRIBE, UNSUBSCRIBE, PINGREQ, DISCONNECT}
SERVER_ONLY = {CONNACK, SUBACK, UNSUBACK, PINGRESP}
ANSWERS = {CONNECT: CONNACK, PUBREL: PUBCOMP, SUBSCRIBE: SUBACK, UNSUBSCRIBE: UNSUBACK, PINGREQ: PINGRESP}
ACKS = {1: PUBACK, 2: PUBREC}  # what a PUBLISH of that QoS waits for
RESPONSES = {CONNACK, PUBACK, PUBREC, PUBCOMP, SUBACK, UNSUBACK, PINGRESP}
IDENTIFIED = {PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK}  # an identifier comes first

# Remaining lengths that a packet may have: exactly, or at least.
EXACTLY = {CONNACK: 2, PUBACK: 2, PUBREC: 2, PUBREL: 2, PUBCOMP: 2, UNSUBACK: 2, PINGREQ: 0, PINGRESP: 0, DISCONNECT: 0}
AT_LEAST = {CONNECT: 12, PUBLISH: 3, SUBSCRIBE: 6, SUBACK: 3, UNSUBSCRIBE: 5}
HEAD = 13  # of a CONNECT: 1, remaining length 4, name 6, level 1, flags 1

PROTOCOL = b"\x00\x04MQTT\x04"
CONNACK_CODES = (  # 3.2.2.3
    "ACCEPTED",
    "UNACCEPTABLE_PROTOCOL_VERSION",
    "IDENTIFIER_REJECTED",
    "SERVER_UNAVAILABLE",
    "BAD_USER_NAME_OR_PASSWORD",
    "NOT_AUTHORIZED",
)
SUBACK_FAILURE = 0x80  # 3.9.3


class Cut(Exception):  # noqa: N818 - it is no error where the capture is cut
    """A field continues after the bytes that are there."""


class Fields:
    """The fields of a packet, read one after the other; raises Cut where they are not all there."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data, self.at = data, start

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if len(self.data) - self.at < size:
            raise Cut
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        """The next number, big-endian."""
        return int.from_bytes(self.take(size), "big")

    def binary(self) -> bytes:
        """Bytes after their length; nothing is taken where they are not whole."""
        start = self.at
        try:
            return self.take(self.number(2))
        except Cut:
            self.at = start
            raise

    def more(self) -> bool:
        """Whether bytes are left."""
        return self.at < len(self.data)


def remaining_length(head: bytes) -> tuple[int, int] | Probed | None:
    """The value of the remaining length (2.2.3) and the offset after it; None: more bytes are needed."""
    value = 0
    for index, byte in enumerate(head[1:5]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, index + 2
    return NO_FRAME if len(head) >= 5 else None


def fits(kind: int, flags: int, size: int) -> bool:
    """Whether a packet of that type may have these flags and that remaining length (2.2.2, chapter 3)."""
    if kind == PUBLISH:
        qos = flags >> 1 & 3
        return qos < 3 and (qos > 0 or flags < 8) and size >= (5 if qos else 3)
    if flags != (2 if kind in {PUBREL, SUBSCRIBE, UNSUBSCRIBE} else 0):
        return False
    return size == EXACTLY[kind] if kind in EXACTLY else kind in AT_LEAST and size >= AT_LEAST[kind]


class Mqtt(FramedDissector):
    """One connection that speaks MQTT 3.1.1."""

    names = ("mqtt",)
    ports = frozenset({1883})
    head_max = HEAD
    newer = False  # a CONNECT of MQTT 5 was seen: what 3.1.1 does not have in a packet stays undecoded

    @classmethod
    def probe(cls, side: Side, head: bytes) -> Probed:
        """Strict: type, flags, reserved bits, and lengths that fit."""
        if not head:
            return NEED
        kind, flags = head[0] >> 4, head[0] & 15
        if kind in (CLIENT_ONLY if side is Side.SERVER else SERVER_ONLY):
            return NO_FRAME
        found = remaining_length(head)
        if not isinstance(found, tuple):
            return NEED if found is None else found
        length, start = found
        if not fits(kind, flags, length) or (start > 2 and length >> 7 * (start - 2) == 0):  # not the shortest form
            return NO_FRAME
        return cls._probe_body(kind, flags, length + start, head[start:])

    @classmethod
    def _probe_body(cls, kind: int, flags: int, size: int, body: bytes) -> Probed:
        """The first bytes after the head, which many types bind."""
        if kind == CONNECT:
            if not PROTOCOL.startswith(body[:7]):
                return NO_FRAME
            if len(body) < 8:
                return NEED
            return NO_FRAME if body[7] & 1 else ProvenSize(size)  # bit 0 is reserved (3.1.2.3)
        if kind == CONNACK:
            if len(body) < 2:
                return NEED
            return size if body[0] <= 1 and body[1] < len(CONNACK_CODES) else NO_FRAME
        if kind == PUBLISH or kind in IDENTIFIED:
            if len(body) < 2:
                return NEED
            number = int.from_bytes(body[:2], "big")  # length of the topic, or identifier: neither may be 0
            room = size - 4 - 2 * (flags >> 1 & 3 > 0) if kind == PUBLISH else 0xFFFF
            return size if 0 < number <= room else NO_FRAME
        return size

    def frame_size(self, side: Side, head: bytes) -> Probed:  # noqa: ARG002 - both sides have the same head
        """Lenient: any type has a remaining length."""
        found = remaining_length(head)
        if isinstance(found, tuple):
            return sum(found)
        return NEED if found is None else found

    def decode(self, frame: Frame) -> Iterator[Event]:
        """One message a packet."""
        found = remaining_length(frame.data)
        if not isinstance(found, tuple):
            raise Malformed("the fixed header of a packet is cut")
        kind, flags = frame.data[0] >> 4, frame.data[0] & 15
        message = Message(frame, "mqtt", NAMES[kind], "oneway", {"flags": flags, "remaining_length": found[0]})
        fields = Fields(frame.data, found[1])
        try:
            self._read(message, kind, flags, fields)
        except Cut:
            if frame.whole:
                raise Malformed("a field is longer than its packet") from None
        if fields.more():
            message.body["rest"] = Undecoded(frame.data[fields.at :])
            if frame.whole and not message.problems:
                message.problems.append(Problem("trailing_bytes", "warning", "bytes after the last field"))
        if not self.newer and not fits(kind, flags, found[0]):
            odd = "a type, flags or a length that the standard does not have"
            message.problems.append(Problem("out_of_range", "warning", odd))
        self._pair(message, kind)
        yield message

    def _read(self, message: Message, kind: int, flags: int, fields: Fields) -> None:
        """The fields of a packet into the body, in their order on the wire; raises Cut where they end early."""
        body = message.body
        if kind in IDENTIFIED:
            body["packet_identifier"] = fields.number(2)
        match kind:
            case 1:
                self._read_connect(message, fields)
            case 2:  # CONNACK
                body["session_present"] = bool(fields.number(1) & 1)
                body["return_code"] = code = fields.number(1)
                message.error_code, message.error_count = code, int(code != 0)
                message.error_name = CONNACK_CODES[code] if code < len(CONNACK_CODES) else None
            case 3:
                self._read_publish(message, flags, fields)
            case 8 | 10 if not self.newer:  # SUBSCRIBE, UNSUBSCRIBE
                self._read_filters(message, kind, fields)
            case 9 if not self.newer:  # SUBACK
                codes = fields.take(message.frame.size - fields.at)
                body["return_codes"] = list(codes)
                message.error_count = sum(code >= SUBACK_FAILURE for code in codes)
                message.error_code = SUBACK_FAILURE if message.error_count else 0
                message.error_name = "FAILURE" if message.error_count else None

    def _read_connect(self, message: Message, fields: Fields) -> None:
        """3.1: the order of the payload is fixed, and flags say what is there."""
        body, identity = message.body, self.identity
        body["protocol_name"] = text(message, fields.binary())
        body["protocol_level"] = level = fields.number(1)
        flags = fields.number(1)
        body |= {
            "user_name_flag": flags >> 7 == 1,
            "password_flag": flags & 0x40 > 0,
            "will_retain": flags & 0x20 > 0,
            "will_qos": flags >> 3 & 3,
            "will_flag": flags & 4 > 0,
            "clean_session": flags & 2 > 0,
            "reserved": flags & 1,
        }
        body["keep_alive"] = fields.number(2)
        if level > 4:
            self.newer = True
            message.problems.append(Problem("unknown_version", "warning", "a protocol level above 4 is read in part"))
            return
        body["client_identifier"] = identity.client_id = text(message, fields.binary())
        if flags & 4:
            body["will_topic"] = topic = text(message, fields.binary())
            message.topics = (topic,)
            body["will_message"] = fields.binary()
        if flags & 0x80:
            body["user_name"] = identity.user = text(message, fields.binary())
        if flags & 0x40:
            body["password"] = Secret(fields.binary())

    def _read_publish(self, message: Message, flags: int, fields: Fields) -> None:
        """3.3; the payload is all that is left."""
        body, qos = message.body, flags >> 1 & 3
        del body["flags"]
        body |= {"dup": flags >= 8, "qos": qos, "retain": bool(flags & 1)}
        body["topic_name"] = topic = text(message, fields.binary())
        message.topics = (topic,)
        if qos:
            body["packet_identifier"] = fields.number(2)
        if self.newer:
            return
        start, end = fields.at, message.frame.size
        body["payload_size"] = end - start
        fields.at = len(fields.data)
        if "records" in self.settings.wanted and message.frame.whole:
            direction = "produce" if message.frame.side is Side.CLIENT else "deliver"
            constant = {"direction": direction, "topic": topic}
            if direction == "produce" and not qos:
                constant["ack"] = "none"
            message.records = (RecordBatch(message.frame.data, 1, constant, values=([start], [end])),)

    def _read_filters(self, message: Message, kind: int, fields: Fields) -> None:
        """The topic filters of SUBSCRIBE (with the wanted QoS) and UNSUBSCRIBE."""
        filters: list[Value] = []
        message.body["topic_filters"] = filters
        while fields.at < message.frame.size:
            entry: dict[str, Value] = {"topic_filter": (name := text(message, fields.binary()))}
            filters.append(entry)
            message.topics = (*message.topics, name)
            if kind == SUBSCRIBE:
                entry["requested_qos"] = fields.number(1)

    def _pair(self, message: Message, kind: int) -> None:
        """What the message waits for, what it answers, and the kind that follows (rules 2 and 3)."""
        side, number = message.frame.side, message.body.get("packet_identifier")
        peer = Side.SERVER if side is Side.CLIENT else Side.CLIENT
        if number is not None:
            message.correlation = str(number)
        if kind in RESPONSES:
            asked = self.reply_to((kind, side, number))
            settles = kind in {PUBACK, PUBREC} and side is Side.CLIENT
            message.kind = "oneway" if settles else "response"
            if asked is not None and settles:
                asked.extra["settled_by"] = message.name
            if asked is not None and kind == SUBACK:
                self._name_topics(message, asked)
        elif kind in ANSWERS:
            message.kind = "request"
            awaited = number if kind in IDENTIFIED else None
            if kind not in IDENTIFIED or number is not None:
                self.expect_reply((ANSWERS[kind], peer, awaited), message.topics, in_order=False)
        elif kind == PUBLISH:
            ack = ACKS.get(int(message.frame.data[0] >> 1 & 3))
            waits = ack is not None and number is not None
            if side is Side.SERVER:
                message.kind = "push"
                if waits:
                    self.expect_reply((ack, peer, number), link="settlement", in_order=False)
            elif ack is not None:
                message.kind = "request"
                if waits:
                    self.expect_reply((ack, peer, number), in_order=False)

    def _name_topics(self, message: Message, asked: Pending) -> None:
        """A SUBACK names no topics: its codes stand in the order of the filters of its SUBSCRIBE (3.9.3)."""
        codes = message.body.get("return_codes")
        if not isinstance(codes, list):
            return
        if 0 < (message.error_count or 0) < len(codes):
            asked.status = "partial"
        message.topics = topics = asked.context
        rows: dict[str, int] = {}
        for topic, code in zip(topics, codes, strict=False):
            if isinstance(code, int):
                rows[topic] = code if code >= SUBACK_FAILURE else 0
        message.partitions = tuple(
            {"topic": topic, "error_code": code, "error_name": "FAILURE" if code else None}
            for topic, code in rows.items()
        )


def text(message: Message, data: bytes) -> str:
    """UTF-8 of the wire (1.5.3); other bytes are replaced, and told."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        message.problems.append(Problem("format", "warning", "a text is not UTF-8"))
        return data.decode(errors="replace")
