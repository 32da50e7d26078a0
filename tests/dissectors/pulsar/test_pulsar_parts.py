"""The small parts: schemas, principals, ack sets, chunks, handles, deliveries."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.limits import Limits
from mqsniff.model import Frame, Problem, Side
from mqsniff_pulsar import acksets
from mqsniff_pulsar.chunks import CHUNK_COST, Chunks, Piece
from mqsniff_pulsar.handles import Consumer, Delivery, Handles, Producer, name_of, partition_of
from mqsniff_pulsar.schemas import open_schema
from mqsniff_pulsar.session import principal_of

LIMITS = Limits()

# ---- schemas

AVRO = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


def opened(kind, data, **properties):
    schema = {"name": "s", "schema_data": data, "type": kind}
    schema["properties"] = [{"key": key, "value": value} for key, value in properties.items()]
    problems = open_schema(schema, LIMITS)
    return schema["schema_data"], [(problem.kind, problem.path) for problem in problems]


def sized(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


OPENED = [
    ("Avro", json.dumps(AVRO).encode(), {}, AVRO),
    ("Json", b'"string"', {}, "string"),
    ("Protobuf", b"[1]", {}, [1]),
    ("Json", b"", {}, b""),
    ("String", b"free text", {}, b"free text"),
    ("AutoConsume", b"{", {}, b"{"),
    (
        "KeyValue",
        sized(b'"int"', b"raw"),
        {"key.schema.type": "AVRO", "value.schema.type": "STRING"},
        {"key": "int", "value": b"raw"},
    ),
    ("KeyValue", sized(b"", b""), {}, {"key": b"", "value": b""}),
]


@pytest.mark.parametrize(("kind", "data", "properties", "expected"), OPENED)
def test_a_definition_becomes_what_its_type_says(kind, data, properties, expected):
    assert opened(kind, data, **properties) == (expected, [])


def native(files: bytes) -> bytes:
    told = {"fileDescriptorSet": b64encode(files).decode(), "rootMessageTypeName": "a.M"}
    return json.dumps(told).encode()


def test_protobuf_descriptors_are_decoded():
    files = descriptor_pb2.FileDescriptorSet()
    files.file.add(name="a.proto", package="a").message_type.add(name="M")
    value, problems = opened("ProtobufNative", native(files.SerializeToString()))
    expected = {"file": [{"name": "a.proto", "package": "a", "message_type": [{"name": "M"}]}]}
    assert (value["fileDescriptorSet"], value["rootMessageTypeName"], problems) == (expected, "a.M", [])


UNREADABLE = [
    ("Avro", b"{"),
    ("Json", b"[" * 100 + b"]" * 100),
    ("Json", b" " * (1 << 20) + b"1"),
    ("ProtobufNative", b"{}"),
    ("ProtobufNative", b'{"fileDescriptorSet": "a"}'),
    ("ProtobufNative", native(b"\xff")),
    ("KeyValue", b"\x00\x00"),
    ("KeyValue", sized(b"a")),
    ("KeyValue", sized(b"a", b"b") + b"c"),
    ("KeyValue", b"\xff\xff\xff\xff"),
]


@pytest.mark.parametrize(("kind", "data"), UNREADABLE)
def test_a_definition_that_cannot_be_read_stays_bytes(kind, data):
    assert opened(kind, data) == (data, [("format", "schema.schema_data")])


def test_a_pair_inside_a_pair_is_not_followed():
    data = sized(sized(b"", b""), b"")
    assert opened("KeyValue", data, **{"key.schema.type": "KEY_VALUE"})[1] == [("format", "schema.schema_data")]


# ---- who logs in


def token(claims: bytes) -> bytes:
    return b".".join((b"e30", urlsafe_b64encode(claims).rstrip(b"="), b"signature"))


PRINCIPALS = [
    ("token", token(b'{"sub": "reader", "exp": 1}'), "reader"),
    ("token", token(b'{"sub": 5}'), None),
    ("token", token(b"[]"), None),
    ("token", token(b"not json"), None),
    ("token", b"a.b", None),
    ("token", b"a.!.c", None),
    ("token", b"a" * 70_000 + b".e30.", None),
    ("basic", b"ann:secret:word", "ann"),
    ("basic", b"no colon", None),
    ("sasl", b"whatever", None),
]


@pytest.mark.parametrize(("method", "data", "user"), PRINCIPALS)
def test_the_principal_is_told_where_it_can_be(method, data, user):
    assert principal_of(method, data) == user


# ---- ack sets


@settings(max_examples=50)
@given(found=st.sets(st.integers(0, 300)))
def test_ack_sets_are_java_bit_sets(found):
    words = [0] * (max(found, default=-1) // 64 + 1)
    for index in found:
        words[index // 64] |= 1 << index % 64
    signed = [word - (1 << 64) if word >> 63 else word for word in words]
    assert acksets.indexes(signed) == sorted(found)
    assert acksets.bits(signed) == sum(1 << index for index in found)


# ---- chunks


def chunk(number, count=3, uuid="u", **more):
    return {"uuid": uuid, "chunk_id": number, "num_chunks_from_msg": count} | more


def piece(metadata, data=b"0123456789", *, checksum_ok=True, at=0):
    told = data if data is not None else bytes(10)
    frame = Frame(Side.CLIENT, at, 100, b"", 5, 6, 7, 8, 9)
    return Piece(metadata, len(told), data, checksum_ok, frame)


def followed(metadatas, limits=LIMITS, *, keeps=True):
    """(kinds of what was noted, whole messages) of chunks that passed."""
    chunks = Chunks(limits, keeps=keeps)
    found = [chunks.add(1, piece(metadata, b"%10d" % n)) for n, metadata in enumerate(metadatas)]
    noted = [one.problem.kind for one in found if one.problem is not None]
    return noted, [one.joined.data.split() for one in found if one.joined is not None], chunks


SEALED = {"encryption_keys": [1]}
CHUNKED = [
    ("in order", [chunk(0), chunk(1), chunk(2)], [], [b"0 1 2"]),
    (
        "two messages in turns",
        [chunk(0), chunk(0, uuid="v"), chunk(1), chunk(1, uuid="v"), chunk(2), chunk(2, uuid="v")],
        [],
        [b"0 2 4", b"1 3 5"],
    ),
    ("one again", [chunk(0), chunk(1), chunk(1), chunk(2)], [], [b"0 1 3"]),
    ("all again", [chunk(0), chunk(1), chunk(0), chunk(1), chunk(2)], [], [b"2 3 4"]),
    ("the whole message again", [chunk(0, 2), chunk(1, 2), chunk(0, 2), chunk(1, 2)], [], [b"0 1", b"2 3"]),
    ("a message of one chunk", [chunk(0, 1)], [], [b"0"]),
    ("one missing", [chunk(0), chunk(2)], ["unmatched"], []),
    (
        "one missing and more after it",
        [chunk(0, 4, total_chunk_msg_size=40), chunk(2, 4), chunk(3, 4)],
        ["unmatched"],
        [],
    ),
    ("the first ones before the capture", [chunk(1), chunk(2, total_chunk_msg_size=30)], ["unmatched"], []),
    ("no uuid", [chunk(0, uuid=None)], ["missing_field"], []),
    ("beyond the count", [chunk(3)], ["out_of_range"], []),
    ("the told size", [chunk(n, total_chunk_msg_size=30) for n in range(3)], [], [b"0 1 2"]),
    ("another size", [chunk(n, total_chunk_msg_size=31) for n in range(3)], ["out_of_range"], [b"0 1 2"]),
    ("encrypted ones", [chunk(n, total_chunk_msg_size=27, **SEALED) for n in range(3)], ["undecoded"], []),
    ("more than may wait", [chunk(n, total_chunk_msg_size=1 << 30) for n in range(2)], ["limit"], []),
]


@pytest.mark.parametrize(("sent", "noted", "whole"), [case[1:] for case in CHUNKED], ids=[case[0] for case in CHUNKED])
def test_chunks_are_accounted_for_and_joined(sent, noted, whole):
    assert followed(sent)[:2] == (noted, [one.split() for one in whole])


def test_where_nobody_wants_records_no_chunk_waits():
    noted, whole, chunks = followed([chunk(0), chunk(1), chunk(0, uuid="v", **SEALED)], keeps=False)
    assert (noted, whole, chunks._waiting) == ([], [], 0)


def test_a_chunk_that_is_not_whole_is_not_joined():
    chunks = Chunks(LIMITS, keeps=True)
    found = [chunks.add(1, piece(chunk(n), None if n == 1 else b"x")) for n in range(3)]
    assert [one.problem and one.problem.kind for one in found] == [None, "truncated", None]
    assert [one.joined for one in found] == [None] * 3


@pytest.mark.parametrize(
    ("checks", "expected"), [((True, True), True), ((True, None), None), ((None, False), False), ((False, True), False)]
)
def test_checksums_of_all_chunks_are_that_of_the_message(checks, expected):
    chunks = Chunks(LIMITS, keeps=True)
    found = [chunks.add(1, piece(chunk(n, 2), checksum_ok=ok)) for n, ok in enumerate(checks)]
    assert found[-1].joined.checksum_ok is expected


def test_the_message_that_waited_longest_makes_room():
    limits = Limits(chunks_wait_size=3 * (10 + CHUNK_COST))
    chunks = Chunks(limits, keeps=True)
    for uuid in "abc":
        assert chunks.add(1, piece(chunk(0, uuid=uuid))).problem is None
    assert chunks.add(1, piece(chunk(0, uuid="d"))).problem is None
    assert chunks._waiting == limits.chunks_wait_size
    assert chunks.add(1, piece(chunk(1, uuid="a"))).problem.kind == "limit"
    assert chunks.add(1, piece(chunk(2, uuid="a"))) == (None, None)
    assert chunks.add(1, piece(chunk(1, uuid="c"))).problem is None  # b had to go for it
    assert chunks.add(1, piece(chunk(2, uuid="c"))).joined.data == b"0123456789" * 3
    assert [problem.kind for problem in chunks.unfinished()] == ["unmatched", "limit"]


def test_chunks_of_many_messages_are_followed_up_to_a_limit():
    chunks = Chunks(Limits(handles_max=10), keeps=True)
    for number in range(50):
        assert chunks.add(1, piece(chunk(0, uuid=str(number)))).problem is None
    assert len(chunks._seen) == len(chunks._kept) == 10
    assert chunks._waiting == 10 * (10 + CHUNK_COST)
    assert chunks.add(1, piece(chunk(1, uuid="49"))).problem is None
    assert chunks.add(1, piece(chunk(1, uuid="3"))).problem.kind == "unmatched"


def test_messages_that_never_end_are_told_where_they_stopped():
    chunks = Chunks(Limits(message_problems_max=2), keeps=True)
    for number in range(4):
        chunks.add(1, piece(chunk(0, uuid=str(number)), at=number))
    chunks.add(1, piece(chunk(1, uuid="after a hole"), at=9))
    found = [(problem.kind, problem.severity, problem.offset) for problem in chunks.unfinished()]
    assert found == [("unmatched", "info", 0), ("unmatched", "info", 1), ("limit", "info", None)]
    assert list(chunks.unfinished()) == []


def problem_of(sent, **fields):
    """The problem of the last of some chunks of a message, in whole."""
    chunks = Chunks(LIMITS, keeps=True)
    return [chunks.add(1, piece(metadata, **fields)).problem for metadata in sent][-1]


NOT_JOINED = [
    ([chunk(0, uuid=None)], {}, Problem("missing_field", "warning", "a chunk without uuid or count", "metadata")),
    ([chunk(0, uuid="u" * 4096)], {}, None),
    (
        [chunk(0, uuid="u" * 4097)],
        {},
        Problem("missing_field", "warning", "a chunk without uuid or count", "metadata"),
    ),
    (
        [chunk(0, count=None)],
        {},
        Problem("missing_field", "warning", "a chunk without uuid or count", "metadata"),
    ),
    ([chunk(2)], {}, Problem("unmatched", "info", "the first chunks of the message were not seen: it is not joined",
                             "metadata.chunk_id")),
    ([chunk(-1)], {}, Problem("out_of_range", "warning", "a chunk beyond the count of chunks", "metadata.chunk_id")),
    ([chunk(3)], {}, Problem("out_of_range", "warning", "a chunk beyond the count of chunks", "metadata.chunk_id")),
    (
        [chunk(0, 5), chunk(3, 5)],
        {},
        Problem("unmatched", "warning", "2 chunks are missing before this one: it is not joined", "metadata.chunk_id"),
    ),
    (
        [chunk(0, **SEALED)],
        {},
        Problem("undecoded", "info", "the chunks are encrypted: the message is not joined", "payload"),
    ),
    (
        [chunk(0)],
        {"data": None},
        Problem("truncated", "info", "the chunk is not whole: its message is not joined", "payload"),
    ),
    (
        [chunk(0, total_chunk_msg_size=LIMITS.chunks_wait_size + 1)],
        {},
        Problem(
            *("limit", "warning", "chunks of more than chunks_wait_size bytes would wait: the message is not joined"),
            "payload",
        ),
    ),
    ([chunk(0, total_chunk_msg_size=LIMITS.chunks_wait_size)], {}, None),
    (
        [chunk(0, 1, total_chunk_msg_size=9)],
        {},
        Problem("out_of_range", "warning", "the chunks together are not total_chunk_msg_size", "metadata"),
    ),
    ([chunk(0, 1, total_chunk_msg_size=10)], {}, None),
    ([chunk(0, 2), chunk(1, 2)], {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "fields", "problem"), NOT_JOINED)
def test_why_a_message_is_not_joined_is_told_in_whole(sent, fields, problem):
    assert problem_of(sent, **fields) == problem


def test_chunks_of_one_producer_are_no_others():
    chunks = Chunks(LIMITS, keeps=True)
    for owner in (1, 2):
        assert chunks.add(owner, piece(chunk(0, 2), b"of %d, " % owner)) == (None, None)
    assert [chunks.add(owner, piece(chunk(1, 2), b"whole")).joined.data for owner in (1, 2)] == [
        b"of 1, whole",
        b"of 2, whole",
    ]
    assert chunks.state_size == 0


def test_a_message_that_never_ended_is_told_at_the_place_of_its_latest_chunk():
    chunks = Chunks(LIMITS, keeps=True)
    chunks.add(1, piece(chunk(0), at=10))
    chunks.add(1, piece(chunk(1), at=20))
    assert chunks.state_size == 2 * (10 + CHUNK_COST)
    detail = "the last chunks of the message were not seen: it is not joined"
    assert list(chunks.unfinished()) == [
        Problem("unmatched", "info", detail, "metadata.chunk_id", Side.CLIENT, 20, ts_ns=5, packet=7)
    ]
    assert chunks.state_size == 0


def test_of_many_messages_that_never_ended_the_rest_is_counted():
    chunks = Chunks(Limits(message_problems_max=2), keeps=False)
    for number in range(4):
        chunks.add(1, piece(chunk(0, uuid=str(number)), at=number))
    *_, rest = chunks.unfinished()
    detail = "2 more messages whose last chunks were not seen"
    assert rest == Problem("limit", "info", detail, "metadata.chunk_id", Side.CLIENT)


def test_a_message_that_had_to_make_room_says_so_once():
    chunks = Chunks(Limits(chunks_wait_size=2 * (10 + CHUNK_COST)), keeps=True)
    for uuid in "abc":
        chunks.add(1, piece(chunk(0, uuid=uuid)))
    detail = "chunks of more than chunks_wait_size bytes would wait: the message is not joined"
    told = Problem("limit", "warning", detail, "payload")
    assert [chunks.add(1, piece(chunk(number, uuid="a"))) for number in (1, 2)] == [(told, None), (None, None)]
    assert [problem.kind for problem in chunks.unfinished()] == ["unmatched", "unmatched"]


def test_a_message_that_would_take_all_room_by_its_chunks_is_not_kept():
    limits = Limits(chunks_wait_size=2 * (10 + CHUNK_COST))
    chunks = Chunks(limits, keeps=True)
    assert [chunks.add(1, piece(chunk(number, 4))).problem is None for number in range(3)] == [True, True, False]
    assert chunks.state_size == 0


# ---- handles and deliveries


def test_a_number_means_what_was_opened_last():
    handles = Handles(Producer, 10)
    handles.open(1, Producer("a"))
    handles.open(1, Producer("b"))
    assert handles.get(1, Side.CLIENT) == (Producer("b"), False)


def test_the_first_use_by_each_side_of_what_was_not_seen_opening_is_news():
    handles = Handles(Producer, 10)
    seen = [handles.get(1, side)[1] for side in (Side.CLIENT, Side.CLIENT, Side.SERVER, Side.SERVER)]
    assert seen == [True, False, True, False]


def test_handles_are_limited():
    handles = Handles(Producer, 10)
    for number in range(100):
        handles.get(number, Side.CLIENT)
    assert len(handles._known) == len(handles._missed) == 10


PARTITIONS = [
    ("t-partition-12", 12),
    ("t", None),
    (None, None),
    ("t-partition-", None),
    ("t-partition-" + "9" * 30, None),
]


@pytest.mark.parametrize(("topic", "partition"), PARTITIONS)
def test_a_partition_is_told_by_the_name_of_its_topic(topic, partition):
    assert partition_of(topic) == partition


def test_names_are_remembered_up_to_a_length():
    assert (name_of("a"), name_of("a" * 5000), name_of(b"\xff"), name_of(None)) == ("a", None, r"\xff", None)


ENTRIES = st.tuples(st.integers(0, 3), st.integers(0, 9))
SETTLED = [
    (5, None, [None], [5], 0),
    (5, None, [0b11110, 0b11100, 0], [1, 1, 3], 0),
    (5, 0b10110, [0b00010], [2], 1),
    (1, None, [None, None], [1, 0], 0),
    (1 << 20, None, [0b1], [1 << 20], 0),
    (-3, None, [None], [1], 0),
]


@pytest.mark.parametrize(("count", "wanted", "rests", "settled", "left"), SETTLED)
def test_a_batch_is_settled_bit_by_bit(count, wanted, rests, settled, left):
    delivery = Delivery.of(count, wanted)
    assert [delivery.settle(rest) for rest in rests] == settled
    assert delivery.left == left


@settings(max_examples=50)
@given(entries=st.lists(ENTRIES, unique=True), upto=ENTRIES)
def test_a_cumulative_acknowledgement_reaches_all_entries_before_it(entries, upto):
    consumer = Consumer()
    for entry in entries:
        consumer.take(entry, 1, 100)
    assert consumer.upto(upto) == sorted(entry for entry in entries if entry <= upto)


def test_in_flight_follows_what_the_consumer_holds():
    consumer = Consumer()
    consumer.take((7, 1), 5, 100)
    consumer.release((7, 1), 2, last=False)
    consumer.release((9, 9), 4, last=True)
    assert (consumer.in_flight, consumer.unsettled) == (3, [(7, 1)])
    consumer.release((7, 1), 3, last=True)
    assert (consumer.in_flight, consumer.unsettled) == (0, [])
