"""The state of reading a field: what it shows, its problems up to their limit, and numbers that wrap as in Java."""

from __future__ import annotations

from array import array

import pytest

from mqsniff.model import Problem, RecordBatch, Undecoded
from mqsniff_kafka.records.reading import (
    Batch,
    RecordDataReading,
    int64,
    offsets_from,
    sequences_from,
    time_ns,
    timestamp_type,
)

DATA = bytes(range(100))
NOTES_MAX = 100
SEQUENCE_MAX = 2_147_483_647


def reading(*batches: Batch, lost: bool = False) -> RecordDataReading:
    """Of ``DATA[10:60]``."""
    made = RecordDataReading(DATA, 10, 60, lost, True, 1000)
    made.batches += batches
    return made


def batch(count: int | None, **head: int) -> Batch:
    """A batch with so many opened records; None: it was not opened."""
    return Batch(head, 10, 20, records=None if count is None else RecordBatch(b"", count))


def test_records_are_those_of_opened_batches_that_have_some_and_of_the_cut_one() -> None:
    none, empty, one, two = batch(None), batch(0), batch(1), batch(2)
    assert reading().records == ()
    assert [reading(only).records for only in (none, empty, one)] == [(), (), (one.records,)]
    assert reading(none, one, empty, two).records == (one.records, two.records)
    cut = reading(one)
    cut.begun = two
    assert cut.records == (one.records, two.records)
    cut.begun = none
    assert cut.records == (one.records,)


def test_a_body_shows_the_heads_of_batches_and_bytes_that_are_none() -> None:
    shown = reading(batch(1, magic=2), batch(None, magic=1))
    assert shown.body(70) == {"size": 70, "batches": [{"magic": 2}, {"magic": 1}]}
    shown.undecoded = (55, 60)
    assert shown.body(70) == {
        "size": 70,
        "batches": [{"magic": 2}, {"magic": 1}],
        "undecoded": Undecoded(DATA[55:60]),
    }


@pytest.mark.parametrize("lost", [True, False])
def test_a_batch_without_an_end_is_one_of_the_field_only_if_the_capture_lost_its_end(*, lost: bool) -> None:
    cut = reading(batch(1), lost=lost)
    begun = batch(None, magic=2)
    cut.cut = 7
    cut.add_cut(begun)
    assert (len(cut.batches), cut.begun) == ((2, None) if lost else (1, begun))
    assert cut.cut_off("broker") == {"cut_by": "broker", "size": 7, **({} if lost else {"magic": 2})}
    assert cut.cut_bytes == DATA[53:60]


def test_problems_have_the_path_of_the_batch_that_is_read_now() -> None:
    noted = reading()
    noted.note("malformed", "error", "first", size=5)
    noted.batches.append(batch(1))
    noted.note("checksum", "warning", "second", "crc")
    assert noted.problems == [
        Problem("malformed", "error", "first", "batches[0]", size=5),
        Problem("checksum", "warning", "second", "batches[1].crc"),
    ]


def test_problems_are_noted_up_to_their_limit_of_which_the_last_one_says_so() -> None:
    noted = reading()
    for number in range(NOTES_MAX + 5):
        noted.note("codec", "error", str(number))
    more = Problem("limit", "warning", "more problems in these records than are noted")
    assert noted.problems == [
        *(Problem("codec", "error", str(number), "batches[0]") for number in range(NOTES_MAX - 1)),
        more,
    ]


def test_what_is_given_up_is_undecoded_up_to_the_end_of_the_field() -> None:
    left = reading()
    assert left.give_up(40, "malformed", "no batch") == 60
    assert left.undecoded == (40, 60)
    assert left.problems == [Problem("malformed", "error", "no batch", "batches[0]", size=20)]


def test_what_is_passed_over_is_a_batch_of_its_magic_and_bytes() -> None:
    passed = reading()
    assert passed.pass_over(20, 45) == 45
    assert passed.batches == [Batch({"magic": DATA[36], "undecoded": Undecoded(DATA[20:45])}, 20, 45)]


@pytest.mark.parametrize(("left", "wanted", "granted"), [(5, 4, 4), (5, 5, 5), (5, 6, 5), (0, 1, 0), (0, 0, 0)])
def test_no_more_records_are_opened_than_may_be_and_a_problem_says_why(left: int, wanted: int, granted: int) -> None:
    bounded = reading()
    bounded.records_left, bounded.records_why = left, "why"
    assert bounded.take_records(wanted) == granted
    assert bounded.records_left == left - granted
    assert bounded.problems == [Problem("limit", "error", "why", "batches[0]")] * (granted < wanted)


# ---- numbers


def test_times_below_0_are_none() -> None:
    assert [time_ns(number) for number in (-2, -1, 0, 1)] == [None, None, 0, 1_000_000]


@pytest.mark.parametrize(
    ("number", "wrapped"),
    [
        (0, 0),
        (-1, -1),
        ((1 << 63) - 1, (1 << 63) - 1),
        (1 << 63, -(1 << 63)),
        (-(1 << 63), -(1 << 63)),
        (-(1 << 63) - 1, (1 << 63) - 1),
    ],
)
def test_numbers_wrap_to_64_bits(number: int, wrapped: int) -> None:
    assert int64(number) == wrapped


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        (0, range),
        ((1 << 62) - 1, range),
        (1 << 62, array),
        (-(1 << 62) + 1, range),
        (-(1 << 62), array),
        ((1 << 63) - 1, array),
    ],
)
def test_offsets_that_count_up_take_no_memory_unless_they_may_wrap(base: int, kind: type) -> None:
    offsets = offsets_from(base, range(1, 4))
    assert type(offsets) is kind
    assert list(offsets) == [int64(base + delta) for delta in (1, 2, 3)]
    assert list(offsets_from(base, array("q", (5, 2)))) == [int64(base + 5), int64(base + 2)]


@pytest.mark.parametrize(
    ("base", "kind", "expected"),
    [
        (7, range, [8, 9]),
        (SEQUENCE_MAX - 3, range, [SEQUENCE_MAX - 2, SEQUENCE_MAX - 1]),
        (SEQUENCE_MAX - 2, array, [SEQUENCE_MAX - 1, SEQUENCE_MAX]),
        (SEQUENCE_MAX - 1, array, [SEQUENCE_MAX, 0]),
        (SEQUENCE_MAX, array, [0, 1]),
    ],
)
def test_sequences_go_on_at_0_after_the_largest(base: int, kind: type, expected: list[int]) -> None:
    sequences = sequences_from(base, range(1, 3))
    assert (type(sequences), list(sequences)) == (kind, expected)
    assert list(sequences_from(base, array("q", (1, 2)))) == expected


def test_the_timestamp_type_is_one_bit_of_the_attributes() -> None:
    named = {bits: timestamp_type(bits) for bits in (0, 8, 0xF7, 0xFF)}
    assert named == {0: "CreateTime", 8: "LogAppendTime", 0xF7: "CreateTime", 0xFF: "LogAppendTime"}
