"""Names protocols that no dissector decodes, by the first bytes of a side.

1. A signature consists of bytes that the specification requires of every peer: magics, lengths that fit, words at fixed
   places. Ports do not matter. Each signature fixes at least 40 bits, most of them far more.
2. At the start of a connection a signature may need more bytes. In the middle a frame must end exactly where its length
   says, at the end of the captured bytes or at another such frame.
3. Dissectors come first: a connection that one of them claims by content is never foreign.

Sources: AMQP 0-9-1 sections 2.3.5, 4.2.2 and 4.2.3; AMQP 1.0 parts 2.2, 5.2.1 and 5.3.2; MQTT 3.1.1 and 5.0, both
section 3.1; NATS client protocol (docs.nats.io, "INFO", "CONNECT", "PUB", "MSG"); STOMP 1.2 "Connecting" and "Augmented
BNF"; RESP (redis.io, "Redis serialization protocol specification": "Arrays", "Client handshake"); ZooKeeper 3.9
zookeeper.jute (ConnectRequest, ConnectResponse, RequestHeader, ReplyHeader) and ZooDefs.OpCode; PostgreSQL 17
section 53.7 "Message Formats"; MySQL "Protocol::HandshakeV10" and "Protocol::HandshakeResponse41"; MariaDB
"Connecting".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

TITLES: Final[dict[str, str]] = {
    "http": "HTTP",
    "http2": "HTTP/2",
    "amqp-0-9-1": "AMQP 0-9-1",
    "amqp-1.0": "AMQP 1.0",
    "mqtt": "MQTT",
    "nats": "NATS",
    "stomp": "STOMP",
    "redis": "Redis",
    "zookeeper": "ZooKeeper",
    "postgresql": "PostgreSQL",
    "mysql": "MySQL",
}
"""Value of the column ``protocol`` -> title, for protocols besides tls that are not decoded."""

LOOK_MAX: Final = 8192
"""Bytes of a side that are examined."""

Found: TypeAlias = bool | None
"""Whether a signature matches; None: more bytes are needed."""


class Signature(NamedTuple):
    """A test for the first bytes of one side."""

    protocol: str
    find: Callable[[bytes], Found]
    from_client: bool | None
    """Whether the client sends it; None: both sides."""
    anywhere: bool = False
    """Whether it also counts in the middle of a connection."""


def name_foreign(data: bytes, *, from_start: bool) -> tuple[str, bool | None] | None:
    """(protocol, whether its client sent this; None: unknown) of bytes at the start of a segment."""
    data = data[:LOOK_MAX]
    for protocol, find, from_client, anywhere in SIGNATURES:
        if (from_start or anywhere) and find(data):
            return protocol, from_client
    return None


def may_be_foreign(data: bytes) -> bool:
    """Whether more bytes may complete a signature; ``data`` are the first bytes of a connection."""
    if len(data) >= LOOK_MAX:
        return False
    return any(signature.find(data) is None for signature in SIGNATURES)


# ---- parts of signatures


def _begins(*texts: bytes) -> Callable[[bytes], Found]:
    """The bytes begin with one of these texts."""

    def find(data: bytes) -> Found:
        if data.startswith(texts):
            return True
        return None if any(text.startswith(data) for text in texts) else False

    return find


def _number(data: bytes, at: int, size: int = 4) -> int:
    return int.from_bytes(data[at : at + size], "big")


def _text(words: tuple[str, ...], behind: str, begun: str) -> Callable[[bytes], Found]:
    """One of the words, then a pattern; ``begun``: pattern of its cut forms."""
    heads = tuple(word.encode() for word in words)
    either = "|".join(map(re.escape, words))
    wanted, open_ended = (re.compile(f"(?:{either})(?:{rest})".encode()) for rest in (behind, begun))

    def find(data: bytes) -> Found:
        if wanted.match(data):
            return True
        return None if any(head.startswith(data) for head in heads) or open_ended.fullmatch(data) else False

    return find


# ---- AMQP 0-9-1

_AMQP_END: Final = 0xCE
_AMQP_CLASSES: Final = frozenset((10, 20, 40, 50, 60, 85, 90))
_AMQP_METHOD_MAX: Final = 120


def _amqp_start(data: bytes) -> Found:
    """Connection.Start of version 0-9: the server's first frame."""
    head = b"\x01\x00\x00"
    if len(data) < 13:
        return None if data[:3] == head[: len(data)] else False
    return data[:3] == head and data[7:13] == b"\x00\x0a\x00\x0a\x00\x09"


