"""Protected records in, their content out: one class for each way in which records are protected.

Sources: RFC 5246 section 6.2.3, RFC 7366 (encrypt-then-MAC), RFC 5288 (GCM), 6655 (CCM), 7905 (ChaCha20-Poly1305),
RFC 8446 section 5.2.

1. A record is opened with a sequence number that the caller proposes: what is authenticated tells whether it was right.
2. Nothing here has a state but the IV of CBC in TLS 1.0, which is the end of the record before.
"""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod
from collections.abc import Iterable
from hashlib import new as new_hash
from typing import Any, Final, NamedTuple

from mqsniff.tls.keyschedule import TLS_1_2, TLS_1_3, DirectionKeys, next_secret, traffic_keys
from mqsniff.tls.suites import Suite

HEAD_SIZE: Final = 5
_BLOCK: Final = 16


class Opened(NamedTuple):
    """The content of a record, and the sequence number with which it was opened."""

    kind: int
    content: bytes
    number: int


class Protection(ABC):
    """The records of one direction between two changes of keys."""

    overhead: int = 0
    """Least number of bytes by which a protected record is longer than its content."""

    @abstractmethod
    def open(self, number: int, head: bytes, body: bytes) -> Opened | None:
        """Open a record with a sequence number; None where it does not fit."""

    def find(self, numbers: Iterable[int], head: bytes, body: bytes) -> Opened | None:
        """Open a record with the first sequence number that fits."""
        for number in numbers:
            opened = self.open(number, head, body)
            if opened is not None:
                return opened
        return None

    def pass_over(self, body: bytes) -> None:  # noqa: B027  # most have no state
        """Take note of a record, opened or not."""

    def lose(self) -> None:  # noqa: B027  # as above
        """Take note that a record is missing."""

    def following(self) -> Protection | None:
        """What protects records behind a KeyUpdate; None where there is no such thing."""
        return None


class _Aead(Protection):
    """What all AEAD ciphers share."""

    def __init__(self, suite: Suite, keys: DirectionKeys) -> None:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  # only when there is something to open

        self._refused = InvalidTag
        self._cipher = _aead(suite, keys.key)
        self._iv = keys.iv
        self._tag = 8 if suite.mode == "ccm_8" else 16

    def _decrypt(self, nonce: bytes, sealed: bytes, added: bytes) -> bytes | None:
        try:
            plain: bytes = self._cipher.decrypt(nonce, sealed, added)
        except (self._refused, ValueError):
            return None
        return plain


