"""TLS without keys: the heads of records, and what the two hellos show.

Sources: RFC 8446 sections 4.1.2, 4.1.3, 4.2 and 5.1, RFC 5246, RFC 6066 section 3 (server name), RFC 7301 (ALPN).

1. Only record heads and hellos are read; at most HELLO_MAX handshake bytes of a side are kept.
2. Bytes that cannot be a record are clear text in two places: at the start, if the peer did not begin TLS, and behind a
   closing alert, where a server may say why it refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

HELLO_MAX = 16 * 1024
RECORD_MAX = 16_384 + 2_048
"""Largest record body: TLSCiphertext of RFC 5246 section 6.2.3."""

_ALERT, _HANDSHAKE = 21, 22
_VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}
_CIPHERS = {
    0x002F: "TLS_RSA_WITH_AES_128_CBC_SHA",
    0x0035: "TLS_RSA_WITH_AES_256_CBC_SHA",
    0x009C: "TLS_RSA_WITH_AES_128_GCM_SHA256",
    0x009D: "TLS_RSA_WITH_AES_256_GCM_SHA384",
    0x009E: "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
    0x009F: "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384",
    0x1301: "TLS_AES_128_GCM_SHA256",
    0x1302: "TLS_AES_256_GCM_SHA384",
    0x1303: "TLS_CHACHA20_POLY1305_SHA256",
    0xC009: "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    0xC00A: "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    0xC013: "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    0xC014: "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    0xC02B: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    0xC02C: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    0xC02F: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    0xC030: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    0xCCA8: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    0xCCA9: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    0xCCAA: "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}


def is_hello(data: bytes) -> bool | None:
    """Whether a stream starts with a client's or server's hello record; None: more bytes are needed."""
    if len(data) < 6:
        return None if b"\x16\x03".startswith(data[:2]) else False
    size = int.from_bytes(data[3:5], "big")
    return data[0] == _HANDSHAKE and data[1] == 3 and data[2] <= 4 and 4 <= size <= RECORD_MAX and data[5] in (1, 2)


def is_record_run(data: bytes) -> bool:
    """Whether ``data`` begins with two records, or is exactly one: TLS in the middle of a connection."""
    at = 0
    for _ in range(2):
        if not _record_head(data[at : at + 5]):
            return False
        at += 5 + int.from_bytes(data[at + 3 : at + 5], "big")
        if at == len(data):
            return True
    return at <= len(data)


def _record_head(head: bytes) -> bool:
    return (
        len(head) == 5
        and 20 <= head[0] <= 23
        and head[1] == 3
        and head[2] <= 4
        and 0 < int.from_bytes(head[3:5], "big") <= RECORD_MAX
    )


@dataclass(slots=True)
class TlsFacts:
    """The content of a connection's hellos."""

    version: str | None = None
    cipher: str | None = None
    alpn: str | None = None
    server_name: str | None = None


class RecordWalk:
    """The records of one side, one after the other."""

    def __init__(self, facts: TlsFacts) -> None:
        self._facts = facts
        self._head = bytearray()
        self._body_left = 0
        self._type = 0
        self._handshake = bytearray()
        self._hello_read = False
        self._may_be_clear = True
        self._lost = False

    def feed(self, data: bytes) -> int:
        """Take the next bytes; returns how many of them belong to TLS: all, unless clear text begins."""
        at = 0
        while at < len(data) and not self._lost:
            if self._body_left:
                at += self._take_body(data[at : at + self._body_left])
                continue
            if self._may_be_clear and not self._head and not 20 <= data[at] <= 23:
                return at
            taken = data[at : at + 5 - len(self._head)]
            self._head += taken
            at += len(taken)
            if len(self._head) == 5:
                self._lost = not self._begin_record()
        return len(data)

    def gap(self, length: int | None) -> None:
        """Note lost bytes: inside a record framing continues, else it ends."""
        if length is not None and length <= self._body_left:
            self._body_left -= length
        else:
            self._lost = True
        self._hello_read = True

    def _begin_record(self) -> bool:
        head = bytes(self._head)
        if not _record_head(head):
            return False
        self._head.clear()
        self._type = head[0]
        self._body_left = int.from_bytes(head[3:5], "big")
        self._may_be_clear = self._type == _ALERT
        return True

    def _take_body(self, body: bytes) -> int:
        self._body_left -= len(body)
        if self._type == _HANDSHAKE and not self._hello_read:
            self._handshake += body[: HELLO_MAX - len(self._handshake)]
            self._read_hello()
        return len(body)

    def _read_hello(self) -> None:
        data = bytes(self._handshake)
        size = 4 + int.from_bytes(data[1:4], "big") if len(data) >= 4 else 4
        if len(data) < size and len(data) < HELLO_MAX:
            return
        self._hello_read = True
        self._handshake.clear()
        read = {1: _read_client_hello, 2: _read_server_hello}.get(data[0])
        if read is not None:
            read(data[4:size], self._facts)


def _read_client_hello(body: bytes, facts: TlsFacts) -> None:
    at = 34
    at += 1 + int.from_bytes(body[at : at + 1], "big")
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + int.from_bytes(body[at : at + 1], "big")
    for kind, data in _extensions(body, at):
        if kind == 0 and len(data) > 5:
            facts.server_name = data[5 : 5 + int.from_bytes(data[3:5], "big")].decode("ascii", "replace")
        elif kind == 16 and facts.alpn is None:
            facts.alpn = ",".join(_alpn_names(data)) or None


def _read_server_hello(body: bytes, facts: TlsFacts) -> None:
    version = int.from_bytes(body[:2], "big")
    at = 35 + int.from_bytes(body[34:35], "big")
    cipher = int.from_bytes(body[at : at + 2], "big")
    for kind, data in _extensions(body, at + 3):
        if kind == 43 and len(data) == 2:
            version = int.from_bytes(data, "big")
        elif kind == 16:
            facts.alpn = ",".join(_alpn_names(data)) or None
    facts.version = _VERSIONS.get(version, f"0x{version:04x}")
    facts.cipher = _CIPHERS.get(cipher, f"0x{cipher:04x}")


def _extensions(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """(type, data) of each whole extension in the list whose two-byte length is at ``at``."""
    end = min(len(body), at + 2 + int.from_bytes(body[at : at + 2], "big"))
    at += 2
    while at + 4 <= end:
        size = int.from_bytes(body[at + 2 : at + 4], "big")
        if at + 4 + size > end:
            return
        yield int.from_bytes(body[at : at + 2], "big"), body[at + 4 : at + 4 + size]
        at += 4 + size


def _alpn_names(data: bytes) -> Iterator[str]:
    at = 2
    while at < len(data):
        size = data[at]
        yield data[at + 1 : at + 1 + size].decode("ascii", "replace")
        at += 1 + size
