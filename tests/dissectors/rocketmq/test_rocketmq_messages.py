"""Stored messages, batches, and the records that they become."""

from __future__ import annotations

import struct
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from remotingcraft import BORN, UNIQUE, batch_message, properties, stored

from mqsniff.codecs.inflation import RECORDS_SPENT, InflationBudget
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import KIB, Limits
from mqsniff.model import Undecoded
from mqsniff_rocketmq.messages import Data, read_messages
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.records import complete, deliver_at_ns, property_span, time_ns
from mqsniff_rocketmq.stored import host_text, read_batch, read_stored

quick = settings(max_examples=50, deadline=None)
MS = 1_000_000


def read(
    kind: str, raw: bytes, ext: dict | None = None, *, size: int | None = None, records: str = "consumer", **limits: int
):
    run = Settings(Limits(**limits), wanted=WITH_RECORDS)
    notes = ProblemNotes(run.limits)
    data = Data(raw, size or len(raw), ext or {}, records)
    content = read_messages(kind, data, run, notes, InflationBudget(run.limits))
    return content, [(problem.kind, problem.path) for problem in notes.problems]


def rows(batch) -> list[dict]:
    """A record batch row by row, with keys, values and headers."""
    out = []
    for index in range(batch.count):
        row = dict(batch.constant) | {name: column[index] for name, column in batch.columns.items()}
        for name, spans in (("key", batch.keys), ("value", batch.values)):
            start, stop = spans[0][index], spans[1][index]
            row[name] = None if start < 0 else batch.data[start:stop]
        row["headers"] = batch.headers[index]
        out.append(row)
    return out


# ---- stored messages


def test_every_field_of_stored_messages_is_shown():
    text = properties(KEYS="k1 k2", TAGS="A", UNIQ_KEY=UNIQUE + "0001")
    raw = stored(b"hello", text, queue=3, offset=5, physical=6627, reconsumed=2) + stored(b"", topic="jobs")
    content, problems = read("stored-messages", raw)
    assert problems == []
    first, second = content.value["messages"]
    assert first == {
        "store_size": len(raw) - second["store_size"],
        "magic": -626843481,
        "body_crc": zlib.crc32(b"hello") & 0x7FFFFFFF,
        "queue_id": 3,
        "flag": 0,
        "queue_offset": 5,
        "physical_offset": 6627,
        "sys_flag": 0,
        "born_timestamp": BORN,
        "born_host": "10.1.2.3:50123",
        "store_timestamp": BORN + 23,
        "store_host": "10.1.2.4:10911",
        "reconsume_times": 2,
        "prepared_transaction_offset": 0,
        "topic": "orders",
        "properties": {"KEYS": "k1 k2", "TAGS": "A", "UNIQ_KEY": UNIQUE + "0001"},
        "body": {"size": 5, "codec": "none", "checksum_ok": True},
    }
    assert content.topics == ("orders", "jobs")
    assert content.value["size"] == len(raw)


def test_the_records_of_stored_messages():
    raw = stored(b"hello", properties(KEYS="k1", UNIQ_KEY=UNIQUE), queue=3, offset=5, physical=0x1234, reconsumed=2)
    content, _ = read("stored-messages", raw)
    (row,) = rows(content.records[0])
    assert row == {
        "direction": "deliver",
        "reader": "consumer",
        "topic": "orders",
        "partition": 3,
        "offset": 5,
        "message_id": "0A01020400002A9F0000000000001234",
        "record_ts": BORN * MS,
        "store_ts": (BORN + 23) * MS,
        "deliver_at_ts": None,
        "unique_key": UNIQUE,
        "codec": "none",
        "checksum_ok": True,
        "transactional": False,
        "aborted": None,
        "attempts": 3,
        "key": b"k1",
        "value": b"hello",
        "headers": [("KEYS", b"k1"), ("UNIQ_KEY", UNIQUE.encode())],
    }


V6 = "20010db8000000000000000000000001"


