"""What a search and a frame with holes cost, counted in bytes looked at and probes: linear in what was fed."""

from __future__ import annotations

import pytest
from toyframes import Toy, run

from mqsniff.dissector import Settings
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Mark, Side

PACKET = 10


class Counting(Toy):
    """Counts the bytes that ``scan`` looks at, and probes."""

    looked = 0
    probed = 0

    @classmethod
    def scan(cls, side, data, start):
        found = data.find(b"F", start)
        cls.looked += (found if found >= 0 else len(data)) - start
        return found if found >= 0 else len(data)

    @classmethod
    def probe(cls, side, head):
        cls.probed += 1
        return super().probe(side, head)


def counting(*, limits: Limits | None = None, in_step: bool = False) -> Counting:
    Counting.looked = Counting.probed = 0
    dissector = Counting(Settings(limits or Limits()))
    for side in Side:
        dissector.start(side, in_step=in_step)
    return dissector


def packets(data: bytes, at: int = 0) -> Chunk:
    """One chunk of packets of ten bytes."""
    marks = [Mark(at + start, start, start // PACKET, start // PACKET) for start in range(0, len(data), PACKET)]
    return Chunk(Side.CLIENT, at, data, marks)


@pytest.mark.parametrize("size", [2_000, 20_000])
def test_a_search_looks_once_at_each_byte_of_a_chunk_of_many_packets(size):
    run(counting(), packets(b"z" * size))
    assert Counting.looked <= 2 * size


@pytest.mark.parametrize("turns", [20, 200])
def test_turns_of_the_peer_do_not_repeat_a_search_that_needs_more_bytes(turns):
    dissector = counting()
    list(dissector.feed(Chunk(Side.CLIENT, 0, b"F\xff", [Mark(0, 0, 0, 0)])))
    for turn in range(turns):
        for side, at in ((Side.CLIENT, 2 + turn), (Side.SERVER, turn)):
            list(dissector.feed(Chunk(side, at, b"z", [Mark(at, turn, turn, turn)])))
    assert Counting.probed <= 10


@pytest.mark.parametrize("count", [20, 200])
def test_a_frame_that_is_too_large_keeps_no_marks_of_what_passed(count):
    dissector = counting(limits=Limits(frame_max=16), in_step=True)
    stream = dissector._machine.streams[Side.CLIENT]
    list(dissector.feed(Chunk(Side.CLIENT, 0, b"F\xff" + b"z" * 20, [Mark(0, 0, 0, 0)])))
    for at in range(22, 22 + count):
        list(dissector.feed(Chunk(Side.CLIENT, at, b"z", [Mark(at, at, at, at)])))
        assert len(stream._marks) <= 3
