"""The hot walk over records of magic 2 and its slow twin: they agree on everything, sound or not."""

from __future__ import annotations

import pytest
from builds import python_only
from hypothesis import example, given, settings
from hypothesis import strategies as st
from record_craft import HEAD, Plain, batch

from mqsniff.spec.wire import CUT
from mqsniff_kafka.records import walk as module
from mqsniff_kafka.records.reading import time_ns
from mqsniff_kafka.records.recordheaders import RecordHeaders
from mqsniff_kafka.records.walk import RECORD_MIN, TIME_MS_MAX, WalkedRecords, walk, walk_slowly

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


EVEN = st.builds(
    lambda count, start, step, key, value, headers: tuple(
        Plain(start + at * step, key, value, headers if at == count // 2 else ()) for at in range(count)
    ),
    st.integers(1, 200),
    st.sampled_from([0, 1 << 41]),
    st.integers(0, 200),
    st.none() | st.binary(max_size=80),
    st.none() | st.binary(max_size=200),
    st.just(()) | st.just((("a", b"b"),)),
)
"""Records of one shape, but perhaps for one."""


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


@given(EVEN, EVEN, st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 255)), max_size=3), st.integers(0, 60))
@QUICK
def test_records_of_one_shape_are_read_as_they_are_one_by_one(
    records: tuple[Plain, ...], more: tuple[Plain, ...], changes: list[tuple[int, int]], behind: int
) -> None:
    plain = bytearray(batch(records + more)[HEAD:])
    for at, value in changes:
        plain[at % len(plain)] = value
    data = bytes(plain)
    end = max(0, len(data) - behind)
    for count in (len(records + more), len(records)):
        walked, slowly = walk(data, 0, end, count), walk_slowly(data, 0, end, count)
        assert told(walked) == told(slowly)
        assert type(walked.deltas) is type(slowly.deltas)
        assert list(walked.times_ns(1)) == [time_ns(1 + delta) for delta in slowly.timestamp_deltas]


@given(st.integers(0, 150), st.integers(0, 8), st.integers(0, 255), st.integers(0, 255))
@QUICK
def test_a_change_of_any_byte_in_records_of_one_shape_is_noticed(at: int, place: int, byte: int, count: int) -> None:
    data = bytearray(b"".join(bare(1, at) for at in range(200)))
    data[min(8 * at + place, len(data) - 1)] = byte
    told_at_once = told(walk(bytes(data), 0, len(data), count))
    assert told_at_once == told(walk_slowly(bytes(data), 0, len(data), count))


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


def bare(timestamp: int, offset: int) -> bytes:
    """A record without key, value and headers."""
    rest = b"\x00" + varlong(timestamp) + varlong(offset) + bytes((1, 1, 0))
    return varlong(len(rest)) + rest


def varlong(number: int) -> bytes:
    """A number by zigzag, 7 bits a byte."""
    bits = (number << 1 ^ number >> 63) & (1 << 64) - 1
    written = bytearray()
    while bits > 0x7F:
        written.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes((*written, bits))


TIMES = st.sampled_from([0, 1, TIME_MS_MAX, -(1 << 63), (1 << 63) - 1]) | st.integers(-(1 << 63), (1 << 63) - 1)


@given(TIMES, st.lists(TIMES | st.integers(-3, 3), max_size=4))
@QUICK
def test_times_are_those_that_python_counts_whatever_fits_in_native_numbers(base: int, deltas: list[int]) -> None:
    data = b"".join(bare(delta, at) for at, delta in enumerate(deltas))
    walked = walk(data, 0, len(data), len(deltas))
    assert list(walked.timestamp_deltas) == deltas
    assert list(walked.times_ns(base)) == [time_ns(base + delta) for delta in deltas]


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(0, 3), max_size=5))
@example([0, 1, 2])
@example([0, 2, 3])
@QUICK
def test_offset_deltas_are_a_range_only_where_they_count_from_0(deltas: list[int]) -> None:
    data = b"".join(bare(0, delta) for delta in deltas)
    for walked in (walk(data, 0, len(data), len(deltas)), walk_slowly(data, 0, len(data), len(deltas))):
        assert list(walked.deltas) == deltas
        assert isinstance(walked.deltas, range) == (deltas == list(range(len(deltas))))


def test_a_false_count_of_records_takes_no_memory() -> None:
    data = bare(0, 0) * 3
    walked = walk(data, 0, len(data), (1 << 31) - 1)
    assert (walked.records, walked.cut) == (3, True)
    assert walked.size < 1000


