"""Formats inside bytes against what Kafka's own classes wrote: internal topics, members of groups, envelopes."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_vectors import lines, named
from vector_comparison import differences_of

from mqsniff.limits import Limits
from mqsniff.model import Problem
from mqsniff_kafka import embedded, specs
from mqsniff_kafka.formats import TEXTS, FormatContext, decode_control, decode_marked, decode_record

Line = dict[str, Any]

ALL = {release: list(lines(f"formats-{release}")) for release in ("4.4.0", "4.3.1", "2.8.2")}
"""Brokers and controllers; clients, Streams, Connect and MirrorMaker; the preview of KRaft."""
PAGES = {
    "__consumer_offsets": "consumer_offsets",
    "__share_group_state": "share_group_state",
    "__transaction_state": "transaction_state",
}


def of(release: str, what: str) -> list[Line]:
    found = [line for line in ALL[release] if line["what"] == what]
    assert found
    return found


def raw(line: Line, field: str) -> bytes | None:
    return bytes.fromhex(line[field]) if field in line else None


def fail_with(found: list[str]) -> None:
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:20])


# ---- records


@pytest.mark.parametrize("topic", PAGES)
def test_records_of_coordinators_are_read_field_by_field(topic: str) -> None:
    found = []
    for line in of("4.4.0", "record"):
        if line["topic"] != topic:
            continue
        record = decode_record(topic, raw(line, "key"), raw(line, "value"))
        what = f"{topic} {line['type']} v{line['version']}"
        assert isinstance(record, dict), what
        key, value = record["key"], record["value"]
        version = value.pop("value_version" if "value_version" in value else "version")
        assert (key.pop("type"), version) == (line["type"], line["version"])
        (layout,) = specs.record(PAGES[topic], "key", line["type"], 0)
        found += [f"{what} key{one}" for one in differences_of(layout, key, line["told_key"])]
        layout = specs.record(PAGES[topic], "value", line["type"], line["version"])[0]
        found += [f"{what} value{one}" for one in differences_of(layout, value, line["told"])]
    fail_with(found)


def test_every_type_of_coordinator_record_was_written() -> None:
    written = {(PAGES[line["topic"]], line["type"]) for line in of("4.4.0", "record") if line["topic"] in PAGES}
    known = {(page, int(key)) for page in PAGES.values() for key in specs._index()["records"][page]["key"]}
    assert known - written == {("consumer_offsets", 9)}, "which was gone after 4.0"


@pytest.mark.parametrize(
    ("release", "topic"),
    [("4.4.0", "__cluster_metadata"), ("4.4.0", "__remote_log_metadata"), ("2.8.2", "@metadata")],
)
def test_records_of_the_metadata_log_are_read_field_by_field(release: str, topic: str) -> None:
    found = []
    for line in of(release, "record"):
        if line["topic"] != topic:
            continue
        record = decode_record(topic, None, raw(line, "value"))
        what = f"{release} {line['name']} v{line['version']}"
        assert isinstance(record, dict), what
        assert (record["type"], record["name"], record["version"]) == (line["type"], line["name"], line["version"])
        assert record["frame_version"] == (release != "2.8.2")
        layout = named(line["name"], line["version"], note="2.8" if release == "2.8.2" else "")
        found += [f"{what} {one}" for one in differences_of(layout, record["value"], line["told"])]
    fail_with(found)


def test_control_records_are_read_field_by_field() -> None:
    found = []
    for line in of("4.4.0", "control"):
        key = raw(line, "key")
        assert key is not None
        record = decode_control(key, raw(line, "value"))
        assert (record["type"], record["name"]) == (line["type"], line["name"])
        value = record["value"]
        if "version" not in line["told"]:
            assert value.pop("version") == line["version"]
        layout = named(line["layout"], line["version"])
        found += [f"{line['name']} {one}" for one in differences_of(layout, value, line["told"])]
    assert {line["name"] for line in of("4.4.0", "control")} == set(specs.enum("control_record_type").values())
    fail_with(found)


# ---- inside messages


@pytest.mark.parametrize("line", of("4.4.0", "envelope"), ids=lambda line: f"{line['api']}-v{line['version']}")
def test_envelopes_hold_requests_and_responses_field_by_field(line: Line) -> None:
    problems: list[Problem] = []
    pending: Line = {"request_data": raw(line, "request")}
    version = embedded.open_request(pending, Limits(), problems)
    assert version is not None
    header = {"api_key": line["api_key"], "api_version": line["version"], "correlation_id": 9, "client_id": "client-é"}
    assert pending["request_data"]["header"] == header
    answered: Line = {"response_data": raw(line, "response")}
    embedded.open_response(answered, version, Limits(), problems)
    assert answered["response_data"]["header"] == {"correlation_id": 9}
    assert not problems
    fail_with(differences_of(version.requests[0], pending["request_data"]["body"], line["told_request"]))
    fail_with(differences_of(version.responses[0], answered["response_data"]["body"], line["told"]))


@pytest.mark.parametrize("line", of("4.4.0", "marked"), ids=lambda line: line["mark"])
def test_principals_are_read(line: Line) -> None:
    assert decode_marked(line["mark"], bytes.fromhex(line["data"])) == line["told"]


def name_of(line: Line) -> str:
    return f"{line['protocol']}-{line['mark']}-v{line['told']['version']}"


MEMBERS = of("4.3.1", "marked")


@pytest.mark.parametrize("line", [line for line in MEMBERS if line["protocol"] != "stream"], ids=name_of)
def test_what_consumers_and_workers_say_is_read_whole(line: Line) -> None:
    context = FormatContext(line["protocol_type"], line["protocol"])
    found = decode_marked(line["mark"], bytes.fromhex(line["data"]), context)
    assert by_topic(found) == by_topic(line["told"])


def by_topic(value: Any) -> Any:
    """A value whose topics are in order: Java's sets have one of their own."""
    match value:
        case dict():
            return {name: by_topic(one) for name, one in value.items()}
        case [{"topic": _}, *_]:
            return sorted(value, key=lambda one: one["topic"])
        case _:
            return value


