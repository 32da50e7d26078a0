"""Fields of record data: what kafka-python writes is read, in every packing; damage is told and never raises."""

from __future__ import annotations

import gzip
import random
import struct

import pytest
from builds import python_only
from hypothesis import given, settings
from hypothesis import strategies as st
from record_craft import HEAD, PACKINGS, SOME, XERIAL, Plain, batch, kafka_python_reads, message_set, patched, wrapper
from record_reading import expected, kinds, read, rows

from mqsniff.codecs.blocks import CUT, TOO_LARGE
from mqsniff.codecs.inflation import RECORDS_SPENT
from mqsniff.model import PayloadChecksum, Problem, Undecoded
from mqsniff.spec.wire import CUT as FIELD_CUT
from mqsniff_kafka.records import batches as module
from mqsniff_kafka.records.batches import read_batches

QUICK = settings(max_examples=50, deadline=None)


# ---- magic 2


def test_records_of_a_batch_are_read_as_kafka_python_wrote_and_reads_them() -> None:
    data = batch(base=4711)
    reading = read(data)
    assert rows(reading) == expected(base=4711) == kafka_python_reads(data)
    assert not reading.problems
    assert reading.batches[0].head["checksum_ok"] is True


def test_the_head_has_every_field_of_the_wire() -> None:
    raw = batch(base=7, producer=(99, 3, 12), transactional=True)
    (found,) = read(raw, opened=False).batches
    assert found.head == {
        "base_offset": 7,
        "batch_length": len(raw) - 12,
        "partition_leader_epoch": struct.unpack_from(">i", raw, 12)[0],
        "magic": 2,
        "crc": struct.unpack_from(">I", raw, 17)[0],
        "attributes": 0x10,
        "last_offset_delta": 3,
        "base_timestamp": SOME[0].timestamp,
        "max_timestamp": SOME[2].timestamp,
        "producer_id": 99,
        "producer_epoch": 3,
        "base_sequence": 12,
        "timestamp_type": "CreateTime",
        "transactional": True,
        "control": False,
        "codec": "none",
        "checksum_ok": True,
        "records": 4,
    }
    assert found.records is None
    assert type(found.head["crc"]) is PayloadChecksum  # hidden where payload is


def test_attributes_are_named_beside_their_number() -> None:
    named = {"timestamp_type": "CreateTime", "transactional": False, "control": False, "codec": "none"}
    for bit, name, value in (
        (0x08, "timestamp_type", "LogAppendTime"),
        (0x10, "transactional", True),
        (0x20, "control", True),
        (0x40, "delete_horizon_ms", SOME[0].timestamp),
    ):
        (found,) = read(patched(batch(), attributes=bit), opened=False).batches
        told = {key: found.head[key] for key in (*named, "delete_horizon_ms") if key in found.head}
        assert told == named | {name: value}


def test_records_carry_what_their_batch_says() -> None:
    raw = patched(batch(), attributes=0x08)
    constant = read(raw).records[0].constant
    told = {"timestamp_type": "LogAppendTime", "crc": struct.unpack_from(">I", raw, 17)[0], "attributes": 0x08}
    assert told.items() <= constant.items()


@pytest.mark.parametrize("name", PACKINGS)
def test_every_packing_gives_the_same_records(name: str) -> None:
    codec, pack = PACKINGS[name]
    raw = batch()
    reading = read(patched(raw, pack(raw[HEAD:]), attributes=codec))
    assert rows(reading) == expected()
    assert not reading.problems
    assert reading.records[0].constant["codec"] == name.partition(" ")[0]


def test_an_lz4_header_checksum_that_is_wrong_in_another_way_is_refused() -> None:
    raw = batch()
    _, pack = PACKINGS["lz4 with the old wrong checksum"]
    packed = bytearray(pack(raw[HEAD:]))
    packed[6] ^= 0x55
    assert kinds(read(patched(raw, bytes(packed), attributes=3))) == [("codec", "batches[0].records")]


def test_log_append_time_is_the_time_of_every_record() -> None:
    reading = read(patched(batch(), attributes=0x08, max_timestamp=1_700_000_000_000))
    assert {row[1] for row in rows(reading)} == {1_700_000_000_000}
    assert reading.records[0].constant["store_ts"] == 1_700_000_000_000 * 1_000_000


