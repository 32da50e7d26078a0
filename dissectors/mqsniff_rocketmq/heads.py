"""Sizes of RocketMQ frames, from their first bytes; also the magics of stored messages.

    length i32 | serialize type u8, header length u24 | header | body

1. ``probe`` accepts a frame by the start of its header: the first key of JSON, or binary lengths that add up and
   numbers in their ranges. ``frame_size`` uses the two lengths only.
2. No heavy imports: this module runs on every capture, whatever its protocols.

Source: RemotingCommand, RemotingSerializable and RocketMQSerializable of apache/rocketmq.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Final

from mqsniff.dissector import NEED, NO_FRAME, Probed
from mqsniff.framing.lengthprefix import LengthPrefix

HEAD: Final = Struct(">iI")
HEAD_SIZE: Final = 8
LENGTH_WORD: Final = 4
PROBE_MAX: Final = 256
"""Bytes that ``probe`` looks at; in a binary header with a long remark, the last length is behind them."""
LENGTH_PROBED: Final = 16 << 20
"""Largest frame that a peer accepts by default (com.rocketmq.remoting.frameMaxLength)."""
LENGTH_MAX: Final = 0x15FF_FFFF
"""Larger lengths begin with 0x16, which servers take for TLS."""

PROBED: Final = LengthPrefix(LENGTH_WORD, 5, 4 + LENGTH_PROBED)
FOLLOWED: Final = LengthPrefix(LENGTH_WORD, 5, LENGTH_MAX)

JSON: Final = 0
BINARY: Final = 1
RESPONSE: Final = 1
ONEWAY: Final = 2

BINARY_HEAD: Final = Struct(">hBhiii")
"""code, language, version, opaque, flag, remark length."""
BINARY_HEAD_SIZE: Final = 17
BINARY_MIN: Final = 21
LANGUAGE_MAX: Final = 13
VERSION_MAX: Final = 4096
"""Far above the number of any release (the last one is 612)."""

KEYS: Final = ("code", "language", "version", "opaque", "flag", "remark", "extFields", "serializeTypeCurrentRPC")
"""Keys of a JSON header."""

STORED_V1: Final = -626843481
STORED_V2: Final = -626843477
"""Magics of a stored message, after its size; V2 has a topic of more than 127 bytes."""

_JSON_START: Final = re.compile(rb'\{[ \t\r\n]*"(?:' + "|".join(KEYS).encode() + rb')"[ \t\r\n]*:')
_JSON_START_MAX: Final = 64
_HEAD_START: Final = re.compile(rb"(?!\x00{3}[\x00-\x04])[\x00\x01](?=[\x00-\xff]{3}[\x00\x01]|[\x00-\xff]{0,3}\Z)")
_INT32: Final = Struct(">i")
_WORD: Final = Struct(">I")


def probe(head: bytes) -> Probed:
    """Size of the frame that must start here, its length word included; looks at PROBE_MAX bytes at most."""
    size = PROBED.size(head)
    if size is NO_FRAME or head[4:5] > b"\1":
        return NO_FRAME
    if len(head) < HEAD_SIZE or not isinstance(size, int):
        return NEED
    (word,) = _WORD.unpack_from(head, LENGTH_WORD)
    kind, header = word >> 24, word & 0xFFFFFF
    if not 0 < header <= size - HEAD_SIZE:
        return NO_FRAME
    whole = _json_begins(head, header) if kind == JSON else _binary_begins(head, header)
    if whole is None:
        return NEED
    return size if whole else NO_FRAME


def _json_begins(head: bytes, size: int) -> bool | None:
    """Whether a JSON header of ``size`` bytes begins; None: more bytes are needed."""
    start = head[HEAD_SIZE : HEAD_SIZE + min(size, _JSON_START_MAX)]
    if start[:1] not in (b"", b"{"):
        return False
    if _JSON_START.match(start):
        return True
    return None if len(start) < min(size, _JSON_START_MAX) and size > 2 else False


def _binary_begins(head: bytes, size: int) -> bool | None:
    """Whether a binary header of ``size`` bytes begins; None: more bytes are needed."""
    if size < BINARY_MIN:
        return False
    if len(head) < HEAD_SIZE + BINARY_HEAD_SIZE:
        return None
    _, language, version, _, flag, remark = BINARY_HEAD.unpack_from(head, HEAD_SIZE)
    if language > LANGUAGE_MAX or not 0 <= version < VERSION_MAX or not 0 <= flag <= (RESPONSE | ONEWAY):
        return False
    if not 0 <= remark <= size - BINARY_MIN:
        return False
    at = HEAD_SIZE + BINARY_HEAD_SIZE + remark
    if at + 4 > PROBE_MAX:
        return True
    if len(head) < at + 4:
        return None
    (ext,) = _INT32.unpack_from(head, at)
    return bool(ext == size - BINARY_MIN - remark)


def scan(data: bytes, start: int) -> int:
    """First offset >= ``start`` where ``probe`` may find a frame; the end if there is none.

    The first byte of a head is 0 or 1 (its length is at most 16 MiB), and so is the fifth, its serialize type.
    """
    found = _HEAD_START.search(data, start)
    return found.start() if found else len(data)


def frame_size(head: bytes) -> Probed:
    """Size of the frame that starts here on a side that is in step."""
    size = FOLLOWED.size(head)
    if not isinstance(size, int):
        return size
    if len(head) < HEAD_SIZE:
        return NEED
    (word,) = _WORD.unpack_from(head, LENGTH_WORD)
    return size if word >> 24 <= BINARY and 0 < word & 0xFFFFFF <= size - HEAD_SIZE else NO_FRAME
