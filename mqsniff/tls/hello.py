"""Messages of handshakes in, what they say out; and the words of alerts.

Sources: RFC 8446 sections 4.1 to 4.4 and B.2, RFC 5246 sections 7.2 and 7.4, RFC 6066 section 3 (server name), RFC 7301
(ALPN), RFC 7366 (encrypt-then-MAC), RFC 7627 (extended master secret), RFC 5280 section 4.1 (certificates).

Nothing here raises: what does not fit is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from mqsniff.tls.suites import suite_name

VERSIONS: Final = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}
RETRY: Final = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a ServerHello that is a HelloRetryRequest (RFC 8446 section 4.1.3)."""

HELLO_REQUEST: Final = 0
CLIENT_HELLO: Final = 1
SERVER_HELLO: Final = 2
END_OF_EARLY_DATA: Final = 5
ENCRYPTED_EXTENSIONS: Final = 8
CERTIFICATE: Final = 11
SERVER_HELLO_DONE: Final = 14
CLIENT_KEY_EXCHANGE: Final = 16
FINISHED: Final = 20
KEY_UPDATE: Final = 24
MESSAGE_KINDS: Final = frozenset((0, 1, 2, 3, 4, 5, 6, 8, 11, 12, 13, 14, 15, 16, 20, 21, 22, 23, 24, 25, 67, 203, 254))

_SERVER_NAME: Final = 0
_ALPN: Final = 16
_EARLY: Final = 42

_ALERTS: Final = {
    0: "close notify", 10: "unexpected message", 20: "bad record MAC", 21: "decryption failed", 22: "record overflow",
    30: "decompression failure", 40: "handshake failure", 41: "no certificate", 42: "bad certificate",
    43: "unsupported certificate", 44: "certificate revoked", 45: "certificate expired", 46: "certificate unknown",
    47: "illegal parameter", 48: "unknown CA", 49: "access denied", 50: "decode error", 51: "decrypt error",
    60: "export restriction", 70: "protocol version", 71: "insufficient security", 80: "internal error",
    86: "inappropriate fallback", 90: "user cancelled", 100: "no renegotiation", 109: "missing extension",
    110: "unsupported extension", 111: "certificate unobtainable", 112: "unrecognized name",
    113: "bad certificate status response", 114: "bad certificate hash value", 115: "unknown PSK identity",
    116: "certificate required", 120: "no application protocol",
}  # fmt: skip


@dataclass(slots=True)
class TlsFacts:
    """What is known of the TLS of a connection."""

    version: str | None = None
    cipher: str | None = None
    alpn: str | None = None
    server_name: str | None = None
    certificate_subject: str | None = None
    certificate_issuer: str | None = None
    client_certificate_subject: str | None = None
    client_certificate_issuer: str | None = None
    resumed: bool | None = None
    """Whether a session was resumed; None where it was not seen."""
    keys: str | None = None
    """used, missing or wrong; None where nothing was encrypted."""


@dataclass(slots=True)
class ClientHello:
    """What a client asks for."""

    random: bytes = b""
    session: bytes = b""
    suites: list[int] = field(default_factory=list)
    early: bool = False
    """Whether early data may follow."""


@dataclass(slots=True)
class ServerHello:
    """What a server chose."""

    version: int
    random: bytes
    session: bytes
    suite: int
    compression: int
    mac_last: bool = False
    """Encrypt-then-MAC."""
    extended: bool = False
    """Extended master secret."""
    mac_cut: bool = False
    """Truncated HMAC, which is not supported here."""
    psk: bool = False


def alert_name(code: int) -> str:
    """An alert in words."""
    return _ALERTS.get(code, f"alert {code}")


def read_client_hello(body: bytes, facts: TlsFacts) -> ClientHello:
    """The body of a ClientHello; names in it become facts."""
    at = 35 + _number(body, 34, 1)
    hello = ClientHello(body[2:34], body[35:at])
    size = _number(body, at, 2)
    listed = body[at + 2 : at + 2 + size]
    hello.suites = [_number(listed, place, 2) for place in range(0, len(listed) - 1, 2)]
    at += 2 + size
    at += 1 + _number(body, at, 1)
    for kind, data in _extensions(body, at):
        if kind == _SERVER_NAME and len(data) > 5:
            facts.server_name = data[5 : 5 + _number(data, 3, 2)].decode("ascii", "replace")
        elif kind == _ALPN and facts.alpn is None:
            facts.alpn = ",".join(_alpn_names(data)) or None
        elif kind == _EARLY:
            hello.early = True
    return hello


def read_server_hello(body: bytes, facts: TlsFacts) -> ServerHello:
    """The body of a ServerHello; what it chose becomes facts."""
    at = 35 + _number(body, 34, 1)
    hello = ServerHello(_number(body, 0, 2), body[2:34], body[35:at], _number(body, at, 2), _number(body, at + 2, 1))
    for kind, data in _extensions(body, at + 3):
        match kind:
            case 43 if len(data) == 2:
                hello.version = _number(data, 0, 2)
            case 16:
                facts.alpn = ",".join(_alpn_names(data)) or None
            case 22:
                hello.mac_last = True
            case 23:
                hello.extended = True
            case 4:
                hello.mac_cut = True
            case 41:
                hello.psk = True
    facts.version = VERSIONS.get(hello.version, f"0x{hello.version:04x}")
    facts.cipher = suite_name(hello.suite)
    return hello


def read_encrypted_extensions(body: bytes, facts: TlsFacts) -> bool:
    """The body of EncryptedExtensions: whether early data was accepted; the ALPN becomes a fact."""
    early = False
    facts.alpn = None
    for kind, data in _extensions(body, 0):
        if kind == _ALPN:
            facts.alpn = ",".join(_alpn_names(data)) or None
        early = early or kind == _EARLY
    return early


def first_certificate(body: bytes, *, context: bool) -> bytes | None:
    """The first certificate of a Certificate message; ``context``: TLS 1.3 puts one before the list."""
    at = 1 + _number(body, 0, 1) if context else 0
    size = _number(body, at + 3, 3)
    data = body[at + 6 : at + 6 + size]
    return data if size and len(data) == size else None


def _extensions(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """(type, data) of each whole extension in the list whose two-byte length stands at ``at``."""
    end = min(len(body), at + 2 + _number(body, at, 2))
    at += 2
    while at + 4 <= end:
        size = _number(body, at + 2, 2)
        if at + 4 + size > end:
            return
        yield _number(body, at, 2), body[at + 4 : at + 4 + size]
        at += 4 + size


def _alpn_names(data: bytes) -> Iterator[str]:
    at = 2
    while at < len(data):
        size = data[at]
        yield data[at + 1 : at + 1 + size].decode("ascii", "replace")
        at += 1 + size


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")