def test_deltas_count_from_a_delete_horizon_too() -> None:
    reading = read(patched(batch(), attributes=0x40, base_timestamp=1_700_000_000_000))
    assert [row[1] for row in rows(reading)] == [1_700_000_000_000 + one.timestamp - SOME[0].timestamp for one in SOME]


def test_a_record_without_time_has_none() -> None:
    reading = read(patched(batch((Plain(0, b"k", b"v"),)), base_timestamp=-1))
    assert reading.records[0].columns["record_ts"] == [None]


@pytest.mark.parametrize("base", [1 << 62, -(1 << 63), (1 << 63) - 1])
def test_offsets_that_no_column_holds_wrap_and_times_are_exact(base: int) -> None:
    raw = patched(struct.pack(">q", base) + batch()[8:], base_timestamp=base)
    (records,) = read(raw).records
    assert all(-(1 << 63) <= offset < 1 << 63 for offset in records.columns["offset"])
    times = [base + one.timestamp - SOME[0].timestamp for one in SOME]
    assert list(records.columns["record_ts"]) == [None if ms < 0 else ms * 1_000_000 for ms in times]


def test_sequences_wrap_as_producers_count_them() -> None:
    reading = read(batch(producer=(1, 0, 0x7FFFFFFE)))
    assert list(reading.records[0].columns["sequence"]) == [0x7FFFFFFE, 0x7FFFFFFF, 0, 1]


def test_without_a_producer_there_are_no_sequences() -> None:
    (records,) = read(batch()).records
    assert "sequence" not in records.columns
    assert records.constant["producer_id"] is None


def test_a_compacted_batch_takes_the_offsets_of_what_is_gone() -> None:
    gone = patched(batch()[:HEAD], b"", count=0, last_offset_delta=9)
    reading = read(gone + batch(base=10))
    assert [(one.first_offset, one.last_offset) for one in reading.batches] == [(0, 9), (10, 13)]
    assert [row[0] for row in rows(reading)] == [10, 11, 12, 13]
    assert not reading.problems


def test_a_wrong_checksum_is_told_and_the_rows_are_kept() -> None:
    raw = bytearray(batch())
    raw[17] ^= 1
    reading = read(bytes(raw))
    assert kinds(reading) == [("checksum", "batches[0].crc")]
    assert rows(reading) == expected()
    assert reading.records[0].constant["checksum_ok"] is False


@pytest.mark.parametrize(("kind", "types"), [(0, (0,)), (1, (1,)), (99, (99,))])
def test_control_records_are_told_also_where_no_records_are_asked_for(kind: int, types: tuple[int, ...]) -> None:
    raw = batch((Plain(5, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 1)),), producer=(5, 1, -1))
    (found,) = read(patched(raw, attributes=0x30), opened=False).batches
    assert found.control_types == types
    assert found.transactional
    assert found.records is None


def test_what_control_records_hold_stands_in_the_head() -> None:
    commit = Plain(5, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 12))
    (found,) = read(patched(batch((commit,), producer=(5, 1, -1)), attributes=0x30), opened=False).batches
    value = {"version": 0, "coordinator_epoch": 12}
    assert found.head["control_records"] == [{"version": 0, "type": 1, "name": "COMMIT", "value": value}]


def test_a_control_record_that_is_none_is_told_and_kept() -> None:
    reading = read(patched(batch((Plain(5, b"x", b"yz"),)), attributes=0x20))
    assert kinds(reading) == [("format", "batches[0].records[0]")]
    assert reading.batches[0].head["control_records"] == [{"key": b"x", "value": b"yz"}]
    assert len(rows(reading)) == 1


def test_one_field_may_mix_magics() -> None:
    inner = message_set(SOME, 1)
    parts = [message_set(SOME, 0), message_set(SOME, 1), wrapper(gzip.compress(inner), 1, 1, 3), batch()]
    reading = read(b"".join(parts))
    assert [one.head["magic"] for one in reading.batches] == [0, 1, 1, 2]
    assert [one.head["codec"] for one in reading.batches] == ["none", "none", "gzip", "none"]
    assert len(rows(reading)) == 16
    assert [records.constant["batch_index"] for records in reading.records] == [0, 1, 2, 3]


