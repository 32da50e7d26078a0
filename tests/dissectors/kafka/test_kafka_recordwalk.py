"""The hot walk over records of magic 2 and its slow twin: they agree on everything, sound or not."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from record_craft import HEAD, Plain, batch

from dissectors.kafka.recordwalk import RECORD_MIN, walk, walk_slowly

QUICK = settings(max_examples=50, deadline=None)

RECORDS = st.lists(
    st.builds(
        Plain,
        st.integers(0, 1 << 41),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=20_000),
        st.lists(st.tuples(st.text(max_size=80), st.none() | st.binary(max_size=80)), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=8,
).map(tuple)


@given(RECORDS, st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=4), st.integers(0, 60))
@QUICK
def test_the_walk_gives_what_its_slow_twin_gives(
    records: tuple[Plain, ...], changes: list[tuple[int, int]], behind: int
) -> None:
    plain = bytearray(batch(records)[HEAD:])
    for at, value in changes:
        plain[at % len(plain)] = value
    data = bytes(plain)
    end = max(0, len(data) - behind)
    assert walk(data, 0, end, len(records)) == walk_slowly(data, 0, end, len(records))


@given(st.lists(st.sampled_from([0, 1, 2, 3, 12, 14, 16, 0x80, 0x81, 0xFF]), max_size=40))
@QUICK
def test_the_twins_agree_on_numbers_that_are_written_too_long(numbers: list[int]) -> None:
    data = bytes(numbers)
    assert walk(data, 0, len(data), 5) == walk_slowly(data, 0, len(data), 5)


def test_a_length_written_too_long_is_read_all_the_same() -> None:
    data = bytes.fromhex("0e000000 8100 01 00".replace(" ", ""))
    walked = walk(data, 0, len(data), 1)
    assert walked.flat == [0, 0, -1, -1, -1, -1, -1]
    assert walked == walk_slowly(data, 0, len(data), 1)


def test_no_record_is_smaller_than_its_bound() -> None:
    data = bytes.fromhex("0c000000010100")
    assert len(data) == RECORD_MIN
    assert walk(data, 0, len(data), 1).records == 1