def _aead(suite: Suite, key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import aead  # noqa: PLC0415  # as above

    match suite.mode:
        case "gcm":
            return aead.AESGCM(key)
        case "chacha20":
            return aead.ChaCha20Poly1305(key)
        case _:
            return aead.AESCCM(key, tag_length=8 if suite.mode == "ccm_8" else 16)


class Aead12(_Aead):
    """AEAD up to TLS 1.2: GCM and CCM with the explicit part of the nonce in the record, ChaCha20 without."""

    def __init__(self, suite: Suite, keys: DirectionKeys) -> None:
        super().__init__(suite, keys)
        self._explicit = 0 if suite.mode == "chacha20" else 8
        self._mask = int.from_bytes(keys.iv, "big")
        self.overhead = self._explicit + self._tag

    def open(self, number: int, head: bytes, body: bytes) -> Opened | None:
        """See Protection."""
        size = len(body) - self.overhead
        if size < 0:
            return None
        nonce = self._iv + body[:8] if self._explicit else (self._mask ^ number).to_bytes(12, "big")
        added = number.to_bytes(8, "big") + head[:3] + size.to_bytes(2, "big")
        plain = self._decrypt(nonce, body[self._explicit :], added)
        return None if plain is None else Opened(head[0], plain, number)


class Aead13(_Aead):
    """Records of TLS 1.3: the type comes after the content, zeros may follow (RFC 8446 section 5.2)."""

    def __init__(self, suite: Suite, secret: bytes, name: str) -> None:
        keys = traffic_keys(suite, secret)
        super().__init__(suite, keys)
        self.name = name
        """Of its secret: early, handshake or traffic."""
        self._suite, self._secret = suite, secret
        self._mask = int.from_bytes(keys.iv, "big")
        self.overhead = 1 + self._tag

    def open(self, number: int, head: bytes, body: bytes) -> Opened | None:
        """See Protection."""
        plain = self._decrypt((self._mask ^ number).to_bytes(12, "big"), body, head)
        if not plain:
            return None
        if not plain[-1]:
            plain = plain.rstrip(b"\0")
        return Opened(plain[-1], plain[:-1], number) if plain else None

    def following(self) -> Protection | None:
        """See Protection; only traffic secrets have one."""
        if self.name != "traffic":
            return None
        return Aead13(self._suite, next_secret(self._suite, self._secret), self.name)


class Cbc(Protection):
    """AES-CBC with a MAC over the content, or with encrypt-then-MAC over what is encrypted."""

    def __init__(self, version: int, suite: Suite, keys: DirectionKeys, *, mac_last: bool) -> None:
        self._keys = keys
        self._mac = suite.mac
        self._mac_size = new_hash(suite.mac).digest_size
        self._mac_last = mac_last
        self._chained = version < 0x0302
        """TLS 1.0: the IV is the last block of the record before."""
        self._iv: bytes | None = keys.iv if self._chained else None
        self.overhead = self._mac_size + 1 + (0 if self._chained else _BLOCK)

    def open(self, number: int, head: bytes, body: bytes) -> Opened | None:
        """See Protection."""
        return self.find((number,), head, body)

    def find(self, numbers: Iterable[int], head: bytes, body: bytes) -> Opened | None:
        """See Protection; a record is decrypted once for all numbers."""
        if self._mac_last:
            sealed, mac = body[: -self._mac_size], body[-self._mac_size :]
            number = self._number(numbers, head, sealed, mac)
            plain = None if number is None else self._unpadded(self._decrypt(sealed))
            return None if plain is None or number is None else Opened(head[0], plain, number)
        plain = self._unpadded(self._decrypt(body))
        if plain is None or len(plain) < self._mac_size:
            return None
        content, mac = plain[: -self._mac_size], plain[-self._mac_size :]
        number = self._number(numbers, head, content, mac)
        return None if number is None else Opened(head[0], content, number)

    def _number(self, numbers: Iterable[int], head: bytes, data: bytes, mac: bytes) -> int | None:
        """The sequence number with which a MAC is right."""
        rest = head[:3] + len(data).to_bytes(2, "big") + data
        for number in numbers:
            if hmac.digest(self._keys.mac, number.to_bytes(8, "big") + rest, self._mac) == mac:
                return number
        return None

    def _decrypt(self, sealed: bytes) -> bytes | None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415  # as above

        iv = self._iv
        if not self._chained:
            iv, sealed = sealed[:_BLOCK], sealed[_BLOCK:]
        if iv is None or len(iv) != _BLOCK or not sealed or len(sealed) % _BLOCK:
            return None
        decryptor = Cipher(algorithms.AES(self._keys.key), modes.CBC(iv)).decryptor()
        return decryptor.update(sealed) + decryptor.finalize()

    @staticmethod
    def _unpadded(plain: bytes | None) -> bytes | None:
        """Without the padding: as many bytes as the last one says, and itself, all of that value."""
        if not plain or len(plain) <= plain[-1]:
            return None
        count = plain[-1] + 1
        return plain[:-count] if plain[-count:] == plain[-1:] * count else None

    def pass_over(self, body: bytes) -> None:
        """See Protection."""
        if self._chained:
            sealed = body[: -self._mac_size] if self._mac_last else body
            self._iv = sealed[-_BLOCK:] if len(sealed) >= _BLOCK else None

    def lose(self) -> None:
        """See Protection."""
        if self._chained:
            self._iv = None


def protection_of(version: int, suite: Suite, keys: DirectionKeys, *, mac_last: bool) -> Protection:
    """The protection of a direction up to TLS 1.2."""
    assert version <= TLS_1_2 < TLS_1_3
    if suite.mode == "cbc":
        return Cbc(version, suite, keys, mac_last=mac_last)
    return Aead12(suite, keys)