# ---- cut


@pytest.mark.parametrize("data", [batch(), message_set(SOME, 0), message_set(SOME[3:], 1)], ids=["2", "0", "1"])
@given(st.data())
@QUICK
def test_a_batch_that_the_broker_cut_is_told_and_gives_no_records(data: bytes, source: st.DataObject) -> None:
    whole = batch(SOME[:3])
    kept = source.draw(st.integers(1, len(message_set(SOME[:1], 0)) - 1))
    reading = read(whole + data[:kept])
    assert reading.cut == kept
    assert not reading.problems
    assert len(rows(reading)) == 3
    assert len(reading.batches) == 1
    assert reading.cut_off("broker").items() >= {"cut_by": "broker", "size": kept}.items()


def test_an_overflow_batch_of_down_conversion_is_a_cut_one() -> None:
    padding = struct.pack(">qi", -1, 1 << 20) + bytes(100)
    reading = read(message_set(SOME, 1) + padding)
    assert reading.cut == len(padding)
    assert not reading.problems
    assert len(rows(reading)) == 4


def test_of_a_batch_without_its_end_the_head_is_told_as_far_as_it_goes() -> None:
    raw = batch(base=7)
    short, head = (read(raw[:kept]).cut_off("broker") for kept in (20, HEAD))
    first = {"base_offset": 7, "batch_length": len(raw) - 12, "magic": 2}
    assert short == {"cut_by": "broker", "size": 20, **first}
    assert head.items() >= {**first, "size": HEAD, "records": 4, "timestamp_type": "CreateTime"}.items()
    assert "checksum_ok" not in head
    message = message_set(SOME[:1], 1)
    crc, stamp = struct.unpack_from(">I", message, 12)[0], SOME[0].timestamp
    named = {"attributes": 0, "timestamp_type": "CreateTime", "codec": "none", "timestamp": stamp}
    told = {"cut_by": "broker", "offset": 0, "message_size": len(message) - 12, "crc": crc, "magic": 1}
    assert read(message[:17]).cut_off("broker") == {**told, "size": 17}
    assert read(message[:26]).cut_off("broker") == {**told, "size": 26, **named}


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("kept", "named"), [(17, 0), (18, 3), (25, 3), (26, 4), (27, 4)])
def test_of_a_message_without_its_end_the_head_is_told_as_far_as_it_goes(magic: int, kept: int, named: int) -> None:
    told = read(message_set(SOME[:1], magic)[:kept]).cut_off("broker")
    assert told is not None
    names = ["attributes", "timestamp_type", "codec", *(["timestamp"] if magic else [])]
    assert [name for name in told if name in (*names, "timestamp")] == names[:named]


def test_a_batch_that_the_capture_cut_gives_its_whole_records() -> None:
    raw = batch()
    third = HEAD + len(batch(SOME[:2])[HEAD:])
    reading = read(raw[: third + 3], lost=True)
    assert rows(reading) == expected()[:2]
    assert kinds(reading) == [("truncated", "batches[0].records")]


@pytest.mark.parametrize("name", [name for name in PACKINGS if not name.startswith("zstd")])
def test_a_compressed_batch_that_the_capture_cut_gives_its_whole_records(name: str) -> None:
    chance = random.Random(5)
    records = tuple(Plain(at, b"k", chance.randbytes(200)) for at in range(100))
    codec, pack = PACKINGS[name]
    raw = batch(records)
    cut = patched(raw, pack(raw[HEAD:]), attributes=codec)[:15000]
    found = rows(read(cut, lost=True))
    assert found == expected(records)[: len(found)]
    assert 50 < len(found) < 100


# ---- damage


def test_a_codec_that_does_not_exist_is_named() -> None:
    reading = read(patched(batch(), attributes=6))
    assert reading.batches[0].head["codec"] == "unknown(6)"
    assert kinds(reading) == [("codec", "batches[0].records")]


