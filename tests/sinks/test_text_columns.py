"""Named columns side by side."""

from __future__ import annotations

import io

from handmade import answer_to, batch, captures, connection, pub

from mqsniff.model import Exchange, ExchangeItem, MessageItem, RecordItem
from mqsniff.sinks.columns import ColumnSink
from mqsniff.sinks.textoptions import TextOptions


def lines(fields, *items, **options):
    stream = io.BytesIO()
    sink = ColumnSink(stream, captures(), fields, TextOptions(**options))
    for item in items:
        sink.write(item)
    sink.tick()
    return stream.getvalue().decode().splitlines()


def test_columns_stand_below_their_names():
    answer, pending = answer_to(pub())
    exchange = ExchangeItem(connection(), Exchange(pending, answer, "ok", 78_000))
    assert lines(["status", "name", "latency_ns", "group"], exchange, exchange, tables=["exchanges"]) == [
        "status  name  latency_ns  group",
        "ok      PUB   0.078 ms    -",
        "ok      PUB   0.078 ms    -",
    ]


def test_names_stand_again_where_another_table_follows():
    made = RecordItem(connection(), pub(), batch((b"k", b"\x1b[2J"), topic="retry"))
    message = MessageItem(connection(), pub())
    shown = lines(["name", "topic", "value"], message, made, message, tables=["messages", "records"])
    texts = [text.split() for text in shown]
    assert texts == [["name"], ["PUB"], ["topic", "value"], ["retry", "<base64", "G1sySg==>"], ["name"], ["PUB"]]


def test_a_terminal_cuts_them_to_its_width():
    made = lines(["name", "ts"], MessageItem(connection(), pub()), tables=["messages"], width=20)
    assert made[-1] == "PUB   2026-11-21T09…"
