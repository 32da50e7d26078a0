"""Decides whether a lone frame proves RocketMQ, and whether a guess has swapped client and server.

1. Clients send requests and servers responses. Requests that brokers send to clients count for neither.
2. Sides are swapped if every frame that counts says so.
3. A lone frame in the middle of a connection proves the protocol if its header decodes to its end: JSON with code,
   opaque and flag, or binary. The first bytes alone are no proof: Kafka's record data look like those of a binary
   header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mqsniff.dissector import Sample
from mqsniff_rocketmq.heads import (
    BINARY,
    BINARY_HEAD,
    BINARY_HEAD_SIZE,
    HEAD,
    HEAD_SIZE,
    PROBE_MAX,
    RESPONSE,
    probe,
)

FRAMES_MAX: Final = 16
"""Frames of a side that are examined."""
SENT_BY_SERVERS: Final = frozenset({39, 40, 220, 221, 307, 309, 326, 905, 1008, 200073})

_CODE: Final = re.compile(rb'"code":[ ]?(-?\d{1,10})')
_OPAQUE: Final = re.compile(rb'"opaque":[ ]?-?\d{1,10}')
_FLAG: Final = re.compile(rb'"flag":[ ]?(\d{1,3})')


def is_proof(data: bytes) -> bool:
    """Whether a frame starts here whose header decodes to its end, or as far as it was captured (rule 3)."""
    if not isinstance(probe(data[:PROBE_MAX]), int):
        return False
    _, word = HEAD.unpack_from(data)
    size = word & 0xFFFFFF
    header = data[HEAD_SIZE : HEAD_SIZE + size]
    if word >> 24 == BINARY:
        return _adds_up(header, size)
    if len(header) < size:
        return True
    return header.rstrip().endswith(b"}") and all(field.search(header) for field in (_CODE, _OPAQUE, _FLAG))


def _adds_up(header: bytes, stop: int) -> bool:
    """Whether the entries of a binary header fill it exactly; if it was cut, by their size alone."""
    *_, remark = BINARY_HEAD.unpack_from(header)
    at = BINARY_HEAD_SIZE + remark + 4
    if at > len(header) or int.from_bytes(header[at - 4 : at], "big") != stop - at:
        return False
    while at < len(header) == stop:
        key = header[at + 2 : at + 2 + int.from_bytes(header[at : at + 2], "big")]
        at += 2 + len(key)
        at += 4 + int.from_bytes(header[at : at + 4], "big")
        if not (key.isascii() and key.decode("ascii").isprintable()):
            return False
    return at == stop or len(header) < stop


def sides_swapped(client: Sample, server: Sample) -> bool:
    """Whether the "client" sends only responses and the "server" only requests."""
    votes = [*_votes(client), *(-vote for vote in _votes(server))]
    return bool(votes) and max(votes) < 0


def _votes(sample: Sample) -> Iterator[int]:
    """1 for each frame of a client, -1 for each frame of a server."""
    for code, flag in _heads(sample):
        if flag & RESPONSE:
            yield -1
        elif code not in SENT_BY_SERVERS:
            yield 1


def _heads(sample: Sample) -> Iterator[tuple[int, int]]:
    """(code, flag) of the frames from the first start on at which one is found."""
    for start in (0,) if sample.from_start else sample.starts:
        at, data = start, sample.data
        for _ in range(FRAMES_MAX):
            size = probe(data[at : at + HEAD_SIZE + 256])
            if not isinstance(size, int):
                break
            head = _head(data[at : at + size])
            if head is not None:
                yield head
            at += size
        if at > start:
            return


def _head(frame: bytes) -> tuple[int, int] | None:
    """(code, flag) of a frame; None if one is missing."""
    _, word = HEAD.unpack_from(frame)
    if word >> 24 == BINARY:
        if len(frame) < HEAD_SIZE + BINARY_HEAD_SIZE:
            return None
        code, _, _, _, flag, _ = BINARY_HEAD.unpack_from(frame, HEAD_SIZE)
        return code, flag
    header = frame[HEAD_SIZE : HEAD_SIZE + (word & 0xFFFFFF)]
    code_found, flag_found = _CODE.search(header), _FLAG.search(header)
    return (int(code_found[1]), int(flag_found[1])) if code_found and flag_found else None
