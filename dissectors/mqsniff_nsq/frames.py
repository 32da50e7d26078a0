"""Frames of nsqd and nsqlookupd: their sizes, how they are found, and their content.

1. nsqd: size (4, counts the rest), frame type (4), data. nsqlookupd: size (4), data. Integers are signed, big endian.
2. In step, a known frame type may have any size, an unknown one at most ODD_MAX bytes.
3. ``probe`` accepts only what these servers write: fixed words, JSON objects, error codes, message ids of 16 hex
   digits.
"""

from __future__ import annotations

import json
import re
from struct import Struct
from typing import Final, NamedTuple

from mqsniff.dissector import NEED, NO_FRAME, Probed, Sized
from mqsniff.framing.lengthprefix import LengthPrefix
from mqsniff.model import Frame, ProvenSize, Undecoded, Value
from mqsniff.spec.wire import Malformed, text_or_bytes
from mqsniff_nsq.lines import INT32, text
from mqsniff_nsq.tables import ERROR, ERRORS, HEARTBEAT, MAGIC_SIZE, MESSAGE, MESSAGE_HEAD, MESSAGE_ID, RESPONSE

HEAD: Final = 8
"""Bytes of size and frame type."""

_HEAD: Final = Struct(">ii")
_MESSAGE_HEAD: Final = Struct(">qH")
_CODE: Final = re.compile(rb"E_[A-Z]+(?:_[A-Z]+)*")
_CODE_AND_TEXT: Final = re.compile(_CODE.pattern + b" ")
_CODE_BEGUN: Final = re.compile(rb"(?:E(?:_[A-Z_]*)?)?\Z")
_CODE_MAX: Final = 40
_LOOKUPD_JSON: Final = b'{"broadcast_address":'
"""First bytes of nsqlookupd's reply to IDENTIFY: Go writes the keys in this order."""
_ERRORS: Final = frozenset(code.encode() for code in ERRORS)
_WORDS: Final = {len(word): word for word in (b"OK", b"CLOSE_WAIT", HEARTBEAT)}
_LIKELY: Final = re.compile(rb"[\x00-\x04][\x00-\xff]{3}\x00\x00\x00(?:\x00(?:OK|CL|_h|\{)|\x01E_|\x02)")
_LOOKUPD_LIKELY: Final = re.compile(rb"\x00[\x00\x01][\x00-\xff]{2}(?:OK|E_|\{)")

TIMES: Final = range(1_300_000_000_000_000_000, 5_000_000_000_000_000_000)
"""Plausible times of a message, in nanoseconds since 1970: from before nsqd was written to 2128."""
TEXT_MAX: Final = 65_536
"""Largest response or error that a search accepts; errors quote names of up to a line's length."""
JSON_MAX: Final = 1 << 20
"""Largest JSON that is parsed: real ones have a few hundred bytes."""
ODD_MAX: Final = 1 << 20
"""Largest frame of an unknown type that is followed."""

SIZE: Final = LengthPrefix(4, 4, (1 << 31) - 1)
PROBED: Final = LengthPrefix(4, 4, 0x04FF_FFFF)
"""As far as ``scan`` looks: nsqd's messages have 1 MiB at most, unless it is configured otherwise."""
LOOKUPD_SIZE: Final = LengthPrefix(4, 0, ODD_MAX)


# ---- nsqd


def size_of(head: bytes) -> Sized:
    """Size of the frame of nsqd at the start of ``head``, on a side that is in step."""
    size = SIZE.size(head)
    if not isinstance(size, int):
        return size
    if len(head) < HEAD:
        return NEED
    (frame_type,) = INT32.unpack_from(head, 4)
    known = RESPONSE <= frame_type <= MESSAGE
    return size if known or (0 < frame_type < 256 and size - 4 <= ODD_MAX) else NO_FRAME


def read_head(data: bytes) -> tuple[int, int]:
    """(size, frame type) of a frame of nsqd."""
    size, frame_type = _HEAD.unpack_from(data)
    return size, frame_type


def probe(head: bytes) -> Probed:
    """Size of the frame of nsqd that must start here."""
    size = PROBED.size(head)
    if not isinstance(size, int):
        return size
    if len(head) < HEAD:
        return NEED
    (frame_type,) = INT32.unpack_from(head, 4)
    data = head[HEAD:size]
    if frame_type == MESSAGE:
        if size < HEAD + MESSAGE_HEAD:
            return NO_FRAME
        if len(data) < MESSAGE_HEAD:
            return NEED
        if not MESSAGE_ID.fullmatch(data, 10, MESSAGE_HEAD):
            return NO_FRAME
        return ProvenSize(size) if _proves_message(data) else size
    fits: bool | None
    if frame_type == RESPONSE:
        fits = _fits_response(data, size - HEAD, b'{"')
    else:
        fits = _fits_error(data, size - HEAD) if frame_type == ERROR else False
    return NEED if fits is None else size if fits else NO_FRAME


def is_proof(data: bytes) -> bool:
    """Whether bytes are one frame that only nsqd sends: a known error, a heartbeat, CLOSE_WAIT."""
    if len(data) < HEAD or probe(data) != len(data):
        return False
    frame_type, content = read_head(data)[1], data[HEAD:]
    if frame_type == RESPONSE:
        return content in (HEARTBEAT, b"CLOSE_WAIT")
    code, _, words = content.partition(b" ")
    return frame_type == ERROR and code in _ERRORS and words.isascii() and words.decode("ascii").isprintable()