def test_a_record_that_is_damaged_keeps_those_before_it() -> None:
    raw = bytearray(batch(SOME[:3]))
    second = HEAD + (raw[HEAD] >> 1) + 1
    raw[second] = 0x0A
    reading = read(patched(bytes(raw)))
    assert rows(reading) == expected()[:1]
    assert kinds(reading) == [("malformed", "batches[0].records[1]")]


def test_bytes_behind_the_last_record_are_told() -> None:
    raw = batch()
    assert kinds(read(patched(raw, raw[HEAD:] + b"xyz"))) == [("trailing_bytes", "batches[0].records")]


@pytest.mark.parametrize(("behind", "records"), [(batch(), 4), (b"", 0)])
def test_an_unknown_magic_is_passed_over_by_its_length(behind: bytes, records: int) -> None:
    strange = bytearray(batch())
    strange[16] = 9
    reading = read(bytes(strange) + behind)
    assert kinds(reading) == [("unknown_version", "batches[0].magic")]
    assert len(rows(reading)) == records


def test_what_is_no_batch_is_left_as_bytes() -> None:
    reading = read(b"\xff" * 40)
    assert reading.undecoded == (0, 40)
    assert kinds(reading) == [("malformed", "batches[0]")]


def test_a_bomb_is_capped() -> None:
    raw = batch()
    bomb = patched(raw, gzip.compress(bytes(50_000_000)), attributes=1)
    reading = read(bomb, cap=1 << 20)
    assert ("limit", "batches[0].records") in kinds(reading)
    assert reading.plain_left == 0


def test_many_bombs_share_one_cap() -> None:
    raw = batch()
    bomb = patched(raw, gzip.compress(raw[HEAD:] + bytes(500_000)), attributes=1)
    reading = read(bomb * 20, cap=1 << 20)
    assert sum(len(one.data) for one in reading.records) <= 1 << 20
    assert len(reading.batches) == 20


def test_a_lying_count_buys_no_memory() -> None:
    reading = read(patched(batch(), count=0x7FFFFFFF))
    assert rows(reading) == expected()
    assert ("malformed", "batches[0].records[4]") in kinds(reading)


@python_only
def test_batches_are_read_up_to_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCHES_MAX", 3)
    reading = read(batch(SOME[:1]) * 5)
    assert len(reading.batches) == 3
    assert reading.problems[-1].kind == "limit"


# ---- problems, in whole


def packed(plain: bytes, count: int, **fields: int) -> bytes:
    """A batch of these plain bytes, compressed by gzip."""
    return patched(batch(), gzip.compress(plain, mtime=0), attributes=1, count=count, **fields)


RECORDS = batch(SOME[:3])[HEAD:]
"""Three records."""
FIRST = (RECORDS[0] >> 1) + 1
"""Size of the first of them."""
LAST = len(RECORDS) - len(batch(SOME[:2])[HEAD:])
"""Size of the last of them."""


