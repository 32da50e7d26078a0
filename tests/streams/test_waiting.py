"""The store of waiting pieces against a plain dictionary of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.streams.waiting import StreamPiece, WaitingPieces, first_difference


def piece(offset: int, data: bytes, ordinal: int = 0) -> StreamPiece:
    return StreamPiece(offset, offset + len(data), data, 0, 0, 0, ordinal)


def cut(offset: int, size: int) -> StreamPiece:
    return StreamPiece(offset, offset + size, None, 0, 0, 0, 0)


def content(waiting: WaitingPieces) -> list[tuple[int, bytes | int]]:
    return [(each.offset, each.data if each.data is not None else each.stop - each.offset) for each in waiting.pieces]


CASES = {
    "apart": ([piece(5, b"five"), piece(0, b"0")], [(0, b"0"), (5, b"five")], (1, None)),
    "adjoining": ([piece(0, b"ab"), piece(2, b"cd")], [(0, b"ab"), (2, b"cd")], (2, None)),
    "the same": ([piece(0, b"ab"), piece(0, b"ab")], [(0, b"ab")], (0, None)),
    "inside": ([piece(0, b"abcd"), piece(1, b"bc")], [(0, b"abcd")], (0, None)),
    "around": ([piece(1, b"b"), piece(0, b"abc")], [(0, b"a"), (1, b"b"), (2, b"c")], (2, None)),
    "before and into": ([piece(2, b"cd"), piece(0, b"abc")], [(0, b"ab"), (2, b"cd")], (2, None)),
    "from inside on": ([piece(0, b"ab"), piece(1, b"bcd")], [(0, b"ab"), (2, b"cd")], (2, None)),
    "differing": ([piece(0, b"ab"), piece(0, b"aXc")], [(0, b"ab"), (2, b"c")], (1, 1)),
    "cut, then brought": ([cut(0, 4), piece(1, b"bc")], [(0, 1), (1, b"bc"), (3, 1)], (2, None)),
    "brought, then cut": ([piece(1, b"bc"), cut(0, 4)], [(0, 1), (1, b"bc"), (3, 1)], (2, None)),
    "cut twice": ([cut(0, 2), cut(1, 3)], [(0, 2), (2, 2)], (2, None)),
    "over a cut and more": ([cut(1, 1), piece(0, b"abc")], [(0, b"a"), (1, b"b"), (2, b"c")], (3, None)),
}


@pytest.mark.parametrize(("pieces", "kept", "last"), CASES.values(), ids=CASES)
def test_pieces_are_kept_in_order_and_without_overlap(
    pieces: list[StreamPiece], kept: list[tuple[int, bytes | int]], last: tuple[int, int | None]
):
    waiting = WaitingPieces()
    added = [waiting.add(each) for each in pieces]
    assert content(waiting) == kept
    assert added[-1] == last
    assert waiting.size == sum(stop - offset for offset, stop, *_ in waiting.pieces)


def test_pieces_beyond_an_end_are_dropped_and_the_one_over_it_is_cut():
    waiting = WaitingPieces()
    for each in (piece(0, b"abcd"), piece(6, b"gh"), cut(9, 3)):
        waiting.add(each)
    assert waiting.cut(3) == 1 + 2 + 3
    assert content(waiting) == [(0, b"abc")]
    assert waiting.size == 3


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_the_first_difference_is_where_two_strings_part(left: bytes, right: bytes):
    size = min(len(left), len(right))
    parts = [at for at in range(size) if left[at] != right[at]]
    assert first_difference(left[:size], right[:size]) == min(parts, default=size)


def test_popping_gives_the_lowest_piece():
    waiting = WaitingPieces()
    waiting.add(piece(4, b"e"))
    waiting.add(piece(2, b"cd"))
    assert (waiting.head.offset, waiting.pop().offset, waiting.pop().offset) == (2, 2, 4)
    assert not waiting
    assert waiting.size == 0


@given(
    st.lists(st.tuples(st.integers(0, 30), st.binary(min_size=1, max_size=12), st.booleans()), max_size=25),
    st.integers(0, 45),
)
@settings(max_examples=50, deadline=None)
def test_every_byte_is_the_first_that_came(parts: list[tuple[int, bytes, bool]], end: int):
    waiting, known = WaitingPieces(), {}
    for offset, data, is_cut in parts:
        places = range(offset, offset + len(data))
        fresh = [at for at in places if known.get(at) is None and (at not in known or not is_cut)]
        clash = [at for at in places if known.get(at) is not None and not is_cut and known[at] != data[at - offset]]
        added = waiting.add(cut(offset, len(data)) if is_cut else piece(offset, data))
        assert added == (len(fresh), min(clash, default=None))
        for at in fresh:
            known[at] = None if is_cut else data[at - offset]
    dropped = [at for at in known if at >= end]
    assert waiting.cut(end) == len(dropped)
    stored = {
        at: None if each.data is None else each.data[at - each.offset]
        for each in waiting.pieces
        for at in range(each.offset, each.stop)
    }
    assert stored == {at: byte for at, byte in known.items() if at < end}
    assert waiting.size == len(stored)
    assert [each.offset for each in waiting.pieces] == sorted(stored_start for stored_start, *_ in waiting.pieces)
