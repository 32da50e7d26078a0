"""Shortcuts of small messages: the same as without them."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from mqsniff_kafka.records.batches import CHECKED_FROM, CONTROL, HEAD, read_batches
from mqsniff_kafka.records.lone import lone_amounts, lone_head, lone_record
from mqsniff_kafka.records.reading import Batch
from mqsniff_kafka.records.walk import TIME_MS_MAX
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
    monkeypatch.setattr(fields, "lone_record", lambda *_: None)
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


# ---- a field that is one batch of one record


def record(
    key: bytes | None, value: bytes | None, *, timestamp: int = 0, offset: int = 0, headers: bytes = b"\0"
) -> bytes:
    """A record of a batch of magic 2."""
    parts = [b"\0", varint(timestamp), varint(offset)]
    for one in (key, value):
        parts += [varint(-1)] if one is None else [varint(len(one)), one]
    content = b"".join([*parts, headers])
    return varint(len(content)) + content


def varint(number: int) -> bytes:
    """Signed by zigzag."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*out, left))


def opened(data: bytes) -> list[Batch]:
    return read_batches(b"ab" + data + b"c", 2, 2 + len(data), decompress_max=1 << 20, open_records=True).batches


def told(batch: Batch) -> dict[str, Any]:
    """All of a batch, its columns as lists."""
    found = {f.name: getattr(batch, f.name) for f in dataclasses.fields(batch)}
    assert batch.records is not None
    records = found["records"] = {f.name: getattr(batch.records, f.name) for f in dataclasses.fields(batch.records)}
    records["columns"] = {name: list(column) for name, column in batch.records.columns.items()}
    for name in ("keys", "values"):
        records[name] = [list(column) for column in records[name]]
    return found


USUAL = [
    with_records(record(b"k", b"abc"), 1),
    with_records(record(None, b"abc"), 1, base_timestamp=1_700_000_000_000, max_timestamp=1_700_000_000_000),
    with_records(record(b"", None), 1, base_timestamp=-1, base_sequence=4, producer_id=3),
    with_records(record(b"k" * 63, b"v" * 63), 1, attributes=0x18, max_timestamp=5),
    with_records(record(b"k", b"v" * 64), 1, base_offset=(1 << 63) - 1, last_offset_delta=1),
    with_records(record(b"k", b"v" * 8_000), 1, base_timestamp=TIME_MS_MAX + 1, base_sequence=(1 << 31) - 1),
]
UNUSUAL = {
    "two records": with_records(record(b"k", b"v") * 2, 2),
    "a record less": with_records(record(b"k", b"v") * 2, 1),
    "a record more": with_records(record(b"k", b"v"), 2),
    "a wrong checksum": with_records(record(b"k", b"v"), 1)[:-1] + b"\x02",
    "a codec": with_records(record(b"k", b"v"), 1, attributes=4),
    "control": with_records(record(b"\0\0\0\1", b"\0\0\0\0\0\0"), 1, attributes=CONTROL),
    "headers": with_records(record(b"k", b"v", headers=b"\x02\x02h\x02v"), 1),
    "a time": with_records(record(b"k", b"v", timestamp=1), 1),
    "an offset": with_records(record(b"k", b"v", offset=1), 1),
    "a long key": with_records(record(b"k" * 64, b"v"), 1),
    "a long value": with_records(record(b"k", b"v" * 8_192), 1),
    "cut": with_records(record(b"k", b"v")[:-1], 1),
    "a key beyond": with_records(b"\x0e\0\0\0\x7e\0\0\0", 1),
    "a length below zero": with_records(b"\x0c\0\0\0\1\3\0", 1),
}


@pytest.mark.parametrize("data", USUAL, ids=len)
def test_a_lone_record_has_all_that_read_batches_gives(data):
    (slow,) = opened(data)
    fast = lone_record(b"ab" + data + b"c", 2, 2 + len(data))
    assert fast is not None
    assert told(fast) == told(slow)
    assert [*fast.head] == [*slow.head]


@pytest.mark.parametrize("data", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_what_is_no_lone_record_is_left_to_who_reads_batches(data):
    assert lone_record(data, 0, len(data)) is None


@given(st.data())
def test_a_lone_record_that_is_bent_is_read_as_ever_or_left(data):
    raw = bytearray(data.draw(st.sampled_from([*USUAL, *UNUSUAL.values()])))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(HEAD.size, min(len(raw) - 1, HEAD.size + 16)))] = data.draw(st.integers(0, 255))
    raw[17:21] = batches.crc32c(raw[CHECKED_FROM:]).to_bytes(4, "big")
    fast = lone_record(b"ab" + bytes(raw) + b"c", 2, 2 + len(raw))
    if fast is not None:
        assert [told(fast)] == [told(one) for one in opened(bytes(raw))]
