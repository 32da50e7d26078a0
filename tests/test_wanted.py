"""What nobody wants is left out, and what is wanted stays as it was."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mqsniff.dissector import USUAL, WITH_RECORDS, Settings
from mqsniff.model import ExchangeItem, Item, MessageItem
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sources.files import FileSource
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction

PCAPS = Path(__file__).parents[1] / "pcaps"
SAMPLES = sorted(path for path in PCAPS.glob("*/*.pcap*") if path.suffix in {".pcap", ".pcapng"})
KAFKA = [path for path in SAMPLES if path.parent.name == "kafka"]


def told(path: Path, settings: Settings, tables: tuple[str, ...]) -> tuple[bytes, list[Item]]:
    """(rows of some tables as NDJSON, all items)."""
    stream = io.BytesIO()
    run = Pipeline(FileSource([str(path)]), settings)
    sink = NdjsonSink(stream, run.captures, tables, Redaction())
    items = []
    for item in run.items():
        if item is not None:
            sink.write(item)
            items.append(item)
    return stream.getvalue(), items


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("records", [False, True], ids=["heads", "records"])
def test_the_other_tables_stay_as_they_are(path, records):
    others = tuple(table for table in TABLES if table not in {"exchanges", "partitions"})
    everything, _ = told(path, Settings(wanted=WITH_RECORDS if records else USUAL), others)
    little = Settings(wanted=WITH_RECORDS - USUAL if records else frozenset())
    wanted, items = told(path, little, others)
    assert wanted == everything
    exchanges = [item.exchange for item in items if isinstance(item, ExchangeItem)]
    assert all(exchange.status == "unanswered" for exchange in exchanges)  # these are always told of


@pytest.mark.parametrize("table", ["partitions", "exchanges"])
def test_each_is_wanted_by_itself(table):
    settings = Settings(wanted=frozenset((table,)))
    for path in KAFKA:
        assert told(path, settings, (table,))[0] == told(path, Settings(), (table,))[0]


def test_nothing_is_noted_of_bodies_where_nobody_wants_notes():
    little = Settings(wanted=frozenset())
    for path in KAFKA:
        messages = [item.message for item in told(path, little, ())[1] if isinstance(item, MessageItem)]
        assert not any(label == "acks" for message in messages for label, _ in message.notes)
        assert not any(message.partitions for message in messages if message.name == "Produce")
