"""NSQ on the wire, written from the protocol's description, apart from the dissector: frames and conversations."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Sequence

import cramjam
from crc32c import crc32c

from mqsniff.model import Side
from mqsniff.testing.conversations import Say, acknowledged, client, server

MAGIC = b"  V2"
LOOKUPD_MAGIC = b"  V1"
TIMESTAMP = 1_700_000_000_123_456_789

# ---- client


def line(*words: str) -> bytes:
    return " ".join(words).encode() + b"\n"


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def identify(**fields: object) -> bytes:
    pending = {"client_id": "craft", "feature_negotiation": True, "user_agent": "craft/1.0"} | fields
    return line("IDENTIFY") + sized(json.dumps(pending).encode())


def auth(secret: bytes) -> bytes:
    return line("AUTH") + sized(secret)


def pub(topic: str, body: bytes) -> bytes:
    return line("PUB", topic) + sized(body)


def dpub(topic: str, defer_ms: int, body: bytes) -> bytes:
    return line("DPUB", topic, str(defer_ms)) + sized(body)


def mpub(topic: str, *bodies: bytes, body_size: int | None = None, count: int | None = None) -> bytes:
    content = struct.pack(">i", len(bodies) if count is None else count) + b"".join(map(sized, bodies))
    return line("MPUB", topic) + struct.pack(">i", len(content) if body_size is None else body_size) + content


# ---- server


def frame(frame_type: int, data: bytes) -> bytes:
    return struct.pack(">ii", len(data) + 4, frame_type) + data


def response(data: bytes | dict[str, object]) -> bytes:
    return frame(0, data if isinstance(data, bytes) else json.dumps(data).encode())


OK = response(b"OK")
HEARTBEAT = response(b"_heartbeat_")
CLOSE_WAIT = response(b"CLOSE_WAIT")


def error(text: str) -> bytes:
    return frame(1, text.encode())


def message(message_id: str, body: bytes, attempts: int = 1, timestamp: int = TIMESTAMP) -> bytes:
    return frame(2, struct.pack(">qH", timestamp, attempts) + message_id.encode() + body)


def negotiated(**fields: object) -> bytes:
    told = {"max_rdy_count": 2500, "version": "1.3.0", "msg_timeout": 60000, "tls_v1": False, "deflate": False}
    return response(told | {"snappy": False, "auth_required": False} | fields)


def ids(count: int, start: int = 0) -> list[str]:
    return [f"{0x18A2F48040ACF000 + n:016x}" for n in range(start, start + count)]


# ---- layers


def snappy_chunk(data: bytes, *, compressed: bool = True) -> bytes:
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    content = struct.pack("<I", masked) + (bytes(cramjam.snappy.compress_raw(data)) if compressed else data)
    return bytes([not compressed]) + len(content).to_bytes(3, "little") + content


def snappy() -> Callable[[bytes], bytes]:
    """An encoder of one direction."""
    opened = []

    def encode(data: bytes) -> bytes:
        start = b"" if opened else b"\xff\x06\x00\x00sNaPpY"
        opened.append(True)
        return start + snappy_chunk(data, compressed=len(data) > 20)

    return encode


def deflate() -> Callable[[bytes], bytes]:
    """An encoder of one direction."""
    state = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return lambda data: state.compress(data) + state.flush(zlib.Z_SYNC_FLUSH)


def inside(layer: Callable[[], Callable[[bytes], bytes]], dialogue: Sequence[Say]) -> list[Say]:
    """A conversation inside a layer that begins in both directions."""
    encode = {side: layer() for side in Side}
    return [say._replace(data=encode[say.side](say.data)) for say in dialogue]


# ---- conversations


def opening(**fields: object) -> list[Say]:
    return [client(MAGIC), client(identify(**fields)), server(negotiated(**fields))]


def publishing(topic: str = "orders") -> list[Say]:
    return [
        client(pub(topic, b"first")),
        server(OK),
        client(mpub(topic, b"a", b"bb", b"c\nc\x00c")),
        server(OK),
        server(HEARTBEAT),
        client(line("NOP")),
        client(dpub(topic, 1500, b"later" * 40)),
        server(OK),
        client(pub(topic, b"x" * 30), pub(topic, b"y"), pub(topic, b"z\n" * 5)),
        server(OK, OK, OK),
    ]


def consuming(topic: str = "orders", channel: str = "billing") -> list[Say]:
    one, two, three, four, five, six = ids(6)
    return [
        client(line("SUB", topic, channel)),
        server(OK),
        client(line("RDY", "3")),
        server(message(one, b"first"), message(two, b"second " * 9), message(three, b"FIN " + two.encode() + b"\n")),
        client(line("FIN", one)),
        client(line("TOUCH", two), line("TOUCH", two)),
        client(line("REQ", three, "250")),
        server(message(four, b""), HEARTBEAT),
        client(line("NOP"), line("FIN", two), line("FIN", four)),
        server(message(three, b"again", attempts=2)),
        client(line("RDY", "1"), line("FIN", three), line("FIN", three)),
        server(error(f"E_FIN_FAILED FIN {three} failed ID not in flight")),
        client(pub(topic, b"still open")),
        server(OK),
        server(message(five, b"slow"), message(five, b"slow", attempts=2), message(six, b"last")),
        client(line("FIN", five)),
        client(line("CLS")),
        server(CLOSE_WAIT),
        client(line("FIN", six)),
    ]


def crossing(topic: str = "orders", channel: str = "billing") -> list[Say]:
    """Deliveries, settlements and publishing that cross: what is said while words of the peer are on the way."""
    one, two, three, four = ids(4)
    return acknowledged(
        (client(MAGIC, line("SUB", topic, channel)), 0),
        (server(OK), 1),
        (client(line("RDY", "5")), 1),
        (server(message(one, b"1"), message(two, b"2")), 2),
        (server(message(three, b"3")), 2),
        (client(line("FIN", one)), 2),
        (client(pub(topic, b"a"), line("NOP")), 2),
        (server(HEARTBEAT), 2),
        (client(line("REQ", two, "0"), line("NOP")), 4),
        (server(OK), 4),
        (server(message(four, b"4")), 4),
        (client(line("TOUCH", three), pub(topic, b"b"), mpub(topic, b"c", b"d")), 4),
        (server(message(two, b"2", attempts=2)), 5),
        (server(OK, OK), 6),
        (client(line("FIN", three), line("FIN", two), line("FIN", four)), 8),
        (client(line("CLS")), 8),
        (server(CLOSE_WAIT), 8),
    )


def upgraded(layer: Callable[[], Callable[[bytes], bytes]], **fields: object) -> list[Say]:
    return opening(**fields) + inside(layer, [server(OK), *publishing(), *consuming()])


CONVERSATIONS: dict[str, list[Say]] = {
    "producer": opening() + publishing(),
    "consumer": opening() + consuming(),
    "without IDENTIFY": [client(MAGIC), *consuming("a.b", "c#ephemeral"), *publishing("a.b")],
    "authorized": [
        *opening(auth_required=True),
        client(auth(b"open sesame")),
        server(response({"identity": "bob", "identity_url": "", "permission_count": 1})),
        *publishing(),
    ],
    "crossing": crossing(),
    "refused": [
        *opening(),
        client(pub("bad topic!", b"x")),
        server(error('E_BAD_TOPIC PUB topic name "bad" is not valid')),
    ],
    "a lying MPUB": [
        *opening(),
        client(mpub("t", b"a", b"bb", body_size=100)),
        server(OK),
        client(mpub("t", b"a" * 50, b"b" * 50, body_size=9), line("NOP")),
        server(OK),
        *publishing("t"),
    ],
    "snappy": upgraded(snappy, snappy=True),
    "deflate": upgraded(deflate, deflate=True),
}

LOOKUPD_CONVERSATIONS: dict[str, list[Say]] = {
    "registering": [
        client(LOOKUPD_MAGIC),
        client(
            line("IDENTIFY"),
            sized(
                b'{"broadcast_address":"10.0.0.7","hostname":"h","http_port":4151,"tcp_port":4150,"version":"1.3.0"}'
            ),
        ),
        server(
            sized(b'{"broadcast_address":"10.0.0.8","hostname":"l","http_port":4161,"tcp_port":4160,"version":"1.3.0"}')
        ),
        client(line("REGISTER", "orders")),
        server(sized(b"OK")),
        client(line("REGISTER", "orders", "billing"), line("PING")),
        server(sized(b"OK"), sized(b"OK")),
        client(line("UNREGISTER", "orders", "billing")),
        server(sized(b"OK")),
        client(line("PING")),
        server(sized(b"OK")),
        client(line("REGISTER", "bad/topic")),
        server(sized(b"E_BAD_TOPIC REGISTER topic name 'bad/topic' is not valid")),
    ]
}