def _amqp_frame(data: bytes) -> Found:
    """A method frame or a heartbeat with its end octet, and nothing or another frame after it."""
    if data[:8] == b"\x08\x00\x00\x00\x00\x00\x00\xce":
        return len(data) == 8 or data[8] in (1, 8)
    stop = 7 + _number(data, 3)
    if data[:1] != b"\x01" or stop < 11 or len(data) <= stop or data[stop] != _AMQP_END:
        return False
    if _number(data, 7, 2) not in _AMQP_CLASSES or not 10 <= _number(data, 9, 2) <= _AMQP_METHOD_MAX:
        return False
    behind = data[stop + 1 : stop + 4]
    return not behind or (behind[0] in (1, 2, 8) and behind[1:3] == data[1:3])


# ---- MQTT


def _mqtt_connect(data: bytes) -> Found:
    """CONNECT: its length, the name of the protocol with its level, and flags whose reserved bit is 0."""
    if data[:1] != b"\x10":
        return False if data else None
    at = 1
    while at < len(data) and data[at] & 0x80:
        at += 1
    if at > 4:
        return False
    begun = data[at + 1 :]
    for name, levels in ((b"\x00\x04MQTT", (4, 5)), (b"\x00\x06MQIsdp", (3,))):
        if len(begun) >= len(name) + 2:
            if begun.startswith(name):
                # Bridges set the highest bit of the level (mosquitto).
                return begun[len(name)] & 0x7F in levels and not begun[len(name) + 1] & 1
        elif name.startswith(begun[: len(name)]):
            return None
    return False


# ---- NATS

_NATS_DELIVERY: Final = re.compile(rb"(?:PUB [!-~]+(?: [!-~]+)?|MSG [!-~]+ [0-9A-Za-z]+(?: [!-~]+)?) ([0-9]{1,8})\r\n")


def _nats_delivery(data: bytes) -> Found:
    """PUB or MSG whose payload ends where its size says."""
    head = _NATS_DELIVERY.match(data)
    if head is None:
        return False
    stop = head.end() + int(head[1])
    return data[stop : stop + 2] == b"\r\n"


# ---- Redis

_RESP_COMMAND: Final = re.compile(
    rb"\*([1-9][0-9]{0,6})\r\n\$([1-9][0-9]?)\r\n([A-Za-z][A-Za-z0-9._-]*)\r\n(\$[0-9]|\*|\Z)"
)
_RESP_BEGUN: Final = re.compile(rb"\*[0-9A-Za-z.$\r\n_-]{0,120}")


def _redis_command(data: bytes) -> Found:
    """A command: an array of bulk strings, the first one a word of the right length, then another one."""
    found = _RESP_COMMAND.match(data)
    if found is None:
        return None if not data or _RESP_BEGUN.fullmatch(data) else False
    alone, behind = found[1] == b"1", found[4][:1]
    return len(found[3]) == int(found[2]) and (not behind or alone == (behind == b"*"))


# ---- ZooKeeper

_PASSWORD: Final = 16
_PATH_OPERATIONS: Final = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 19, 20, 21, 104, 106))
_PATH: Final = re.compile(rb"/[^\x00-\x1f\x7f]*")
_PING, _PONG = b"\x00\x00\x00\x08\xff\xff\xff\xfe\x00\x00\x00\x0b", b"\x00\x00\x00\x10\xff\xff\xff\xfe"
_EVENT: Final = b"\xff" * 12 + bytes(4)


