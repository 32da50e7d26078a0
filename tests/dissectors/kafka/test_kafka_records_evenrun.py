"""Runs of records of one shape: what is taken for one, how far it goes, and the columns that it becomes."""

from __future__ import annotations

import pytest
from test_kafka_records_walk import bare, varlong

from mqsniff_kafka.records.evenrun import EvenColumns, SoundRecord, may_be_even
from mqsniff_kafka.records.walk import walk, walk_even, walk_slowly


def record(timestamp: int, offset: int, key: bytes | None, value: bytes | None) -> bytes:
    """A record without headers."""
    rest = b"\0" + varlong(timestamp) + varlong(offset)
    for part in (key, value):
        rest += varlong(-1) if part is None else varlong(len(part)) + part
    rest += b"\0"
    return varlong(len(rest)) + rest


@pytest.mark.parametrize(
    ("first", "second", "even"),
    [
        (bare(0, 0), bare(0, 1), True),
        (record(0, 0, None, b"v" * 100), record(0, 1, None, b"w" * 100), True),
        (record(0, 0, None, b"v" * 100), record(0, 1, None, b"w" * 101), False),
        (record(0, 0, None, b"v" * 100), record(0, 1, None, b"w" * 163), False),
        (record(0, 0, None, b"v" * 56), record(0, 1, None, b"w" * 56), True),
        (record(0, 0, None, b"v" * 57), record(0, 1, None, b"w" * 57), True),
        (bare(0, 0), b"", False),
        (bare(0, 0), bare(0, 1)[:1], False),
        (bare(0, 0)[:1], b"", False),
    ],
)
def test_a_record_is_taken_for_even_if_the_next_begins_with_the_same_length(
    first: bytes, second: bytes, *, even: bool
) -> None:
    assert may_be_even(b"xx" + first + second, 2) is even


def first_of(key: int = -1, value: int = -1, *, size: int, at: int = 0) -> SoundRecord:
    """The record of ``size`` bytes at ``at``; its key and value are one byte each, or null."""
    spans = [(place, place + 1) if place >= 0 else (-1, -1) for place in (key, value)]
    return SoundRecord(at, at + size, *spans[0], *spans[1])


@pytest.mark.parametrize(
    ("there", "count", "added"), [(16, 16, 16), (15, 16, 0), (15, 15, 15), (20, 16, 16), (3, 3, 3)]
)
def test_a_run_is_taken_if_it_is_long_or_the_last(there: int, count: int, added: int) -> None:
    data = b"".join(bare(at, at) for at in range(there))
    columns = EvenColumns(0)
    assert columns.add_run(data, first_of(size=7), len(data), count) is (added > 0)
    assert (columns.records, columns.stop) == (added, 7 * added)


def test_a_run_becomes_columns_of_its_numbers_and_places() -> None:
    data = b"".join(record(-at, at, b"k", b"v") for at in range(40))
    size = len(data) // 40
    columns = EvenColumns(0)
    assert columns.add_run(data, first_of(size - 4, size - 2, size=size), len(data), 40)
    assert (columns.records, columns.stop, columns.in_order, columns.offsets) == (40, len(data), True, [])
    assert columns.timestamps == [-at for at in range(40)]
    places = [at * size for at in range(40)]
    assert columns.spans == tuple([size - back + at for at in places] for back in (4, 3, 2, 1))


def test_runs_follow_each_other_and_offsets_are_made_where_they_do_not_count_up() -> None:
    lots = [range(64), range(64, 128), [at + 1 for at in range(128, 160)]]
    data = b"".join(bare(70, at) for lot in lots for at in lot)
    even = walk_even(data, 0, len(data), 160)
    assert even is not None
    assert (even.in_order, list(even.deltas)) == (False, [at for lot in lots for at in lot])
    assert even.timestamp_deltas.tolist() == [70] * 160
    ordered = walk_even(data[: len(data) // 2], 0, len(data) // 2, 64)
    assert ordered is not None
    assert (ordered.in_order, ordered.deltas) == (True, range(64))


@pytest.mark.parametrize("timestamps", [[0, 63, -64, -1], [64, -65, 8191, -8192], [8192] * 4, [1 << 40] * 4])
def test_numbers_of_one_and_two_bytes_are_read_here_and_longer_ones_elsewhere(timestamps: list[int]) -> None:
    data = b"".join(bare(timestamp, at) for at, timestamp in enumerate(timestamps * 8))
    even = walk_even(data, 0, len(data), 32)
    assert (even is None) == (timestamps[0] >= 8192)
    if even is not None:
        assert even.timestamp_deltas.tolist() == timestamps * 8


@pytest.mark.parametrize("at", range(7))
def test_a_run_ends_before_the_first_record_that_differs_where_shapes_do(at: int) -> None:
    one = bare(1, 2)
    other = bytearray(one)
    other[at] ^= 0x80 if at in (2, 3) else 2
    data = one * 20 + bytes(other) + one * 20
    columns = EvenColumns(0)
    columns.add_run(data, first_of(size=7), len(data), 41)
    assert columns.records == (41 if at == 1 else 20), "attributes of a record mean nothing"
    walked = walk(data, 0, len(data), 41)
    assert list(walked.timestamp_deltas) == list(walk_slowly(data, 0, len(data), 41).timestamp_deltas)


@pytest.mark.parametrize("more", [1, 20, 39, 40])
def test_a_second_run_ends_where_the_count_of_records_does(more: int) -> None:
    data = b"".join(bare(0, at) for at in range(64)) + b"".join(bare(0, at) for at in range(64, 104))
    even = walk_even(data, 0, len(data), 64 + more)
    assert even is not None
    assert (even.records, even.stop) == (64 + more, 64 * 7 + more * 8)
