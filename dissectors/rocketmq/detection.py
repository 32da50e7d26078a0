"""First bytes of two sides in, whether the guess of who is the client was wrong out.

1. Clients ask and servers answer. What a broker asks its clients speaks for neither side.
2. Only sides that speak for the other order throughout are called swapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dissectors.rocketmq.heads import (
    BINARY,
    BINARY_HEAD,
    BINARY_HEAD_SIZE,
    HEAD,
    HEAD_SIZE,
    RESPONSE,
    probe,
)
from mqsniff.dissector import Sample

FRAMES_MAX: Final = 16
"""Frames of a side that are looked at."""
ASKED_BY_SERVERS: Final = frozenset({39, 40, 220, 221, 307, 309, 326, 905, 1008, 200073})

_CODE: Final = re.compile(rb'"code":[ ]?(-?\d{1,10})')
_FLAG: Final = re.compile(rb'"flag":[ ]?(\d{1,3})')


def sides_swapped(client: Sample, server: Sample) -> bool:
    """Whether the "client" only answers and the "server" only asks, as far as either speaks."""
    votes = [*_votes(client), *(-vote for vote in _votes(server))]
    return bool(votes) and max(votes) < 0


def _votes(sample: Sample) -> Iterator[int]:
    """1 for each frame that a client would send, -1 for each that a server would."""
    for code, flag in _heads(sample):
        if flag & RESPONSE:
            yield -1
        elif code not in ASKED_BY_SERVERS:
            yield 1


def _heads(sample: Sample) -> Iterator[tuple[int, int]]:
    """(code, flag) of the frames behind the first start that is one."""
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
    """(code, flag) of a frame; None where it does not tell both."""
    _, word = HEAD.unpack_from(frame)
    if word >> 24 == BINARY:
        if len(frame) < HEAD_SIZE + BINARY_HEAD_SIZE:
            return None
        code, _, _, _, flag, _ = BINARY_HEAD.unpack_from(frame, HEAD_SIZE)
        return code, flag
    header = frame[HEAD_SIZE : HEAD_SIZE + (word & 0xFFFFFF)]
    code_found, flag_found = _CODE.search(header), _FLAG.search(header)
    return (int(code_found[1]), int(flag_found[1])) if code_found and flag_found else None
