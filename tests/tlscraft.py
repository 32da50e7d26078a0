"""Conversations of TLS for tests: both ends are OpenSSL, in this process, or an own writer where it cannot be asked.

A conversation is a list of (side, bytes), in the order in which the bytes were sent, with its key log as text.
"""

from __future__ import annotations

import contextlib
import ssl
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.x509.oid import NameOID

from mqsniff.limits import Limits
from mqsniff.model import Chunk, Gap, Mark, Problem, Side
from mqsniff.tls.decoder import TlsDecoder
from mqsniff.tls.keylog import KeyLog, KeyRing
from mqsniff.tls.output import Hole, Plain

NO_ENCRYPT_THEN_MAC = 1 << 19
"""SSL_OP_NO_ENCRYPT_THEN_MAC, for which the module ssl has no name."""


@dataclass
class TlsTape:
    """What both sides sent."""

    sent: list[tuple[Side, bytes]] = field(default_factory=list)
    keys: str = ""
    said: dict[Side, bytes] = field(default_factory=lambda: dict.fromkeys(Side, b""))
    """Plain bytes."""
    suite: str = ""
    version: str = ""
    client: Any = None
    """The client's end."""


@cache
def certificate(kind: str = "ec", name: str = "broker.example") -> tuple[bytes, bytes]:
    """(certificate, key) as PEM; the certificate is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65537, 2048)
    who = x509.Name([
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Queues, Inc."),
        x509.NameAttribute(NameOID.COMMON_NAME, name),
    ])  # fmt: skip
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=36_500))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(pem), secret


def load_certificate(context: ssl.SSLContext, kind: str, name: str = "broker.example") -> None:
    made, secret = certificate(kind, name)
    with TemporaryDirectory() as folder:
        one, other = Path(folder, "cert.pem"), Path(folder, "key.pem")
        one.write_bytes(made)
        other.write_bytes(secret)
        context.load_cert_chain(one, other)


def contexts(
    version: ssl.TLSVersion, ciphers: str = "", kind: str = "ec", *, options: int = 0
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a client and a server that agree on one version."""
    client, server = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    for context in (client, server):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.set_ciphers(f"{ciphers or 'ALL'}:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
        context.options |= options
    load_certificate(server, kind)
    return client, server


@dataclass
class _End:
    side: Side
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    tls: ssl.SSLObject


class OpenSslPair:
    """A client and a server that talk through memory."""

    def __init__(
        self, client: ssl.SSLContext, server: ssl.SSLContext, *, session: Any = None, name: str = "broker.example"
    ) -> None:
        self.tape = TlsTape()
        self._folder = TemporaryDirectory()
        self._log = Path(self._folder.name, "keys")
        client.keylog_filename = str(self._log)
        self._ends = [self._end(side, client, server, session, name) for side in Side]

    @staticmethod
    def _end(side: Side, client: ssl.SSLContext, server: ssl.SSLContext, session: Any, name: str) -> _End:
        into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        if side is Side.CLIENT:
            return _End(side, into, out, client.wrap_bio(into, out, server_hostname=name, session=session))
        return _End(side, into, out, server.wrap_bio(into, out, server_side=True))

    def handshake(self) -> None:
        """Shake hands; ssl.SSLError where they do not agree."""
        done: set[Side] = set()
        while len(done) < 2:
            for end in self._ends:
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.tls.do_handshake()
                    done.add(end.side)
                self._carry(end)
        client = self._ends[Side.CLIENT].tls
        self.tape.suite, self.tape.version = client.cipher()[0], client.version()
        self.tape.client = client

    def say(self, side: Side, data: bytes) -> None:
        """One side says something; the other hears it."""
        end, peer = self._ends[side], self._ends[1 - side]
        end.tls.write(data)
        self.tape.said[side] += data
        self._carry(end)
        heard = b""
        while len(heard) < len(data):
            heard += peer.tls.read(1 << 20)
        assert heard == data

    def bye(self) -> None:
        """Both say goodbye."""
        for end in self._ends:
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLSyscallError):
                end.tls.unwrap()
            self._carry(end)

    def _carry(self, end: _End) -> None:
        data = end.outgoing.read()
        if data:
            self.tape.sent.append((end.side, data))
            self._ends[1 - end.side].incoming.write(data)

    def finish(self) -> TlsTape:
        """The conversation."""
        self.tape.keys = self._log.read_text() if self._log.exists() else ""
        self._folder.cleanup()
        return self.tape