def _zookeeper_hello(sizes: tuple[int, int], timeout_at: int, password_at: int) -> Callable[[bytes], Found]:
    """ConnectRequest or ConnectResponse: version 0, a timeout, a password of 16 bytes; since 3.4 a boolean."""

    def find(data: bytes) -> Found:
        if len(data) < 8:
            return None if any(size.to_bytes(4, "big").startswith(data[:4]) for size in sizes) else False
        size = _number(data, 0)
        if size not in sizes or _number(data, 4):
            return False
        if len(data) < 4 + size:
            return None
        timed = 0 < _number(data, timeout_at) < 1 << 31
        last = data[4 + size - 1] if size == sizes[1] else 0
        return timed and _number(data, password_at) == _PASSWORD and last in (0, 1)

    return find


def _zookeeper_request(data: bytes) -> Found:
    """A ping, or an operation on a path: xid, operation, path, and the rest up to the frame's end."""
    size = _number(data, 0)
    if data[:12] == _PING:
        return len(data) == 12 or len(data) >= 24
    if len(data) < 17 or not 13 <= size <= LOOK_MAX or len(data) != 4 + size:
        return False
    length = _number(data, 12)
    path = data[16 : 16 + length]
    fits = 1 <= length <= size - 12 and _number(data, 4) < 1 << 31 and _number(data, 8) in _PATH_OPERATIONS
    return fits and _PATH.fullmatch(path) is not None


def _zookeeper_reply(data: bytes) -> Found:
    """The answer to a ping, or the head of a watch's event."""
    if data[:8] == _PONG:
        return len(data) >= 20 and not _number(data, 16)
    return 16 < _number(data, 0) <= LOOK_MAX and data[4:20] == _EVENT


# ---- PostgreSQL

_SSL, _GSS, _CANCEL = (
    b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
    b"\x00\x00\x00\x08\x04\xd2\x16\x30",
    b"\x00\x00\x00\x10\x04\xd2\x16\x2e",
)
_STARTUP: Final = re.compile(rb"(?:[a-z_][a-zA-Z0-9_.]*\x00[^\x00]*\x00)+\x00")
_POSTGRES_ANSWERS: Final = frozenset(b"RSKZTDCEN123ntIsAGHWdcvV")
_READY: Final = re.compile(rb"Z\x00\x00\x00\x05[ITE]")
_SQL: Final = re.compile(rb"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]{4,}\x00")


def _postgres_startup(data: bytes) -> Found:
    """StartupMessage of version 3: its length, and names with values up to an empty name, a user among them."""
    if len(data) < 8:
        return None if not any(data[:2]) and (len(data) < 5 or data[4:] == b"\x00\x03\x00"[: len(data) - 4]) else False
    size = _number(data, 0)
    if data[4:7] != b"\x00\x03\x00" or not 14 <= size <= LOOK_MAX:
        return False
    if len(data) < size:
        return None
    settings = data[8:size]
    return b"user\x00" in settings and _STARTUP.fullmatch(settings) is not None


def _postgres_answers(data: bytes) -> Found:
    """Two messages and more of a server, the last one ReadyForQuery, and nothing after it."""
    if not _READY.match(data[-6:]) or len(data) == LOOK_MAX:
        return False
    at = count = 0
    while at + 5 <= len(data) and data[at] in _POSTGRES_ANSWERS and _number(data, at + 1) >= 4:
        at += 1 + _number(data, at + 1)
        count += 1
    return at == len(data) and count > 1


def _postgres_query(data: bytes) -> Found:
    """Query: its length, and SQL as text up to a zero at its end."""
    return data[:1] == b"Q" and _number(data, 1) == len(data) - 1 and _SQL.fullmatch(data, 5) is not None


# ---- MySQL

_PROTOCOL_41: Final = 0x0200
"""CLIENT_PROTOCOL_41."""
_VERSION: Final = re.compile(rb"[0-9][!-~]{2,60}\x00")


