"""Message sets of magic 0 and 1: plain messages, wrappers in every packing, offsets, times, cuts."""

from __future__ import annotations

import gzip
import random

import pytest
from record_craft import PACKINGS, SOME, Plain, kafka_python_reads, message_set, wrapper
from record_reading import expected, kinds, read, rows

from dissectors.kafka.records.marking import mark_delivered


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
    (records,) = read(by_client + by_broker).records
    assert records.columns["record_ts"] == [7_000_000] * 2
    assert records.columns["store_ts"] == [None, 7_000_000]


def test_a_wrapper_inside_a_wrapper_is_not_opened() -> None:
    inner = message_set(SOME, 0)
    once = wrapper(gzip.compress(inner), 0, 1, 3)
    assert kinds(read(wrapper(gzip.compress(once), 0, 1, 3))) == [("malformed", "batches[0].messages[0]")]


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
    found = rows(read(wrapper(gzip.compress(inner), 0, 1, 99)[:15000], lost=True))
    assert [row[3] for row in found] == [one.value for one in records][: len(found)]
    assert 50 < len(found) < 100


def test_messages_of_a_cut_wrapper_of_magic_1_have_no_offsets_as_nobody_knows_the_last_one() -> None:
    chance = random.Random(5)
    records = tuple(Plain(at, b"k", chance.randbytes(200)) for at in range(100))
    inner = message_set(records, 1)
    cut = wrapper(gzip.compress(inner), 1, 1, 599)[:15000]
    reading = read(cut, lost=True)
    assert {row[0] for row in rows(reading)} == {None}
    assert "base_offset" not in reading.batches[0].head
    mark_delivered(reading, reader="consumer", asked_offset=3)
    assert "before_asked" not in reading.records[0].columns