@pytest.mark.parametrize(
    ("born", "store", "born_text", "store_text"),
    [
        (V6, V6, "[2001:db8::1]:50123", "[2001:db8::1]:10911"),
        (V6, "10.1.2.4", "[2001:db8::1]:50123", "10.1.2.4:10911"),
        ("10.1.2.3", V6, "10.1.2.3:50123", "[2001:db8::1]:10911"),
    ],
)
def test_either_host_may_be_ipv6(born, store, born_text, store_text):
    content, problems = read("stored-message", stored(b"x", born=born, store=store, physical=7))
    (head,) = content.value["messages"]
    assert (head["born_host"], head["store_host"], problems) == (born_text, store_text, [])
    (row,) = rows(content.records[0])
    packed = V6.upper() if store == V6 else "0A010204"
    assert row["message_id"] == packed + "00002A9F" + "0000000000000007"


def test_a_topic_of_more_than_127_bytes_has_the_second_magic():
    content, problems = read("stored-messages", stored(b"x", topic="t" * 200))
    assert (content.value["messages"][0]["magic"], content.topics, problems) == (-626843477, ("t" * 200,), [])


def test_a_checksum_that_does_not_fit_is_an_error_and_none_is_none():
    content, problems = read("stored-messages", stored(b"a", crc=1) + stored(b"b", crc=0) + stored(b"c"))
    assert [row["checksum_ok"] for row in rows(content.records[0])] == [False, None, True]
    assert problems == [("checksum", "body.messages[0].body_crc")]


LARGE = b"The quick brown fox " * 300
CODECS = [
    (0x001, "zlib", zlib.compress(LARGE)),
    (0x301, "zlib", zlib.compress(LARGE)),
    (0x101, "lz4", lz4.frame.compress(LARGE)),
    (0x201, "zstd", zstandard.ZstdCompressor().compress(LARGE)),
]


@pytest.mark.parametrize(("flag", "codec", "packed"), CODECS)
def test_bodies_are_decompressed_by_their_flag(flag, codec, packed):
    raw = stored(b"plain") + stored(packed, sys_flag=flag) + stored(b"tail")
    content, problems = read("stored-messages", raw)
    assert problems == []
    assert [(row["codec"], row["value"]) for row in rows(content.records[0])] == [
        ("none", b"plain"),
        (codec, LARGE),
        ("none", b"tail"),
    ]
    assert content.value["messages"][1]["body"] == {"size": len(packed), "codec": codec, "checksum_ok": True}
    sent, problems = read("message", packed, {"sys_flag": flag, "topic": "t"}, records="produced")
    assert (rows(sent.records[0])[0]["value"], sent.value, problems) == (
        LARGE,
        {"size": len(packed), "codec": codec},
        [],
    )


@pytest.mark.parametrize(
    ("flag", "packed", "codec"),
    [
        (0x301, b"no zlib", "zlib"),
        (0x101, CODECS[2][2][:-9], "lz4"),
        (0x701, b"x", "unknown"),
        (0x301, zlib.compress(bytes(9000)), "zlib"),
    ],
)
def test_a_body_that_cannot_be_decompressed_stays_as_it_is(flag, packed, codec):
    content, problems = read("stored-messages", stored(packed, sys_flag=flag), decompress_max=8000)
    (row,) = rows(content.records[0])
    assert (row["value"], row["codec"], problems) == (packed, codec, [("codec", "body[0].body")])


def test_a_compression_type_without_a_name_is_an_error():
    limits = Limits()
    notes, budget = ProblemNotes(limits), InflationBudget(limits)
    raw = stored(b"x", sys_flag=0x701)
    read_messages(
        "stored-messages", Data(raw, len(raw), {}, "consumer"), Settings(limits, wanted=WITH_RECORDS), notes, budget
    )
    assert [(problem.severity, problem.detail) for problem in notes.problems] == [
        ("error", "a compression type without a name")
    ]


def test_all_bodies_of_a_frame_together_become_no_more_than_decompress_max():
    packed = zlib.compress(LARGE)
    content, problems = read("stored-messages", stored(packed, sys_flag=1) * 3, decompress_max=2 * len(LARGE) + 9)
    assert [row["value"] for row in rows(content.records[0])] == [LARGE, LARGE, packed]
    assert problems == [("codec", "body[2].body")]


def test_a_message_that_is_a_batch_inside_gives_its_inner_messages():
    inner = batch_message(b"one", properties(KEYS="a", UNIQ_KEY="1")) + batch_message(b"two", properties(TAGS="B"))
    outer = properties(INNER_NUM="2", UNIQ_KEY="outer")
    for flag, body in ((0xC0, inner), (0xC1, zlib.compress(inner))):
        content, problems = read("stored-messages", stored(body, outer, offset=40, sys_flag=flag))
        assert problems == []
        assert [(row["offset"], row["value"], row["key"], row["unique_key"]) for row in rows(content.records[0])] == [
            (40, b"one", b"a", "1"),
            (41, b"two", None, None),
        ]


