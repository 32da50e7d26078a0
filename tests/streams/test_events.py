"""How bytes become chunks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.model import Mark
from mqsniff.streams.events import Outbox, StreamChunk, StreamGap

LOW, HIGH = 0, 1


def mark(offset: int, packet: int = 1) -> Mark:
    return Mark(offset, 10 * packet, packet, packet)


def test_neighbouring_bytes_of_a_direction_are_one_chunk():
    outbox = Outbox(100)
    outbox.put_bytes(LOW, 0, b"ab", [mark(0, 1)])
    outbox.put_bytes(LOW, 2, b"cd", [mark(2, 2), mark(3, 3)])
    assert outbox.take() == [(1, StreamChunk(LOW, 0, b"abcd", [mark(0, 1), mark(2, 2), mark(3, 3)]))]
    assert outbox.take() == []


ENDS = {
    "the other direction's bytes": lambda outbox: outbox.put_bytes(HIGH, 2, b"cd", [mark(2)]),
    "bytes elsewhere": lambda outbox: outbox.put_bytes(LOW, 9, b"cd", [mark(9)]),
    "an event": lambda outbox: outbox.put(StreamGap(LOW, 2, 5, mark(2))),
    "its size": lambda outbox: outbox.put_bytes(LOW, 2, b"cdefgh", [mark(2)]),
    "a hole": lambda outbox: outbox.put_bytes(LOW, 3, b"d", [mark(3)]),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_chunk_ends_with(end):
    outbox = Outbox(6)
    outbox.put_bytes(LOW, 0, b"ab", [mark(0)])
    end(outbox)
    assert outbox.take()[0] == (1, StreamChunk(LOW, 0, b"ab", [mark(0)]))


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=10), st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_chunks_stay_under_their_size_and_each_begins_at_or_behind_its_first_mark(parts: list[bytes], chunk_max: int):
    outbox, offset, marks = Outbox(chunk_max), 0, []
    for packet, part in enumerate(parts):
        marks.append(mark(offset, packet))
        outbox.put_bytes(LOW, offset, part, [marks[-1]])
        offset += len(part)
    chunks = [event for _, event in outbox.take()]
    assert b"".join(chunk.data for chunk in chunks) == b"".join(parts)
    for chunk in chunks:
        assert len(chunk.data) <= chunk_max
        of_byte = {
            at: max(m for m in marks if m.offset <= at) for at in range(chunk.offset, chunk.offset + len(chunk.data))
        }
        assert chunk.marks == sorted(set(of_byte.values()))


def test_a_piece_of_several_segments_that_is_too_large_is_cut_with_its_marks():
    outbox = Outbox(3)
    outbox.put_bytes(LOW, 10, b"abcdefgh", [mark(10, 1), mark(12, 2)])
    told = [(release, chunk.offset, chunk.data, chunk.marks) for release, chunk in outbox.take()]
    assert told == [
        (1, 10, b"ab", [mark(10, 1)]),
        (2, 12, b"cde", [mark(12, 2)]),
        (2, 15, b"fgh", [mark(12, 2)]),
    ]
