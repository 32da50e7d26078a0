"""The tasks of a Spark job as functions of Arrow batches, without Spark.

1. A task turns a stream into a stream; its memory is bounded by a window, a flow, and the rows that wait to be written.
2. The last rows of a task are its result; files that no result names do not count.
3. Traffic never raises; an exception fails the attempt, and Spark repeats it.
4. ``versions`` must be equal in the driver and all workers: Python, mqsniff, and a digest of the data files of
   dissectors, which are built and may be older than the code.
"""

from __future__ import annotations

import gc
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa

from mqsniff import __version__
from mqsniff.batch.bundles import Bundle, bundle_size
from mqsniff.batch.carried import read_carried
from mqsniff.batch.finalize import Rewrite, Rewriter
from mqsniff.batch.flowrows import SCAN_SCHEMA, bundle_columns, bundles_of
from mqsniff.batch.origins import FileOrigin, Origins, PieceShift, origin_of
from mqsniff.batch.payloads import PayloadWriter
from mqsniff.batch.plan import ScanOptions
from mqsniff.batch.reduce import Reducer, TopicLearner
from mqsniff.batch.report import PieceReport
from mqsniff.batch.reportrows import report_block
from mqsniff.batch.scan import scan
from mqsniff.batch.splitrows import Stores, read_split
from mqsniff.batch.store import Store
from mqsniff.batch.tasktables import TaskOutput
from mqsniff.decode.registry import GROUP
from mqsniff.limits import MIB

# ---- versions of workers and driver

_CODE: Final = frozenset((".py", ".pyc", ".pyi", ".so"))


@cache
def versions() -> dict[str, str]:
    """Name -> version of what has to be equal in all processes."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, "mqsniff": __version__, "protocol data": _digest()}


def difference(theirs: dict[str, str], ours: dict[str, str] | None = None) -> str | None:
    """How other versions differ from ours, in words; None if they are equal."""
    ours = ours or versions()
    differing = [f"{name} {theirs.get(name)}, not {ours[name]}" for name in ours if theirs.get(name) != ours[name]]
    return ", ".join(differing) or None


def _digest() -> str:
    """A digest of the data files of all packages that hold dissectors."""
    digest = blake2b(digest_size=6)
    for name in sorted({point.module.partition(".")[0] for point in entry_points(group=GROUP)}):
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file() and path.suffix not in _CODE:
                    digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


# ---- tasks

BATCH_BYTES: Final = 4 * MIB
"""Bytes of bundles in one Arrow batch."""

OBJECTS: Final = 10_000
"""Threshold of the garbage collector: decoding makes many objects and few cycles."""
SHIFT_SCHEMA: Final = pa.schema([
    ("piece", pa.int32()), ("floor_ns", pa.int64()), ("before", pa.int64()), ("counts", pa.bool_()),
])  # fmt: skip


def scan_task(row: str, stores: Stores, options: ScanOptions, writer: PayloadWriter) -> Iterator[pa.RecordBatch]:
    """Bundles of a split, as Arrow batches of bounded size, then its reports; ``row`` is one of ``splitrows``."""
    split, files = read_split(row, stores)
    reports: list[PieceReport] = []
    waiting: list[Bundle] = []
    pointers: list[bytes | None] = []
    size = 0
    origins = {piece.number: origin_of(files[piece.file], options.first_file) for piece in split.pieces}
    for each in scan(split, files, options):
        if isinstance(each, PieceReport):
            reports.append(each)
            continue
        pointer = writer.store(each.payload)
        held = each if pointer is None else each._replace(payload=b"")
        waiting.append(held)
        pointers.append(pointer)
        size += bundle_size(held)
        if size >= BATCH_BYTES:
            yield _bundle_rows(waiting, pointers, origins)
            waiting, pointers, size = [], [], 0
    if waiting:
        yield _bundle_rows(waiting, pointers, origins)
    yield pa.RecordBatch.from_pylist([{"report": report_block(reports)}], SCAN_SCHEMA)


def reduce_task(batches: Iterable[pa.RecordBatch], output: TaskOutput, attempt: str) -> Iterator[str]:
    """Decode the bundles of a partition; gives the result as JSON, nothing for a partition without bundles."""
    origins = Origins()
    bundles = bundles_of(batches, origins)
    first = next(bundles, None)
    if first is not None:
        with rarely_collected():
            done = Reducer(output, origins, attempt).run(chain((first,), bundles))
        yield orjson.dumps(done.plain()).decode()


def learn_task(batches: Iterable[pa.RecordBatch], output: TaskOutput) -> Iterator[str]:
    """The topic names that the bundles of a partition teach, as JSON; nothing for a partition without bundles."""
    origins = Origins()
    bundles = bundles_of(batches, origins)
    first = next(bundles, None)
    if first is not None:
        with rarely_collected():
            history = TopicLearner(origins, output).run(chain((first,), bundles))
        yield orjson.dumps(list(history.rows())).decode()


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Collect garbage less often; the old setting is restored, as other jobs may use the worker later."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def rewrite_task(row: str, rewriter: Rewriter, attempt: str) -> Iterator[str]:
    """Rewrite some parts; gives the result as JSON. ``row`` is one of ``rewrite_rows``."""
    yield orjson.dumps(rewriter.run(Rewrite.of(json.loads(row)), attempt).plain()).decode()


def carried_task(path: str, uri: str) -> Iterator[pa.RecordBatch]:
    """The carried rows of a file in OUT, whose URI may hold credentials."""
    yield from read_carried(Store.at(uri), (path,))


def rewrite_rows(wanted: Iterable[Rewrite]) -> list[str]:
    """A row for each rewrite."""
    return [json.dumps(each.plain()) for each in wanted]


def _bundle_rows(
    bundles: Sequence[Bundle], pointers: Sequence[bytes | None], origins: Mapping[int, FileOrigin]
) -> pa.RecordBatch:
    """Bundles, where their payloads are, and what is known of their files; ``origins``: that of each piece."""
    columns = [*bundle_columns(bundles, origins), pa.array(pointers, pa.binary()), pa.nulls(len(bundles), pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=SCAN_SCHEMA)


def shift_table(shifts: Sequence[PieceShift]) -> pa.Table:
    """What bundles are joined with: a row for each piece that does not begin a file, or does not count."""
    columns = [pa.array([row[index] for row in shifts], kind) for index, kind in enumerate(SHIFT_SCHEMA.types)]
    return pa.table(columns, schema=SHIFT_SCHEMA)


def text_rows(texts: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Texts as the rows of a task."""
    for text in texts:
        yield pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=["text"])


def task_name() -> str:
    """A unique name for this attempt of a task."""
    from pyspark import TaskContext  # noqa: PLC0415  # only in workers

    context = TaskContext.get()
    where = "0" if context is None else f"{context.partitionId():05d}-{context.attemptNumber()}"
    return f"{where}-{os.urandom(4).hex()}"


def with_keys(output: TaskOutput) -> TaskOutput:
    """With the paths of the files of keys, in a task."""
    from pyspark import SparkFiles  # noqa: PLC0415  # only in workers

    paths = [name and SparkFiles.get(name) for name in (output.key_file, output.hash_key_file)]
    return replace(output, key_file=paths[0], hash_key_file=paths[1])