def test_inner_messages_have_the_properties_of_their_own():
    inner = batch_message(b"one", properties(UNIQ_KEY="1")) + batch_message(b"two", properties(TAGS="B", KEYS="b"))
    content, _ = read("stored-messages", stored(inner, properties(UNIQ_KEY="outer", KEYS="outer"), sys_flag=0xC0))
    assert [(row["headers"], row["key"], row["unique_key"]) for row in rows(content.records[0])] == [
        ([("UNIQ_KEY", b"1")], None, "1"),
        ([("TAGS", b"B"), ("KEYS", b"b")], b"b", None),
    ]


@pytest.mark.parametrize("text", ["", properties(TAGS="A"), properties(TAGS="A", MYKEYS="x"), properties(KEYS_="x")])
def test_a_message_without_keys_has_no_key(text):
    (row,) = rows(read("stored-messages", stored(b"hello", text))[0].records[0])
    assert (row["key"], row["value"]) == (None, b"hello")
    (row,) = rows(read("message", batch_message(b"one", text), {"batch": True}, records="produced")[0].records[0])
    assert (row["key"], row["value"]) == (None, b"one")


def test_transactions_are_told_by_their_flag():
    flags = (0, 4, 8, 12)
    content, _ = read("stored-messages", b"".join(stored(b"x", sys_flag=flag) for flag in flags))
    assert [(row["transactional"], row["aborted"]) for row in rows(content.records[0])] == [
        (False, None),
        (True, False),
        (True, False),
        (True, True),
    ]


def test_times_that_nobody_can_mean_are_none():
    assert time_ns(BORN) == BORN * MS
    assert time_ns(1 << 62) is None
    assert time_ns("soon") is None
    assert time_ns(True) is None


@pytest.mark.parametrize("sign", [1, -1])
def test_times_are_those_that_fit_a_column_of_nanoseconds(sign):
    last = 9_223_372_036_854  # whole milliseconds, in nanoseconds below 2**63
    assert time_ns(sign * last) == sign * last * MS
    assert time_ns(sign * (last + 1)) is None


@pytest.mark.parametrize(
    ("named", "at"),
    [
        ({"TIMER_DELIVER_MS": "1795255556001"}, 1795255556001),
        ({"__STARTDELIVERTIME": "1795255556001"}, 1795255556001),
        ({"TIMER_DELAY_SEC": "2"}, BORN + 2000),
        ({"TIMER_DELAY_MS": "300"}, BORN + 300),
        ({"TIMER_OUT_MS": "1795255556001", "TIMER_DELAY_MS": "300"}, 1795255556001),
        ({"DELAY": "3"}, None),
        ({"TIMER_DELAY_SEC": "soon"}, None),
        ({"TIMER_DELIVER_MS": "9" * 30}, None),
    ],
)
def test_when_a_timer_message_is_due(named, at):
    assert deliver_at_ns(named, BORN) == (None if at is None else at * MS)


# ---- damage


def test_what_is_no_message_is_kept_undecoded():
    good = stored(b"one")
    for bad in (
        b"rubbish" * 20,
        stored(b"two")[:-1] + b"",
        b"\0" * 100,
        struct.pack(">iI", 90, 0xDAA320A7) + b"\xff" * 200,
    ):
        content, problems = read("stored-messages", good + bad)
        assert len(content.value["messages"]) == content.count == 1
        assert content.value["undecoded"] == Undecoded(bad)
        assert problems == [("malformed", "body.messages[1]")]


@pytest.mark.parametrize("at", [0, 4, 36, 84, 88 + 5, 88 + 6, 88 + 5 + 1 + 6])
def test_lying_lengths_are_no_message(at):
    raw = bytearray(stored(b"hello", "A\x01b\x02"))
    for lie in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\1"):
        broken = bytes(raw[:at] + lie + raw[at + 4 :])
        content, _ = read("stored-messages", broken[: len(raw)])
        assert content.count in (0, 1)
        assert len(content.value["messages"]) == content.count


