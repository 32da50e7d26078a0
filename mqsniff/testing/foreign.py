"""First bytes of connections of well-known protocols, client and server, which a dissector must not take for its own.

Sources: RFC 8446 (TLS), RFC 9110 and 9113 (HTTP), RFC 4253 (SSH), RFC 5321 (SMTP), the MQTT 3.1.1, AMQP 0-9-1 and STOMP
1.2 specifications, the Redis, PostgreSQL and MySQL protocol documents, the docs of NATS and of the brokers named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_hex = bytes.fromhex

OPENINGS: Final[Mapping[str, tuple[bytes, bytes]]] = {
    "nothing": (b"", b""),
    "zeros": (bytes(64), bytes(64)),
    "ones": (b"\xff" * 64, b"\xff" * 64),
    "text": (b"The quick brown fox jumps over the lazy dog\r\n" * 3, b"hello\r\n" * 9),
    "http": (
        b"GET /metrics HTTP/1.1\r\nHost: broker:8080\r\nAccept: */*\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok",
    ),
    "http2": (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _hex("00000604000000000000040000ffff"),
        _hex("000006040000000000000400100000000000040100000000"),
    ),
    "tls": (
        _hex("16030100510100004d0303") + bytes(range(32)) + _hex("00000213010100002200 2b0003020304".replace(" ", "")),
        _hex("160303002a0200002603 03".replace(" ", "")) + bytes(range(32)) + _hex("001301 0000".replace(" ", "")),
    ),
    "ssh": (b"SSH-2.0-OpenSSH_9.6\r\n", b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"),
    "smtp": (b"EHLO client.example\r\n", b"220 mail.example ESMTP\r\n250-mail.example\r\n250 SIZE 1000000\r\n"),
    "redis": (b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", b"$5\r\nvalue\r\n"),
    "mqtt": (_hex("101000044d5154540402003c0004") + b"mine", _hex("20020000")),
    "amqp": (b"AMQP\x00\x00\x09\x01", _hex("0100000000001a000a000a0009") + bytes(16) + b"\xce"),
    "nats": (b'CONNECT {"verbose":false}\r\nPING\r\n', b'INFO {"server_id":"A","version":"2.10.0"}\r\nPONG\r\n'),
    "stomp": (b"CONNECT\naccept-version:1.2\nhost:h\n\n\x00", b"CONNECTED\nversion:1.2\n\n\x00"),
    "postgresql": (_hex("0000000804d2162f"), b"N"),
    "mysql": (
        _hex("200000018da23a00") + bytes(28),
        _hex("4a0000000a") + b"8.0.36\x00" + _hex("0800000001020304050607080 0ffff".replace(" ", "")) + bytes(40),
    ),
    "kafka": (
        _hex("0000001300120000000000010009") + b"rdkafka-1",
        _hex("000000100000000100000000000100120000 0003".replace(" ", "")),
    ),
    "nsq": (b"  V2IDENTIFY\n\x00\x00\x00\x02{}", _hex("00000006000000004f4b")),
    "pulsar": (
        _hex("0000001400000010 0802120c0a05322e312e301a00200f".replace(" ", "")) + bytes(3),
        _hex("000000110000000d 08031a090a05322e312e30100f".replace(" ", "")),
    ),
    "rocketmq": (
        _hex("0000003c00000038") + b'{"code":105,"language":"JAVA","version":453,"opaque":0,"flag":0}'[:56],
        _hex("0000003800000034") + b'{"code":0,"language":"JAVA","version":453,"opaque":0}'[:52],
    ),
}
"""Protocol -> (what its client says first, what its server does)."""
