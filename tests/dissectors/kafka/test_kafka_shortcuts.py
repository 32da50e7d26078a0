"""Shortcuts of small messages: the same as without them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mqsniff.dissector import Settings
from mqsniff.limits import Limits
from mqsniff.model import PayloadChecksum
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sources.files import FileSource
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction
from mqsniff_kafka import bodies, embedded
from mqsniff_kafka.bodies import REPEATED, REPEATED_SIZE, read_request_body, read_response_body, version_of
from mqsniff_kafka.fieldpaths import field_paths_of
from mqsniff_kafka.records import batches, fields
from mqsniff_kafka.records.batches import CHECKED_FROM, CONTROL, HEAD, lone_amounts, lone_head, read_batches
from mqsniff_kafka.specs import apis

SAMPLES = sorted((Path(__file__).parents[3] / "pcaps" / "kafka").glob("*.pcap*"))
CAPTURES = [path for path in SAMPLES if path.suffix in {".pcap", ".pcapng"}]


def rows(path: Path) -> bytes:
    stream = io.BytesIO()
    run = Pipeline(FileSource([str(path)]), Settings())
    sink = NdjsonSink(stream, run.captures, tuple(TABLES), Redaction())
    for item in run.items():
        if item is not None:
            sink.write(item)
    return stream.getvalue()


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_sample_without_shortcuts_is_the_same(path, monkeypatch):
    straight = rows(path)
    monkeypatch.setattr(fields, "lone_head", lambda *_: None)
    monkeypatch.setattr(bodies, "REPEATED", frozenset())
    monkeypatch.setattr("mqsniff.spec.layout.Layout.exact", lambda *_: None)
    assert rows(path) == straight


# ---- bodies that many messages share


def versions():
    return [
        version_of(key, v)
        for key in sorted(REPEATED)
        for v in range(apis()[key].versions.first, apis()[key].versions.last + 1)
    ]


def test_nothing_works_on_a_body_that_is_shared():
    layouts = [layout for version in versions() for layout in (*version.requests, *version.responses)]
    assert layouts
    for layout in layouts:
        marks = field_paths_of(layout)
        assert (marks.records, marks.configs, marks.taught, embedded.holder_of(layout)) == (None, None, None, None)


HEARTBEAT = b"\x00\x01g\x00\x00\x00\x07\x00\x01m"


def test_the_same_bytes_are_the_same_body():
    version = version_of(12, 0)
    one, two = (read_request_body(version, bytes(HEARTBEAT), 0, len(HEARTBEAT), Limits())[0] for _ in range(2))
    assert one.value == {"group_id": "g", "generation_id": 7, "member_id": "m"}
    assert one.value is two.value


def test_the_same_bytes_of_another_version_are_another_body():
    data = b"\x00\x00\x00\x00\x00\x00"
    assert read_response_body(version_of(12, 1), data, 0, 6, Limits())[0].value["throttle_time_ms"] == 0
    (body, problems) = read_response_body(version_of(12, 0), data, 0, 6, Limits())
    assert "throttle_time_ms" not in body.value
    assert [problem.kind for problem in problems] == ["trailing_bytes"]


@pytest.mark.parametrize("cut", range(len(HEARTBEAT)))
def test_a_heartbeat_that_is_cut_is_told_as_ever(cut):
    data = HEARTBEAT[:cut]
    body, problems = read_request_body(version_of(12, 0), data, 0, cut, Limits())
    assert [problem.kind for problem in problems] == ["malformed"]
    again, _ = read_request_body(version_of(12, 0), data, 0, cut, Limits())
    assert again.value is not body.value


def test_a_heartbeat_of_tomorrow_is_left_as_bytes():
    version = version_of(12, 99)
    for read in (read_request_body, read_response_body):
        assert list(read(version, HEARTBEAT, 0, len(HEARTBEAT), Limits())[0].value) == ["undecoded"]


def test_a_long_body_is_not_remembered():
    data = b"\x00\x01g\x00\x00\x00\x07" + REPEATED_SIZE.to_bytes(2, "big") + b"m" * REPEATED_SIZE
    one, two = (read_request_body(version_of(12, 0), data, 0, len(data), Limits())[0] for _ in range(2))
    assert one.value == two.value
    assert one.value is not two.value


# ---- a field that is one batch


def batch(**fields: int) -> bytes:
    """A batch without records, with a checksum that fits unless it is given."""
    head = dict.fromkeys(batches.HEAD_FIELDS, 0) | {"magic": 2, "batch_length": HEAD.size - 12} | fields
    packed = bytearray(HEAD.pack(*head.values()))
    if "crc" not in fields:
        packed[17:21] = batches.crc32c(packed[CHECKED_FROM:]).to_bytes(4, "big")
    return bytes(packed)


def by_batches(data: bytes) -> list[dict]:
    return read_batches(data, 0, len(data), decompress_max=1, open_records=False).body(len(data))["batches"]


@pytest.mark.parametrize(
    "fields", [{}, {"records_count": 3, "base_offset": -1}, {"attributes": 0x1B}, {"attributes": 7}]
)
def test_a_lone_batch_has_the_head_that_batches_have(fields):
    data = batch(**fields)
    head = lone_head(data, 0, len(data))
    assert [head] == by_batches(data)
    assert list(head) == list(by_batches(data)[0])
    assert [*map(type, head.values())] == [*map(type, by_batches(data)[0].values())]
    assert type(head["crc"]) is PayloadChecksum


@pytest.mark.parametrize(
    "data",
    [
        b"",
        batch()[:-1],
        batch(crc=1),
        batch(attributes=CONTROL),
        batch(records_count=-1),
        batch(magic=1),
        batch(batch_length=48),
        batch(batch_length=50),
        batch() + batch(),
        batch() + b"\x00",
    ],
    ids=repr,
)
def test_anything_else_is_left_to_who_reads_batches(data):
    assert lone_head(data, 0, len(data)) is None


RECORD = bytes.fromhex("14000000026b0661626300")
"""A record without headers: key "k", value "abc"."""


def with_records(records: bytes, count: int, **fields: int) -> bytes:
    data = bytearray(batch(records_count=count, batch_length=HEAD.size - 12 + len(records), **fields) + records)
    data[17:21] = batches.crc32c(data[CHECKED_FROM:]).to_bytes(4, "big")
    return bytes(data)


def test_a_lone_batch_amounts_to_what_its_records_do():
    data = with_records(RECORD + RECORD, 2, producer_id=7, producer_epoch=1, base_sequence=5)
    amounts = lone_amounts(data, 0, len(data), lone_head(data, 0, len(data)))
    (records,) = read_batches(data, 0, len(data), decompress_max=1, open_records=True).records
    assert (amounts.count, list(map(list, amounts.values))) == (2, list(map(list, records.values)))
    assert amounts.constant == {"control": False, "producer_id": 7, "producer_epoch": 1, "sequence": 5}
    assert records.columns["sequence"][0] == 5


@pytest.mark.parametrize(
    "data", [with_records(RECORD, 2), with_records(RECORD + b"x", 1), with_records(RECORD, 1, attributes=2)]
)
def test_amounts_of_what_is_odd_or_compressed_are_left_to_who_opens_records(data):
    assert lone_amounts(data, 0, len(data), lone_head(data, 0, len(data))) is None
