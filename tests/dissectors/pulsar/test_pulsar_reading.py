"""Single frames: what does not fit, what is cut, what is unknown; every byte stays accounted for."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from pulsarcraft import batch, command, encoded, frame, framed, message, send

from mqsniff.dissector import Settings
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Frame, Gap, Mark, Side, Undecoded
from mqsniff.tables.values import Redaction
from mqsniff.testing.conversations import chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_pulsar import Pulsar
from mqsniff_pulsar.commands import BY_NAME, PAYLOAD
from mqsniff_pulsar.messages import id_fields, message_type

ENTRY = b"\x08\x05\x10\x09"


def one(data: bytes, side: Side = Side.CLIENT):
    """The message of a single frame, which claims all of it."""
    say = client if side is Side.CLIENT else server
    driver = Driver(Pulsar).run(chunks([say(data)]))
    assert driver.skipped == []
    (told,) = driver.messages
    assert told.frame.size == len(data)
    return told


def noted(told):
    """What is odd, but for openings that the one frame cannot show."""
    return [(p.kind, p.severity, p.path) for p in told.problems if p.kind != "unmatched"]


# ---- the envelope

LOOKUP = encoded("CommandLookupTopic", topic="t", request_id=1)


def field(number: int, content: bytes) -> bytes:
    return struct.pack(">B", number << 3 | 2) + bytes([len(content)]) + content


MISFITS = [
    (
        "a number that no command has",
        b"\x08\x7f" + field(15, b"abc"),
        "unknown(127)",
        {"type": 127, "close_producer": {"undecoded": Undecoded(b"abc")}},
        [("malformed", "error", "close_producer.unknown_fields.12"), ("unknown_code", "warning", "type")],
    ),
    (
        "no number at all",
        b"\x82\x7d\x00",
        "unknown",
        {"unknown_fields": {"2000": b""}},
        [("missing_field", "warning", "type")],
    ),
    ("a number without its field", b"\x08\x12", "PING", {}, [("missing_field", "error", "base_command")]),
    (
        "the field of another command",
        b"\x08\x12" + field(3, b"\x0a\x01v"),
        "PING",
        {"base_command": {"connected": {"server_version": "v"}}},
        [("missing_field", "error", "base_command"), ("out_of_range", "error", "base_command")],
    ),
    (
        "several commands",
        b"\x08\x03" + field(3, b"\x0a\x01v") + field(2, b"\x0a\x01c"),
        "CONNECTED",
        {"server_version": "v", "base_command": {"connect": {"client_version": "c"}}},
        [("out_of_range", "error", "base_command"), ("out_of_range", "warning", "")],
    ),
    (
        "an unknown field beside the command",
        b"\x08\x17\xba\x01" + bytes([len(LOOKUP)]) + LOOKUP + b"\xa2\x7d\x01x",
        "LOOKUP",
        {"topic": "t", "request_id": 1, "base_command": {"unknown_fields": {"2004": b"x"}}},
        [],
    ),
    ("the number after the field", field(2, b"\x0a\x01c") + b"\x08\x02", "CONNECT", {"client_version": "c"}, []),
]


@pytest.mark.parametrize(
    ("base", "name", "body", "problems"), [case[1:] for case in MISFITS], ids=[case[0] for case in MISFITS]
)
def test_a_command_that_does_not_fit_its_type_is_shown_and_noted(base, name, body, problems):
    told = one(framed(base))
    assert (told.name, told.body) == (name, body)
    assert noted(told) == problems


def test_missing_required_fields_are_noted_by_their_path():
    told = one(frame("ACK", consumer_id=1, message_id=[{"ledger_id": 1}]))
    assert noted(told) == [
        ("missing_field", "warning", "ack_type"),
        ("missing_field", "warning", "message_id[0].entry_id"),
    ]


def test_an_unknown_error_is_shown_by_its_number():
    told = one(
        framed(command("ERROR", request_id=1, message="m")[:2] + field(14, b"\x08\x01\x10\x63\x1a\x01m")), Side.SERVER
    )
    assert (told.error_code, told.error_name, told.error_count) == (99, "unknown(99)", 1)
    assert noted(told) == [("unknown_code", "warning", "error")]


ERRORS = [
    ("LOOKUP_RESPONSE", {"response": "Connect"}, (0, None, 0)),
    ("LOOKUP_RESPONSE", {"response": "Failed", "error": "TopicNotFound"}, (11, "TopicNotFound", 1)),
    ("LOOKUP_RESPONSE", {"response": "Failed"}, (None, None, 1)),
    ("ACK_RESPONSE", {"consumer_id": 1, "error": "UnknownError"}, (0, "UnknownError", 1)),
    ("GET_SCHEMA_RESPONSE", {"error_code": "MetadataError"}, (1, "MetadataError", 1)),
    ("SUCCESS", {}, (None, None, None)),
]


@pytest.mark.parametrize(("name", "fields", "expected"), ERRORS)
def test_errors_are_told_by_number_and_name(name, fields, expected):
    told = one(frame(name, request_id=1, **fields), Side.SERVER)
    assert (told.error_code, told.error_name, told.error_count) == expected


NOTES = [
    ("LOOKUP", {"authoritative": False, "advertised_listener_name": ""}, []),
    ("LOOKUP", {"authoritative": True}, ["authoritative"]),
    ("SUBSCRIBE", {"consumer_id": 0, "sub_type": "Exclusive", "durable": True}, ["consumer_id", "sub_type"]),
    ("SUBSCRIBE", {"durable": False}, ["durable"]),
    ("PRODUCER", {"producer_id": 0, "producer_access_mode": "Shared"}, ["producer_id"]),
    ("FLOW", {"consumer_id": 0, "message_permits": 0}, ["consumer_id", "message_permits"]),
    ("ACTIVE_CONSUMER_CHANGE", {"consumer_id": 0, "is_active": False}, ["consumer_id", "is_active"]),
]


@pytest.mark.parametrize(("name", "fields", "labels"), NOTES)
def test_notes_say_what_is_news(name, fields, labels):
    told = one(frame(name, **fields), BY_NAME[name].side)
    assert [label for label, _ in told.notes] == labels


def test_bytes_behind_a_command_without_payload_are_kept():
    told = one(framed(command("PING"), b"behind"))
    assert told.body == {"undecoded": Undecoded(b"behind")}
    assert noted(told) == [("trailing_bytes", "warning", "undecoded")]


def test_a_command_of_the_other_side_is_noted():
    assert noted(one(frame("CONNECTED", server_version="v")))[-1] == ("out_of_range", "warning", "")


# ---- payloads


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("entry", [None, ENTRY])
def test_payloads_in_all_forms_are_taken_apart(checksum, entry):
    told = one(message(b"value", checksum=checksum, entry=entry), Side.SERVER)
    assert told.body["metadata"] == {"producer_name": "p-0", "sequence_id": 0, "publish_time": 1}
    metadata = encoded("MessageMetadata", **told.body["metadata"])
    covered = struct.pack(">I", len(metadata)) + metadata + b"value"
    place = {"ledger_id": 7, "entry_id": 0, "partition": -1}
    assert told.body["payload"] == {
        "size": 5,
        "command_size": len(command("MESSAGE", consumer_id=1, message_id=place)),
        "metadata_size": len(metadata),
        **({"checksum": crc32c(covered), "checksum_ok": True} if checksum else {}),
        **({"broker_entry_metadata_size": 4} if entry is not None else {}),
    }
    assert told.body.get("broker_entry_metadata") == (None if entry is None else {"broker_timestamp": 5, "index": 9})
    assert told.records[0].constant["checksum_ok"] is (True if checksum else None)
    assert told.partitions[0]["wire_bytes"] == 5
    assert noted(told) == []


@pytest.mark.parametrize("at", range(1, 12))
def test_the_checksum_covers_metadata_and_payload_and_nothing_else(at):
    data = send(b"value!")
    assert noted(one(data)) == []
    assert noted(one(data[:-at] + bytes([data[-at] ^ 1]) + data[len(data) - at + 1 :]))[0] == (
        "checksum",
        "error",
        "payload",
    )


def test_a_changed_command_leaves_the_checksum_right():
    told = message_type("CommandSend")
    assert told.fields[1].name == "producer_id"
    assert noted(one(send(b"v", producer=2))) == noted(one(send(b"v", producer=3))) == []


BROKEN_PAYLOADS = [
    ("nothing after the command", b"", "missing_field"),
    ("too little for a size", b"\x00\x00", "missing_field"),
    ("metadata longer than the frame", b"\x00\x00\x01\x00abc", "malformed"),
    ("entry metadata longer than the frame", b"\x0e\x02\x00\x00\x01\x00abc", "malformed"),
    ("a checksum and nothing to check", b"\x0e\x01" + struct.pack(">I", crc32c(b"")), "missing_field"),
]


@pytest.mark.parametrize(
    ("behind", "kind"), [case[1:] for case in BROKEN_PAYLOADS], ids=[c[0] for c in BROKEN_PAYLOADS]
)
def test_what_is_no_payload_is_kept_and_the_command_stays(behind, kind):
    told = one(framed(command("SEND", producer_id=1, sequence_id=5), behind))
    assert (told.name, told.correlation, told.pending[0].key) == ("SEND", "p:1:5", ("p", 1, 5))
    assert told.body["undecoded"] == Undecoded(behind)
    assert [(problem.kind) for problem in told.problems if problem.path == "metadata"] == [kind]
    assert told.records == ()


def test_damaged_metadata_are_noted_by_their_path():
    behind = struct.pack(">I", 3) + b"\x0a\x05x" + b"value"
    told = one(framed(command("SEND", producer_id=1, sequence_id=5), behind))
    assert ("malformed", "error", "metadata.producer_name") in noted(told)
    assert told.body["payload"] == {"size": 5, "command_size": 8, "metadata_size": 3}


def test_an_unknown_marker_is_noted():
    told = one(send(b"x", marker_type=77))
    assert told.body["opened_marker"] == {"type": 77}
    assert noted(told) == [("unknown_code", "warning", "metadata.marker_type")]


@pytest.mark.parametrize("flag", [True, False, None])
def test_the_marker_of_a_send_and_what_the_marker_says_have_two_names(flag):
    pending = encoded("ReplicatedSubscriptionsSnapshotRequest", snapshot_id="s", source_cluster="near")
    told = one(send(pending, told={} if flag is None else {"marker": flag}, marker_type=10))
    assert told.body.get("marker") is flag
    request = {"type": "REPLICATED_SUBSCRIPTION_SNAPSHOT_REQUEST", "snapshot_id": "s", "source_cluster": "near"}
    assert told.body["opened_marker"] == request


@pytest.mark.parametrize("name", sorted(PAYLOAD))
def test_what_is_put_into_the_body_of_a_command_is_no_field_of_it(name):
    own = {field.name for field in message_type("BaseCommand").fields[BY_NAME[name].type].message.fields.values()}
    added = {"broker_entry_metadata", "metadata", "payload", "undecoded", "opened_marker", "unacknowledged"}
    assert not added & own


# ---- ack sets

PLACE = {"ledger_id": 1, "entry_id": 2}
IDS = [{**PLACE, "ack_set": [5, -(1 << 63)]}]
ACK_SETS = [
    ("ACK", "message_id", IDS),
    ("REDELIVER_UNACKNOWLEDGED_MESSAGES", "message_ids", IDS),
    ("SEEK", "message_id", IDS[0]),
    ("SUBSCRIBE", "start_message_id", IDS[0]),
    ("SEND", "message_id", IDS[0]),
    ("SEND_RECEIPT", "message_id", IDS[0]),
    ("GET_LAST_MESSAGE_ID_RESPONSE", "last_message_id", IDS[0]),
    ("GET_LAST_MESSAGE_ID_RESPONSE", "consumer_mark_delete_position", IDS[0]),
    ("MESSAGE", "message_id", {**PLACE, "first_chunk_message_id": IDS[0]}),
]


@pytest.mark.parametrize(("name", "field", "ids"), ACK_SETS)
def test_an_ack_set_means_the_same_wherever_it_stands(name, field, ids):
    told = one(frame(name, **{field: ids}), BY_NAME[name].side)
    found = told.body[field][0] if isinstance(ids, list) else told.body[field]
    found = found.get("first_chunk_message_id", found)
    assert (found["ack_set"], found["unacknowledged"]) == ([5, -(1 << 63)], [0, 2, 127])


def test_the_ack_set_of_a_delivery_is_opened_as_those_of_message_ids():
    told = one(message(b"v", told={"ack_set": [6]}), Side.SERVER)
    assert (told.body["ack_set"], told.body["unacknowledged"]) == ([6], [1, 2])


def test_ack_sets_are_looked_for_wherever_the_protocol_has_message_ids():
    commands = message_type("BaseCommand").fields
    looked = {commands[BY_NAME[name].type].message.name: set(fields) for name, fields in id_fields().items()}
    held = {}
    for kind in message_type("BaseCommand")._descriptor.file.message_types_by_name.values():
        for one_field in kind.fields:
            if one_field.message_type is not None and one_field.message_type.name == "MessageIdData":
                held.setdefault(kind.full_name, set()).add(one_field.name)
    assert held.pop("pulsar.proto.MessageIdData") == {"first_chunk_message_id"}
    assert looked == held


def test_ack_sets_of_more_words_than_any_batch_are_not_opened():
    ids = [{**PLACE, "ack_set": [1] * 2000}]
    told = one(frame("ACK", consumer_id=1, ack_type="Individual", message_id=ids))
    assert told.body["message_id"] == ids
    assert noted(told) == [("limit", "warning", "ack_set")]


def test_ack_sets_buy_no_more_indexes_than_elements_max():
    data = frame("ACK", consumer_id=1, ack_type="Individual", message_id=[{**PLACE, "ack_set": [-1] * 10}] * 3)
    (told,) = Driver(Pulsar, Limits(elements_max=1000)).run(chunks([client(data)])).messages
    assert [len(found.get("unacknowledged", ())) for found in told.body["message_id"]] == [640, 0, 0]
    assert [len(found["ack_set"]) for found in told.body["message_id"]] == [10, 10, 10]


# ---- frames that are not whole


def cut(data: bytes, at: int, side: Side = Side.CLIENT):
    """The events of a frame of which only the first bytes were captured."""
    mark = Mark(0, 1, 1, 1)
    driver = Driver(Pulsar)
    driver.run([Chunk(side, 0, data[:at], [mark]), Gap(side, at, len(data) - at, mark._replace(offset=at))])
    return driver


@pytest.mark.parametrize("at", range(10, len(send(b"value"))))
def test_a_cut_frame_gives_its_command_and_what_there_is_of_the_rest(at):
    data = send(b"value", producer=3, sequence=9)
    driver = cut(data, at)
    (told,) = driver.messages
    assert told.name == "SEND"
    assert [problem.kind for problem in told.problems if problem.kind != "unmatched"] == ["truncated"]
    if at >= 16:
        assert told.pending[0].key == ("p", 3, 9)
    assert told.records == ()
    assert "checksum_ok" not in told.body.get("payload", {})


@pytest.mark.parametrize("at", [1, 7, 8])
def test_a_frame_cut_before_its_command_is_skipped(at):
    driver = cut(send(b"value"), at)
    assert driver.messages == []
    assert sum(skipped.length for skipped in driver.skipped) >= at


# ---- whatever comes


FRAMES = [
    send(batch((b"a", {"partition_key": "k"}), (b"b", {})), told={"num_messages": 2}, num_messages_in_batch=2),
    message(b"value", entry=ENTRY, told={"ack_set": [5], "redelivery_count": 2}),
    frame("PRODUCER", topic="t", producer_id=1, request_id=1, schema={"name": "s", "schema_data": b"", "type": "Json"}),
    frame("ACK", consumer_id=1, ack_type="Cumulative", message_id=[{"ledger_id": 1, "entry_id": 2, "ack_set": [1]}]),
    frame("AUTH_CHALLENGE", challenge={"auth_data": "YQ=="}),
]


@settings(max_examples=200, deadline=None)
@given(
    data=st.sampled_from(FRAMES),
    changes=st.lists(st.tuples(st.integers(8, 500), st.integers(0, 255)), max_size=4),
    side=st.sampled_from(Side),
)
def test_a_mutated_frame_becomes_one_message_that_can_be_shown(data, changes, side):
    spoilt = bytearray(data)
    for at, byte in changes:
        spoilt[8 + at % (len(data) - 8)] = byte
    driver = Driver(Pulsar).run(chunks([(client if side is Side.CLIENT else server)(bytes(spoilt))]))
    assert len(driver.messages) + len(driver.skipped) == 1
    assert "internal" not in {problem.kind for problem in driver.problems}
    for told in driver.messages:
        Redaction().json(told.body)


@settings(max_examples=100, deadline=None)
@given(data=st.sampled_from(FRAMES), changes=st.lists(st.tuples(st.integers(8, 500), st.integers(0, 255)), max_size=4))
def test_spans_tile_a_mutated_frame(data, changes):
    spoilt = bytearray(data)
    for at, byte in changes:
        spoilt[8 + at % (len(data) - 8)] = byte
    frame_ = Frame(Side.CLIENT, 0, len(spoilt), bytes(spoilt), 0, 0, 1, 1, 1)
    spans = list(Pulsar(Settings()).spans(frame_))
    assert [span.start for span in spans] == [0, *(span.stop for span in spans)][: len(spans)]
    assert spans[-1].stop == len(spoilt)


def test_spans_name_every_field_beside_its_bytes():
    data = FRAMES[0]
    told = Frame(Side.CLIENT, 0, len(data), data, 0, 0, 1, 1, 1)
    spans = {span.path: span for span in Pulsar(Settings()).spans(told)}
    assert spans["type"].value == "SEND"
    assert spans["send.num_messages"].value == 2
    assert spans["metadata.num_messages_in_batch"].value == 2
    assert spans["payload[0].partition_key"].value == "k"
    assert spans["payload[1].payload"].value == b"b"
    assert all(data[span.start : span.stop] for span in spans.values())


def test_spans_of_payloads_stop_where_they_are_sealed():
    for more in (
        {"compression": "LZ4", "num_messages_in_batch": 1},
        {"encryption_keys": [{"key": "k", "value": "dg=="}]},
    ):
        data = send(b"sealed", **more)
        told = Frame(Side.CLIENT, 0, len(data), data, 0, 0, 1, 1, 1)
        *_, last = Pulsar(Settings()).spans(told)
        assert (last.path, last.value) == ("payload", b"sealed")
