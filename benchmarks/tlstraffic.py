"""TLS 1.3 for the traffic of the benchmarks: what two sides say in, records in segments out, and a key log.

1. A record holds what one side says at once, up to 16 KiB (AES-256-GCM). Secrets follow from the client's port, so that
   the capture is the same on every run.
2. Of the handshake there is what decryption needs: both hellos, and the records up to both Finished.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import sha384
from random import Random
from typing import TextIO

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from tcptraffic import LossyTcp, Tcp, Writer

from mqsniff.tls.keyschedule import traffic_keys
from mqsniff.tls.suites import suite_of

SUITE = 0x1302
RECORD_MAX = 16_384
HANDSHAKE, DATA = 22, 23
LABELS = (
    ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0"),
    ("SERVER_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0"),
)


class Sealing:
    """Records of one side under one secret."""

    def __init__(self, secret: bytes) -> None:
        suite = suite_of(SUITE)
        assert suite is not None
        keys = traffic_keys(suite, secret)
        self._cipher, self._mask, self._number = AESGCM(keys.key), int.from_bytes(keys.iv, "big"), 0

    def seal(self, kind: int, content: bytes) -> bytes:
        """A protected record."""
        head = struct.pack(">BHH", DATA, 0x0303, len(content) + 17)
        nonce = (self._mask ^ self._number).to_bytes(12, "big")
        self._number += 1
        return head + self._cipher.encrypt(nonce, content + bytes((kind,)), head)


def message(kind: int, body: bytes) -> bytes:
    """A handshake message."""
    return bytes((kind,)) + len(body).to_bytes(3, "big") + body


def hello(kind: int, random: bytes, suites: bytes, versions: bytes) -> bytes:
    """A hello record; the only extension names TLS 1.3."""
    extension = struct.pack(">HH", 43, len(versions)) + versions
    body = b"\x03\x03" + random + b"\0" + suites + struct.pack(">H", len(extension)) + extension
    told = message(kind, body)
    return struct.pack(">BHH", HANDSHAKE, 0x0303, len(told)) + told


class TlsSeals:
    """The TLS of one connection."""

    def __init__(self, tcp: Tcp, name: bytes, keys: TextIO) -> None:
        """Says the handshake; its secrets go into ``keys``."""
        random = sha384(name).digest()[:32]
        suite, change = struct.pack(">H", SUITE), b"\x14\x03\x03\0\1\1"
        self._sealing: list[Sealing] = []
        finished: list[bytes] = []
        for labels in LABELS:
            secrets = [sha384(label.encode() + random).digest() for label in labels]
            keys.writelines(
                f"{label} {random.hex()} {each.hex()}\n" for label, each in zip(labels, secrets, strict=True)
            )
            told = message(8, b"\0\0") * (labels is LABELS[1]) + message(20, bytes(48))
            finished.append(change + Sealing(secrets[0]).seal(HANDSHAKE, told))
            self._sealing.append(Sealing(secrets[1]))
        Tcp.say(tcp, 0, hello(1, random, b"\0\2" + suite + b"\1\0", b"\2\3\4"))
        Tcp.say(tcp, 1, hello(2, random[::-1], suite + b"\0", b"\3\4") + finished[1])
        Tcp.say(tcp, 0, finished[0])

    def sealed(self, side: int, data: bytes) -> bytes:
        """What one side says as records."""
        pieces = (data[at : at + RECORD_MAX] for at in range(0, len(data), RECORD_MAX))
        return b"".join(self._sealing[side].seal(DATA, piece) for piece in pieces)


class SealedTcp(Tcp):
    """A connection whose bytes go through TLS."""

    def __init__(self, out: Writer, client_port: int, server_port: int, keys: TextIO) -> None:
        super().__init__(out, client_port, server_port)
        self._seals = TlsSeals(self, b"%d %d" % (client_port, out.size), keys)

    def say(self, side: int, data: bytes) -> None:
        """See Tcp."""
        super().say(side, self._seals.sealed(side, data))


class SealedLossyTcp(LossyTcp):
    """A lossy connection whose bytes go through TLS."""

    def __init__(
        self, out: Writer, client_port: int, server_port: int, random: Random, loss: float, *, keys: TextIO
    ) -> None:
        super().__init__(out, client_port, server_port, random, loss)
        self._seals = TlsSeals(self, b"%d %d" % (client_port, out.size), keys)

    def flight(self, side: int, data: bytes) -> Iterator[None]:
        """See LossyTcp."""
        return super().flight(side, self._seals.sealed(side, data))
