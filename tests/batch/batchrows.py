"""Rows of tables for comparing: those of ``decode -o parquet``, and those of a batch run."""

from __future__ import annotations

import io
import os
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mqsniff.batch.commit import Archive
from mqsniff.batch.store import Store
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.filters.itemfilter import NO_FILTERS, Filters, ItemFilter
from mqsniff.limits import Limits
from mqsniff.model import MessageItem
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.parquet import ParquetSink
from mqsniff.sources.files import FileSource
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction
from mqsniff.tls.keylog import KeyLog

Tables = dict[str, list[str]]
Place = tuple[str, int]
PCAPS = Path(__file__).parents[2] / "pcaps"
_HASH = re.compile("""(hmac_sha256\\W+)[0-9a-f]{64}""")

_PLACES = (
    ("capture", "packet"),
    ("capture", "first_packet"),
    ("last_capture", "last_packet"),
    ("request_capture", "request_packet"),
    ("response_capture", "response_packet"),
)


def decoded(
    root: Path,
    names: Iterable[str],
    out: Path,
    domain: str = "",
    filters: Filters = NO_FILTERS,
    *,
    keys: Sequence[KeyLog] = (),
    shown: Redaction | None = None,
) -> Tables:
    """The rows of one process that reads files below a folder, as ``decode`` does when it is run there.

    Hashes are left out unless ``shown`` tells their key: that of a run is random.
    """
    limits = Limits()
    before = Path.cwd()
    os.chdir(root)
    try:
        pipeline = Pipeline(FileSource(names, limits), Settings(limits, wanted=WITH_RECORDS), domain=domain, keys=keys)
        sink = ParquetSink(
            str(out), pipeline.captures, tuple(TABLES), shown or Redaction(hash_key=HashKey.random()), limits=limits
        )
        chooser = ItemFilter(filters)
        for item in pipeline.items():
            if isinstance(item, MessageItem) and item.message.teaches:
                sink.topics.learn(item.message)
            for chosen in chooser.choose(item) if filters and item is not None else (item,):
                if chosen is not None:
                    sink.write(chosen)
        paths = [part.path for part in sink.close()]
    finally:
        os.chdir(before)
    return _rows(((Path(path).parent.name, path) for path in paths), hashes=shown is not None)


def committed(out: Path, original: Callable[[Place], Place] | None = None, *, hashes: bool = False) -> Tables:
    """The rows of the runs that are committed in a folder, without ``run_id``; places as ``original`` maps them.

    ``hashes``: with hashes, where the key of a run is known.
    """
    store = Store.at(str(out))
    parts = [(part.table, str(out / part.path)) for part in Archive(store).committed() if part.table != "files"]
    return _rows(parts, original, hashes=hashes)


def _rows(
    parts: Iterable[tuple[str, str]], original: Callable[[Place], Place] | None = None, *, hashes: bool
) -> Tables:
    tables: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    for table, path in parts:
        for row in pq.ParquetFile(io.BytesIO(Path(path).read_bytes())).read().to_pylist():  # of any name
            row.pop("run_id", None)
            for capture, packet in _PLACES if original is not None else ():
                if row.get(packet):
                    row[packet], row[capture] = original((row[capture], row[packet]))[::-1]
            tables[table].append(row)
    texts = {table: list(map(repr, rows)) for table, rows in tables.items()}
    if not hashes:
        texts = {table: [_HASH.sub(r"\1hash", row) for row in rows] for table, rows in texts.items()}
    return {table: sorted(rows) for table, rows in texts.items()}


def unnamed_files(out: Path) -> list[str]:
    """What a folder of runs holds beside the runs that count, their files and the lock; it is empty after a run."""
    runs = Archive(Store.at(str(out))).runs()
    named = {part.path for run in runs for part in run.parts} | {f"_mqsniff/runs/{run.run}.json" for run in runs}
    there = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    staged = {path.relative_to(out).as_posix() for path in (out / "_mqsniff" / "staging").glob("*")}
    return sorted((there | staged) - named - {"_mqsniff/lock"})


def differing(one: Tables, other: Tables) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
    """Per table the first rows that only one of both has."""
    found = {}
    for table in TABLES:
        if one[table] != other[table]:
            ours, theirs = set(one[table]), set(other[table])
            found[table] = (sorted(ours - theirs)[:2], sorted(theirs - ours)[:2])
    return found


# ---- captures


def records_of(capture: bytes) -> tuple[bytes, list[bytes]]:
    """The head of a pcap file, and its records."""
    order = "<" if capture[0] in b"\xd4\x4d" else ">"
    at, records = 24, []
    while at < len(capture):
        stop = at + 16 + struct.unpack_from(order + "I", capture, at + 8)[0]
        records.append(capture[at:stop])
        at = stop
    return capture[:24], records


def seconds_of(capture: bytes, record: bytes) -> int:
    """The whole seconds of a record's time."""
    return int(struct.unpack_from("<I" if capture[0] in b"\xd4\x4d" else ">I", record)[0])


def with_seconds(capture: bytes, record: bytes, seconds: int) -> bytes:
    """A record at another second."""
    return struct.pack("<I" if capture[0] in b"\xd4\x4d" else ">I", seconds) + record[4:]


def rotated(capture: Path, folder: Path, count: int) -> Callable[[Place], Place]:
    """Cut a capture into files, as tcpdump does when it rotates; tells where their packets stand in the original."""
    head, records = records_of(capture.read_bytes())
    edges = [len(records) * index // count for index in range(count + 1)]
    bases = {}
    for index, (first, stop) in enumerate(pairwise(edges)):
        name = f"{capture.stem}-{index:02d}.pcap"
        (folder / name).write_bytes(head + b"".join(records[first:stop]))
        bases[name] = first
    return lambda place: (capture.name, bases[place[0]] + place[1]) if place[0] in bases else place


def never_falls(capture: Path) -> bool:
    """Whether the times of a pcap capture only rise."""
    data = capture.read_bytes()
    if data[:4] not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        return False
    times = [struct.unpack_from("<II", record) for record in records_of(data)[1]]
    return list(accumulate(times, max)) == times
