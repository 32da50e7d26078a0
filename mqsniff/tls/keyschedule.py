"""Secrets of a key log in, keys of records out.

Sources: RFC 2246 section 5 and RFC 4346 (PRF of 1.0 and 1.1), RFC 5246 sections 5, 6.3 and 8.1 (1.2), RFC 7627
section 4 (extended master secret), RFC 8446 sections 7.1 to 7.3 (1.3), RFC 5869 (HKDF).
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

from mqsniff.tls.suites import Suite

TLS_1_2: Final = 0x0303
TLS_1_3: Final = 0x0304


def _p_hash(name: str, secret: bytes, seed: bytes, size: int) -> bytes:
    """P_hash of RFC 5246 section 5."""
    out, link = b"", seed
    while len(out) < size:
        link = hmac.digest(secret, link, name)
        out += hmac.digest(secret, link + seed, name)
    return out[:size]


def prf(version: int, hashed: str, secret: bytes, label_and_seed: bytes, size: int) -> bytes:
    """The pseudorandom function of TLS 1.2, or of 1.0 and 1.1 (MD5 and SHA-1 over the halves of the secret)."""
    if version >= TLS_1_2:
        return _p_hash(hashed, secret, label_and_seed, size)
    half = (len(secret) + 1) // 2
    one = _p_hash("md5", secret[:half], label_and_seed, size)
    other = _p_hash("sha1", secret[len(secret) - half :], label_and_seed, size)
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def master_secret(version: int, hashed: str, premaster: bytes, randoms: bytes, transcript: bytes | None) -> bytes:
    """The master secret of a premaster secret; ``transcript``: the handshake's messages, for the extended one."""
    if transcript is None:
        return prf(version, hashed, premaster, b"master secret" + randoms, 48)
    if version >= TLS_1_2:
        digest = hashlib.new(hashed, transcript).digest()
    else:
        digest = hashlib.md5(transcript).digest() + hashlib.sha1(transcript).digest()  # noqa: S324  # RFC 7627
    return prf(version, hashed, premaster, b"extended master secret" + digest, 48)


class DirectionKeys(NamedTuple):
    """What one direction is protected with; ``iv`` is the fixed part of nonces, or the first IV of CBC in TLS 1.0."""

    key: bytes
    iv: bytes
    mac: bytes = b""


def key_block(
    version: int, suite: Suite, master: bytes, client_random: bytes, server_random: bytes
) -> tuple[DirectionKeys, DirectionKeys]:
    """Keys of the client's and of the server's records up to TLS 1.2 (RFC 5246 section 6.3)."""
    mac_size = hashlib.new(suite.mac).digest_size if suite.mac else 0
    iv_size = {"chacha20": 12, "null": 0}.get(suite.mode, 4)
    if suite.block:
        iv_size = suite.block if version < 0x0302 else 0
    sizes = (mac_size, mac_size, suite.key_size, suite.key_size, iv_size, iv_size)
    block = prf(version, suite.hash, master, b"key expansion" + server_random + client_random, sum(sizes))
    parts, at = [], 0
    for size in sizes:
        parts.append(block[at : at + size])
        at += size
    return DirectionKeys(parts[2], parts[4], parts[0]), DirectionKeys(parts[3], parts[5], parts[1])


def expand_label(hashed: str, secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label of RFC 8446 section 7.1, without a context."""
    name = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes((len(name),)) + name + b"\0"
    out, block, count = b"", b"", 1
    while len(out) < size:
        block = hmac.digest(secret, block + info + bytes((count,)), hashed)
        out += block
        count += 1
    return out[:size]


def traffic_keys(suite: Suite, secret: bytes) -> DirectionKeys:
    """Keys of a traffic secret of TLS 1.3 (RFC 8446 section 7.3)."""
    key = expand_label(suite.hash, secret, b"key", suite.key_size)
    return DirectionKeys(key, expand_label(suite.hash, secret, b"iv", 12))


def next_secret(suite: Suite, secret: bytes) -> bytes:
    """The traffic secret after a KeyUpdate (RFC 8446 section 7.2)."""
    return expand_label(suite.hash, secret, b"traffic upd", len(secret))
