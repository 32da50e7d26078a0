"""Message sets of magic 0 and 1: plain messages, wrappers in every packing, offsets, times, cuts."""

from __future__ import annotations

import gzip
import random
import struct
import zlib

import pytest
from builds import python_only
from record_craft import PACKINGS, SOME, Plain, kafka_python_reads, message_set, wrapper
from record_reading import expected, kinds, read, rows

from mqsniff.codecs.blocks import TOO_LARGE
from mqsniff.model import PayloadChecksum, Problem, RecordBatch
from mqsniff.spec.wire import CUT as FIELD_CUT
from mqsniff_kafka.records import messagesets as module
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


# ---- heads and problems, in whole

STAMP = SOME[0].timestamp


def message(
    magic: int,
    *,
    attributes: int = 0,
    offset: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    **lie: int,
) -> bytes:
    """A message by hand; ``lie``: another ``size`` or ``crc`` than the right one, or more bytes ``behind``."""
    spans = b"".join(
        struct.pack(">i", -1) if one is None else struct.pack(">i", len(one)) + one for one in (key, value)
    )
    stamp = struct.pack(">q", STAMP) if magic else b""
    checked = struct.pack(">bb", magic, attributes) + stamp + spans + bytes(lie.get("behind", 0))
    size, crc = lie.get("size", len(checked) + 4), lie.get("crc", zlib.crc32(checked))
    return struct.pack(">qiI", offset, size, crc) + checked


