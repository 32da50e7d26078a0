"""What requests and responses say of opened records: offsets, times, readers, aborted transactions, schema ids."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import pytest
from record_craft import SOME, Plain, batch, message_set, patched, wrapper

from mqsniff_kafka.records.batches import RecordDataReading, read_batches
from mqsniff_kafka.records.marking import mark_all, mark_answered, mark_delivered, mark_produced, schema_ids

MS = 1_000_000


def read(data: bytes) -> RecordDataReading:
    return read_batches(data, 0, len(data), decompress_max=1 << 20, open_records=True)


def column(reading: RecordDataReading, name: str) -> list[Any]:
    """A column of all records, wherever it stands."""
    found: list[Any] = []
    for records in reading.records:
        found += records.columns.get(name) or [records.constant.get(name)] * records.count
    return found


def values(*contents: bytes | None) -> tuple[Plain, ...]:
    return tuple(Plain(at, None, value) for at, value in enumerate(contents))


def marker(kind: int, producer: int, base: int) -> bytes:
    record = (Plain(5, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 1)),)
    return patched(batch(record, base=base, producer=(producer, 0, -1)), attributes=0x30)


# ---- produced


def test_produced_records_get_the_brokers_offsets_from_the_answer() -> None:
    reading = read(batch())
    mark_produced(reading)
    assert column(reading, "client_offset") == [0, 1, 2, 3]
    assert column(reading, "offset") == [None] * 4
    mark_answered(reading, 500)
    assert column(reading, "offset") == [500, 501, 502, 503]
    assert column(reading, "base_offset") == [500] * 4
    assert column(reading, "direction") == ["produce"] * 4


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_that_old_producers_numbered_0_are_numbered_one_by_one(magic: int) -> None:
    single = message_set(SOME[:1], magic)
    inner = message_set(SOME[:3], magic)
    reading = read(single * 2 + wrapper(gzip.compress(inner), magic, 1, 0) + single)
    mark_produced(reading)
    mark_answered(reading, 100)
    assert column(reading, "offset") == [100, 101, 102, 103, 104, 105]


def test_an_answer_with_an_error_tells_no_offsets() -> None:
    reading = read(batch())
    mark_produced(reading)
    mark_answered(reading, -1)
    assert column(reading, "offset") == [None] * 4


@pytest.mark.parametrize("magic", [1, 2])
def test_the_brokers_append_time_stands_beside_the_producers_times(magic: int) -> None:
    reading = read(batch() if magic == 2 else message_set(SOME, magic))
    mark_produced(reading)
    assert column(reading, "store_ts") == [None] * 4
    mark_answered(reading, 0, 1_700_000_000_000)
    assert column(reading, "record_ts") == [one.timestamp * MS for one in SOME]
    assert column(reading, "store_ts") == [1_700_000_000_000 * MS] * 4


def test_a_broker_that_keeps_the_producers_times_tells_none_of_its_own() -> None:
    reading = read(batch())
    mark_produced(reading)
    mark_answered(reading, 0, -1)
    assert column(reading, "store_ts") == [None] * 4


def test_a_producer_that_calls_its_times_the_brokers_tells_no_time_of_the_broker() -> None:
    reading = read(patched(batch(), attributes=0x08) + wrapper(message_set(SOME[:1], 1), 1, 0x08, 0, 7))
    mark_produced(reading)
    assert set(column(reading, "store_ts")) == {None}


# ---- delivered


def test_records_from_before_the_fetch_offset_are_marked() -> None:
    reading = read(batch(base=10) + batch(base=14))
    mark_delivered(reading, reader="consumer", fetch_offset=12)
    assert column(reading, "before_asked") == [True, True, False, False] + [False] * 4
    assert column(reading, "reader") == ["consumer"] * 8


def test_a_transaction_is_aborted_until_its_marker_comes() -> None:
    mine = {"producer": (7, 0, 0), "transactional": True}
    other = {"producer": (8, 0, 0), "transactional": True}
    parts = [
        batch(SOME[:1], base=0, **mine),  # committed earlier than the aborted one begins
        batch(SOME[:1], base=1, **other),
        batch(SOME[:1], base=2, **mine),
        batch(SOME[:1], base=3),
        marker(0, 7, 4),
        batch(SOME[:1], base=5, **mine),
        marker(1, 7, 6),
        marker(0, 8, 7),
    ]
    reading = read(b"".join(parts))
    mark_delivered(reading, reader="consumer", fetch_offset=0, aborted=[(8, 1), (7, 2)])
    data = [one for one in reading.batches if not one.control_types]
    assert [one.records and one.records.constant.get("aborted") for one in data] == [False, True, True, None, False]


def test_a_reader_of_uncommitted_data_is_not_told_what_was_aborted() -> None:
    reading = read(batch(producer=(7, 0, 0), transactional=True) + marker(0, 7, 4))
    mark_delivered(reading, reader="consumer", fetch_offset=0, aborted=None)
    assert column(reading, "aborted") == [None] * 5


# ---- schema ids


def test_values_of_a_schema_registry_show_the_id() -> None:
    framed = [b"\0" + struct.pack(">i", number) + b"payload" for number in (100_001, 100_001, 7)]
    reading = read(batch(values(framed[0], framed[1])) + batch(values(framed[2], None, framed[0])))
    mark_all(reading, {"topic": "t"})
    assert column(reading, "schema_id") == ["100001", "100001", "7", None, "100001"]
    assert column(reading, "topic") == ["t"] * 5


@pytest.mark.parametrize(
    "contents",
    [
        (b"plain text",),
        (b"\0\0\0\1\x8f\x12\x34\x56",),
        (b"\0\0\0\0\0payload",),
        (b"\0\x7f\0\0\1payload",),
        (b"\0\0\0\1",),
        (None, None),
        (b"\0\0\0\0\1payload", b"{}"),
    ],
    ids=["text", "a number of eight bytes", "id 0", "a huge id", "too short", "nulls", "one without"],
)
def test_values_that_are_something_else_show_none(contents: tuple[bytes | None, ...]) -> None:
    reading = read(batch(values(*contents)))
    mark_all(reading, {})
    assert column(reading, "schema_id") == [None] * len(contents)


def test_keys_of_control_records_are_no_schema() -> None:
    reading = read(patched(batch(values(b"\0\0\0\0\1payload")), attributes=0x20))
    mark_all(reading, {})
    assert column(reading, "schema_id") == [None]


def test_ids_are_read_where_the_values_stand() -> None:
    assert schema_ids(b"xx\0\0\0\0\5p", [2], [8]) == ["5"]


@pytest.mark.parametrize(
    ("contents", "ids"),
    [
        ((b"\0\0\0\0\1p",), ["1"]),
        ((b"\0\0\xff\xff\xffp",), [str((1 << 24) - 1)]),
        ((b"\0\1\0\0\0p",), None),
        ((b"\0\0\0\0\1",), None),
        ((b"\1\0\0\0\1p",), None),
        ((b"\0\0\0\0\1pa",), ["1"]),
        ((b"\0\0\0\0\1pay",), None),
        ((b"\0\0\0\0\1payl",), ["1"]),
        ((None, b"\0\0\0\0\1p"), [None, "1"]),
    ],
)
def test_a_schema_id_is_a_small_number_behind_a_zero_in_a_value_that_is_no_number(
    contents: tuple[bytes | None, ...], ids: list[str | None] | None
) -> None:
    reading = read(batch(values(*contents)))
    mark_all(reading, {})
    assert column(reading, "schema_id") == (ids or [None] * len(contents))


@pytest.mark.parametrize(
    ("asked", "told"),
    [(10, [False, False]), (11, [True, False]), (12, [True, True]), (None, [None, None])],
)
def test_records_before_the_offset_that_was_asked_for_are_marked_one_by_one(
    asked: int | None, told: list[bool | None]
) -> None:
    reading = read(batch(SOME[:2], base=10))
    mark_delivered(reading, reader="other", fetch_offset=asked)
    assert column(reading, "before_asked") == told
    assert column(reading, "direction") == ["deliver"] * 2
    assert column(reading, "aborted") == [None] * 2


def test_aborted_transactions_begin_at_their_first_offset_in_whatever_order_they_are_told() -> None:
    parts = [batch(SOME[:1], base=at, producer=(7, 0, 0), transactional=True) for at in range(3)]
    for first in range(4):
        reading = read(b"".join(parts))
        mark_delivered(reading, reader="consumer", fetch_offset=0, aborted=[(9, 50), (7, first), (8, 0)])
        assert column(reading, "aborted") == [at >= first for at in range(3)]


def test_a_batch_that_is_not_transactional_or_that_was_not_opened_is_not_marked() -> None:
    plain, opened = batch(SOME[:1], base=0), batch(SOME[:1], base=1, producer=(7, 0, 0), transactional=True)
    reading = read(plain + opened + marker(1, 7, 2))
    reading.batches[1].records = None
    mark_delivered(reading, reader="consumer", fetch_offset=0, aborted=[(7, 0)])
    assert column(reading, "aborted") == [None, None]


def test_a_batch_takes_the_offsets_of_its_compacted_records_and_a_damaged_one_none() -> None:
    gone = patched(batch(SOME[:1]), last_offset_delta=4)
    damaged = patched(batch(SOME[:1]), last_offset_delta=-2)
    reading = read(gone + damaged + batch(SOME[:2]))
    mark_produced(reading)
    mark_answered(reading, 100, 0)
    assert column(reading, "offset") == [100, 105, 105, 106]
    assert column(reading, "base_offset") == [100, 105, 105, 105]
    assert column(reading, "store_ts") == [0] * 4


def test_produced_records_lose_the_offsets_and_the_broker_times_that_their_client_made_up() -> None:
    reading = read(patched(batch(SOME[:2], base=7), attributes=0x08))
    mark_produced(reading)
    (records,) = reading.records
    assert not {"base_offset", "store_ts"} & records.constant.keys()
    assert list(records.columns["client_offset"]) == [7, 8]
    assert "offset" not in records.columns
    assert records.constant["direction"] == "produce"