def _mysql_greeting(data: bytes) -> Found:
    """HandshakeV10: packet 0, its length, a version, a filler of 0, and reserved zeros (MariaDB uses the last four)."""
    if len(data) < 5:
        return None if data[3:4] in (b"", b"\x00") else False
    size = int.from_bytes(data[:3], "little")
    if data[3:5] != b"\x00\x0a" or not 40 <= size <= 512:
        return False
    if len(data) < 4 + size:
        return None
    version = _VERSION.match(data, 5)
    if version is None:
        return False
    at = version.end() + 4 + 8
    return at + 15 <= 4 + size and data[at] == 0 and data[at + 9 : at + 15] == bytes(6)


def _mysql_answer(data: bytes) -> Found:
    """HandshakeResponse41, or the request for TLS that is its head: packet 1, its length, and reserved zeros."""
    if len(data) < 5:
        return None if data[3:4] in (b"", b"\x01") else False
    size = int.from_bytes(data[:3], "little")
    if data[3] != 1 or not 32 <= size <= LOOK_MAX:
        return False
    if len(data) < 36:
        return None
    return bool(int.from_bytes(data[4:8], "little") & _PROTOCOL_41) and data[13:32] == bytes(19) and data[12] != 0


# ---- STOMP

_HEADERS: Final = r"(?:[A-Za-z][A-Za-z0-9_.-]*:[^\r\n\0]*\r?\n)"

_stomp_connect = _text(
    ("CONNECT\n", "CONNECT\r\n", "STOMP\n", "STOMP\r\n"), rf"{_HEADERS}+\r?\n\0", rf"{_HEADERS}*[^\r\n\0]*\r?\n?"
)
_stomp_connected = _text(("CONNECTED\n", "CONNECTED\r\n"), rf"{_HEADERS}+\r?\n\0", rf"{_HEADERS}*[^\r\n\0]*\r?\n?")
_STOMP_FRAME: Final = re.compile(
    rf"(?:SEND|SUBSCRIBE|MESSAGE)\r?\n{_HEADERS}*?destination:[^\r\n\0]*\r?\n{_HEADERS}*\r?\n".encode()
)


def _stomp_frame(data: bytes) -> Found:
    """A frame that names its destination, with all its headers."""
    return _STOMP_FRAME.match(data) is not None


SIGNATURES: Final[tuple[Signature, ...]] = (
    Signature("amqp-0-9-1", _begins(b"AMQP\x00\x00\x09\x01"), from_client=True),
    Signature("amqp-0-9-1", _amqp_start, from_client=False),
    Signature("amqp-0-9-1", _amqp_frame, from_client=None, anywhere=True),
    Signature("amqp-1.0", _begins(*(b"AMQP%c\x01\x00\x00" % kind for kind in (0, 2, 3))), from_client=None),
    Signature("mqtt", _mqtt_connect, from_client=True),
    Signature("nats", _text(("INFO {",), r'[^\r\n]*"server_id":', r"[^\r\n]*"), from_client=False),
    Signature("nats", _text(("CONNECT {",), r'[^\r\n]*"(?:verbose|pedantic|lang)":', r"[^\r\n]*"), from_client=True),
    Signature("nats", _nats_delivery, from_client=None, anywhere=True),
    Signature("stomp", _stomp_connect, from_client=True),
    Signature("stomp", _stomp_connected, from_client=False),
    Signature("stomp", _stomp_frame, from_client=None, anywhere=True),
    Signature("redis", _redis_command, from_client=True, anywhere=True),
    Signature("redis", _begins(b"%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"), from_client=False),
    Signature("zookeeper", _zookeeper_hello((44, 45), 16, 28), from_client=True),
    Signature("zookeeper", _zookeeper_hello((36, 37), 8, 20), from_client=False),
    Signature("zookeeper", _zookeeper_request, from_client=True, anywhere=True),
    Signature("zookeeper", _zookeeper_reply, from_client=False, anywhere=True),
    Signature("postgresql", _begins(_SSL, _GSS, _CANCEL), from_client=True),
    Signature("postgresql", _postgres_startup, from_client=True),
    Signature("postgresql", _postgres_answers, from_client=False, anywhere=True),
    Signature("postgresql", _postgres_query, from_client=True, anywhere=True),
    Signature("mysql", _mysql_greeting, from_client=False),
    Signature("mysql", _mysql_answer, from_client=True),
)