STREAMS = {
    mark: [line for line in MEMBERS if line["protocol"] == "stream" and line["mark"] == mark]
    for mark in ("member_metadata", "member_assignment")
}


@pytest.mark.parametrize("line", STREAMS["member_metadata"], ids=name_of)
def test_every_version_of_what_streams_says_of_itself_is_read(line: Line) -> None:
    found = decode_marked(line["mark"], bytes.fromhex(line["data"]), FormatContext("consumer", "stream"))
    assert isinstance(found, dict)
    data = found["user_data"]
    told = line["told"]
    assert (data["version"], data["process_id"]) == (told["version"], told["process_id"])
    assert data.get("user_end_point") == (told["end_point"] and told["end_point"].encode())
    tags = [{"key": b"zone", "value": told["zone"].encode()}] if told["zone"] else None
    assert data.get("client_tags") == tags
    assert tasks_of(data) == {(1, 3): -2, (2, 3): 1_000_000_007} or told["version"] < 7


def tasks_of(data: Line) -> dict[tuple[int, int], int]:
    """(subtopology, partition) -> sum of offsets; subtopologies hold partitions below version 10."""
    return {
        (task["topic_group_id"], one["partition"]): one["offset_sum"]
        for task in data.get("task_offset_sums", [])
        for one in task.get("partition_to_offset_sum", [task])
    }


@pytest.mark.parametrize("line", STREAMS["member_assignment"], ids=name_of)
def test_every_version_of_what_streams_assigns_is_read(line: Line) -> None:
    found = decode_marked(line["mark"], bytes.fromhex(line["data"]), FormatContext("consumer", "stream"))
    assert isinstance(found, dict)
    data = found["user_data"]
    topics = {one["number"]: one["topic"] for one in data.pop("topics", [])}
    for host in (*data.get("partitions_by_host", ()), *data.get("standby_partitions_by_host", ())):
        host["partitions"] = [
            {"topic": topics[one["topic_number"]], "partition": one["partition"]} if "topic_number" in one else one
            for one in host["partitions"]
        ]
    assert data == line["told"]


def test_what_streams_commits_with_an_offset_is_read() -> None:
    (line,) = of("4.3.1", "text")
    found = TEXTS["commit_metadata"](line["data"])
    assert found is not None
    told = line["told"]
    assert found["partition_time"] == told["partition_time"]
    assert found["processor_metadata"] == [{"key": told["key"].encode(), "value": told["value"]}]


@pytest.mark.parametrize("line", of("4.3.1", "mirror"), ids=lambda line: line["topic"])
def test_records_of_mirrors_are_read(line: Line) -> None:
    found = decode_record(line["topic"], raw(line, "key"), raw(line, "value"))
    assert found == {"key": line["told_key"], "value": line["told"]}
