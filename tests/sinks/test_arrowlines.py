"""Lines of records by kernels of Arrow: the same bytes as row by row, in the same order."""

from __future__ import annotations

import io
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from builds import python_only
from handmade import batch, captures, connection, pub
from hypothesis import given, settings
from hypothesis import strategies as st
from test_recordlines import SAMPLES, batches

from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import Limits
from mqsniff.model import HeaderSpans, MessageItem, RecordBatch, RecordItem
from mqsniff.pipeline import Pipeline
from mqsniff.sinks import recordlines
from mqsniff.sinks.arrowlines import _escaped as escaped
from mqsniff.sinks.arrowlines import block_lines
from mqsniff.sinks.ndjson import NdjsonSink, ndjson_line
from mqsniff.sinks.recordlines import BatchPiece, RecordLines, batch_columns
from mqsniff.sources.files import FileSource
from mqsniff.tables.buffers import bytes_array
from mqsniff.tables.rows import record_rows
from mqsniff.tables.values import Redaction

WAYS = [Redaction(), Redaction(secrets=True, raw=True)]


def pieces_of(*made: RecordBatch, shown: Redaction | None = None) -> list[BatchPiece]:
    told = [batch_columns(connection(), pub(), each, captures(), shown or Redaction()) for each in made]
    return [BatchPiece(each, 0, each.batch.count) for each in told]


def by_kernels(*made: RecordBatch, shown: Redaction | None = None) -> bytes:
    return bytes(block_lines(pieces_of(*made, shown=shown), shown or Redaction()))


def by_rows(*made: RecordBatch, shown: Redaction | None = None) -> bytes:
    own = shown or Redaction()
    rows = (row for each in made for row in record_rows(connection(), pub(), each, captures(), own))
    return b"".join(ndjson_line("records", row, own) for row in rows)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_all_records_of_a_sample_make_one_block(path: Path):
    run = Pipeline(FileSource([str(path)]), Settings(Limits(), wanted=WITH_RECORDS))
    items = [item for item in run.items() if isinstance(item, RecordItem) and item.batch.count]
    if not items:
        pytest.skip("no records")
    for shown in WAYS:
        told = [batch_columns(item.connection, item.message, item.batch, run.captures, shown) for item in items]
        slow = b"".join(
            ndjson_line("records", row, shown)
            for item in items
            for row in record_rows(item.connection, item.message, item.batch, run.captures, shown)
        )
        assert bytes(block_lines([BatchPiece(each, 0, each.batch.count) for each in told], shown)) == slow


@settings(max_examples=150, deadline=None)
@given(st.lists(batches().filter(lambda made: made.count > 0), min_size=1, max_size=4), st.sampled_from(WAYS))
def test_any_batches_give_the_lines_of_their_rows(made, shown):
    assert by_kernels(*made, shown=shown) == by_rows(*made, shown=shown)


@pytest.mark.parametrize(
    "value",
    [
        b'a "quoted" \\ text',
        b"\\\\",
        b"tab\t, line\n, return\r",
        "Grüße, 漢字, 😀".encode(),
        "\u2028\ufffd".encode(),
        b"",
    ],
)
def test_text_is_escaped_as_in_json(value):
    made = batch((b"k", value), (value, b"plain"), (None, None))
    assert by_kernels(made) == by_rows(made)


@pytest.mark.parametrize("value", [b"\xff\xfe", b"\0", b"\x7f", "\x85".encode(), b"\xed\xa0\x80"])
def test_binary_values_are_base64(value):
    made = batch((b"k", value), (value, b"plain"), (None, None))
    assert b'"base64"' in by_kernels(made)
    assert by_kernels(made) == by_rows(made)


def with_headers(*headers: tuple[bytes, bytes | None]) -> RecordBatch:
    """A record with these headers, their places known, and one without headers."""
    made = batch((b"k", b"v"), (b"k", b"w"))
    places: list[int] = []
    for key, value in headers:
        start = len(made.data)
        made.data += key + (value or b"")
        behind = start + len(key)
        places += (start, behind, *((-1, -1) if value is None else (behind, len(made.data))))
    made.headers = [[(key.decode(errors="backslashreplace"), value) for key, value in headers], []]
    made.header_spans = lambda: HeaderSpans([len(headers), 0], places)
    return made


