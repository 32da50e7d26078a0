"""The hot walk over records of magic 2 and its slow twin: they agree on everything, sound or not."""

from __future__ import annotations

from builds import python_only
from hypothesis import given, settings
from hypothesis import strategies as st
from record_craft import HEAD, Plain, batch

from mqsniff_kafka.records import walk as module
from mqsniff_kafka.records.walk import RECORD_MIN, RecordHeaders, WalkedRecords, walk, walk_slowly

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


def told(walked: WalkedRecords) -> tuple[object, ...]:
    """All that a walk says."""
    numbers = (walked.timestamp_deltas, walked.deltas, *walked.keys, *walked.values)
    return (
        *map(list, (*numbers, walked.header_counts, walked.places)),
        walked.records,
        walked.stop,
        walked.why,
        walked.cut,
    )


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
    walked = walk(data, 0, end, len(records))
    assert told(walked) == told(walk_slowly(data, 0, end, len(records)))
    assert len(walked.places) == 4 * walked.headers == 4 * sum(walked.header_counts)


@given(RECORDS)
@QUICK
def test_headers_are_what_was_written_and_stand_where_their_places_say(records: tuple[Plain, ...]) -> None:
    data = batch(records)[HEAD:]
    headers = RecordHeaders(data, walk(data, 0, len(data), len(records)))
    assert headers[:] == [list(one.headers) for one in records]
    assert headers[-1] == headers[len(records) - 1]
    counts, places = headers.spans()
    assert list(counts) == [len(one.headers) for one in records]
    written = [(key.encode(), value) for one in records for key, value in one.headers]
    fours = zip(*(places[at::4] for at in range(4)), strict=True)
    assert written == [(data[a:b], None if c < 0 else data[c:d]) for a, b, c, d in fours]


@python_only
def test_headers_of_a_batch_are_limited(monkeypatch):
    monkeypatch.setattr(module, "HEADERS_MAX", 3)
    records = (Plain(1, b"k", b"v", (("a", b"1"), ("b", b"2"))),) * 2
    data = batch(records)[HEAD:]
    walked = walk(data, 0, len(data), 2)
    assert (walked.records, len(walked.places)) == (1, 8)
    assert walked.why == "more headers in a batch than are read"
    assert told(walked) == told(walk_slowly(data, 0, len(data), 2))


@given(st.lists(st.sampled_from([0, 1, 2, 3, 12, 14, 16, 0x80, 0x81, 0xFF]), max_size=40))
@QUICK
def test_the_twins_agree_on_numbers_that_are_written_too_long(numbers: list[int]) -> None:
    data = bytes(numbers)
    assert told(walk(data, 0, len(data), 5)) == told(walk_slowly(data, 0, len(data), 5))


def test_a_length_written_too_long_is_read_all_the_same() -> None:
    data = bytes.fromhex("0e000000 8100 01 00".replace(" ", ""))
    walked = walk(data, 0, len(data), 1)
    assert told(walked) == told(walk_slowly(data, 0, len(data), 1))
    assert told(walked) == ([0], [0], [-1], [-1], [-1], [-1], [0], [], 1, 8, None, False)


def test_no_record_is_smaller_than_its_bound() -> None:
    data = bytes.fromhex("0c000000010100")
    assert len(data) == RECORD_MIN
    assert walk(data, 0, len(data), 1).records == 1
