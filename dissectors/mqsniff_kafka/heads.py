"""Sizes of Kafka frames, from their first bytes.

    request    size i32 | api key i16, api version i16, correlation id i32 [, client id i16 + text [, tags]] | body
    response   size i32 | correlation id i32 [, tags] | body
    SASL       size i32 | token, while a handshake of version 0 is going on

1. ``probe_request`` accepts a released key and version, a printable client id that fits, and no header tags. The head
   of a response has only a size and a correlation id: ``probe_response`` accepts plausible ones.
2. ``follow_request``, ``follow_response`` and ``follow_token`` are for a side that is in step: they accept keys and
   versions of future releases too.
3. No heavy imports: this module runs on every capture, whatever its protocols.

Sources: RequestHeader.json, ResponseHeader.json, ``SocketServer`` and ``SaslServerAuthenticator`` of Apache Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from struct import Struct
from typing import Final, NamedTuple

from mqsniff.dissector import NEED, NO_FRAME, LayerChange, Probed, Sized
from mqsniff.framing.lengthprefix import LengthPrefix
from mqsniff_kafka import specs

SIZE_WORD: Final = 4
SIZE_PROBED: Final = 104_857_600
"""Largest request that a broker accepts by default (socket.request.max.bytes)."""
SIZE_MAX: Final = 0x14FF_FFFF
"""Larger sizes begin with 0x15 or 0x16, as TLS records do."""
TLS_ALERT: Final = 0x15
TLS_ALERTS: Final = frozenset(bytes((TLS_ALERT, 3, minor)) for minor in range(5))
"""An alert of SSL 3.0 to TLS 1.3: what a TLS port answers to a client without TLS."""
REQUEST_MIN: Final = 8
RESPONSE_MIN: Final = 4
CLIENT_ID_MAX: Final = 255
HEAD_MAX: Final = SIZE_WORD + 8 + 2 + CLIENT_ID_MAX + 1

KEY_FOLLOWED: Final = 0x4FFF
VERSION_FOLLOWED: Final = 0xFF
"""Vendors' keys start at 10000. Text that is read as a header, such as a SASL token, exceeds one of the two."""

CORRELATION_PROBED: Final = 1 << 27
CORRELATION_SASL: Final = 2_147_483_640
"""The Java client numbers its SASL requests from here."""

PROBED: Final = 9
"""Bytes of a response that ``probe_response`` looks at."""
BATCH_MAGIC: Final = 2
"""Magic of a record batch; it follows the batch length and the leader epoch."""

CONTROLLED_SHUTDOWN: Final = 7
GSSAPI_TOKEN: Final = 0x60
"""First byte of a GSSAPI token, which 0.9 clients send without a handshake (RFC 2743, section 3.1)."""

PROBED_REQUEST: Final = LengthPrefix(SIZE_WORD, REQUEST_MIN + 2, SIZE_PROBED)
PROBED_RESPONSE: Final = LengthPrefix(SIZE_WORD, RESPONSE_MIN, SIZE_PROBED)
FOLLOWED_REQUEST: Final = LengthPrefix(SIZE_WORD, REQUEST_MIN, SIZE_MAX)
FOLLOWED_RESPONSE: Final = LengthPrefix(SIZE_WORD, RESPONSE_MIN, SIZE_MAX)
FOLLOWED_TOKEN: Final = LengthPrefix(SIZE_WORD, 0, SIZE_MAX)

REQUEST_HEAD: Final = Struct(">hhi")
_API: Final = Struct(">hh")
_CORRELATION: Final = Struct(">i")
_LENGTH: Final = Struct(">h")
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_REQUEST_START: Final = re.compile(
    rb"(?!\x00{3}[\x00-\x09])[\x00-\x06](?="
    rb"[\x00-\xff]{3}\x00(?:[\x00-\x7f]\x00[\x00-\xff]{5}(?:\xff\xff|\x00(?:\x00|[^\x00][^\x00-\x1f\x7f]))|\x07\x00\x00)"
    rb"|[\x00-\xff]{0,13}\Z)"
)
"""Size, key, version; then the length of the client id and its first character, which one header alone has not."""
_RESPONSE_START: Final = re.compile(
    rb"(?!\x00{3}[\x00-\x03])[\x00-\x06](?=[\x00-\xff]{3}[\x00-\x07\x7f]|[\x00-\xff]{0,3}\Z)"
)