@pytest.mark.parametrize(
    ("data", "lost", "problems", "records"),
    [
        (
            patched(batch(SOME[:3]), RECORDS + b"xyz"),
            False,
            [Problem("trailing_bytes", "warning", "bytes after the last record", "batches[0].records", size=3)],
            3,
        ),
        (
            patched(batch(SOME[:3]), count=4),
            False,
            [Problem("malformed", "error", FIELD_CUT, "batches[0].records[3]", size=0)],
            3,
        ),
        (
            patched(batch(SOME[:3]), count=-1),
            False,
            [Problem("malformed", "error", "a negative number of records", "batches[0].records_count")],
            0,
        ),
        (
            patched(batch(SOME[:3]), RECORDS[:FIRST] + b"\x02" + RECORDS[FIRST + 1 :]),
            False,
            [Problem(*("malformed", "error", "record too short", "batches[0].records[1]"), size=len(RECORDS) - FIRST)],
            1,
        ),
        (
            batch(SOME[:3])[:-1],
            True,
            [Problem("truncated", "error", "the capture lost the rest of a batch", "batches[0].records")],
            2,
        ),
        (packed(RECORDS, 3), False, [], 3),
        (
            packed(RECORDS + b"xyz", 3),
            False,
            [Problem("trailing_bytes", "warning", "bytes after the last record", "batches[0].records", size=3)],
            3,
        ),
        (
            packed(RECORDS[:-1], 3),
            False,
            [Problem("malformed", "error", FIELD_CUT, "batches[0].records[2]", size=LAST - 1)],
            2,
        ),
        (
            patched(batch(), b"no gzip", attributes=1),
            False,
            [Problem("codec", "error", "", "batches[0].records")],
            0,
        ),
        (
            patched(batch(), packed(RECORDS, 3)[HEAD:-8], attributes=1, count=3),
            False,
            [Problem("codec", "error", CUT, "batches[0].records")],
            3,
        ),
        (
            batch(SOME[:1]) + b"\xff" * 17,
            False,
            [Problem("malformed", "error", "no record batch", "batches[1]", size=17)],
            1,
        ),
        (
            batch(SOME[:1])[:8] + (48).to_bytes(4, "big") + batch(SOME[:1])[12:],
            False,
            [Problem("malformed", "error", "batch too short", "batches[0]", size=len(batch(SOME[:1])))],
            0,
        ),
        (
            batch(SOME[:1])[:16] + b"\x03" + batch(SOME[:1])[17:],
            False,
            [
                Problem(
                    *("unknown_version", "error", "a batch of an unknown magic", "batches[0].magic"),
                    size=len(batch(SOME[:1])),
                )
            ],
            0,
        ),
    ],
)
def test_what_is_odd_about_a_field_is_told_in_whole(
    data: bytes, lost: bool, problems: list[Problem], records: int
) -> None:
    reading = read(data, lost=lost)
    for found, expected_ in zip(reading.problems, problems, strict=True):
        expected_.detail = expected_.detail or found.detail  # that of a codec is its library's
    assert reading.problems == problems
    assert len(rows(reading)) == records


@pytest.mark.parametrize(("size", "batches"), [(17, 1), (16, 0), (1, 0)])
def test_a_batch_of_an_unknown_magic_is_passed_over_if_its_length_is_more_than_its_head(
    size: int, batches: int
) -> None:
    strange = bytes(8) + (size - 12 & 0xFFFFFFFF).to_bytes(4, "big") + bytes(4) + b"\x09"
    reading = read(strange + batch(SOME[:1]))
    assert [one.head for one in reading.batches][:1] == [{"magic": 9, "undecoded": Undecoded(strange)}] * batches
    assert (reading.undecoded is None) == (batches == 1)
    assert len(rows(reading)) == batches


def test_the_smallest_batch_has_a_head_and_no_records() -> None:
    reading = read(patched(batch()[:HEAD], count=0))
    assert ([one.head["records"] for one in reading.batches], reading.problems, reading.records) == ([0], [], ())
    assert struct.unpack_from(">i", patched(batch()[:HEAD]), 8) == (49,)


@pytest.mark.parametrize("kept", [0, 1, 16, 17, HEAD - 1, HEAD, HEAD + 1])
@pytest.mark.parametrize("lost", [True, False])
def test_a_batch_is_cut_at_any_byte(kept: int, lost: bool) -> None:
    raw = batch(SOME[:1])
    reading = read(raw + raw[:kept], lost=lost)
    assert reading.cut == kept
    assert len(rows(reading)) == 1
    assert len(reading.batches) == (2 if lost and kept > 16 else 1)
    assert (reading.begun is None) == (lost or kept <= 16)
    cut = (reading.batches[1:] or [reading.begun])[0]
    if cut is not None:
        assert (cut.start, cut.stop, "crc" in cut.head) == (len(raw), len(raw) + kept, kept >= HEAD)
        assert cut.head["batch_length"] == len(raw) - 12


def test_records_are_opened_up_to_what_may_be_and_the_rest_is_told() -> None:
    data = batch(SOME[:3]) + batch(SOME[:2])
    for most, counts in ((5, [3, 2]), (4, [3, 1]), (3, [3]), (2, [2])):
        reading = read_batches(data, 0, len(data), decompress_max=0, open_records=True, records_max=most)
        assert [one.count for one in reading.records] == counts
        short = [number for number, wanted in enumerate((3, 2)) if sum((3, 2)[: number + 1]) > most]
        assert reading.problems == [Problem("limit", "error", RECORDS_SPENT, f"batches[{at}]") for at in short]