@pytest.mark.parametrize("magic", [0, 1])
def test_the_head_of_a_run_has_all_that_its_messages_have_in_common(magic: int) -> None:
    data = message(magic, offset=5) + message(magic, offset=7, crc=1)
    reading = read(b"before" + data, start=6)
    (found,) = reading.batches
    assert found.head == {
        "base_offset": 5,
        "last_offset": 7,
        "size": len(data),
        "magic": magic,
        "attributes": 0,
        "timestamp_type": "CreateTime" if magic else None,
        "codec": "none",
        "checksum_ok": False,
        "records": 2,
    }
    assert (found.start, found.stop, found.first_offset, found.last_offset) == (6, 6 + len(data), 5, 7)
    detail = "the CRC-32 of 1 of 2 messages does not match"
    assert reading.problems == [Problem("checksum", "error", detail, "batches[0].messages[1].crc")]
    (records,) = reading.records
    crcs = [struct.unpack_from(">I", data, at)[0] for at in (12, len(data) // 2 + 12)]
    assert records.constant == {
        "codec": "none",
        "base_offset": 5,
        "batch_index": 0,
        "attributes": 0,
        "timestamp_type": "CreateTime" if magic else None,
    }
    assert records.columns == {
        "offset": [5, 7],
        "record_ts": [STAMP * 1_000_000 if magic else None] * 2,
        "crc": crcs,
        "message_size": [len(data) // 2 - 12] * 2,
        "checksum_ok": [True, False],
    }


@pytest.mark.parametrize(("magic", "offset", "base"), [(0, 9, 4), (1, 9, 8), (1, 0, 4)])
def test_the_head_of_a_wrapper_tells_itself_and_the_first_of_its_messages(magic: int, offset: int, base: int) -> None:
    inner = message(magic, offset=4) + message(magic, offset=5)
    data = wrapper(gzip.compress(inner), magic, 1, offset, STAMP)
    reading = read(data)
    (found,) = reading.batches
    told = {
        "base_offset": base,
        "offset": offset,
        "message_size": len(data) - 12,
        "crc": struct.unpack_from(">I", data, 12)[0],
        "magic": magic,
        "attributes": 1,
        "timestamp_type": "CreateTime" if magic else None,
        "codec": "gzip",
        **({"timestamp": STAMP} if magic else {}),
        "checksum_ok": True,
        "records": 2,
    }
    assert found.head == told
    assert type(found.head["crc"]) is PayloadChecksum
    assert (found.first_offset, found.last_offset, reading.problems) == (base, base + 1, [])
    (records,) = reading.records
    assert records.constant == {
        "codec": "gzip",
        "base_offset": base,
        "batch_index": 0,
        "attributes": 0,
        "timestamp_type": "CreateTime" if magic else None,
        "checksum_ok": True,
    }


def test_a_wrapper_with_the_brokers_time_gives_it_to_all_its_records() -> None:
    inner = message(1, offset=0) + message(1, offset=1)
    (records,) = read(wrapper(gzip.compress(inner), 1, 9, 1, 77)).records
    assert records.constant == {
        "codec": "gzip",
        "base_offset": 0,
        "batch_index": 0,
        "record_ts": 77_000_000,
        "store_ts": 77_000_000,
        "timestamp_type": "LogAppendTime",
        "attributes": 0,
        "checksum_ok": True,
    }
    assert set(records.columns) == {"offset", "crc", "message_size"}


def test_a_wrong_checksum_of_a_wrapper_is_one_of_all_its_records() -> None:
    data = bytearray(wrapper(gzip.compress(message(1) + message(1, offset=1)), 1, 1, 1))
    data[12] ^= 1
    reading = read(bytes(data))
    assert reading.problems == [
        Problem("checksum", "error", "the CRC-32 of the wrapper does not match", "batches[0].crc")
    ]
    assert reading.records[0].constant["checksum_ok"] is False
    assert reading.batches[0].head["checksum_ok"] is False


DAMAGE = [
    ("a size of no message", message(0, size=13), "no message", False),
    ("a size below 0", message(0, size=-1), "no message", False),
    ("too small for its magic", message(1, size=21)[:33], "message too short", True),
    ("bytes behind its value", message(0, behind=1), "message of another size than its fields", True),
    ("a key beyond it", message(0)[:18] + struct.pack(">i", 7) + message(0)[22:], "length beyond the message", True),
    ("a key below null", message(0)[:18] + struct.pack(">i", -2) + message(0)[22:], "negative length", True),
]


@pytest.mark.parametrize(("data", "detail", "passed"), [case[1:] for case in DAMAGE], ids=[case[0] for case in DAMAGE])
def test_a_damaged_message_is_told_and_passed_over_where_its_size_may_be_right(
    data: bytes, detail: str | None, passed: bool
) -> None:
    behind = message(0, offset=3)
    reading = read(data + behind)
    (problem,) = [one for one in reading.problems if one.path == "batches[0]"]
    assert (problem.kind, problem.severity) == ("malformed", "error")
    assert detail in (None, problem.detail)
    assert (reading.undecoded is None) == passed
    if passed:
        assert reading.batches[0].head["magic"] == data[16]
    else:
        assert problem.size == len(data + behind)


@pytest.mark.parametrize(("magic", "least"), [(0, 14), (1, 22)])
def test_the_smallest_message_has_neither_key_nor_value(magic: int, least: int) -> None:
    data = message(magic, key=None, value=None)
    assert len(data) == 12 + least
    assert [(key, value) for _, _, key, value, _ in rows(read(data))] == [(None, None)]
    assert rows(read(message(magic, key=b"", value=b"")))[0][2:4] == (b"", b"")


@pytest.mark.parametrize(
    ("data", "problems", "records"),
    [
        (
            wrapper(gzip.compress(message(0)), 0, 1, 0)[:18] + struct.pack(">ii", -1, -1),
            [Problem("malformed", "error", "a compressed message without a value", "batches[0].value")],
            0,
        ),
        (
            wrapper(b"no gzip", 0, 1, 0),
            [Problem("codec", "error", "", "batches[0].value")],
            0,
        ),
        (
            wrapper(gzip.compress(message(0) + b"rest"), 0, 1, 0),
            [Problem("malformed", "error", FIELD_CUT, "batches[0].messages[1]", size=4)],
            1,
        ),
        (
            wrapper(gzip.compress(message(0) + message(0, size=20) + message(0)), 0, 1, 0),
            [
                Problem(
                    *("malformed", "error", "message of another size than its fields", "batches[0].messages[1]"),
                    size=2 * len(message(0)),
                )
            ],
            1,
        ),
    ],
)
def test_what_is_odd_about_a_wrapper_is_told_in_whole(data: bytes, problems: list[Problem], records: int) -> None:
    fixed = bytearray(data)
    struct.pack_into(">i", fixed, 8, len(data) - 12)
    struct.pack_into(">I", fixed, 12, zlib.crc32(bytes(fixed[16:])))
    reading = read(bytes(fixed))
    for found, told in zip(reading.problems, problems, strict=True):
        told.detail = told.detail or found.detail
    assert reading.problems == problems
    assert len(rows(reading)) == records


def test_messages_of_a_wrapper_are_read_up_to_what_may_be_and_the_rest_is_told() -> None:
    inner = message(0) * 3
    data = wrapper(gzip.compress(inner), 0, 1, 0)
    for most, read_ in ((3, 3), (2, 2), (1, 1)):
        reading = read_batches(data, 0, len(data), decompress_max=1 << 20, open_records=True, records_max=most)
        detail = "more records in one field than elements_max"
        left = len(message(0)) * (3 - read_)
        told = [Problem("limit", "error", detail, "batches[0]", size=left)] if left else []
        assert (len(rows(reading)), reading.problems) == (read_, told)


def test_plain_bytes_of_wrappers_are_bounded_together() -> None:
    inner = message(0) * 3
    data = wrapper(gzip.compress(inner), 0, 1, 0) * 2
    reading = read(data, cap=len(inner) + len(message(0)))
    assert [one.count for one in reading.records] == [3, 1]
    assert reading.problems == [Problem("limit", "error", TOO_LARGE, "batches[1].value")]
    assert reading.plain_left == 0


@python_only
def test_a_run_has_a_bounded_number_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RUN_MAX", 3)
    reading = read(b"".join(message(0, offset=at) for at in range(7)))
    assert [one.head["records"] for one in reading.batches] == [3, 3, 1]
    assert [row[0] for row in rows(reading)] == list(range(7))


@python_only
def test_heads_of_inner_wrappers_are_shown_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRAPPED_MAX", 2)
    inner = b"".join(wrapper(gzip.compress(message(0, offset=at)), 0, 1, at) for at in range(4))
    reading = read(wrapper(gzip.compress(inner), 0, 1, 3))
    assert [one["base_offset"] for one in reading.batches[0].head["wrapped"]] == [0, 1]
    assert [row[0] for row in rows(reading)] == [0, 1, 2, 3]


def test_values_of_messages_inside_several_wrappers_stay_their_own() -> None:
    inner = [wrapper(gzip.compress(message(0, key=None, value=bytes([at]) * at)), 0, 1, at) for at in range(3)]
    outer = message(0, key=b"first", value=None) + b"".join(inner) + message(0, key=b"last", value=b"x")
    assert [row[2:4] for row in rows(read(wrapper(gzip.compress(outer), 0, 1, 3)))] == [
        (b"first", None),
        (None, b""),
        (None, b"\1"),
        (None, b"\2\2"),
        (b"last", b"x"),
    ]


def test_a_message_that_the_capture_cut_ends_its_run() -> None:
    one = message(1)
    for kept in range(1, len(one)):
        reading = read(one * 2 + one[:kept], lost=True)
        assert (len(rows(reading)), reading.cut, reading.problems) == (2, kept, [])
        assert len(reading.batches) == (2 if kept > 16 else 1)
