"""Rows as CSV: what Python's own reader, and a spreadsheet, make of it."""

from __future__ import annotations

import csv
import io
import json

import pytest
from handmade import START, batch, captures, connection, noticed, pub
from hypothesis import given
from hypothesis import strategies as st

from mqsniff.model import ClosedItem, MessageItem, RecordItem
from mqsniff.sinks.csv import CsvSink, csv_line
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.tables.schemas import TABLES, names_of
from mqsniff.tables.values import Redaction


def written(table, *items, terminal=False, **shown):
    stream = io.BytesIO()
    sink = CsvSink(stream, captures(), table, Redaction(**shown), terminal=terminal)
    for item in items:
        sink.write(item)
    sink.tick()
    return stream.getvalue().decode()


def read(text):
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize("table", TABLES)
def test_an_empty_table_has_a_header(table):
    assert written(table) == ",".join(names_of(table)) + "\r\n"


def test_a_row_has_every_column_and_only_rows_of_its_table():
    text = written("messages", MessageItem(connection(), pub()), ClosedItem(connection()), noticed())
    (row,) = read(text)
    assert tuple(row) == names_of("messages")
    assert (row["ts"], row["ts_ns"]) == ("2026-11-21T09:38:50.702681250Z", str(START))
    assert (row["topics"], row["body"]) == ('["retry"]', '{"topic":"retry","body":{"size":40}}')
    assert (row["version"], row["problems"]) == ("", "0")
    assert text.count("\r\n") == 2
    assert text.endswith("\r\n")


def test_topics_that_are_no_unicode_stand_with_escapes_as_in_ndjson():
    item = MessageItem(connection(), pub(topics=("a\x00b", "lone \udcff", "=x")))
    (row,) = read(written("messages", item))
    assert json.loads(row["topics"]) == ["a\x00b", "lone \\udcff", "=x"]
    stream = io.BytesIO()
    NdjsonSink(stream, captures(), ("messages",), Redaction()).write(item)
    assert json.loads(stream.getvalue())["topics"] == json.loads(row["topics"])


def test_records_stand_as_in_ndjson():
    made = batch((b"k", b"v,1"), (None, b"\x00\xff"), (b"", None))
    made.headers = [[("n", b"\x01")], [], []]
    text, binary, null = read(written("records", RecordItem(connection(), pub(), made)))
    assert [(row["key"], row["key_encoding"]) for row in (text, binary, null)] == [
        ("k", "utf8"),
        ("", ""),
        ("", "utf8"),
    ]
    assert [(row["value"], row["value_encoding"]) for row in (text, binary)] == [("v,1", "utf8"), ("AP8=", "base64")]
    assert text["headers"] == '[{"key":"n","value":{"base64":"AQ=="}}]'


def test_payload_stays_where_it_should():
    (row,) = read(written("records", RecordItem(connection(), pub(), batch((b"k", b"v"))), payload=False))
    assert (row["value"], row["value_encoding"], row["value_size"]) == ("", "redacted", "1")


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        (None, ""),
        ("", '""'),
        (True, "true"),
        (False, "false"),
        (-5, "-5"),
        (1.5, "1.5"),
        ("plain", "plain"),
        ("a,b", '"a,b"'),
        ('say "x"', '"say ""x"""'),
        ("two\nlines", '"two\nlines"'),
        ("a;b", '"a;b"'),
        (" a", '" a"'),
        ("é", "é"),
        ("\ud800", "\\ud800"),
    ],
)
def test_a_cell_is_quoted_where_it_must_be(cell, line):
    assert csv_line([cell]).decode() == line + "\r\n"


@pytest.mark.parametrize(
    "formula",
    [
        "=1+1",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(A1)",
        "\t=1+1",
        "\r=1+1",
        "\n=1+1",
        "＝1+1",
        "＋1",
        "－1",
        "＠x",
        "=",
        "-",
    ],
)
def test_text_that_a_spreadsheet_would_run_is_made_text(formula):
    ((cell,),) = csv.reader(io.StringIO(csv_line([formula]).decode(), newline=""))
    assert cell == "'" + formula


@pytest.mark.parametrize("number", ["-1", "+5", "-1.5", "-1e-9", "12", "-9223372036854775808"])
def test_numbers_do_not_suffer(number):
    assert csv_line([number]).decode() == f"{number}\r\n"


@pytest.mark.parametrize("text", ["-1-1", "-1 ", "-1\n", "--1", "-", "+", "1=1", "a=b", "-١"])
def test_what_only_begins_as_a_number_is_text(text):
    ((cell,),) = csv.reader(io.StringIO(csv_line([text]).decode(), newline=""))
    assert cell == ("'" + text if text[0] in "+-" else text)


def test_a_terminal_gets_nothing_that_moves_its_cursor():
    shown = written("messages", MessageItem(connection(), pub(group="\x1b[2J\n=x")), terminal=True)
    assert "\x1b" not in shown
    assert "\\x1b[2J\\n=x" in shown


@given(st.lists(st.one_of(st.none(), st.text(), st.integers()), min_size=1, max_size=6))
def test_every_cell_can_be_read_back(cells):
    (row,) = csv.reader(io.StringIO(csv_line([*cells, "end"]).decode(), newline=""), strict=True)
    for cell, read_back in zip(cells, row, strict=False):
        shown = "" if cell is None else str(cell).encode(errors="backslashreplace").decode()
        assert read_back.removeprefix("'") == shown.removeprefix("'")
