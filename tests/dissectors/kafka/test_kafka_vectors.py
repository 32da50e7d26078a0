"""Every message that Kafka's own classes can write is read to its last byte and field by field, compiled or not."""

from __future__ import annotations

import struct

import pytest
from kafka_vectors import WHOLE, Vector, covered, read, releases, vectors
from test_kafka_specs import every_layout
from vector_comparison import differences, in_snake_case

from mqsniff.limits import Limits
from mqsniff.spec.interpret import DecodeWindow, interpret
from mqsniff_kafka import bodies

LIMITS = Limits()

FITS_TODAYS_MEANING_TOO = {
    ("3.5.1", "ConsumerGroupMemberMetadataValue", 0, "least"),
    ("2.8.2", "TopicRecord", 0, "least"),
}
"""Nothing but zeros: the bytes of a version that once meant something else are right in today's meaning as well."""

MESSAGES = {"4.4.0": 2976, "3.9.2": 2960, "2.8.2": 2108, "1.1.1": 707}
"""Messages of the releases of which every one is there: each version in four cases."""


def fail_with(found: list[str]) -> None:
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:20])


# ---- bodies


@pytest.mark.parametrize("release", releases())
def test_what_kafka_writes_is_read_field_by_field(release: str) -> None:
    found = []
    for vector in vectors(release):
        layout, body = read(vector)
        if (release, vector.name, vector.version, vector.case) not in FITS_TODAYS_MEANING_TOO:
            found += [f"{vector} by {layout}: {one}" for one in differences(vector, layout, body)]
    fail_with(found)


@pytest.mark.parametrize("release", releases())
def test_the_interpreter_reads_the_same_as_the_compiled_decoder(release: str) -> None:
    found = []
    for vector in vectors(release):
        if vector.case == "most":
            layout, body = read(vector)
            size = len(vector.data)
            slow = interpret(layout.struct, vector.data, DecodeWindow(0, size, size))
            if (slow.body, slow.stop, slow.problems, slow.broken) != (body, size, (), None):
                found.append(f"{vector} by {layout}: {slow}")
    fail_with(found)


@pytest.mark.parametrize("release", WHOLE)
def test_releases_are_there_whole(release: str) -> None:
    assert len(vectors(release)) == MESSAGES[release]


def test_kafka_wrote_every_layout_that_we_have() -> None:
    written = set().union(*map(covered, releases()))
    known = {(layout.name, layout.version, layout.note) for layout in every_layout()}
    assert known <= written


def test_a_field_that_is_not_what_kafka_wrote_is_named() -> None:
    vector = next(one for one in vectors("4.4.0") if one.name == "MetadataResponse" and one.case == "most")
    layout, body = read(vector)
    body["brokers"][1]["port"] += 1
    del body["topics"][0]["partitions"][0]["isr_nodes"]
    told = differences(vector, layout, body)
    assert [one.partition(":")[0] for one in told] == [".brokers[1].port", ".topics[0].partitions[0].isr_nodes"]
    old = next(one for one in vectors("1.1.1") if one.name == "MetadataResponse" and one.case == "most")
    layout, body = read(old)
    assert differences(old, layout, body) == []
    body["brokers"][1]["port"] += 1
    assert differences(old, layout, body)


@pytest.mark.parametrize(
    ("kafkas", "ours"),
    [
        ("kRaftVersionFeature", "kraft_version_feature"),
        ("preferredReadReplica", "preferred_read_replica"),
        ("v0Host", "v0_host"),
    ],
)
def test_names_are_kafkas_in_snake_case(kafkas: str, ours: str) -> None:
    assert in_snake_case(kafkas) == ours


# ---- headers


def headers(name: str) -> list[Vector]:
    return [vector for release in WHOLE for vector in vectors(release) if vector.name == name]


def test_every_message_has_the_header_that_kafka_gives_it() -> None:
    found = []
    for release in releases():
        for vector in vectors(release):
            if vector.kind is None or vector.header is None:
                continue
            version = bodies.version_of(vector.key, vector.version)
            flexible = version.flexible_request if vector.kind == "request" else version.flexible_response
            first = 1 if vector.kind == "request" else 0
            if flexible != (vector.header > first):
                found.append(f"{vector} has header version {vector.header}")
    fail_with(found)


@pytest.mark.parametrize("vector", headers("RequestHeader"), ids=str)
def test_headers_of_requests_are_read(vector: Vector) -> None:
    api = {0: (7, 0), 1: (3, 0), 2: (3, 13)}[vector.version]
    header = bodies.read_request_header(bytes(4) + vector.data, bodies.version_of(*api))
    assert header.client_id == (vector.value.get("clientId", vector.value.get("client_id")) or None)
    assert header.stop == 4 + len(vector.data)
    assert (header.tags or {}) == vector.unknown_tags


@pytest.mark.parametrize("vector", headers("ResponseHeader"), ids=str)
def test_headers_of_responses_are_read(vector: Vector) -> None:
    tags, stop = bodies.read_header_tags(vector.data, 4) if vector.version else (None, 4)
    assert (tags or {}, stop) == (vector.unknown_tags, len(vector.data))


# ---- frames


@pytest.mark.parametrize("release", ["4.4.0", "3.9.2", "2.8.2"])
def test_frames_of_requests_and_responses_are_read_without_a_problem(release: str) -> None:
    found = []
    for vector in vectors(release):
        if vector.kind is None or vector.header is None:
            continue
        version = bodies.version_of(vector.key, vector.version)
        if vector.kind == "request":
            frame, pos = in_request_frame(vector)
            assert bodies.read_request_header(frame, version).stop == pos
            body, problems = bodies.read_request_body(version, frame, pos, len(frame), LIMITS)
        else:
            body, problems = bodies.read_response_body(version, vector.data, 0, len(vector.data), LIMITS)
            frame = vector.data
        assert body.layout is not None
        found += [f"{vector}: {problem}" for problem in problems]
        framed = vector._replace(data=frame)
        found += [f"{vector} by {body.layout}: {one}" for one in differences(framed, body.layout, body.value)]
    fail_with(found)


def in_request_frame(vector: Vector) -> tuple[bytes, int]:
    """The whole frame of a request, and where its body starts."""
    client = {0: b"", 1: b"\x00\x03cli", 2: b"\x00\x03cli\x00"}[vector.header or 0]
    head = struct.pack(">hhi", vector.key, vector.version, 7) + client
    return struct.pack(">i", len(head) + len(vector.data)) + head + vector.data, 4 + len(head)


# ---- versions that mean other bytes


def test_versions_that_once_meant_other_bytes_are_read_in_the_meaning_of_their_release() -> None:
    older = {
        (layout.name, layout.note, vector.release)
        for release in releases()
        for vector in vectors(release)
        if vector.kind and (layout := read(vector)[0]).note
    }
    assert older == {
        ("EndQuorumEpochRequest", "2.7", "2.7.2"),
        ("ConsumerGroupHeartbeatRequest", "3.5-3.6", "3.5.1"),
        ("ConsumerGroupHeartbeatResponse", "3.5-3.6", "3.5.1"),
        ("ConsumerGroupDescribeResponse", "3.7", "3.7.2"),
        ("ReadShareGroupStateSummaryResponse", "3.9-4.0", "3.9.2"),
    }
