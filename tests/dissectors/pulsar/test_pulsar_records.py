"""Payloads as record batches: codecs, seals, times, keys, places."""

from __future__ import annotations

import zlib

import cramjam
import lz4.block
import pytest
import zstandard
from pulsarcraft import batch, encoded

from mqsniff.codecs.inflation import PLAIN_SPENT, RECORDS_SPENT, InflationBudget
from mqsniff.limits import KIB, Limits
from mqsniff.model import Problem
from mqsniff.tables.schemas import names_of
from mqsniff_pulsar.batches import read_slots
from mqsniff_pulsar.chunks import JoinedChunks
from mqsniff_pulsar.messages import message_type
from mqsniff_pulsar.payload import OTHER_SIZE, is_plain
from mqsniff_pulsar.records import joined_batch, place, record_batch, signed, time_ns

LIMITS = Limits()
PLAIN = b"the same words again and again, " * 40
PUBLISHED = {"producer_name": "p", "sequence_id": 5, "publish_time": 1_700_000_000_000}


def unfinished(plain: bytes) -> bytes:
    deflate = zlib.compressobj()
    return deflate.compress(plain) + deflate.flush(zlib.Z_SYNC_FLUSH)


CODECS = [
    ("LZ4", lambda plain: lz4.block.compress(plain, store_size=False)),
    ("ZLIB", zlib.compress),
    ("ZLIB", unfinished),
    ("ZSTD", zstandard.ZstdCompressor().compress),
    ("ZSTD", zstandard.ZstdCompressor(write_content_size=False).compress),
    ("SNAPPY", lambda plain: bytes(cramjam.snappy.compress_raw(plain))),
    ("SNAPPY", lambda plain: bytes(cramjam.snappy.compress(plain))),  # the Rust client
]


def records(metadata, packed, unacknowledged=None, budget=None):
    problems = []
    made = record_batch(PUBLISHED | metadata, packed, unacknowledged, budget or InflationBudget(LIMITS), problems)
    return made, [(problem.kind, problem.severity) for problem in problems]


def values(made):
    starts, stops = made.values
    return [None if start < 0 else made.data[start:stop] for start, stop in zip(starts, stops, strict=True)]


def keys(made):
    starts, stops = made.keys
    return [None if start < 0 else made.data[start:stop] for start, stop in zip(starts, stops, strict=True)]


@pytest.mark.parametrize(("codec", "compress"), CODECS)
@pytest.mark.parametrize("plain", [PLAIN, b"", b"x"])
def test_a_compressed_payload_is_opened(codec, compress, plain):
    made, problems = records({"compression": codec, "uncompressed_size": len(plain)}, compress(plain))
    assert (values(made), problems) == ([plain], [])
    assert made.constant["codec"] == codec.lower()


@pytest.mark.parametrize(("codec", "compress"), CODECS)
@pytest.mark.parametrize("told", [len(PLAIN) - 1, len(PLAIN) + 1, 0])
def test_another_size_than_the_told_one_is_a_problem(codec, compress, told):
    made, problems = records({"compression": codec, "uncompressed_size": told}, compress(PLAIN))
    assert made.values is None
    assert problems == [("codec", "error")]
    assert made.constant["value_size"] == len(compress(PLAIN))


@pytest.mark.parametrize(("codec", "compress"), CODECS)
def test_a_cut_payload_is_a_problem(codec, compress):
    _, problems = records({"compression": codec, "uncompressed_size": len(PLAIN)}, compress(PLAIN)[:-6])
    assert problems == [("codec", "error")]