def test_filler_of_a_commit_log_is_passed_over():
    blank = struct.pack(">iI", 108, 0xCBD43194) + bytes(100)
    content, problems = read("stored-messages", stored(b"one") + blank + stored(b"two"))
    assert (content.count, problems) == (2, [("format", "body.messages")])


def test_of_data_that_was_cut_the_whole_messages_are_given():
    raw = stored(b"one") + stored(b"two")
    content, problems = read("stored-messages", raw[:-5], size=len(raw))
    assert (content.count, content.size, problems, "undecoded" in content.value) == (1, len(raw), [], False)
    batch = batch_message(b"one") + batch_message(b"two")
    content, problems = read("message-batch", batch[:-1], size=len(batch))
    assert (content.count, problems) == (1, [])


def test_of_a_single_message_that_was_cut_the_part_is_given_with_its_whole_size():
    content, problems = read("message", b"hel", {"topic": "t"}, size=5, records="produced")
    (row,) = rows(content.records[0])
    assert (row["value"], row["value_size"], content.value, problems) == (b"hel", 5, {"size": 5, "codec": "none"}, [])
    content, problems = read("message", zlib.compress(LARGE)[:9], {"sys_flag": 1}, size=90, records="produced")
    assert (rows(content.records[0])[0]["codec"], problems) == ("zlib", [])


def test_messages_take_of_the_room_for_values():
    notes = ProblemNotes(Limits(elements_max=100))
    with pytest.raises(ValueError, match="elements_max"):
        read_stored(stored(b"") * 10, notes, "")
    with pytest.raises(ValueError, match="elements_max"):
        read_batch(batch_message(b"") * 10, ProblemNotes(Limits(elements_max=100)), "")


@quick
@given(st.binary(max_size=200), st.lists(st.binary(max_size=30), max_size=4))
def test_runs_tile_what_they_read(noise, bodies):
    notes = ProblemNotes(Limits())
    raw = b"".join(stored(body) for body in bodies)
    messages, stop = read_stored(raw + noise, notes, "")
    assert [m.body_size for m in messages][: len(bodies)] == [len(body) for body in bodies]
    assert sum(m.store_size for m in messages) <= stop <= len(raw + noise)
    raw = b"".join(batch_message(body) for body in bodies)
    batched, stop = read_batch(raw + noise, notes, "")
    assert sum(m.total_size for m in batched) == stop
    assert [m.body_size for m in batched][: len(bodies)] == [len(body) for body in bodies]


# ---- produced


def test_a_produced_record_waits_for_what_the_response_tells():
    ext = {"topic": "orders", "queue_id": -1, "sys_flag": 0, "born_timestamp": BORN}
    ext["properties"] = {"KEYS": "k1", "UNIQ_KEY": UNIQUE, "TRAN_MSG": "true"}
    content, _ = read("message", b"hello", ext, records="produced")
    batch = content.records[0]
    (row,) = rows(batch)
    assert (row["direction"], row["partition"], row["key"], row["value"]) == ("produce", -1, b"k1", b"hello")
    assert {"offset", "message_id", "reader", "attempts"}.isdisjoint(row)
    complete(batch, {"queue_id": 2, "queue_offset": 7, "msg_id": "0A01"})
    (row,) = rows(batch)
    assert (row["partition"], row["offset"], row["message_id"]) == (2, 7, "0A01")


def test_the_messages_of_a_batch_have_offsets_in_a_row_and_ids_of_their_own():
    raw = batch_message(b"one", properties(KEYS="a", UNIQ_KEY="1")) + batch_message(b"two", properties(UNIQ_KEY="2"))
    content, problems = read("message", raw, {"topic": "t", "queue_id": 1, "batch": True}, records="produced")
    batch = content.records[0]
    assert (content.count, problems) == (2, [])
    complete(batch, {"queue_offset": 8, "msg_id": "0A01,0A02"})
    assert [(row["offset"], row["message_id"], row["unique_key"], row["key"], row["value"]) for row in rows(batch)] == [
        (8, "0A01", "1", b"a", b"one"),
        (9, "0A02", "2", None, b"two"),
    ]


@pytest.mark.parametrize("told", [{}, {"msg_id": "A,B,C"}, {"msg_id": ""}, {"queue_offset": "many", "queue_id": None}])
def test_a_response_that_tells_less_fills_in_less(told):
    raw = batch_message(b"one") + batch_message(b"two")
    content, _ = read("message-batch", raw, {"queue_id": 1}, records="produced")
    complete(content.records[0], told)
    assert all(row.get("message_id") is None and "offset" not in row for row in rows(content.records[0]))


