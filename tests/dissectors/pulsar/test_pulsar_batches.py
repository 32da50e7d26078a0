"""Batches: the fast reader against the slow one, damage, slots that are not delivered, properties on demand."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pulsarcraft import batch, encoded

from mqsniff.codecs.inflation import InflationBudget
from mqsniff.limits import Limits
from mqsniff_pulsar import batches
from mqsniff_pulsar.batches import COMPACTED_OUT, FLAG_FIELDS, SlotProperties, flag_value, read_slots

LIMITS = Limits()

TEXT = st.text(max_size=6)
SINGLES = st.fixed_dictionaries(
    {"payload_size": st.integers(0, 300)},
    optional={
        "properties": st.lists(st.fixed_dictionaries({"key": TEXT, "value": st.text(max_size=200)}), max_size=3),
        "partition_key": TEXT,
        "compacted_out": st.booleans(),
        "event_time": st.integers(0, (1 << 64) - 1),
        "partition_key_b64_encoded": st.booleans(),
        "ordering_key": st.binary(max_size=6),
        "sequence_id": st.integers(0, (1 << 64) - 1),
        "null_value": st.booleans(),
        "null_partition_key": st.booleans(),
    },
)


def read(data: bytes, count: int, limits=LIMITS):
    problems = []
    return read_slots(data, count, InflationBudget(limits), problems.append), [(p.kind, p.path) for p in problems]


@settings(max_examples=200, deadline=None)
@given(fields=SINGLES)
def test_both_readers_see_the_same_in_what_clients_write(fields):
    data = encoded("SingleMessageMetadata", **fields)
    slow, odd = batches._read_slowly(data, 0, len(data), LIMITS)
    assert batches._read_single(data, 0, len(data)) == slow
    assert odd == []
    expected = [(pair["key"], pair["value"].encode()) for pair in fields.get("properties", ())]
    assert SlotProperties(data, [(0, len(data))])[0] == expected


@settings(max_examples=200, deadline=None)
@given(fields=SINGLES, at=st.integers(0, 500), byte=st.integers(0, 255), cut=st.integers(0, 3))
def test_where_the_fast_reader_does_not_stumble_the_slow_one_agrees_and_notes_nothing(fields, at, byte, cut):
    data = bytearray(encoded("SingleMessageMetadata", **fields))
    data[at % len(data)] = byte
    data = bytes(data[: len(data) - cut])
    try:
        fast = batches._read_single(data, 0, len(data))
    except batches._STUMBLES:
        return
    slow, odd = batches._read_slowly(data, 0, len(data), LIMITS)
    assert fast == slow
    assert odd == []
    slow_headers = batches.properties_of(batches.message_type("SingleMessageMetadata").decode(data).body)
    assert SlotProperties(data, [(0, len(data))])[0] == slow_headers


def test_slots_lie_where_they_lie():
    data = batch((b"one", {"partition_key": "k", "sequence_id": 4}), (b"", {"null_value": True}), (b"three", {}))
    slots, problems = read(data, 3)
    assert [data[start:stop] for start, stop in zip(slots.starts, slots.stops, strict=True) if start >= 0] == [
        b"one",
        b"three",
    ]
    assert slots.starts[1] == -1
    assert (slots.keys, slots.sequences) == ([b"k", None, None], [4, None, None])
    assert problems == []


KEYS = [
    ({"partition_key": "a2V5", "partition_key_b64_encoded": True}, b"key"),
    ({"partition_key": "no base64", "partition_key_b64_encoded": True}, b"no base64"),
    ({"partition_key": "key", "null_partition_key": True}, None),
    ({"partition_key": "key", "null_partition_key": False}, b"key"),
    ({"partition_key": ""}, b""),
    ({}, None),
]


@pytest.mark.parametrize(("fields", "key"), KEYS)
def test_keys_are_what_the_application_gave(fields, key):
    assert read(batch((b"v", fields)), 1)[0].keys == [key]


def test_every_slot_is_there_with_what_its_flags_say():
    fields = [{}, {"compacted_out": True}, {"null_value": False}, {"partition_key_b64_encoded": True}]
    slots, problems = read(batch(*((b"v", one) for one in fields)), 4)
    told = [{name: flag_value(flags, flag) for name, flag in FLAG_FIELDS.items()} for flags in slots.flags]
    assert told == [dict.fromkeys(FLAG_FIELDS) | one for one in fields]
    assert problems == []


DAMAGED = [
    ("a count above what is there", batch((b"a", {})), 2, [("malformed", "payload[1]")], 1),
    ("a size beyond the end", struct.pack(">I", 1000) + b"x", 1, [("malformed", "payload[0]")], 0),
    ("half a size", b"\x00\x00", 1, [("malformed", "payload[0]")], 0),
    ("a message longer than its batch", batch((b"abc", {}))[:-1], 1, [("malformed", "payload[0].payload_size")], 0),
    (
        "metadata without payload_size",
        struct.pack(">I", 2) + b"\x20\x00",
        1,
        [("missing_field", "payload[0].payload_size"), ("malformed", "payload[0].payload_size")],
        0,
    ),
    ("metadata that is none", struct.pack(">I", 2) + b"\xff\xff" + b"rest", 1, None, 0),
    ("a negative payload_size", batch((b"", {"payload_size": -1})), 1, [("malformed", "payload[0].payload_size")], 0),
    ("bytes after the last", batch((b"a", {})) + b"xyz", 1, [("trailing_bytes", "payload")], 1),
    ("no messages at all", b"", 0, [], 0),
    ("fewer than none", b"abc", -5, [("trailing_bytes", "payload")], 0),
]


@pytest.mark.parametrize(
    ("data", "count", "noted", "messages"), [case[1:] for case in DAMAGED], ids=[case[0] for case in DAMAGED]
)
def test_damage_is_noted_and_what_stands_before_it_stays(data, count, noted, messages):
    slots, problems = read(data, count)
    assert len(slots.starts) == messages
    assert problems[-1][0] == "malformed" if noted is None else problems == noted


def test_unknown_fields_of_newer_clients_change_nothing():
    single = encoded("SingleMessageMetadata", payload_size=1, sequence_id=9) + b"\xa2\x06\x01x"
    slots, problems = read(struct.pack(">I", len(single)) + single + b"v", 1)
    assert (slots.sequences, slots.starts, problems) == ([9], [4 + len(single)], [])


def test_six_bytes_buy_no_more_slots_than_elements_max():
    data = batch((b"", {})) * 1000
    slots, problems = read(data, 1000, limits=Limits(elements_max=100))
    assert len(slots.starts) == 100
    assert problems == [("limit", "payload")]


def test_flags_that_are_false_are_no_flags():
    data = encoded("SingleMessageMetadata", payload_size=1, compacted_out=False)
    assert not batches._read_single(data, 0, len(data)).flags & COMPACTED_OUT


def test_headers_are_a_sequence():
    single = encoded("SingleMessageMetadata", payload_size=0, properties=[{"key": "a", "value": "b"}])
    headers = SlotProperties(single, [(0, len(single))] * 3)
    assert list(headers[1:]) == [[("a", b"b")]] * 2
    assert len(headers) == 3


@pytest.mark.parametrize(
    ("data", "fast"),
    [
        (b"\x18\x00", True),
        (b"\x18\xff\xff\xff\xff\x07", True),
        (b"\x18\x80\x80\x80\x80\x08", False),  # 1 << 31: an int32 has no such number
        (b"\x20\x01", False),  # without a size
        (b"\x18\x01\x22\x01x", False),  # a field that is no field
        (b"\x18\x01\x12\x02x", False),  # a key beyond the metadata
        (b"\x18" + b"\x80" * 10, False),  # a number of more than 64 bits
        (b"\x18" + b"\x80" * 9 + b"\x00", True),
        (b"\x0a\x04\x0a\x01k\x12\x00\x18\x01", False),  # a property longer than its field
        (b"\x0a\x05\x0a\x01k\x12\x00\x18\x01", True),
    ],
)
def test_metadata_in_another_form_than_clients_write_are_read_slowly(data, fast):
    def read_fast():
        return batches._read_single(data, 0, len(data))

    if fast:
        assert read_fast() == batches._read_slowly(data, 0, len(data), LIMITS)[0]
        return
    with pytest.raises(batches._STUMBLES):
        read_fast()


def test_properties_of_slots_are_sliced_as_lists_are():
    singles = [encoded("SingleMessageMetadata", payload_size=0, properties=[{"key": k, "value": ""}]) for k in "abc"]
    data, places, at = b"".join(singles), [], 0
    for single in singles:
        places.append((at, at + len(single)))
        at += len(single)
    headers = SlotProperties(data, places)
    assert [list(part) for part in (headers[::2], headers[1:], headers[-1:])] == [
        [[("a", b"")], [("c", b"")]],
        [[("b", b"")], [("c", b"")]],
        [[("c", b"")]],
    ]
    assert batches.property_spans(data, places[1:]).counts == [1, 1]