def test_headers_find_room_however_many_a_record_has_after_others() -> None:
    counts = (0, 1, 3000, 0, 2, 5000, 1)
    records = tuple(Plain(1, None, b"v", (("k", b"w"),) * count) for count in counts)
    data = batch(records)[HEAD:]
    walked = walk(data, 0, len(data), len(records))
    assert told(walked) == told(walk_slowly(data, 0, len(data), len(records)))
    assert walked.header_counts.tolist() == list(counts)
    assert RecordHeaders(data, walked)[5] == [("k", b"w")] * 5000


def test_the_hot_walk_reads_sound_records_of_any_size_alone() -> None:
    sizes = (0, 1, 63, 64, 8191, 8192, 20_000)
    records = [Plain(1 << 40, bytes(size), None) for size in sizes] + [Plain(0, None, bytes(size)) for size in sizes]
    data = batch(tuple(records))[HEAD:]
    walked = WalkedRecords(len(records), 0)
    walked.stride(data, len(data), len(records))
    assert (walked.records, walked.stop) == (len(records), len(data))
    assert told(walked) == told(walk_slowly(data, 0, len(data), len(records)))


@pytest.mark.parametrize("record", ["0e000000 036b 01 00", "0e000000 01 0376 00", "0e000000 8101 01 00"])
def test_a_negative_length_but_that_of_null_is_damage(record: str) -> None:
    data = bytes.fromhex(record)
    walked = walk(data, 0, len(data), 1)
    assert (walked.records, walked.why, walked.cut) == (0, "negative length", False)


DAMAGED = [
    ("nothing", "", 0, CUT, True),
    ("a length alone", "0e", 0, CUT, True),
    ("a record that is cut", "0e0000000101", 0, CUT, True),
    ("a record too short", "0a0000000100", 0, "record too short", False),
    ("a record of a negative length", "01", 0, "record too short", False),
    ("a byte more than its fields", "0e00000001010000", 0, "record of another size than its fields", False),
    ("a key beyond it", "0e00000020010000", 0, "length beyond the record", False),
    ("a value beyond it", "0e00000001200000", 0, "length beyond the record", False),
    ("a negative number of headers", "0c000000010101", 0, "negative number of headers", False),
    ("more headers than bytes", "0e00000001010400", 0, "more headers than bytes", False),
    ("a header without a key", "1000000001010201 01".replace(" ", ""), 0, "header without a key", False),
    ("a header with a value below null", "10000000010102 0003".replace(" ", ""), 0, "negative length", False),
]


@pytest.mark.parametrize(
    ("record", "records", "why", "cut"), [case[1:] for case in DAMAGED], ids=[case[0] for case in DAMAGED]
)
def test_why_a_record_cannot_be_read_is_told_and_whether_its_rest_may_be_lost(
    record: str, records: int, why: str, cut: bool
) -> None:
    sound = bytes.fromhex("0c000000010100")
    for data in (bytes.fromhex(record), sound + bytes.fromhex(record)):
        walked = walk(data, 0, len(data), 9)
        before = len(data) > len(bytes.fromhex(record))
        assert (walked.records, walked.stop, walked.why, walked.cut) == (records + before, 7 * before, why, cut)
        assert told(walk_slowly(data, 0, len(data), 9)) == told(walked)


def test_a_walk_begins_and_ends_where_it_is_told_to() -> None:
    record = bytes.fromhex("0c000000010100")
    data = b"xx" + record * 3 + b"yy"
    for count in range(4):
        walked = walk(data, 2, 2 + 7 * 3, count)
        assert (walked.records, walked.stop, walked.why, walked.cut) == (count, 2 + 7 * count, None, False)
    walked = walk(data, 2, 2 + 7 * 2, 3)
    assert (walked.records, walked.stop, walked.cut) == (2, 16, True)


def test_headers_are_reached_from_either_end_and_as_slices() -> None:
    records = tuple(Plain(1, None, b"v", tuple((f"k{n}", bytes([n])) for n in range(count))) for count in (2, 0, 1))
    data = batch(records)[HEAD:]
    headers = RecordHeaders(data, walk(data, 0, len(data), 3))
    written = [list(one.headers) for one in records]
    assert len(headers) == 3
    assert [headers[at] for at in (0, 1, 2, -1, -2, -3)] == [written[at] for at in (0, 1, 2, -1, -2, -3)]
    assert (headers[1:], headers[::2], headers[:0]) == (written[1:], written[::2], [])
    with pytest.raises(IndexError):
        headers[3]


def test_a_key_of_a_header_that_is_no_text_is_shown_by_its_bytes() -> None:
    record = bytes.fromhex("12 00 00 00 01 01 02 02 ff 01".replace(" ", ""))
    data = bytes([2 * (len(record) - 1)]) + record[1:]
    walked = walk(data, 0, len(data), 1)
    assert RecordHeaders(data, walked)[:] == [[("\\xff", None)]]