def test_one_id_for_a_batch_is_that_of_all_its_messages():
    content, _ = read(
        "message-batch", batch_message(b"one") + batch_message(b"two"), {"queue_id": 1}, records="produced"
    )
    complete(content.records[0], {"msg_id": "A"})
    assert [row["message_id"] for row in rows(content.records[0])] == ["A", "A"]


def test_a_batch_without_messages_has_no_id():
    content, _ = read("message-batch", b"", {"queue_id": 1}, records="produced")
    for batch in content.records:
        complete(batch, {"msg_id": "A"})
        assert "message_id" not in batch.constant


def test_records_are_made_only_when_they_are_asked_for():
    notes = ProblemNotes(Limits())
    for kind, raw in (
        ("message", b"x"),
        ("message-batch", batch_message(b"x")),
        ("stored-messages", stored(b"x", crc=1)),
    ):
        content = read_messages(kind, Data(raw, len(raw), {}, "consumer"), Settings(), notes, InflationBudget(Limits()))
        assert (content.records, content.count) == ((), 1)
    assert [problem.kind for problem in notes.problems] == ["checksum"]


def test_a_property_is_found_where_its_name_starts_an_entry():
    text = b"XKEYS\x01no\x02KEYS\x01yes\x02A\x01KEYS\x02"
    start, stop = property_span(text, b"KEYS", 0, len(text))
    assert text[start:stop] == b"yes"
    assert property_span(text, b"Y", 0, len(text)) == (-1, -1)
    assert property_span(b"KEYS\x01open", b"KEYS", 0, 9) == (5, 9)


def test_a_host_is_shown_with_its_port():
    assert host_text(b"\x0a\x01\x02\x03", 80) == "10.1.2.3:80"
    assert host_text(bytes(15) + b"\1", 80) == "[::1]:80"


def test_bodies_of_a_connection_become_no_more_than_their_bytes_and_the_free_ones_allow():
    run = Settings(Limits(inflate_ratio=2, inflate_free=64 * KIB), wanted=WITH_RECORDS)
    budget, notes = InflationBudget(run.limits), ProblemNotes(run.limits)
    raw = stored(zlib.compress(bytes(50_000)), sys_flag=1)
    data = Data(raw, len(raw), {}, "consumer")
    read_four = [read_messages("stored-messages", data, run, notes, budget).records for _ in range(4)]
    assert [len(batch.data) for records in read_four for batch in records] == [len(raw) + 50_000] + [len(raw)] * 3
    assert [problem.kind for problem in notes.problems] == ["limit"] * 3


def test_messages_that_no_consumer_reads_have_another_reader():
    content, _ = read("stored-messages", stored(b"one"), records="replica")
    assert [row["reader"] for row in rows(content.records[0])] == ["replica"]
    content, _ = read("stored-messages", stored(b"one"), records="")
    assert [row["reader"] for row in rows(content.records[0])] == ["other"]


def test_the_smallest_message_has_neither_body_nor_topic_nor_properties():
    raw = stored(b"", topic="")
    content, problems = read("stored-messages", raw * 2)
    assert (len(content.value["messages"]), problems) == (2, [])
    assert [row["value"] for row in rows(content.records[0])] == [b"", b""]


def test_inner_messages_beyond_the_records_of_a_connection_are_told():
    run = Settings(Limits(records_free=2, record_cost=1 << 20), wanted=WITH_RECORDS)
    notes = ProblemNotes(run.limits)
    raw = stored(batch_message(b"one") * 3, sys_flag=0xC0)
    content = read_messages(
        "stored-messages", Data(raw, len(raw), {}, "consumer"), run, notes, InflationBudget(run.limits)
    )
    assert [row["value"] for row in rows(content.records[0])] == [b"one"] * 2
    assert [(problem.kind, problem.severity, problem.path) for problem in notes.problems] == [
        ("limit", "error", "body.inner")
    ]


# ---- whole records