def test_a_damaged_batch_gives_what_stands_before_the_damage():
    plain = batch(*[(PLAIN, {}) for _ in range(8)])
    metadata = {"compression": "ZLIB", "uncompressed_size": len(plain), "num_messages_in_batch": 8}
    made, problems = records(metadata, unfinished(plain[: len(plain) // 2 - 1]))
    assert values(made) == [PLAIN] * 3
    assert problems == [("codec", "error"), ("malformed", "error")]


UNOPENED = [
    ("encrypted", {"encryption_keys": [{"key": "k", "value": b"v"}], "num_messages_in_batch": 3}, []),
    ("a chunk of something compressed", {"chunk_id": 0, "num_chunks_from_msg": 2, "compression": "LZ4"}, []),
    ("an unknown codec", {"compression": 9, "uncompressed_size": 5}, [("codec", "error")]),
    ("no plain size", {"compression": "LZ4"}, [("codec", "error")]),
    ("more than decompress_max", {"compression": "ZLIB", "uncompressed_size": 1 << 31}, [("limit", "error")]),
]


@pytest.mark.parametrize(("metadata", "noted"), [case[1:] for case in UNOPENED], ids=[case[0] for case in UNOPENED])
def test_what_cannot_be_opened_is_one_record_without_value(metadata, noted):
    made, problems = records(metadata, b"sealed bytes")
    assert (made.count, made.values, made.constant["value_size"]) == (1, None, 12)
    assert problems == noted


def test_a_bomb_is_not_blown_up():
    _, problems = records({"compression": "ZLIB", "uncompressed_size": 1000}, zlib.compress(bytes(1 << 26)))
    assert problems == [("codec", "error")]


PROPERTIES = [
    [{"key": "trace", "value": "abc"}, {"key": "", "value": ""}],
    [],
    [{"key": "long", "value": "x" * 300}, {"key": "ü" * 100, "value": "ü"}],
]


def test_properties_of_a_batch_stand_where_their_places_say():
    plain = batch(*((b"value", {"properties": properties}) for properties in PROPERTIES))
    made, problems = records({"num_messages_in_batch": 3}, plain)
    counts, places = made.header_spans()
    fours = zip(*(places[at::4] for at in range(4)), strict=True)
    written = [(made.data[a:b].decode(), made.data[c:d]) for a, b, c, d in fours]
    assert problems == []
    assert counts == [len(properties) for properties in PROPERTIES]
    assert written == [(one["key"], one["value"].encode()) for properties in PROPERTIES for one in properties]
    assert written == [pair for headers in made.headers for pair in headers]


def test_properties_unlike_those_of_clients_have_no_places():
    strange = b"\x0a\x06\x12\x01v\x0a\x01k\x18\x01"  # the value stands before the key
    made, _ = records({"num_messages_in_batch": 1}, len(strange).to_bytes(4, "big") + strange + b"v")
    assert made.header_spans() is None
    assert made.headers[0] == [("k", b"v")]


def test_a_message_alone_has_its_columns_from_the_metadata():
    metadata = {
        "partition_key": "a2V5",
        "partition_key_b64_encoded": True,
        "ordering_key": b"\x01",
        "event_time": 1_600_000_000_000,
        "deliver_at_time": 1_800_000_000_000,
        "properties": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}],
        "schema_version": (258).to_bytes(8, "big"),
        "replicated_from": "far",
    }
    made, problems = records(metadata, b"value")
    assert (values(made), keys(made), problems) == ([b"value"], [b"key"], [])
    assert made.headers[0] == [("a", b"1"), ("a", b"2")]
    expected = {
        "record_ts": 1_600_000_000 * 10**9,
        "event_ts": 1_600_000_000 * 10**9,
        "publish_ts": 1_700_000_000 * 10**9,
        "deliver_at_ts": 1_800_000_000 * 10**9,
        "partition_key_b64_encoded": True,
        "null_partition_key": None,
        "sequence": 5,
        "producer_name": "p",
        "schema_id": "258",
        "replicated_from": "far",
        "codec": "none",
    }
    assert {name: made.constant[name] for name in expected} == expected
    assert made.columns == {"ordering_key": [b"\x01"]}


def test_null_values_and_keys_are_null_and_empty_ones_empty():
    assert values(records({"null_value": True}, b"")[0]) == [None]
    assert values(records({}, b"")[0]) == [b""]
    assert keys(records({"partition_key": "", "null_partition_key": True}, b"")[0]) == [None]
    assert keys(records({"partition_key": ""}, b"")[0]) == [b""]


def test_a_batch_is_the_count_being_there_whatever_its_value():
    made, problems = records({"num_messages_in_batch": 1}, batch((b"v", {"partition_key": "k"})))
    assert (values(made), keys(made), problems) == ([b"v"], [b"k"], [])


def test_messages_without_a_time_of_their_own_have_that_of_the_batch():
    data = batch((b"a", {"event_time": 1_600_000_000_000}), (b"b", {}))
    made, _ = records({"num_messages_in_batch": 2}, data)
    assert made.columns["record_ts"] == [1_600_000_000 * 10**9, 1_700_000_000 * 10**9]
    assert made.columns["event_ts"] == [1_600_000_000 * 10**9, None]


def test_a_compacted_batch_counts_by_its_original_indexes():
    made, _ = records({"num_messages_in_batch": 2, "compacted_batch_indexes": [4, 9]}, batch((b"a", {}), (b"b", {})))
    assert made.columns["record_index"] == [4, 9]
    place(made, "7:1:-1")
    assert made.columns["message_id"] == ["7:1:-1:4", "7:1:-1:9"]


def test_slots_that_a_compaction_emptied_keep_their_places():
    plain = batch((b"", {"compacted_out": True}), (b"b", {}), (b"", {"compacted_out": True}), (b"d", {}))
    made, _ = records({"num_messages_in_batch": 4, "compacted_batch_indexes": [1, 3]}, plain)
    assert list(made.columns["record_index"]) == [0, 1, 2, 3]
    assert made.columns["left_out"] == ["compacted_out", None, "compacted_out", None]


def test_slots_add_up_and_say_why_they_are_left_out():
    plain = batch((b"a", {}), (b"b", {}), (b"", {"compacted_out": True}), (b"d", {"compacted_out": False}))
    made, problems = records({"num_messages_in_batch": 4}, plain, unacknowledged={0, 2})
    assert (values(made), list(made.columns["record_index"])) == ([b"a", b"b", b"", b"d"], [0, 1, 2, 3])
    assert made.columns["left_out"] == [None, "acknowledged", "compacted_out", "acknowledged"]
    assert problems == []
    whole, _ = records({"num_messages_in_batch": 2}, batch((b"a", {}), (b"b", {})))
    assert "left_out" not in whole.columns


def test_what_the_metadata_of_a_slot_say_of_its_keys_are_columns():
    slots = [
        (b"a", {"partition_key": "a2V5", "partition_key_b64_encoded": True, "ordering_key": b"\x00order"}),
        (b"b", {"partition_key": "key", "partition_key_b64_encoded": False, "null_partition_key": False}),
        (b"c", {"null_partition_key": True, "ordering_key": b""}),
        (b"d", {}),
    ]
    made, problems = records({"num_messages_in_batch": 4}, batch(*slots))
    assert problems == []
    assert keys(made) == [b"key", b"key", None, None]
    assert made.columns["ordering_key"] == [b"\x00order", None, b"", None]
    assert made.columns["partition_key_b64_encoded"] == [True, False, None, None]
    assert made.columns["null_partition_key"] == [None, False, True, None]
    sizes = [len(encoded("SingleMessageMetadata", payload_size=1, **fields)) for _, fields in slots]
    assert made.columns["slot_metadata_size"] == sizes


def test_every_field_of_the_metadata_of_a_slot_is_shown():
    shown_by = {"properties": "headers", "partition_key": "key", "payload_size": "value_size", "null_value": "value"}
    shown_by |= {"event_time": "event_ts", "sequence_id": "sequence", "compacted_out": "left_out"}
    fields = [field.name for field in message_type("SingleMessageMetadata").fields.values()]
    assert len(fields) == 10
    assert {shown_by.get(name, name) for name in fields} <= set(names_of("records"))


@pytest.mark.parametrize("time", [0, (1 << 64) - 1, (1 << 63) // 10**6 + 1])
def test_times_are_exact_and_0_is_none(time):
    assert records({"event_time": time}, b"v")[0].constant["event_ts"] == (time * 10**6 or None)


def test_numbers_that_java_counts_down_from_zero_are_negative():
    assert records({"sequence_id": (1 << 64) - 1}, b"v")[0].constant["sequence"] == -1


def test_problems_of_one_payload_are_limited():
    bad = batch((b"", {})).replace(b"\x18\x00", b"\x18\x00\x2d\x00\x00\x00\x00")
    bad = (len(bad) - 4).to_bytes(4, "big") + bad[4:]
    made, problems = records({"num_messages_in_batch": 500}, bad * 500)
    assert made.count == 500
    assert len(problems) == LIMITS.message_problems_max
    assert problems[-1] == ("limit", "warning")


@pytest.mark.parametrize("entries", [4, 40])
def test_batches_of_empty_messages_make_no_more_records_than_their_bytes_and_the_free_ones_allow(entries):
    budget = InflationBudget(Limits(records_free=3_000))
    plain = b"\0\0\0\2\x18\0" * 2_000
    metadata = {"compression": "ZSTD", "uncompressed_size": len(plain), "num_messages_in_batch": 2_000}
    packed = zstandard.ZstdCompressor().compress(plain)
    made = [records(metadata, packed, budget=budget) for _ in range(entries)]
    assert sum(batch.count for batch, _ in made) <= 3_000 + entries * len(packed)
    assert [problems for _, problems in made][-1] == [("limit", "error")]


def test_payloads_become_no_more_plain_bytes_than_their_bytes_and_the_free_ones_allow():
    budget = InflationBudget(Limits(inflate_ratio=2, inflate_free=64 * KIB))
    metadata = {"compression": "ZLIB", "uncompressed_size": 50_000}
    made = [records(metadata, zlib.compress(bytes(50_000)), budget=budget) for _ in range(3)]
    assert [problems for _, problems in made] == [[], [("limit", "error")], [("limit", "error")]]
    assert [batch.values is None for batch, _ in made] == [False, True, True]


def test_a_message_without_an_event_time_has_that_of_its_publication():
    made, _ = records({}, b"v")
    assert (made.constant["record_ts"], made.constant["event_ts"]) == (1_700_000_000_000_000_000, None)


def test_a_plain_payload_of_another_size_than_the_told_one_is_odd_and_kept():
    made, problems = records({"uncompressed_size": 3}, b"four")
    assert (values(made), problems) == ([b"four"], [("codec", "warning")])
    assert records({"uncompressed_size": 4}, b"four")[1] == []


@pytest.mark.parametrize(
    ("metadata", "plain"),
    [
        ({}, True),
        ({"compression": "NONE", "chunk_id": 0}, True),
        ({"compression": "LZ4"}, False),
        ({"encryption_keys": [{"key": "k"}]}, False),
        ({"encryption_keys": [{"key": "k"}], "compression": "NONE"}, False),
        ({"encryption_keys": [{"key": "k"}], "compression": "LZ4"}, False),
        ({"chunk_id": 0, "compression": "LZ4"}, False),
    ],
)
def test_a_payload_is_plain_if_it_is_neither_compressed_nor_encrypted(metadata, plain):
    assert is_plain(metadata) is plain


@pytest.mark.parametrize(
    ("elements", "free", "told"), [(2, 2, "elements_max"), (3, 2, "records_start"), (2, 3, "elements_max")]
)
def test_a_batch_of_more_messages_than_a_limit_says_which_and_what_is_left(elements, free, told):
    limits = Limits(elements_max=elements, records_free=free, records_start=free)
    slots, problems = [(b"v%d" % n, {}) for n in range(4)], []
    plain = batch(*slots)
    read = read_slots(plain, 4, InflationBudget(limits), problems.append)
    (problem,) = problems
    assert len(read.starts) == 2
    assert told in problem.detail
    assert (problem.kind, problem.size) == ("limit", len(batch(*slots[2:])))


@pytest.mark.parametrize(
    ("milliseconds", "expected"), [(1, 1_000_000), (0, None), (-1, None), (None, None), ("1", None)]
)
def test_a_time_that_is_none_is_no_time(milliseconds, expected):
    assert time_ns(milliseconds) == expected


# ---- whole records and problems

MS = 1_000_000
SHARED = {
    "codec": "none",
    "publish_ts": 1_700_000_000_000 * MS,
    "deliver_at_ts": None,
    "producer_name": "p",
    "replicated_from": None,
    "schema_id": None,
    "chunk_id": None,
    "chunk_count": None,
    "transactional": False,
    "control": False,
}
"""Columns of the metadata ``PUBLISHED``."""
ALONE = {
    "record_ts": 1_700_000_000_000 * MS,
    "event_ts": None,
    "sequence": 5,
    "null_partition_key": None,
    "partition_key_b64_encoded": None,
}


def told(metadata, packed, unacknowledged=None, budget=None):
    """(the records, their problems in whole)."""
    problems = []
    budget = budget or InflationBudget(LIMITS)
    return record_batch(PUBLISHED | metadata, packed, unacknowledged, budget, problems), problems


def test_a_message_alone_has_every_column_of_its_metadata():
    metadata = {
        "deliver_at_time": 7,
        "replicated_from": "far",
        "schema_id": b"\x01\xff",
        "chunk_id": 3,
        "num_chunks_from_msg": 4,
        "txnid_most_bits": 0,
        "marker_type": 0,
        "event_time": 8,
        "null_partition_key": False,
    }
    made, problems = told(metadata, b"value")
    assert problems == []
    assert made.constant == SHARED | ALONE | {
        "deliver_at_ts": 7 * MS,
        "replicated_from": "far",
        "schema_id": "01ff",
        "chunk_id": 3,
        "chunk_count": 4,
        "transactional": True,
        "control": True,
        "record_ts": 8 * MS,
        "event_ts": 8 * MS,
        "null_partition_key": False,
    }
    assert (made.count, made.data, made.columns, made.headers) == (1, b"value", {}, [[]])
    assert (keys(made), values(made)) == ([None], [b"value"])
    assert told({}, b"")[0].constant == SHARED | ALONE


@pytest.mark.parametrize(
    ("metadata", "schema_id"),
    [
        ({"schema_version": (-1).to_bytes(8, "big", signed=True)}, "-1"),
        ({"schema_version": b"", "schema_id": b"\x00\x07"}, "0007"),
        ({"schema_version": b"\x01" * 7, "schema_id": b"\x02"}, "01010101010101"),
        ({"schema_id": (9).to_bytes(8, "big")}, "9"),
        ({"schema_version": "text"}, None),
        ({}, None),
    ],
)
def test_a_schema_is_told_by_the_number_of_its_version_or_by_its_bytes(metadata, schema_id):
    assert told(metadata, b"v")[0].constant["schema_id"] == schema_id


def test_messages_of_a_batch_have_every_column_of_theirs():
    slots = [
        (b"a", {"event_time": 9, "sequence_id": (1 << 64) - 1, "partition_key": "k1"}),
        (b"", {"null_value": True, "properties": [{"key": "x", "value": "y"}]}),
    ]
    plain = batch(*slots)
    sizes = [len(encoded("SingleMessageMetadata", payload_size=len(value), **fields)) for value, fields in slots]
    made, problems = told({"num_messages_in_batch": 2, "sequence_id": 77}, plain)
    assert problems == []
    assert made.constant == SHARED
    assert {name: list(column) for name, column in made.columns.items()} == {
        "record_index": [0, 1],
        "record_ts": [9 * MS, 1_700_000_000_000 * MS],
        "event_ts": [9 * MS, None],
        "sequence": [-1, None],
        "slot_metadata_size": sizes,
    }
    assert (made.count, made.data) == (2, plain + b"k1")
    assert (keys(made), values(made), list(made.headers)) == ([b"k1", None], [b"a", None], [[], [("x", b"y")]])


@pytest.mark.parametrize(
    ("metadata", "packed", "problem"),
    [
        (
            {"compression": 9},
            b"sealed bytes",
            Problem("codec", "error", "compressed by an unknown codec", "metadata.compression"),
        ),
        (
            {"compression": "LZ4"},
            b"sealed bytes",
            Problem("codec", "error", "uncompressed_size is missing", "metadata.uncompressed_size"),
        ),
        (
            {"compression": "LZ4", "uncompressed_size": LIMITS.decompress_max + 1},
            b"sealed bytes",
            Problem("limit", "error", "uncompressed_size is over decompress_max", "payload"),
        ),
        (
            {"compression": "ZLIB", "uncompressed_size": 4},
            zlib.compress(b"four."),
            Problem("codec", "error", "", "payload"),
        ),
        (
            {"compression": "ZLIB", "uncompressed_size": 9},
            unfinished(b"four"),
            Problem("codec", "error", OTHER_SIZE, "payload"),
        ),
    ],
)
def test_what_cannot_be_opened_says_why(metadata, packed, problem):
    made, problems = told(metadata, packed)
    problem.detail = problem.detail or problems[0].detail
    assert problems == [problem]
    codec = metadata["compression"]
    assert made.constant == SHARED | {
        "value_size": len(packed),
        "codec": codec.lower() if isinstance(codec, str) else "unknown(9)",
    }
    assert (made.count, made.data, made.columns, made.keys, made.values) == (1, b"", {}, None, None)


def test_a_plain_payload_of_another_size_says_so():
    odd = Problem("codec", "warning", OTHER_SIZE, "metadata.uncompressed_size")
    assert told({"uncompressed_size": 3}, b"four")[1] == [odd]
    assert told({"uncompressed_size": 3, "chunk_id": 0}, b"four")[1] == []


def test_a_payload_may_become_as_much_as_its_limits_allow_and_no_byte_more():
    for most, opens in ((1_000, True), (999, False)):
        limits = Limits(decompress_max=most)
        metadata = {"compression": "ZLIB", "uncompressed_size": 1_000}
        made, problems = told(metadata, zlib.compress(bytes(1_000)), budget=InflationBudget(limits))
        assert (made.values is not None, [problem.kind for problem in problems]) == (opens, [] if opens else ["limit"])
    for spent, opens in ((0, True), (1, False)):
        packed = zlib.compress(bytes(64 * KIB))
        limits = Limits(inflate_ratio=1, inflate_start=64 * KIB, inflate_free=64 * KIB)
        budget = InflationBudget(limits)
        budget.spend(len(packed) + spent)
        _, problems = told({"compression": "ZLIB", "uncompressed_size": 64 * KIB}, packed, budget=budget)
        assert problems == ([] if opens else [Problem("limit", "error", PLAIN_SPENT, "payload")])
        assert budget.plain_left == (0 if opens else 64 * KIB - 1)


def test_records_count_against_what_a_connection_may_make():
    limits = Limits(records_free=2, records_start=2, record_cost=1 << 20)
    plain = batch((b"a", {}), (b"b", {}), (b"c", {}))
    budget = InflationBudget(limits)
    made, problems = told({"num_messages_in_batch": 3}, plain, budget=budget)
    left = len(plain) - len(batch((b"a", {}), (b"b", {})))
    assert (made.count, budget.records_left) == (2, 0)
    assert problems == [Problem("limit", "error", RECORDS_SPENT, "payload", size=left)]
    _, problems = told({}, b"alone", budget=budget)
    assert (problems, budget.records_left) == ([], 0)


@pytest.mark.parametrize("checksum_ok", [True, False, None])
def test_the_record_of_joined_chunks_is_that_of_the_whole_message(checksum_ok):
    problems = []
    metadata = PUBLISHED | {
        "chunk_id": 2,
        "num_chunks_from_msg": 3,
        "compression": "ZLIB",
        "uncompressed_size": len(PLAIN),
    }
    joined = JoinedChunks(zlib.compress(PLAIN), checksum_ok)
    made = joined_batch(metadata, joined, InflationBudget(LIMITS), problems)
    assert (values(made), problems, metadata["chunk_id"]) == ([PLAIN], [], 2)
    assert made.constant == SHARED | ALONE | {
        "codec": "zlib",
        "chunk_count": 3,
        "joined": True,
        "checksum_ok": checksum_ok,
        "batch_index": 1,
    }


def test_problems_of_a_payload_are_noted_up_to_their_limit_of_which_the_last_one_says_so():
    bad = len(b"\x2d\0\0\0\0\x18\0").to_bytes(4, "big") + b"\x2d\0\0\0\0\x18\0"
    for count, more in ((3, False), (4, True), (5, True)):
        budget = InflationBudget(Limits(message_problems_max=4))
        _, problems = told({"num_messages_in_batch": count}, bad * count, budget=budget)
        limit = Problem("limit", "warning", "more problems in this message than are noted")
        assert problems[3:] == [limit] * more
        assert [problem.path.split(".")[0] for problem in problems[:3]] == [f"payload[{at}]" for at in range(3)]


def test_the_id_of_an_entry_is_that_of_its_record_or_stands_before_the_indexes_of_several():
    alone, _ = told({}, b"v")
    place(alone, "7:1:-1")
    assert (alone.constant["message_id"], alone.columns) == ("7:1:-1", {})
    several, _ = told({"num_messages_in_batch": 2}, batch((b"a", {}), (b"b", {})))
    place(several, "7:1:-1")
    assert several.columns["message_id"] == ["7:1:-1:0", "7:1:-1:1"]
    assert "message_id" not in several.constant


@pytest.mark.parametrize(
    ("number", "meant"),
    [(None, None), (0, 0), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, -(1 << 63)), ((1 << 64) - 1, -1)],
)
def test_a_number_of_64_bits_is_that_of_java(number, meant):
    assert signed(number) == meant


@pytest.mark.parametrize("indexes", [[4], [4, 9, 11]])
def test_indexes_of_another_count_than_the_slots_are_not_believed(indexes):
    made, _ = told({"num_messages_in_batch": 2, "compacted_batch_indexes": indexes}, batch((b"a", {}), (b"b", {})))
    assert list(made.columns["record_index"]) == [0, 1]
