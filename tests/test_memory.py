"""Memory is bounded by open connections and named limits, not by the length of the input (DESIGN, promise 4)."""

from __future__ import annotations

import gc
import io
import json
import struct
import tracemalloc

import pyarrow as pa
import pytest
from builds import python_only
from tinycapture import OK, conversation, pcap

from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import Limits
from mqsniff.model import Message
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sinks.parquet import ParquetSink
from mqsniff.sinks.text import TextSink
from mqsniff.sinks.textoptions import TextOptions
from mqsniff.sources.files import FileSource
from mqsniff.tables import arrow, recordcolumns, recordvalues
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction


def consumer(messages):
    """A consumer that is given messages and finishes each."""
    yield "c", b"  V2SUB orders billing\n"
    yield "s", OK
    for number in range(messages):
        message_id = b"%016x" % number
        body = struct.pack(">qH", number, 1) + message_id + b"body"
        yield "s", struct.pack(">ii", 4 + len(body), 2) + body
        yield "c", b"FIN %s\n" % message_id


def producer(messages):
    """A producer whose every message is acknowledged."""
    yield "c", b"  V2"
    for number in range(messages):
        yield "c", b"PUB orders\n" + struct.pack(">i", 8) + b"%08d" % number
        yield "s", OK


def needed(path, folder) -> tuple[int, int]:
    """What Python holds at the end of a capture that became Parquet tables, and the most that Arrow held."""
    limits = Limits(row_group_size=1 << 16, tables_buffer=1 << 17, window=1 << 16)
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        pipeline = Pipeline(FileSource([str(path)], limits), Settings(limits, wanted=WITH_RECORDS))
        sink = ParquetSink(str(folder), pipeline.captures, TABLES, Redaction(), limits=limits)
        for item in pipeline.items():
            if item is not None:
                sink.write(item)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        assert sum(part.rows for part in sink.close()) > path.stat().st_size // 200
        return held, pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


def blocks_of(path) -> list[arrow.Block]:
    """All tables of a capture as Arrow blocks."""
    limits = Limits()
    pipeline = Pipeline(FileSource([str(path)], limits), Settings(limits, wanted=WITH_RECORDS))
    tables = arrow.ArrowTables(pipeline.captures, [*TABLES], Redaction())
    blocks = [block for item in pipeline.items() if item is not None for block in tables.take(item)]
    return [*blocks, *tables.rest()]


def messages_alive() -> int:
    """Messages that something still holds, those of other tests included."""
    gc.collect()
    return sum(isinstance(each, Message) for each in gc.get_objects())


def cycles(path, limits) -> int:
    """Objects that only the garbage collector frees, after all items and lines of a capture were made."""
    gc.collect()
    gc.disable()
    try:
        pipeline = Pipeline(FileSource([str(path)], limits), Settings(limits, wanted=WITH_RECORDS))
        lines = NdjsonSink(io.BytesIO(), pipeline.captures, tuple(TABLES), Redaction())
        text = TextSink(io.BytesIO(), pipeline.captures, TextOptions())
        for item in pipeline.items():
            if item is not None:
                lines.write(item)
                text.write(item)
        assert pipeline.totals.messages > 0
        del pipeline, lines, text, item
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.parametrize("steps", [consumer, producer])
def test_messages_leave_no_cycles_to_the_garbage_collector(tmp_path, steps):
    found = []
    for count in (200, 200, 1000):
        path = tmp_path / f"{count}.pcap"
        path.write_bytes(pcap(conversation(steps(count))))
        found.append(cycles(path, Limits(unanswered_max=20, refusals_max=20)))
    assert found[2] - found[1] < 50  # of 1,600 messages; what a connection and a run leave is there in both


@pytest.mark.parametrize("steps", [consumer, producer])
def test_the_messages_of_a_long_connection_are_let_go(tmp_path, steps):
    count = 2000
    path = tmp_path / "long.pcap"
    path.write_bytes(pcap(conversation(steps(count))))
    limits, before = Limits(unanswered_max=20, refusals_max=20), messages_alive()
    pipeline = Pipeline(FileSource([str(path)], limits), Settings(limits, wanted=WITH_RECORDS))
    for _ in pipeline.items():
        if pipeline.totals.messages == count // 2:
            break
    assert pipeline.totals.messages == count // 2
    assert messages_alive() - before < 200


@python_only
def test_ten_times_the_capture_needs_no_more_memory_on_its_way_to_parquet(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow, "ROWS", 64)
    monkeypatch.setattr(recordcolumns, "BLOCK_ROWS", 64)
    monkeypatch.setattr(recordvalues, "ROWS", 64)
    found = {}
    for count in (400, 410, 4000):  # the first one fills caches
        path = tmp_path / f"{count}.pcap"
        path.write_bytes(pcap(conversation(producer(count))))
        found[count] = needed(path, tmp_path / str(count))
    held, arrow_held = found[410]
    assert found[4000][0] < held + 100_000  # 28 bytes a message
    assert found[4000][1] < 1.5 * arrow_held


def test_a_long_name_that_every_row_repeats_makes_more_blocks_not_larger_ones(tmp_path):
    """A client id of a megabyte before 4,000 small messages took four gigabytes."""
    size, count = 1_000_000, 200
    identity = json.dumps({"client_id": "x" * size}).encode()
    named = b"IDENTIFY\n" + struct.pack(">i", len(identity)) + identity
    steps = [("c", b"  V2"), *(("c", named[at : at + 30_000]) for at in range(0, len(named), 30_000)), ("s", OK)]
    path = tmp_path / "named.pcap"
    path.write_bytes(pcap(conversation([*steps, *list(producer(count))[1:]])))
    rows = dict.fromkeys(TABLES, 0)
    for block in blocks_of(path):
        rows[block.table] += block.rows.num_rows
        assert block.rows.nbytes < recordcolumns.BLOCK_TEXT + 4 * size
    assert rows["messages"] == 2 * count + 3
    assert (rows["exchanges"], rows["records"]) == (count + 2, count)
