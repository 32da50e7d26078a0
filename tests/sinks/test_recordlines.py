"""Batches as lines of JSON at once: the same bytes as row by row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
from builds import python_only
from handmade import START, batch, captures, connection, pub
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import Limits
from mqsniff.model import RecordBatch, RecordItem
from mqsniff.pipeline import Pipeline
from mqsniff.sinks import recordlines
from mqsniff.sinks.ndjson import ndjson_line
from mqsniff.sinks.recordlines import batch_columns, record_lines
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import record_rows
from mqsniff.tables.values import Redaction

PCAPS = Path(__file__).parents[2] / "pcaps"
SAMPLES = sorted(path for path in PCAPS.glob("*/*.pcap*") if path.suffix in {".pcap", ".pcapng"})
WAYS = [Redaction(), Redaction(payload=False), Redaction(max_bytes=3), Redaction(secrets=True, raw=True)]


def at_once(made: RecordBatch, shown: Redaction, info=None, message=None, inputs=None) -> bytes:
    return b"".join(
        record_lines(batch_columns(info or connection(), message or pub(), made, inputs or captures(), shown), shown)
    )


def one_by_one(made: RecordBatch, shown: Redaction, info=None, message=None, inputs=None) -> bytes:
    rows = record_rows(info or connection(), message or pub(), made, inputs or captures(), shown)
    return b"".join(ndjson_line("records", row, shown) for row in rows)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_the_records_of_a_sample_are_the_same_lines(path):
    run = Pipeline(FileSource([str(path)]), Settings(Limits(), wanted=WITH_RECORDS))
    for item in run.items():
        if isinstance(item, RecordItem):
            told = item.connection, item.message, run.captures
            for shown in WAYS:
                assert at_once(item.batch, shown, *told) == one_by_one(item.batch, shown, *told)


LONG = st.integers(-(1 << 70), 1 << 70)
TIMES = st.none() | st.sampled_from([START, START + 1, -1, 1 << 80])
TEXTS = st.text(st.characters() | st.just("\udc80"), max_size=5)
DATA = st.none() | st.binary(max_size=8) | st.text(max_size=8).map(str.encode)
HEADERS = st.lists(st.tuples(TEXTS, DATA), max_size=2)
COLUMNS = {
    "offset": LONG,
    "partition": st.none() | st.integers(0, 5),
    "message_id": st.none() | TEXTS,
    "ordering_key": DATA,
    "null_partition_key": st.none() | st.booleans(),
    "record_ts": TIMES,
    "deliver_at_ts": TIMES,
    "aborted": st.none() | st.booleans(),
    "value_size": st.none() | st.integers(0, 20),
    "record_index": st.integers(0, 3),
    "no_column": st.integers(),
}


@st.composite
def batches(draw) -> RecordBatch:
    """Batches with any columns, constant or not."""
    made = batch(*draw(st.lists(st.tuples(DATA, DATA), max_size=7)))
    made.data = made.data[: draw(st.sampled_from([None, 3]))]
    many = {"min_size": made.count, "max_size": made.count}
    for name in draw(st.sets(st.sampled_from(sorted(COLUMNS)))):
        if name != "ordering_key" and draw(st.booleans()):
            made.constant[name] = draw(COLUMNS[name])
        else:
            made.columns[name] = draw(st.lists(COLUMNS[name], **many))
    made.headers = draw(st.none() | st.lists(HEADERS, **many))
    if draw(st.booleans()):
        made.keys = None
    if draw(st.booleans()):
        made.values = None
    return made


@python_only
@settings(max_examples=50, deadline=None)
@given(batches(), st.sampled_from(WAYS), st.sampled_from([1, 3, 256]))
def test_any_batch_gives_the_lines_of_its_rows_however_many_at_a_time(made, shown, lines):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recordlines, "LINES", lines)
        pieces = list(record_lines(batch_columns(connection(), pub(), made, captures(), shown), shown))
    assert b"".join(pieces) == one_by_one(made, shown)
    assert all(piece.count(b"\n") <= lines for piece in pieces)


def test_large_records_go_out_one_by_one():
    made = batch(*((b"k", bytes(1 << 19)) for _ in range(5)))
    pieces = list(record_lines(batch_columns(connection(), pub(), made, captures(), Redaction()), Redaction()))
    assert [piece.count(b"\n") for piece in pieces] == [1, 1, 1, 1, 1]
    assert b"".join(pieces) == one_by_one(made, Redaction())


def test_columns_of_numpy_are_plain_numbers():
    made = batch((b"k", b"v"), (None, b"w"))
    made.columns = {"offset": np.array([10, 1 << 40]), "aborted": np.array([True, False])}
    made.keys = tuple(map(np.array, made.keys))
    rows = [orjson.loads(line) for line in at_once(made, Redaction()).splitlines()]
    assert [(row["offset"], row["aborted"], row.get("key")) for row in rows] == [
        (10, True, "k"),
        (1 << 40, False, None),
    ]


def test_a_hidden_value_keeps_what_its_dissector_says_of_it():
    made = batch((b"k", None), (b"k", b"v"))
    made.columns = {"value_encoding": ["redacted", None], "value_size": [12, None]}
    hidden, plain = (orjson.loads(line) for line in at_once(made, Redaction()).splitlines())
    assert (hidden["value_encoding"], hidden["value_size"], "value" in hidden) == ("redacted", 12, False)
    assert (plain["value"], plain["value_encoding"], plain["value_size"]) == ("v", "utf8", 1)
    assert at_once(made, Redaction()) == one_by_one(made, Redaction())
