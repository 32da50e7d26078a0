"""Names that are no UTF-8: every dissector still tells what the model declares, and every sink writes it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import orjson
import pyarrow as pa
import pytest
from annotations import Watch
from kafkacraft import fetch, fetched
from lawsamples import CONVERSATIONS, dissectors

from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.model import Message
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.csv import CsvSink
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sinks.text import TextOptions, TextSink
from mqsniff.sources.files import FileSource
from mqsniff.spec.wire import as_name
from mqsniff.tables.arrow import ArrowTables
from mqsniff.tables.schemas import TABLES, names_of
from mqsniff.tables.values import Redaction
from mqsniff.testing.conversations import Say, chunks, client, segments, server, write_pcap
from mqsniff.testing.driver import Driver
from mqsniff.testing.typed import COMPILED

DISSECTORS = dissectors()
SESSION = [
    client(fetch(1, 7, topics=[{"topic": name, "partitions": [{"partition": 0}]} for name in ("orders", "kept")])),
    server(fetched(1, None, 7, session=5)),
    client(fetch(2, 7, session=5, epoch=1, forgotten_topics_data=[{"topic": "orders", "partitions": [0]}])),
    server(fetched(2, None, 7, session=5)),
    client(fetch(3, 7, session=5, epoch=2)),
]
"""A fetch session that forgets a topic."""
CASES = {
    f"{protocol}-{name}": (protocol, dialogue)
    for protocol, named in CONVERSATIONS.items()
    for name, dialogue in named.items()
} | {"kafka-session": ("kafka", SESSION)}
every_conversation = pytest.mark.parametrize(("protocol", "dialogue"), CASES.values(), ids=CASES)


def names_in(messages: Sequence[Message]) -> set[str]:
    """Every text that a conversation's messages have in columns."""
    found: set[object] = set()
    for message in messages:
        found |= {*message.topics, message.group, message.client_id, *message.topic_ids}
        for batch in message.records:
            for column in (*([value] for value in batch.constant.values()), *batch.columns.values()):
                found |= {value for value in column if isinstance(value, str)}
        for row in message.partitions:
            found |= {value for value in row.values() if isinstance(value, str)}
    return {name for name in found if isinstance(name, str) and len(name) > 2}


def spoiled(protocol: str, dialogue: Sequence[Say]) -> Iterator[list[Say]]:
    """The conversation, each time with another of its names begun by a byte that begins no character; then with all."""
    clean = Driver(DISSECTORS[protocol]).run(chunks(dialogue)).messages
    names = sorted(name.encode() for name in names_in(clean))
    names = [name for name in names if any(name in say.data for say in dialogue)]
    for some in [[name] for name in names] + [names]:
        out = []
        for say in dialogue:
            data = say.data
            for name in some:
                data = data.replace(name, b"\xff" + name[1:])
            out.append(say._replace(data=data))
        yield out


@every_conversation
def test_a_dissector_tells_text_where_text_is_declared(protocol, dialogue):
    for says in spoiled(protocol, dialogue):
        driver = Driver(DISSECTORS[protocol]).run(chunks(says))  # the driver looks at all types
        assert [problem.detail for problem in driver.problems if problem.kind == "internal"] == []


@pytest.mark.skipif(COMPILED, reason="compiled code looks at its types itself")
def test_annotations_of_compiled_modules_tell_the_truth(tmp_path):
    with Watch() as watch:
        for number, (protocol, dialogue) in enumerate(CASES.values()):
            *_, says = spoiled(protocol, dialogue)
            path = tmp_path / f"{number}.pcap"
            write_pcap(path, segments(says), ports=(50_000, min(DISSECTORS[protocol].ports)))
            rows_of(path, lambda captures: NdjsonSink(io.BytesIO(), captures, tuple(TABLES), Redaction()).write)
    assert watch.looked > 1000
    assert watch.lies == set()


def rows_of(path, sink_of) -> None:
    settings = Settings(wanted=WITH_RECORDS)
    run = Pipeline(FileSource([str(path)], settings.limits), settings)
    sink = sink_of(run.captures)
    for item in run.items():
        if item is not None:
            sink(item)


@every_conversation
def test_every_sink_writes_names_that_are_no_text_and_columns_of_text_hold_text(protocol, dialogue, tmp_path):
    *_, says = spoiled(protocol, dialogue)
    path = tmp_path / "x.pcap"
    write_pcap(path, segments(says), ports=(50_000, min(DISSECTORS[protocol].ports)))
    shown, out, wanted = Redaction(), io.BytesIO(), tuple(TABLES)

    rows_of(path, lambda captures: NdjsonSink(out, captures, wanted, shown).write)
    told = [orjson.loads(line) for line in out.getvalue().splitlines()]
    for row in told:
        assert not [name for name in names_of(row["table"], "text") if not isinstance(row.get(name, ""), str)]
        assert all(isinstance(text, str) for name in names_of(row["table"], "texts") for text in row.get(name, ()))

    tables: dict[str, list] = {name: [] for name in TABLES}

    def arrow(captures):
        made = ArrowTables(captures, wanted, shown)

        def take(item):
            for block in made.take(item):
                tables[block.table].append(block.rows)

        arrow.rest = made.rest
        return take

    rows_of(path, arrow)
    for block in arrow.rest():
        tables[block.table].append(block.rows)
    for name, blocks in tables.items():
        texts = names_of(name, "text")
        stored = [row for block in blocks for row in pa.Table.from_batches([block]).select(texts).to_pylist()]
        shown_rows = [{text: row.get(text) for text in texts} for row in told if row["table"] == name]
        assert sorted(map(repr, stored)) == sorted(map(repr, shown_rows))

    options = TextOptions(body=True, records=True, tables=wanted)
    rows_of(path, lambda captures: TextSink(io.BytesIO(), captures, options).write)
    for name in TABLES:
        written = io.BytesIO()
        rows_of(path, lambda captures, name=name, written=written: CsvSink(written, captures, name, shown).write)
        assert b"b'" not in written.getvalue()


def test_a_name_that_is_no_text_stands_with_escapes_wherever_it_is_a_name():
    """Not left out: a topic that a session forgets is the one that it had."""
    *_, says = spoiled("kafka", SESSION)
    first, _, _, _, last = Driver(DISSECTORS["kafka"]).run(chunks(says)).messages
    assert first.topics == (r"\xffrders", r"\xffept")
    assert [row["topic"] for row in first.partitions] == [r"\xffrders", r"\xffept"]
    assert last.topics == (r"\xffept",)
    assert first.body["topics"][0]["topic"] == b"\xffrders"


@pytest.mark.parametrize(
    ("value", "name"), [("ok", "ok"), (b"ok", "ok"), (b"a\xff\nb", "a\\xff\nb"), (None, None), (7, None), ([], None)]
)
def test_what_is_a_name(value, name):
    assert as_name(value) == name
