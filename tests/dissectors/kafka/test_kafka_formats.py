"""Formats inside bytes: what other implementations write and real wires carried is read whole; damage never raises."""

from __future__ import annotations

import gzip
import json
import random
import struct
import warnings
from pathlib import Path
from typing import Any

import kio_oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_kafka_oracles import folded, same

from mqsniff.model import Secret
from mqsniff.spec.wire import Malformed
from mqsniff_kafka import specs
from mqsniff_kafka.formats import EXPECTED, FormatContext, decode_control, decode_marked, decode_record
from mqsniff_kafka.formats.groups import ASSIGNMENT, SUBSCRIPTION, decode_user_data

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData

SAMPLES: dict[str, Any] = json.loads(Path(__file__).with_name("embedded_samples.json").read_text())
CONSUMER = FormatContext("consumer", "range")
QUICK = settings(max_examples=50, deadline=None)


def raw(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def ints(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


# ---- what real clients and brokers wrote


@pytest.mark.parametrize("sample", SAMPLES["members"], ids=lambda s: f"{s['mark']}-{s['protocol']}-{s['data'][:4]}")
def test_member_data_of_real_clients_is_read_whole(sample: dict[str, Any]) -> None:
    data = bytes.fromhex(sample["data"])
    found = decode_marked(sample["mark"], data, FormatContext(sample["protocol_type"], sample["protocol"]))
    assert isinstance(found, dict)
    assert found["version"] == int.from_bytes(data[:2], "big")
    assert not isinstance(found.get("user_data") or None, bytes)


@pytest.mark.parametrize("sample", SAMPLES["records"], ids=lambda s: f"{s['topic']}-{(s['key'] or s['value'])[:8]}")
def test_records_of_internal_topics_of_real_brokers_are_read_whole(sample: dict[str, Any]) -> None:
    found = decode_record(sample["topic"], raw(sample["key"]), raw(sample["value"]))
    assert isinstance(found, dict)
    assert (found["value"] is None) == (sample["value"] is None)


@pytest.mark.parametrize("sample", SAMPLES["control"], ids=lambda s: s["name"])
def test_control_records_of_real_brokers_are_read_whole(sample: dict[str, Any]) -> None:
    key = bytes.fromhex(sample["key"])
    found = decode_control(key, raw(sample["value"]))
    assert (found["type"], found["name"]) == (sample["type"], sample["name"])
    assert isinstance(found["value"], dict)


def test_a_task_assignment_of_streams_tells_hosts_and_topics() -> None:
    (sample,) = (
        s for s in SAMPLES["members"] if s["protocol"] == "stream" and s["data"].startswith("0001000000010007")
    )
    found = decode_marked("member_assignment", bytes.fromhex(sample["data"]), FormatContext("consumer", "stream"))
    assert isinstance(found, dict)
    data = found["user_data"]
    assert data["version"] == 9
    assert data["active_tasks"] == [{"subtopology": 0, "partition": 2}]
    assert {one["topic"] for one in data["topics"]} == {"sz-text", "sz-wd-by-word-repartition"}
    assert [(one["host"], one["port"]) for one in data["partitions_by_host"]] == [
        ("10.1.1.7", 7100),
        ("10.1.2.7", 7200),
    ]


def test_a_worker_of_connect_tells_its_address() -> None:
    (sample,) = (s for s in SAMPLES["members"] if s["protocol"] == "sessioned" and s["mark"] == "member_metadata")
    found = decode_marked("member_metadata", bytes.fromhex(sample["data"]), FormatContext("connect", "sessioned"))
    assert found == {"version": 2, "url": "http://127.0.0.1:35501/", "config_offset": -1, "allocation": None}


@pytest.mark.parametrize("codec", [SAMPLES["telemetry"]["codec"], None])
def test_metrics_that_a_java_client_pushed_are_read(codec: int | None) -> None:
    found = decode_marked("otlp_metrics", bytes.fromhex(SAMPLES["telemetry"]["data"]), FormatContext(codec=codec))
    assert isinstance(found, dict)
    metrics = [
        metric
        for resource in found["resource_metrics"]
        for scope in resource["scope_metrics"]
        for metric in scope["metrics"]
    ]
    assert metrics[0]["name"] == "org.apache.kafka.consumer.coordinator.join.total"
    assert metrics[0]["sum"]["aggregation_temporality"] == "AGGREGATION_TEMPORALITY_DELTA"
    assert "unknown_fields" not in str(found)


def test_metrics_that_are_a_bomb_are_malformed() -> None:
    with pytest.raises(Malformed, match="decompress_max"):
        decode_marked("otlp_metrics", gzip.compress(bytes(40_000_000)), FormatContext(codec=1))


# ---- other implementations


STRUCTS = {
    "ConsumerProtocolSubscription": lambda data: decode_marked("member_metadata", data, CONSUMER),
    "ConsumerProtocolAssignment": lambda data: decode_marked("member_assignment", data, CONSUMER),
    "DefaultPrincipalData": lambda data: decode_marked("principal", data),
}


@pytest.mark.parametrize("name", STRUCTS)
def test_what_kio_writes_behind_a_version_is_read_field_by_field(name: str) -> None:
    chance = random.Random(3)
    cases = [case for case in kio_oracle.cases() if case.name == name]
    assert cases
    for case in cases:
        for _ in range(20):
            entity = kio_oracle.filled(case.entity, chance)
            found = STRUCTS[name](struct.pack(">h", case.version) + kio_oracle.written(entity))
            assert isinstance(found, dict)
            assert found.pop("version") == case.version
            assert same(folded(found), folded(kio_oracle.expected(entity)))


CONTROL = {
    "EndTxnMarker": 1,
    "LeaderChangeMessage": 2,
    "SnapshotHeaderRecord": 3,
    "SnapshotFooterRecord": 4,
    "VotersRecord": 6,
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_records_that_kio_writes_are_read_field_by_field(name: str) -> None:
    chance = random.Random(4)
    for case in (case for case in kio_oracle.cases() if case.name == name):
        for _ in range(20):
            entity = kio_oracle.filled(case.entity, chance)
            data = kio_oracle.written(entity)
            behind_version = data[2:] if name != "EndTxnMarker" else data
            data = struct.pack(">h", case.version) + behind_version
            found = decode_control(struct.pack(">hh", 0, CONTROL[name]), data)["value"]
            theirs = kio_oracle.expected(entity)
            for body in (found, theirs):
                body.pop("version", None)
            assert same(folded(found), folded(theirs))


def test_sticky_user_data_of_kafka_python_is_read_with_its_version_and_without() -> None:
    theirs = StickyAssignorUserData(version=1, previous_assignment=[("tópic", [1, 2]), ("u", [])], generation=5)
    expected = {
        "previous_assignment": [{"topic": "tópic", "partitions": [1, 2]}, {"topic": "u", "partitions": []}],
        "generation": 5,
    }
    data = bytes(theirs.encode())
    assert decode_user_data(data, SUBSCRIPTION, "sticky") == {"version": 1, **expected}
    assert decode_user_data(data[2:], SUBSCRIPTION, "sticky") == expected
    assert decode_user_data(data[2:-4], SUBSCRIPTION, "sticky") == {
        "previous_assignment": expected["previous_assignment"]
    }


def test_cooperative_sticky_user_data_is_a_generation_or_what_other_clients_write() -> None:
    assert decode_user_data(ints(7), SUBSCRIPTION, "cooperative-sticky") == {"generation": 7}
    assert decode_user_data(ints(0, 7), SUBSCRIPTION, "cooperative-sticky") == {
        "previous_assignment": [],
        "generation": 7,
    }


# ---- made by hand from the specification


def test_a_subscription_of_a_newer_version_is_read_as_the_newest_known() -> None:
    known = struct.pack(">hi", 9, 0) + ints(-1, 0) + ints(4) + struct.pack(">h", -1)
    found = decode_marked("member_metadata", known + b"new", CONSUMER)
    assert isinstance(found, dict)
    assert (found["version"], found["generation_id"], found["unread"]) == (9, 4, b"new")


def test_kafka_go_writes_version_1_without_what_version_1_added() -> None:
    data = struct.pack(">hi", 1, 1) + utf("kgc.none") + ints(-1)
    assert decode_marked("member_metadata", data, CONSUMER) == {"version": 1, "topics": ["kgc.none"], "user_data": None}


def task(version: int, subtopology: int, partition: int) -> bytes:
    name = ints(2) + "tö".encode("utf-16-be") if version >= 10 else b""
    return ints(subtopology, partition) + name


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_of_a_streams_assignment_is_read(version: int) -> None:
    data = ints(version) + (ints(11) if version >= 3 else b"")
    data += ints(1) + task(version, 0, 1)
    data += ints(1) + task(version, 2, 3) + ints(1) + utf("s") + ints(3)
    if 2 <= version <= 4:
        data += ints(1) + utf("h") + ints(80, 1) + utf("t") + ints(5)
    if version >= 5:
        data += ints(1, 0) + utf("t")
        data += (ints(1) + utf("h") + ints(80, 1, 0, 5)) * (2 if version >= 6 else 1)
    data += (ints(9) if version >= 4 else b"") + (struct.pack(">q", 77) if version >= 7 else b"")
    found = decode_user_data(data, ASSIGNMENT, "stream")
    named = {"named_topology": "tö"} if version >= 10 else {}
    assert isinstance(found, dict)
    assert found["active_tasks"] == [{"subtopology": 0, "partition": 1, **named}]
    assert found["standby_tasks"][0]["partitions"] == [{"topic": "s", "partition": 3}]
    assert found.get("error_code") == (9 if version >= 4 else None)
    assert found.get("next_scheduled_rebalance_ms") == (77 if version >= 7 else None)
    hosts = found.get("partitions_by_host", [])
    assert [one["port"] for one in hosts] == ([80] if version >= 2 else [])
    assert ("standby_partitions_by_host" in found) == (version >= 6)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_assignment_of_connect_may_end_before_its_last_fields(version: int) -> None:
    head = struct.pack(">hh", version, 0) + utf("me") + utf("http://me") + struct.pack(">q", 12)
    data = head + ints(1) + utf("sink") + ints(2, -1, 0)
    context = FormatContext("connect", "sessioned")
    found = decode_marked("member_assignment", data, context)
    assert isinstance(found, dict)
    assert found["assignment"] == [{"connector": "sink", "tasks": [-1, 0]}]
    assert "revoked" not in found
    if version:
        whole = decode_marked("member_assignment", head + ints(-1, -1, 300), context)
        assert isinstance(whole, dict)
        assert (whole["assignment"], whole["revoked"], whole["scheduled_delay"]) == (None, None, 300)
        meta = struct.pack(">h", version) + utf("http://me") + struct.pack(">q", 1) + ints(len(data)) + data
        assert decode_marked("member_metadata", meta, context)["allocation"] == found  # type: ignore[index,call-overload]


def test_the_leader_change_of_kafka_2_8_is_known_by_its_bytes_under_the_old_number() -> None:
    value = ints(3) + b"\x02" + ints(3) + b"\x00" + b"\x02" + ints(3) + b"\x00" + b"\x00"
    found = decode_control(struct.pack(">hh", 0, 3), value)
    assert found["name"] == "LEADER_CHANGE"
    assert found["value"]["leader_id"] == 3


def test_a_control_record_of_an_unknown_type_keeps_its_value() -> None:
    found = decode_control(struct.pack(">hh", 0, 99), b"xyz")
    assert (found["name"], found["value"]) == ("unknown(99)", b"xyz")


def test_metadata_of_the_preview_is_read_by_its_own_layouts() -> None:
    topic_id = bytes(range(16))
    preview = b"\x00\x02\x00" + utf("some") + topic_id
    today = b"\x01\x02\x00" + b"\x05some" + topic_id + b"\x00"
    values = [decode_record("@metadata", None, preview), decode_record("__cluster_metadata", None, today)]
    assert [one["value"]["name"] for one in values] == ["some", "some"]  # type: ignore[index,call-overload]
    assert decode_record("__cluster_metadata", None, b"\x01" + preview[1:]) is None


def test_values_of_configuration_records_that_may_be_secret_are_hidden() -> None:
    body = b"\x01\x04\x00\x04" + b"\x021" + b"\x0dssl.password"[:1] + b"ssl.password" + b"\x05mine" + b"\x00"
    found = decode_record("__cluster_metadata", None, body)
    assert isinstance(found, dict)
    assert found["value"]["value"] == Secret(b"mine")


def test_records_of_mirrors_are_read_by_the_words_of_their_topics() -> None:
    sync = decode_record("mm2-offset-syncs.b.internal", utf("t") + ints(3), struct.pack(">qq", 5, 6))
    assert sync == {"key": {"topic": "t", "partition": 3}, "value": {"upstream_offset": 5, "downstream_offset": 6}}
    value = struct.pack(">hqq", 0, 5, 6) + utf("")
    checkpoint = decode_record("a.checkpoints.internal", utf("g") + utf("t") + ints(3), value)
    assert isinstance(checkpoint, dict)
    assert checkpoint["value"] == {"version": 0, "upstream_offset": 5, "downstream_offset": 6, "metadata": ""}
    for topic in ("heartbeats", "a.heartbeats"):
        beat = decode_record(topic, utf("a") + utf("b"), struct.pack(">hq", 0, 99))
        assert isinstance(beat, dict)
        assert beat["key"] == {"source_cluster_alias": "a", "target_cluster_alias": "b"}
    assert decode_record("orders", utf("a") + utf("b"), struct.pack(">hq", 0, 99)) is None


def test_the_members_of_a_group_in_its_record_are_read_by_the_groups_protocol() -> None:
    subscription = struct.pack(">hi", 0, 1) + utf("t") + ints(-1)
    member = utf("m") + struct.pack(">h", -1) + utf("c") + utf("/127.0.0.1") + ints(1, 2)
    member += ints(len(subscription)) + subscription + ints(0)
    value = struct.pack(">h", 3) + utf("consumer") + ints(4) + utf("range") + utf("m") + struct.pack(">q", 5)
    found = decode_record("__consumer_offsets", struct.pack(">h", 2) + utf("g"), value + ints(1) + member)
    assert isinstance(found, dict)
    (only,) = found["value"]["members"]
    assert only["subscription"] == {"version": 0, "topics": ["t"], "user_data": None}
    assert only["assignment"] == b""


# ---- what is none of it


def test_data_of_groups_of_unknown_types_stays_bytes() -> None:
    assert decode_marked("member_metadata", b"{}", FormatContext("sr", "v0")) == b"{}"
    assert decode_marked("member_assignment", b"", CONSUMER) == b""


def test_user_data_of_unknown_assignors_stays_bytes() -> None:
    assert decode_user_data(b"ud", SUBSCRIPTION, "range") == b"ud"
    assert decode_user_data(b"ud", SUBSCRIPTION, "sticky") == b"ud"


@pytest.mark.parametrize("mark", EXPECTED)
def test_bytes_that_are_something_else_are_malformed(mark: str) -> None:
    with pytest.raises(Malformed):
        decode_marked(mark, b"\x00", CONSUMER)


def test_every_mark_of_a_format_that_stands_alone_is_known() -> None:
    assert set(EXPECTED) <= {item.mark for layout in marked_layouts() for item in marks_in(layout.struct)}


def marked_layouts() -> list[Any]:
    return [
        layout
        for key, api in specs.apis().items()
        for kind in ("request", "response")
        for layout in specs.layouts(key, kind, api.versions.last)  # type: ignore[arg-type]
    ]


def marks_in(struct_: Any) -> list[Any]:
    inner = [one for item in struct_.items if item.struct is not None for one in marks_in(item.struct)]
    return [*struct_.items, *inner]


def test_a_lying_count_buys_no_memory() -> None:
    for data in (ints(0x7FFFFFFF) * 3, ints(11, 11, 0x7FFFFFFF), b"\x00\x01" + ints(0x7FFFFFFF)):
        assert decode_user_data(data, ASSIGNMENT, None) == data


@given(st.sampled_from(SAMPLES["members"]), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=4))
@QUICK
def test_mutated_member_data_is_read_or_malformed(sample: dict[str, Any], changes: list[tuple[int, int]]) -> None:
    data = bytearray(bytes.fromhex(sample["data"]))
    for at, value in changes:
        data[at % len(data)] = value
    try:
        decode_marked(sample["mark"], bytes(data), FormatContext(sample["protocol_type"], sample["protocol"]))
    except Malformed:
        return


@given(st.sampled_from(SAMPLES["records"]), st.binary(max_size=6), st.integers(0, 100))
@QUICK
def test_mutated_records_are_read_or_none(sample: dict[str, Any], patch: bytes, at: int) -> None:
    key, value = (
        None if one is None else one[:at] + patch + one[at + len(patch) :]
        for one in (raw(sample["key"]), raw(sample["value"]))
    )
    decode_record(sample["topic"], key, value)


@given(st.binary(max_size=60), st.binary(max_size=60))
@QUICK
def test_any_bytes_are_a_control_record_or_malformed(key: bytes, value: bytes) -> None:
    try:
        decode_control(key, value)
    except Malformed:
        return
