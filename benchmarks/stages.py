"""CPU seconds of a run by stage: ``python benchmarks/stages.py FILE FORM``, where FORM is messages, records or parquet.

1. Each stage is run with all stages before it, from the file on; what it takes is what it adds. The best of some.
2. ``decode`` with nothing written is the floor of every form of output.
"""

from __future__ import annotations

import gc
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import mkdtemp

from mqsniff.dissector import Settings, Wanted
from mqsniff.limits import Limits
from mqsniff.pipeline import Pipeline
from mqsniff.sinks import Sink
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sinks.parquet import ParquetSink
from mqsniff.sources.files import FileSource
from mqsniff.streams.flows import FlowTable
from mqsniff.streams.packets import PacketDecoder
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction

PASSES = 3
LIMITS = Limits()
COLLECTED = 50_000
"""As the command line has it."""


def drain(things: Iterable[object]) -> None:
    """Take everything, keep nothing."""
    for _ in things:
        pass


def read(path: str) -> None:
    """The packets of the file."""
    drain(FileSource([path], LIMITS).batches())


def packets(path: str) -> None:
    """Their headers as columns."""
    decoder = PacketDecoder(LIMITS)
    drain(decoder.decode(batch) for batch in FileSource([path], LIMITS).batches())


def streams(path: str) -> None:
    """The bytes of each connection in order."""
    decoder, flows = PacketDecoder(LIMITS), FlowTable(LIMITS)
    for batch in FileSource([path], LIMITS).batches():
        for flow in flows.feed(decoder.decode(batch)):
            drain(flow)
    for flow in flows.end():
        drain(flow)


WANTED: dict[str, frozenset[Wanted]] = {
    "messages": frozenset(),
    "records": frozenset({"records"}),
    "parquet": frozenset({"partitions", "exchanges", "records"}),
}
"""What each form of output asks of dissectors."""


def pipeline(path: str, form: str) -> Pipeline:
    """A run that decodes what a form of output shows."""
    return Pipeline(FileSource([path], LIMITS), Settings(LIMITS, WANTED[form]))


def decode(path: str, form: str) -> None:
    """Messages, exchanges and records."""
    drain(pipeline(path, form).items())


def write(path: str, form: str) -> None:
    """Rows, to files."""
    run = pipeline(path, form)
    folder = mkdtemp()
    try:
        if form == "parquet":
            tables = ParquetSink(f"{folder}/tables", run.captures, TABLES, Redaction())
            pump(run, tables)
            tables.close()
        else:
            with Path(folder, "rows").open("wb") as file:
                lines = NdjsonSink(file, run.captures, (form,), Redaction())
                pump(run, lines)
                lines.tick()
    finally:
        shutil.rmtree(folder)


def pump(run: Pipeline, sink: Sink) -> None:
    """Every item to a sink."""
    for item in run.items():
        if item is not None:
            sink.write(item)


def best_s(work: Callable[[], None]) -> float:
    """CPU seconds, at best."""
    seconds = []
    for _ in range(PASSES):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds)


def main() -> None:
    """Print the seconds of all stages, each with those before it."""
    path, form = sys.argv[1:]
    gc.set_threshold(COLLECTED)
    for name, work in (("read", read), ("packets", packets), ("streams", streams)):
        print(name, f"{best_s(lambda work=work: work(path)):.3f}")
    for name, with_form in (("decode", decode), ("write", write)):
        print(name, f"{best_s(lambda work=with_form: work(path, form)):.3f}")


if __name__ == "__main__":
    main()