WORDS = [
    (Side.CLIENT, b"one"), (Side.SERVER, b"two"), (Side.CLIENT, b"3" * 40_000), (Side.SERVER, b"4" * 20_000),
    (Side.SERVER, b"five"), (Side.CLIENT, b"six"),
]  # fmt: skip


def talk(
    client: ssl.SSLContext, server: ssl.SSLContext, words: Iterable[tuple[Side, bytes]] = WORDS, **more: Any
) -> TlsTape:
    """A whole conversation."""
    pair = OpenSslPair(client, server, **more)
    pair.handshake()
    for side, data in words:
        pair.say(side, data)
    pair.bye()
    return pair.finish()


# ---- an own writer of TLS 1.3, by means of cryptography's HKDF and AEADs


def expand(secret: bytes, label: str, size: int, algorithm: hashes.HashAlgorithm) -> bytes:
    name = b"tls13 " + label.encode()
    info = size.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    return HKDFExpand(algorithm, size, info).derive(secret)


class Sealer13:
    """Seals records of one direction of TLS 1.3."""

    CIPHERS = {
        0x1301: (AESGCM, 16),
        0x1302: (AESGCM, 32),
        0x1303: (ChaCha20Poly1305, 32),
        0x1304: (AESCCM, 16),
        0x1305: (AESCCM, 16),
    }

    def __init__(self, suite: int, secret: bytes) -> None:
        self.suite, self.secret, self.number = suite, secret, 0
        self._hash = hashes.SHA384() if suite == 0x1302 else hashes.SHA256()
        make, size = self.CIPHERS[suite]
        key = expand(secret, "key", size, self._hash)
        self._iv = int.from_bytes(expand(secret, "iv", 12, self._hash), "big")
        self._aead = make(key, tag_length=8) if suite == 0x1305 else make(key)
        self._tag = 8 if suite == 0x1305 else 16

    def seal(self, content: bytes, kind: int = 23, padding: int = 0) -> bytes:
        inner = content + bytes([kind]) + bytes(padding)
        head = b"\x17\x03\x03" + (len(inner) + self._tag).to_bytes(2, "big")
        sealed = self._aead.encrypt((self._iv ^ self.number).to_bytes(12, "big"), inner, head)
        self.number += 1
        return head + sealed

    def update(self) -> bytes:
        """A KeyUpdate; what follows is sealed with the next secret."""
        told = self.seal(b"\x18\x00\x00\x01\x00", 22)
        self.__init__(self.suite, expand(self.secret, "traffic upd", len(self.secret), self._hash))
        return told