class Known(NamedTuple):
    """The versions of an API."""

    first: int
    last: int
    flexible: int
    """First version with tags in the header."""


@cache
def known() -> Mapping[int, Known]:
    """API key -> its versions."""
    never = 1 << 15
    return {
        key: Known(api.versions.first, api.versions.last, api.flexible_requests.first if _any(api) else never)
        for key, api in specs.apis().items()
    }


def _any(api: specs.Api) -> bool:
    return api.flexible_requests.first <= api.flexible_requests.last


# ---- strict


def probe_request(head: bytes) -> Probed:
    """Size of the request that must start here, its size word included; looks at HEAD_MAX bytes at most."""
    size = PROBED_REQUEST.size(head)
    if not isinstance(size, int):
        return size
    if len(head) < 8:
        return NEED
    key, version = _API.unpack_from(head, SIZE_WORD)
    api = known().get(key)
    if api is None or not api.first <= version <= api.last:
        return NO_FRAME
    if key == CONTROLLED_SHUTDOWN and version == 0:
        return size
    if len(head) < 14:
        return NEED
    (length,) = _LENGTH.unpack_from(head, 12)
    stop = 14 + max(length, 0)
    flexible = version >= api.flexible
    if not -1 <= length <= CLIENT_ID_MAX or stop + flexible > size:
        return NO_FRAME
    if _CONTROL.search(head, 14, stop):
        return NO_FRAME
    if len(head) < stop + flexible:
        return NEED
    return NO_FRAME if flexible and head[stop] else size


def probe_response(head: bytes) -> Probed:
    """Size of the response that may start here, its size word included; looks at PROBED bytes.

    A record batch looks like a response from its length on: length and leader epoch read as size and correlation id.
    Its magic is refused.
    """
    size = PROBED_RESPONSE.size(head)
    if not isinstance(size, int):
        return size
    if len(head) < 8:
        return NEED
    (correlation,) = _CORRELATION.unpack_from(head, SIZE_WORD)
    if not (0 <= correlation < CORRELATION_PROBED or correlation >= CORRELATION_SASL):
        return NO_FRAME
    if size > SIZE_WORD + RESPONSE_MIN:
        if len(head) < PROBED:
            return NEED
        if head[8] == BATCH_MAGIC:
            return NO_FRAME
    return size


def scan_request(data: bytes, start: int) -> int:
    """First offset where a request may start."""
    found = _REQUEST_START.search(data, start)
    return found.start() if found else len(data)


def scan_response(data: bytes, start: int) -> int:
    """First offset where a response may start."""
    found = _RESPONSE_START.search(data, start)
    return found.start() if found else len(data)


# ---- lenient


def follow_request(head: bytes) -> Sized:
    """Size of the request that starts here in step."""
    size = FOLLOWED_REQUEST.size(head)
    if not isinstance(size, int):
        return size
    if len(head) < 8:
        return NEED
    key, version = _API.unpack_from(head, SIZE_WORD)
    return size if 0 <= key <= KEY_FOLLOWED and 0 <= version <= VERSION_FOLLOWED else NO_FRAME


def follow_response(head: bytes) -> Sized:
    """Size of the response that starts here in step."""
    size = FOLLOWED_RESPONSE.size(head)
    return _alert_or_none(head) if size is NO_FRAME else size


def follow_token(head: bytes) -> Sized:
    """Size of the raw SASL token that starts here in step."""
    size = FOLLOWED_TOKEN.size(head)
    return _alert_or_none(head) if size is NO_FRAME else size


def _alert_or_none(head: bytes) -> Sized:
    """A change to TLS if an alert begins here, else NO_FRAME."""
    if head[0] != TLS_ALERT:
        return NO_FRAME
    if len(head) < SIZE_WORD:
        return NEED
    return LayerChange("tls", SIZE_WORD) if head[:3] in TLS_ALERTS else NO_FRAME