SENT = {
    "direction": "produce",
    "topic": "orders",
    "partition": 2,
    "record_ts": BORN * MS,
    "deliver_at_ts": None,
    "unique_key": None,
    "transactional": False,
    "codec": "none",
}
"""Columns of a produced message with a topic, a queue and a time."""
EXT = {"topic": "orders", "queue_id": 2, "born_timestamp": BORN, "sys_flag": 0}


def test_a_produced_record_has_every_column_of_its_header():
    given = {"KEYS": "k1", "UNIQ_KEY": UNIQUE, "TIMER_DELAY_SEC": "2"}
    content, problems = read("message", b"hello", EXT | {"sys_flag": 4, "properties": given}, records="produced")
    (batch,) = content.records
    assert problems == []
    assert batch.constant == SENT | {
        "deliver_at_ts": (BORN + 2000) * MS,
        "unique_key": UNIQUE,
        "transactional": True,
    }
    assert (batch.columns, batch.count, batch.data) == ({}, 1, b"hellok1")
    assert (batch.keys, batch.values) == (([5], [7]), ([0], [5]))
    assert list(batch.headers) == [[(name, value.encode()) for name, value in given.items()]]
    content, _ = read("message", b"hello", EXT, records="produced")
    assert content.records[0].constant == SENT
    assert content.records[0].keys == ([-1], [-1])


@pytest.mark.parametrize("field", ["topic", "queue_id", "born_timestamp", "sys_flag", "properties"])
def test_a_field_of_a_header_that_has_another_type_is_left_out(field):
    content, problems = read("message", b"hello", EXT | {field: ["odd"]}, records="produced")
    columns = {"topic": "topic", "queue_id": "partition", "born_timestamp": "record_ts"}
    assert content.records[0].constant == SENT | ({columns[field]: None} if field in columns else {})
    assert problems == []


def test_the_messages_of_a_produced_batch_have_every_column_of_theirs():
    texts = properties(KEYS="a", UNIQ_KEY="1"), properties(TIMER_DELAY_MS="300")
    raw = batch_message(b"one", texts[0]) + batch_message(b"two", texts[1])
    content, problems = read("message", raw, EXT | {"batch": True, "sys_flag": 8}, records="produced")
    (batch,) = content.records
    constant = SENT | {"transactional": True}
    del constant["unique_key"], constant["deliver_at_ts"]
    assert problems == []
    assert {name: value for name, value in batch.constant.items() if name not in batch.columns} == constant
    assert batch.columns == {"unique_key": ["1", None], "deliver_at_ts": [None, (BORN + 300) * MS]}
    assert [(row["key"], row["value"]) for row in rows(batch)] == [(b"a", b"one"), (None, b"two")]
    assert batch.headers[0:2][1] == [("TIMER_DELAY_MS", b"300")]
    assert (len(batch.headers), len(batch.headers[1:])) == (2, 1)


@pytest.mark.parametrize(
    ("told", "constant", "columns"),
    [
        ({}, {}, {}),
        ({"queue_id": 0}, {"partition": 0}, {}),
        ({"queue_offset": 0}, {}, {"offset": [0, 1]}),
        ({"msg_id": "A,B"}, {}, {"message_id": ["A", "B"]}),
        ({"msg_id": "A"}, {"message_id": "A"}, {}),
        ({"msg_id": "A,B,C"}, {}, {}),
        ({"msg_id": 7, "queue_id": True, "queue_offset": True}, {}, {}),
    ],
)
def test_a_response_adds_what_it_tells_and_that_the_records_are_there(told, constant, columns):
    content, _ = read("message-batch", batch_message(b"one") + batch_message(b"two"), EXT, records="produced")
    (batch,) = content.records
    before = dict(batch.constant), dict(batch.columns)
    complete(batch, told)
    assert batch.constant == before[0] | {"ack": "acked"} | constant
    assert {name: list(column) for name, column in batch.columns.items()} == before[1] | columns


def test_inner_messages_share_all_but_what_is_their_own_with_the_message_around_them():
    inner = batch_message(b"one", properties(KEYS="a")) + batch_message(b"two")
    raw = stored(b"first") + stored(inner, properties(UNIQ_KEY="outer"), queue=3, offset=40, sys_flag=0xC0)
    first, one, two = rows(read("stored-messages", raw)[0].records[0])
    assert (first["value"], first["offset"]) == (b"first", 0)
    own = ("offset", "unique_key", "key", "value", "headers")
    assert {name: one[name] for name in own} == {
        "offset": 40,
        "unique_key": None,
        "key": b"a",
        "value": b"one",
        "headers": [("KEYS", b"a")],
    }
    assert {name: two[name] for name in own} == {
        "offset": 41,
        "unique_key": None,
        "key": None,
        "value": b"two",
        "headers": [],
    }
    shared = [{name: value for name, value in row.items() if name not in own} for row in (one, two)]
    assert shared[0] == shared[1]
    assert (shared[0]["partition"], shared[0]["attempts"], shared[0]["store_ts"]) == (3, 1, (BORN + 23) * MS)