def message(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def clear(kind: int, body: bytes) -> bytes:
    return bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body


def extension(kind: int, data: bytes = b"") -> bytes:
    return kind.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data


def client_hello(random: bytes, suites: Sequence[int] = (0x1301,), *extensions: bytes) -> bytes:
    listed = b"".join(suite.to_bytes(2, "big") for suite in suites)
    rest = b"".join(extensions)
    body = (
        b"\3\3"
        + random
        + b"\0"
        + len(listed).to_bytes(2, "big")
        + listed
        + b"\1\0"
        + len(rest).to_bytes(2, "big")
        + rest
    )
    return clear(22, message(1, body))


def server_hello(random: bytes, suite: int, *extensions: bytes, version: int = 0x0304, compression: int = 0) -> bytes:
    rest = b"".join((*extensions, *([extension(43, b"\3\4")] if version == 0x0304 else [])))
    body = (
        b"\3\3" + random + b"\0" + suite.to_bytes(2, "big") + bytes([compression]) + len(rest).to_bytes(2, "big") + rest
    )
    return clear(22, message(2, body))


RANDOM = bytes(range(32))
SECRETS = {
    "CLIENT_EARLY_TRAFFIC_SECRET": b"E", "CLIENT_HANDSHAKE_TRAFFIC_SECRET": b"h",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET": b"H", "CLIENT_TRAFFIC_SECRET_0": b"t", "SERVER_TRAFFIC_SECRET_0": b"T",
}  # fmt: skip


class Written13:
    """A conversation of TLS 1.3 that is written by hand."""

    def __init__(self, suite: int = 0x1301, *, early: bool = False) -> None:
        self.suite = suite
        size = 48 if suite == 0x1302 else 32
        self.tape = TlsTape()
        self.tape.keys = "".join(f"{label} {RANDOM.hex()} {(one * size).hex()}\n" for label, one in SECRETS.items())
        self.early, self._client_hs, self._server_hs, client, server = (
            Sealer13(suite, one * size) for one in SECRETS.values()
        )
        self.sealers = {Side.CLIENT: client, Side.SERVER: server}
        self._extensions = [extension(42)] if early else []

    def send(self, side: Side, data: bytes) -> None:
        self.tape.sent.append((side, data))

    def begin(self) -> None:
        self.send(Side.CLIENT, client_hello(RANDOM, (self.suite,), *self._extensions))

    def answer(self, *, accepts: bool = False) -> None:
        """The server's flight."""
        accepted = extension(42) if accepts else b""
        told = message(8, len(accepted).to_bytes(2, "big") + accepted) + message(20, bytes(32))
        sealed = self._server_hs.seal(told, 22)
        self.send(Side.SERVER, server_hello(b"S" * 32, self.suite) + clear(20, b"\1") + sealed)

    def finish(self) -> None:
        """The client's flight."""
        self.send(Side.CLIENT, clear(20, b"\1") + self._client_hs.seal(message(20, bytes(32)), 22))

    def handshake(self) -> None:
        self.begin()
        self.answer()
        self.finish()

    def say(self, side: Side, data: bytes, padding: int = 0) -> None:
        self.send(side, self.sealers[side].seal(data, padding=padding))
        self.tape.said[side] += data


# ---- decoding


@dataclass
class Decoded:
    """What came out of TLS."""

    plain: dict[Side, bytes]
    items: list[Any]
    decoder: TlsDecoder

    @property
    def facts(self) -> Any:
        return self.decoder.facts

    @property
    def problems(self) -> list[Problem]:
        return [item.problem for item in self.items if not isinstance(item, Plain | Hole)]

    @property
    def holes(self) -> list[Side]:
        return [item.side for item in self.items if isinstance(item, Hole)]

    def dark(self, side: Side) -> int:
        return self.decoder.unread(side)


Piece = tuple[Side, int, bytes | int]
"""Side, offset, and bytes, or the number of bytes that were lost."""


def whole(tape: TlsTape) -> list[Piece]:
    """The conversation, a piece for each flight."""
    at = dict.fromkeys(Side, 0)
    pieces: list[Piece] = []
    for side, data in tape.sent:
        pieces.append((side, at[side], data))
        at[side] += len(data)
    return pieces


def cut(pieces: Iterable[Piece], size: int) -> Iterator[Piece]:
    """The same in packets of ``size`` bytes."""
    for side, offset, data in pieces:
        assert isinstance(data, bytes)
        for at in range(0, len(data), size):
            yield side, offset + at, data[at : at + size]


def without(pieces: Iterable[Piece], side: Side, start: int, stop: int) -> Iterator[Piece]:
    """The same without the bytes of a side between two offsets."""
    for each, offset, data in pieces:
        assert isinstance(data, bytes)
        end = offset + len(data)
        if each is not side or end <= start or offset >= stop:
            yield each, offset, data
            continue
        if offset < start:
            yield each, offset, data[: start - offset]
        yield each, max(offset, start), min(end, stop) - max(offset, start)
        if end > stop:
            yield each, stop, data[stop - offset :]


def decode(
    pieces: Iterable[Piece], keys: str | None, *, from_start: bool = True, limits: Limits | None = None
) -> Decoded:
    """Put pieces through a decoder; neighbouring losses of a side become one."""
    ring = None if keys is None else KeyRing([KeyLog(keys.encode())])
    decoder = TlsDecoder(ring, limits or Limits(), from_start=from_start)
    items: list[Any] = []
    lost: dict[Side, tuple[int, int]] = {}

    def give(side: Side, packet: int) -> None:
        if side in lost:
            start, stop = lost.pop(side)
            items.extend(decoder.feed(Gap(side, start, stop - start, Mark(start, packet, packet, packet))))

    packet = 0
    for packet, (side, offset, data) in enumerate(pieces, 1):
        if isinstance(data, int):
            lost[side] = (lost.get(side, (offset, 0))[0], offset + data)
            continue
        give(side, packet)
        items.extend(decoder.feed(Chunk(side, offset, data, [Mark(offset, packet, packet, packet)])))
    for side in Side:
        give(side, packet + 1)
        items.extend(decoder.close(side))
    decoder.conclude()
    plain = {
        side: b"".join(item.data for item in items if isinstance(item, Plain) and item.side is side) for side in Side
    }
    return Decoded(plain, items, decoder)