def may_begin(head: bytes) -> bool | None:
    """Whether a frame of nsqd begins here; None: more bytes are needed."""
    size = probe(head)
    return None if size is NEED else size is not NO_FRAME


def scan(data: bytes, start: int) -> int:
    """First offset >= ``start`` where a frame of nsqd may start."""
    match = _LIKELY.search(data, start)
    return match.start() if match else max(start, len(data) - HEAD - 1)


# ---- nsqlookupd


def lookupd_size_of(head: bytes) -> Sized:
    """Size of the reply of nsqlookupd at the start of ``head``, on a side that is in step."""
    return LOOKUPD_SIZE.size(head)


def lookupd_probe(head: bytes) -> Probed:
    """Size of the reply of nsqlookupd that must start here."""
    size = LOOKUPD_SIZE.size(head)
    if not isinstance(size, int):
        return size
    data = head[4:size]
    fits = _fits_response(data, size - 4, _LOOKUPD_JSON)
    if fits is False:
        fits = _fits_error(data, size - 4)
    return NEED if fits is None else size if fits else NO_FRAME


def lookupd_scan(data: bytes, start: int) -> int:
    """First offset >= ``start`` where a reply of nsqlookupd may start."""
    match = _LOOKUPD_LIKELY.search(data, start)
    return match.start() if match else max(start, len(data) - 5)


# ---- content of frames; None: more bytes are needed


def _proves_message(data: bytes) -> bool:
    timestamp, attempts = _MESSAGE_HEAD.unpack_from(data)
    return timestamp in TIMES and attempts > 0


def _fits_response(data: bytes, size: int, json_start: bytes) -> bool | None:
    word = _WORDS.get(size)
    if word is not None and word.startswith(data):
        return True if data == word else None
    if not 2 <= size <= TEXT_MAX or not json_start.startswith(data[: len(json_start)]):
        return False
    return len(data) >= min(size, len(json_start)) or None


def _fits_error(data: bytes, size: int) -> bool | None:
    if not 5 <= size <= TEXT_MAX:
        return False
    head = data[:_CODE_MAX]
    if _CODE_AND_TEXT.match(head):
        return True
    if len(data) >= size:
        return _CODE.fullmatch(head) is not None
    return None if len(head) < _CODE_MAX and _CODE_BEGUN.match(head) else False


def response_of(frame: Frame) -> bytes:
    """The text of a response; a fixed word is completed if the capture cut it."""
    data = frame.data[HEAD:]
    word = _WORDS.get(frame.size - HEAD)
    return word if word is not None and word.startswith(data) else data


def response_value(data: bytes) -> Value:
    """The text of a response that is no JSON, as a value of a body."""
    return text_or_bytes(data) if len(data) <= TEXT_MAX else Undecoded(data)


def is_message_id(raw: bytes) -> bool:
    """Whether a message id has the form that nsqd gives them."""
    return MESSAGE_ID.fullmatch(raw) is not None


class Delivered(NamedTuple):
    """The head of a message; fields that the capture lost are None."""

    timestamp: int | None
    attempts: int | None
    message_id: bytes | None

    @property
    def fields(self) -> dict[str, Value]:
        """The fields for a body."""
        message_id = None if self.message_id is None else text(self.message_id)
        return {"timestamp": self.timestamp, "attempts": self.attempts, "message_id": message_id}


def read_message(data: bytes) -> Delivered:
    """The head of the message in a frame of nsqd."""
    head = data[HEAD : HEAD + MESSAGE_HEAD]
    if len(head) < MESSAGE_HEAD:
        timestamp = int.from_bytes(head[:8], "big", signed=True) if len(head) >= 8 else None
        return Delivered(timestamp, int.from_bytes(head[8:10], "big") if len(head) >= 10 else None, None)
    timestamp, attempts = _MESSAGE_HEAD.unpack_from(head)
    return Delivered(timestamp, attempts, head[10:])


def read_error(data: bytes) -> tuple[str, str]:
    """(code, description) of the text of an error; the code is empty if there is none."""
    code, _, description = data.partition(b" ")
    return (text(code), text(description)) if _CODE.fullmatch(code[: _CODE_MAX + 1]) else ("", text(data))


def read_json(raw: bytes) -> dict[str, Value]:
    """A JSON object; Malformed if it is none, or larger than JSON_MAX."""
    if len(raw) > JSON_MAX:
        raise Malformed("JSON too big")
    try:
        value = json.loads(raw.decode())
    except (ValueError, RecursionError):
        raise Malformed("no JSON") from None
    if not isinstance(value, dict):
        raise Malformed("no JSON object")
    return value


def magic(data: bytes) -> Value:
    """The four bytes that open a connection."""
    try:
        return data[:MAGIC_SIZE].decode("ascii")
    except UnicodeDecodeError:
        return data[:MAGIC_SIZE]


def json_body(raw: bytes) -> tuple[dict[str, Value], bool]:
    """(fields of a JSON object, or its undecoded bytes; whether it could be read)."""
    try:
        return read_json(raw), True
    except Malformed:
        return {"data": Undecoded(raw)}, False