@pytest.mark.parametrize(("records", "kept", "told"), [(3, 3, 0), (2, 2, 1), (1, 1, 1)])
def test_no_more_inner_messages_are_records_than_a_connection_may_make(records, kept, told):
    run = Settings(Limits(records_free=records, records_start=records, record_cost=1 << 20), wanted=WITH_RECORDS)
    notes, budget = ProblemNotes(run.limits), InflationBudget(run.limits)
    raw = stored(batch_message(b"x") * 3, sys_flag=0xC0)
    content = read_messages("stored-messages", Data(raw, len(raw), {}, "consumer"), run, notes, budget)
    assert content.records[0].count == kept
    assert [(problem.kind, problem.severity, problem.detail, problem.path) for problem in notes.problems] == [
        ("limit", "error", RECORDS_SPENT, "body.inner")
    ] * told
    assert budget.records_left == 0


def test_a_body_of_the_largest_size_is_opened_and_one_of_a_byte_more_is_not():
    packed = zlib.compress(bytes(64 * KIB))
    for most, opened in ((64 * KIB, True), (64 * KIB - 1, False)):
        content, problems = read("stored-messages", stored(packed, sys_flag=1), decompress_max=most)
        assert (rows(content.records[0])[0]["value"] != packed, problems == []) == (opened, opened)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        (b"KEYS\x01a\x02", b"a"),
        (b"KEYS\x01\x02", b""),
        (b"A\x01b\x02KEYS\x01a", b"a"),
        (b"A\x01b\x02KEYS\x01a\x02C\x01d", b"a"),
        (b"KEYS_\x01a\x02", None),
        (b"", None),
    ],
)
def test_a_property_is_the_text_behind_its_name(text, span):
    data = b"xx" + text + b"yy\x02KEYS\x01z"
    start, stop = property_span(data, b"KEYS", 2, 2 + len(text))
    assert (None if start < 0 else data[start:stop]) == span
    assert span is not None or (start, stop) == (-1, -1)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("9" * 13, None),
        ("9" * 12, 10**12 - 1),
        ("9" * 18, None),
        ("9" * 19, None),
        ("-1", None),
        ("٣", None),
        ("0" * 17 + "1", 1),
        ("0" * 18 + "1", None),
    ],
)
def test_a_time_of_a_property_is_a_number_of_ascii_digits_that_may_be(text, milliseconds):
    found = deliver_at_ns({"TIMER_DELIVER_MS": text}, BORN)
    assert found == (None if milliseconds is None else milliseconds * MS)


def test_a_delay_counts_from_a_time_that_is_there():
    assert deliver_at_ns({"TIMER_DELAY_MS": "5"}, None) is None
    assert deliver_at_ns({"TIMER_DELAY_MS": "5"}, "soon") is None
    assert deliver_at_ns({"TIMER_DELAY_MS": "soon", "TIMER_DELAY_SEC": "1"}, 7) == 1007 * MS
    assert deliver_at_ns({}, 7) is None


def test_what_is_not_there_is_null_by_its_place():
    batch = read("stored-messages", stored(b"hello"))[0].records[0]
    assert batch.keys == ([-1], [-1])
    assert [batch.data[start:stop] for start, stop in zip(*batch.values, strict=True)] == [b"hello"]


def test_plain_bodies_spend_nothing_of_what_compressed_ones_may_become():
    run = Settings(Limits(), wanted=WITH_RECORDS)
    budget, raw = InflationBudget(run.limits), stored(b"hello")
    before = InflationBudget(run.limits)
    before.earn(len(raw))
    read_messages("stored-messages", Data(raw, len(raw), {}, "consumer"), run, ProblemNotes(run.limits), budget)
    assert (budget.plain_left, budget.records_left) == (before.plain_left, before.records_left - 1)