@pytest.mark.parametrize(
    "headers",
    [
        [(b"trace", b"1234"), (b"source", b'"quoted"')],
        [(b'odd "key" \\', b"")],
        [(b"null", None)],
        [(b"binary", b"\xff\0")],
        [(b"\xff", b"key that is no text")],
        [(b"\0", b"control")],
    ],
)
def test_headers_are_the_same_by_both_ways(headers):
    made = with_headers(*headers), batch((b"without", b"headers"))
    assert by_kernels(*made) == by_rows(*made)


def test_a_key_of_a_header_that_is_not_unicode_is_no_text_with_a_backslash():
    made = batch((b"k", b"v"))
    made.headers = [[("\udc80", b"v"), ("\\udc80", b"v")]]
    assert by_kernels(made) == by_rows(made)


# ---- batches that wait


@pytest.fixture
def at_once(monkeypatch):
    """Kernels from the first record on."""
    monkeypatch.setattr(recordlines, "KERNELS_FROM", 0)
    monkeypatch.setattr(recordlines, "BLOCK_ROWS_MIN", 1)
    monkeypatch.setattr(recordlines, "FEW", 0)


def large(count: int) -> RecordBatch:
    return batch(*((b"k", b"%d" % number) for number in range(count)))


@python_only
@pytest.mark.usefixtures("at_once")
def test_records_wait_for_a_block_and_stay_in_order():
    lines = RecordLines(captures(), Redaction())
    made = [large(3), large(4), large(recordlines.BLOCK_ROWS), large(1)]
    written = [b"".join(lines.add(connection(), pub(), each)) for each in made]
    assert written[:2] == [b"", b""]
    assert lines.waits
    assert b"".join([*written, *lines.rest()]) == by_rows(*made)
    assert not lines.waits


@python_only
@pytest.mark.usefixtures("at_once")
def test_a_block_is_bounded_by_rows_and_by_bytes(monkeypatch):
    counts: list[int] = []
    whole = recordlines.RecordLines.rest

    def rest(self):
        counts.append(self.rows)
        return whole(self)

    monkeypatch.setattr(recordlines.RecordLines, "rest", rest)
    lines = RecordLines(captures(), Redaction())
    made = batch(*((b"k", bytes(100_000)) for _ in range(100)))
    assert b"".join(lines.add(connection(), pub(), made)) + b"".join(lines.rest()) == by_rows(made)
    assert max(counts) * 100_000 <= recordlines.BLOCK_BYTES
    counts.clear()
    assert b"".join(lines.add(connection(), pub(), large(10_000))) + b"".join(lines.rest()) == by_rows(large(10_000))
    assert max(counts) <= recordlines.BLOCK_ROWS


@python_only
@pytest.mark.usefixtures("at_once")
def test_a_pause_of_the_input_and_a_line_of_another_table_end_a_block():
    out, message = io.BytesIO(), pub()
    sink = NdjsonSink(out, captures(), ("messages", "records"), Redaction())
    sink.write(RecordItem(connection(), message, large(5)))
    assert out.getvalue() == b""
    sink.tick()
    assert out.getvalue() == by_rows(large(5))
    sink.write(RecordItem(connection(), message, large(2)))
    sink.write(RecordItem(connection(), message, large(1)))
    sink.write(MessageItem(connection(), message, None))
    tables = [line.split(b'"')[3] for line in out.getvalue().splitlines()]
    assert tables == [b"records"] * 8 + [b"messages"]


@python_only
@pytest.mark.usefixtures("at_once")
def test_values_that_are_hidden_or_cut_do_not_wait():
    for shown in (Redaction(payload=False), Redaction(max_bytes=1)):
        lines = RecordLines(captures(), shown)
        assert b"".join(lines.add(connection(), pub(), large(20))) == by_rows(large(20), shown=shown)
        assert not lines.waits


TEXTS = st.text(st.sampled_from('a"\\\n\r\té€😀'), max_size=12)


@given(st.lists(TEXTS | st.none(), max_size=20))
@settings(max_examples=100, deadline=None)
def test_text_of_a_block_is_escaped_as_orjson_escapes_it_one_by_one(texts: list[str | None]) -> None:
    values = bytes_array([None if text is None else text.encode() for text in texts], pa.binary())
    slowly = [None if text is None else orjson.dumps(text)[1:-1] for text in texts]
    assert escaped(values).to_pylist() == slowly


@given(TEXTS, st.sampled_from(["", "\udce9", "\0"]), st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_constants_of_any_text_are_those_of_the_rows(text: str, odd: str, batches: int) -> None:
    made = [
        batch([b"a", None], topic=text + odd * (at % 2), decoded={"a": text, "b": None, "big": 1 << 70})
        for at in range(batches)
    ]
    assert by_kernels(*made) == by_rows(*made)
