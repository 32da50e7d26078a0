"""The head that a proxy puts before a client's first byte: PROXY protocol v1 (text) and v2 (binary).

Source: "The PROXY protocol, versions 1 & 2", sections 2.1 and 2.2 (HAProxy).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from mqsniff.model import endpoint
from mqsniff.streams.events import StreamChunk, StreamClosed, StreamGap

V1_MAX = 107
"""Longest head of version 1 with its CR LF (section 2.1)."""

_V1 = b"PROXY "
_V2 = b"\r\n\r\n\x00\r\nQUIT\n"
_ADDRESS_SIZE = {0x1: 4, 0x2: 16}


class ProxyHead(NamedTuple):
    """A head of ``size`` bytes; the addresses are None if it has none (LOCAL, UNKNOWN, unix sockets)."""

    size: int
    source: str | None = None
    destination: str | None = None


def read_head(data: bytes) -> ProxyHead | bool:
    """The PROXY head at the start of ``data``; True: more bytes are needed, False: there is none."""
    if _V1.startswith(data[: len(_V1)]) or data.startswith(_V1):
        return _read_v1(data)
    if _V2.startswith(data[: len(_V2)]):
        return True if len(data) < len(_V2) + 4 else _read_v2(data)
    return False


def _read_v1(data: bytes) -> ProxyHead | bool:
    end = data.find(b"\r\n", 0, V1_MAX)
    if end < 0:
        return len(data) < V1_MAX and b"\n" not in data
    words = data[:end].decode("latin-1").split(" ")
    if len(words) == 6 and words[1] in ("TCP4", "TCP6"):
        return ProxyHead(end + 2, *_text_endpoints(words[2:]))
    return ProxyHead(end + 2) if words[1] == "UNKNOWN" else False


def _text_endpoints(words: list[str]) -> tuple[str | None, str | None]:
    try:
        source, destination = (str(ipaddress.ip_address(word)) for word in words[:2])
        return endpoint(source, int(words[2])), endpoint(destination, int(words[3]))
    except ValueError:
        return None, None


def _read_v2(data: bytes) -> ProxyHead | bool:
    version_command, family_protocol = data[12], data[13]
    if version_command >> 4 != 2:
        return False
    size = 16 + int.from_bytes(data[14:16], "big")
    if len(data) < size:
        return True
    width = _ADDRESS_SIZE.get(family_protocol >> 4)
    if version_command & 0xF == 0 or width is None or size < 16 + 2 * width + 4:
        return ProxyHead(size)
    ports = 16 + 2 * width
    return ProxyHead(
        size,
        _packed_endpoint(data[16 : 16 + width], data[ports : ports + 2]),
        _packed_endpoint(data[16 + width : ports], data[ports + 2 : ports + 4]),
    )


def _packed_endpoint(address: bytes, port: bytes) -> str:
    return endpoint(str(ipaddress.ip_address(address)), int.from_bytes(port, "big"))


StreamInput: TypeAlias = StreamChunk | StreamGap | StreamClosed
"""What a session or an opaque connection gets, once its sides are known."""


def without_head(events: Iterable[StreamInput], direction: int, size: int) -> Iterator[StreamInput]:
    """Events without the bytes of a PROXY head, which a direction begins with."""
    for event in events:
        skip = size if event.direction == direction else 0
        kept = _behind(event, skip) if isinstance(event, StreamChunk) else event
        if kept is not None:
            yield kept


def _behind(chunk: StreamChunk, offset: int) -> StreamChunk | None:
    """The part of a chunk from a stream offset on."""
    if chunk.offset >= offset:
        return chunk
    if chunk.offset + len(chunk.data) <= offset:
        return None
    marks = [mark for mark in chunk.marks if mark.offset > offset]
    first = [mark for mark in chunk.marks if mark.offset <= offset][-1]
    return StreamChunk(chunk.direction, offset, chunk.data[offset - chunk.offset :], [first, *marks])
