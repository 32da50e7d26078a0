"""Conversations as bytes that a fuzzer may change: any bytes are one, and each conversation has some.

    options u8 | (kind u8, length u16, bytes)*

Bit 0 of ``kind`` is the side; bit 1 says that ``length`` bytes were lost there, then no bytes follow. A length beyond
the end means all that is left.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from mqsniff.model import Chunk, Gap, Mark, Side
from mqsniff.testing.conversations import START_NS, STEP_NS, Say

OTHER_SIDE, LOST = 1, 2
PIECE_MAX = 0xFFFF
STEPS_MAX = 64

Step = tuple[Side, bytes | int]
"""What a side says, or how many bytes of it were lost."""


def written(says: Iterable[Say], options: int = 0) -> bytes:
    """A conversation as bytes."""
    out = [bytes([options])]
    for say in says:
        for at in range(0, len(say.data), PIECE_MAX):
            data = say.data[at : at + PIECE_MAX]
            out.append(struct.pack("<BH", say.side, len(data)) + data)
    return b"".join(out)


def read(data: bytes) -> tuple[int, list[Step]]:
    """(options, steps) of any bytes."""
    options, at = data[0] if data else 0, 1
    steps: list[Step] = []
    while at + 3 <= len(data) and len(steps) < STEPS_MAX:
        kind, size = struct.unpack_from("<BH", data, at)
        at += 3
        side = Side(kind & OTHER_SIDE)
        if kind & LOST:
            if size:
                steps.append((side, size))
            continue
        piece = data[at : at + size]
        at += size
        if piece:
            steps.append((side, piece))
    return options, steps


def events(steps: Sequence[Step]) -> list[Chunk | Gap]:
    """What reassembly would give for it: a packet for each step."""
    offsets = [0, 0]
    out: list[Chunk | Gap] = []
    for number, (side, what) in enumerate(steps, 1):
        mark = Mark(offsets[side], START_NS + number * STEP_NS, number, number)
        if isinstance(what, bytes):
            out.append(Chunk(side, offsets[side], what, [mark]))
            offsets[side] += len(what)
        elif out and isinstance(last := out[-1], Gap) and last.side is side:
            last.length += what
            offsets[side] += what
        else:
            out.append(Gap(side, offsets[side], what, mark))
            offsets[side] += what
    return out