def test_plain_bytes_are_bounded_to_the_byte() -> None:
    data = packed(RECORDS, 3)
    assert (read(data, cap=len(RECORDS)).problems, len(rows(read(data, cap=len(RECORDS))))) == ([], 3)
    few = read(packed(RECORDS, 3, base_sequence=5), cap=len(RECORDS) - 1)
    assert [(one.kind, one.detail) for one in few.problems] == [("limit", TOO_LARGE)]
    assert read(data, cap=0).problems == [Problem("limit", "error", TOO_LARGE, "batches[0].records")]


def test_control_records_of_a_batch_are_shown_up_to_a_limit() -> None:
    marker = Plain(5, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 12))
    for count, more in ((64, False), (64 + 1, True)):
        raw = patched(batch((marker,) * count), attributes=0x20)
        reading = read(raw)
        (found,) = reading.batches
        assert (len(found.head["control_records"]), len(found.control_types)) == (64,) * 2
        told = [Problem("limit", "info", "more control records than are shown", "batches[0].records")]
        assert reading.problems == told * more
        assert len(rows(reading)) == count
        assert len(read(raw, opened=False).batches[0].head["control_records"]) == 64


def test_a_control_record_without_key_or_value_is_kept_as_it_is() -> None:
    reading = read(patched(batch((Plain(5, None, None),)), attributes=0x20))
    assert reading.batches[0].head["control_records"] == [{"key": b"", "value": None}]
    assert reading.batches[0].control_types == ()
    assert reading.problems == [Problem("format", "warning", "expected a control record", "batches[0].records[0]")]


def test_a_field_may_lie_anywhere_in_its_message() -> None:
    raw = batch(SOME[:2], base=5)
    data = b"before" + raw + b"after"
    reading = read_batches(data, 6, 6 + len(raw), decompress_max=0, open_records=True)
    assert rows(reading) == expected(SOME[:2], base=5)
    assert [(one.start, one.stop, one.first_offset, one.last_offset) for one in reading.batches] == [
        (6, 6 + len(raw), 5, 6)
    ]
    assert (reading.problems, reading.cut, reading.undecoded) == ([], 0, None)


@pytest.mark.parametrize(("producer", "leader"), [((0, 0, 0), 0), ((-1, -1, -1), -1)])
def test_who_wrote_a_batch_is_told_if_somebody_says_so(producer: tuple[int, int, int], leader: int) -> None:
    raw = batch(SOME[:1], producer=producer)
    constant = read(raw[:12] + struct.pack(">i", leader) + raw[16:]).records[0].constant
    named = {"producer_id": 0, "producer_epoch": 0, "leader_epoch": 0}
    told = named if leader == 0 else dict.fromkeys(named)
    assert {name: constant[name] for name in named} == told


FIELDS = [
    batch() + batch(base=4),
    message_set(SOME, 0) + message_set(SOME, 1),
    *(patched(batch(SOME[:3]), pack(batch(SOME[:3])[HEAD:]), attributes=codec) for codec, pack in PACKINGS.values()),
    wrapper(XERIAL + b"\0\0\0\5hello", 1, 2, 0),
]


@given(st.sampled_from(FIELDS), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6), st.data())
@QUICK
def test_mutated_and_cut_bytes_never_raise(field: bytes, changes: list[tuple[int, int]], source: st.DataObject) -> None:
    data = bytearray(field)
    for at, value in changes:
        data[at % len(data)] = value
    stop = source.draw(st.integers(0, len(data)))
    for lost in (False, True):
        reading = read_batches(bytes(data), 0, stop, decompress_max=1 << 20, open_records=True, lost=lost)
        rows(reading)
        ends = [one.stop for one in reading.batches]
        assert ends == sorted(ends)
        assert max(ends, default=0) <= stop


@given(st.binary(max_size=300))
@QUICK
def test_any_bytes_give_a_reading(data: bytes) -> None:
    rows(read(data))
