"""Message sets of magic 0 and 1: plain messages, wrappers in every packing, offsets, times, cuts."""

from __future__ import annotations

import gzip
import random
import struct
import zlib

import pytest
from record_craft import PACKINGS, SOME, Plain, kafka_python_reads, message_set, wrapper
from record_reading import expected, kinds, read, rows

from mqsniff.model import RecordBatch
from mqsniff_kafka.records.batches import read_batches
from mqsniff_kafka.records.marking import mark_delivered


@pytest.mark.parametrize("magic", [0, 1])
def test_a_run_of_plain_messages_is_one_batch(magic: int) -> None:
    data = message_set(SOME, magic)
    reading = read(data)
    assert [(o, k, v) for o, _, k, v, _ in rows(reading)] == [(o, k, v) for o, _, k, v, _ in expected()]
    assert [row[1] for row in rows(reading)] == [one.timestamp if magic else None for one in SOME]
    assert [one.head["records"] for one in reading.batches] == [4]
    assert not reading.problems


@pytest.mark.parametrize("name", [name for name in PACKINGS if not name.startswith("zstd")])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_is_one_batch_whatever_packed_it(magic: int, name: str) -> None:
    codec, pack = PACKINGS[name]
    inner = message_set(SOME, magic)
    data = wrapper(pack(inner), magic, codec, 103)
    reading = read(data)
    base = 100 if magic else 0
    assert [row[0] for row in rows(reading)] == [base, base + 1, base + 2, base + 3]
    assert [row[2:4] for row in rows(reading)] == [(one.key, one.value) for one in SOME]
    assert [one.head["records"] for one in reading.batches] == [4]
    assert not reading.problems


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 3)])
def test_what_kafka_python_builds_of_magic_0_and_1_is_read_as_it_reads_it(magic: int, codec: int) -> None:
    data = message_set(SOME, magic, codec)
    theirs = [(o, t, k, v) for o, t, k, v, _ in kafka_python_reads(data)]
    assert [row[:4] for row in rows(read(data))] == theirs


def test_a_wrapper_at_offset_0_counts_from_0_as_some_librdkafka_wrote_it() -> None:
    inner = message_set(SOME, 1)
    assert [row[0] for row in rows(read(wrapper(gzip.compress(inner), 1, 1, 0)))] == [0, 1, 2, 3]


def test_log_append_time_of_a_wrapper_counts_for_all_that_it_wraps() -> None:
    inner = message_set(SOME, 1)
    reading = read(wrapper(gzip.compress(inner), 1, 1 | 0x08, 3, 1_700_000_000_000))
    assert {row[1] for row in rows(reading)} == {1_700_000_000_000}
    assert reading.records[0].constant["store_ts"] == 1_700_000_000_000 * 1_000_000


def test_plain_messages_tell_one_by_one_whether_their_time_is_the_brokers() -> None:
    by_client, by_broker = (wrapper(b"v", 1, attributes, offset, 7) for offset, attributes in ((5, 0), (6, 0x08)))
    batches = read(by_client + by_broker).records
    assert [ts for batch in batches for ts in batch.columns["record_ts"]] == [7_000_000] * 2
    stored = [ts for batch in batches for ts in batch.columns.get("store_ts", [None] * batch.count)]
    assert stored == [None, 7_000_000]


# ---- what each message tells of itself


def heads(data: bytes) -> list[tuple[int, int, int]]:
    """(size, CRC, attributes) of the messages of a set, read by hand."""
    found, pos = [], 0
    while pos < len(data):
        _, size, crc, _, attributes = struct.unpack_from(">qiIbb", data, pos)
        found.append((size, crc, attributes))
        pos += 12 + size
    return found


def told(records: RecordBatch) -> list[tuple[int, int, int]]:
    """The same of the columns of records."""
    attributes = records.columns.get("attributes", [records.constant.get("attributes")] * records.count)
    return list(zip(records.columns["message_size"], records.columns["crc"], attributes, strict=True))


@pytest.mark.parametrize("magic", [0, 1])
def test_each_message_tells_its_size_checksum_attributes_and_whose_time_it_has(magic: int) -> None:
    inner = message_set(SOME, magic)
    for data in (inner, wrapper(gzip.compress(inner), magic, 1, 3)):
        (records,) = read(data).records
        assert told(records) == heads(inner)
        assert records.constant["timestamp_type"] == ("CreateTime" if magic else None)


def test_the_head_of_a_run_names_its_attributes() -> None:
    (found,) = read(message_set(SOME, 1), opened=False).batches
    assert found.head.items() >= {"attributes": 0, "timestamp_type": "CreateTime", "codec": "none"}.items()


def with_attributes(message: bytes, attributes: int) -> bytes:
    checked = message[16:17] + bytes((attributes,)) + message[18:]
    return message[:12] + struct.pack(">I", zlib.crc32(checked)) + checked


def test_messages_whose_attributes_differ_are_no_run() -> None:
    one = message_set(SOME[:1], 1)
    reading = read(one + with_attributes(one, 8) + with_attributes(one, 8))
    assert [(batch.head["timestamp_type"], batch.head["records"]) for batch in reading.batches] == [
        ("CreateTime", 1),
        ("LogAppendTime", 2),
    ]


def test_messages_of_a_wrapper_may_differ_in_their_attributes() -> None:
    one = message_set(SOME[:1], 1)
    (records,) = read(wrapper(gzip.compress(one + with_attributes(one, 8)), 1, 1, 1)).records
    assert records.columns["attributes"] == [0, 8]
    assert records.columns["timestamp_type"] == ["CreateTime", "LogAppendTime"]
    (records,) = read(wrapper(gzip.compress(one + with_attributes(one, 0)), 1, 9, 1, 5)).records
    assert records.constant["timestamp_type"] == "LogAppendTime"


# ---- wrappers inside wrappers


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_inside_a_wrapper_is_opened_and_told(magic: int) -> None:
    first, last = message_set(SOME[:1], magic), message_set(SOME, magic)[len(message_set(SOME[:3], magic)) :]
    nested = wrapper(gzip.compress(message_set(SOME[1:3], magic)), magic, 1, 2 if magic else 1)
    reading = read(wrapper(gzip.compress(first + nested + last), magic, 1, 103))
    assert [row[2:4] for row in rows(reading)] == [(one.key, one.value) for one in SOME]
    assert [row[0] for row in rows(reading)] == ([100, 101, 102, 103] if magic else [0, 0, 1, 3])
    (found,) = reading.batches
    assert found.head["records"] == 4
    assert [(one["records"], one["codec"], one["checksum_ok"]) for one in found.head["wrapped"]] == [(2, "gzip", True)]
    assert [(one.kind, one.severity, one.path) for one in reading.problems] == [
        ("format", "info", "batches[0].messages[1]")
    ]


def test_times_and_checksums_of_a_nested_wrapper_count_for_what_it_wraps() -> None:
    nested = bytearray(wrapper(gzip.compress(message_set(SOME[:2], 1)), 1, 1 | 0x08, 1, 1_700_000_000_000))
    nested[12] ^= 1
    reading = read(wrapper(gzip.compress(bytes(nested)), 1, 1, 1))
    assert {row[1] for row in rows(reading)} == {1_700_000_000_000}
    assert reading.records[0].columns["checksum_ok"] == [False, False]
    assert ("checksum", "batches[0].messages[0].crc") in kinds(reading)


def test_wrappers_are_opened_as_deep_as_the_limit_says() -> None:
    data = message_set(SOME[:1], 0)
    for _ in range(4):
        data = wrapper(gzip.compress(data), 0, 1, 0)
    assert len(rows(read(data))) == 1
    shallow = read_batches(data, 0, len(data), decompress_max=1 << 20, open_records=True, wrapper_depth=3)
    assert rows(shallow) == []
    assert kinds(shallow)[-1] == ("limit", "batches[0].messages[0].messages[0].messages[0]")
    assert len(rows(read(wrapper(gzip.compress(data), 0, 1, 0)))) == 0


def test_a_wrong_checksum_of_one_message_marks_this_one() -> None:
    data = bytearray(message_set(SOME[:3], 1))
    data[12] ^= 1
    reading = read(bytes(data))
    assert kinds(reading) == [("checksum", "batches[0].messages[0].crc")]
    assert reading.records[0].columns["checksum_ok"] == [False, True, True]


def test_a_wrapper_that_the_capture_cut_gives_its_whole_messages() -> None:
    chance = random.Random(5)
    records = tuple(Plain(at, b"k", chance.randbytes(200)) for at in range(100))
    inner = message_set(records, 0)
    reading = read(wrapper(gzip.compress(inner), 0, 1, 99)[:15000], lost=True)
    found = rows(reading)
    assert kinds(reading) == [("truncated", "batches[0].value")]
    assert [row[3] for row in found] == [one.value for one in records][: len(found)]
    assert 50 < len(found) < 100


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("kept", range(17, 38))
def test_a_wrapper_of_which_the_capture_kept_little_is_told_by_its_head(magic: int, kept: int) -> None:
    reading = read(wrapper(gzip.compress(message_set(SOME, magic)), magic, 1, 99)[:kept], lost=True)
    assert rows(reading) == []
    assert reading.batches or reading.cut_off("broker")


def test_messages_of_a_cut_wrapper_of_magic_1_have_no_offsets_as_nobody_knows_the_last_one() -> None:
    chance = random.Random(5)
    records = tuple(Plain(at, b"k", chance.randbytes(200)) for at in range(100))
    inner = message_set(records, 1)
    cut = wrapper(gzip.compress(inner), 1, 1, 599)[:15000]
    reading = read(cut, lost=True)
    assert {row[0] for row in rows(reading)} == {None}
    assert "base_offset" not in reading.batches[0].head
    mark_delivered(reading, reader="consumer", fetch_offset=3)
    assert "before_asked" not in reading.records[0].columns
