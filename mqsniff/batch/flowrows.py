"""Bundles and what is known of their files as Arrow rows: what scan writes, the shuffle sorts and reduce reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from mqsniff.batch.bundles import Bundle
from mqsniff.batch.origins import ORIGIN_COLUMNS, FileOrigin, Origins
from mqsniff.batch.payloads import PayloadReader
from mqsniff.tables.buffers import bytes_array

BUNDLE_SCHEMA: Final = pa.schema([
    ("flow", pa.binary()),
    ("piece", pa.int32()),
    ("position", pa.int64()),
    ("first_ns", pa.int64()),
    ("segments", pa.int32()),
    ("key", pa.binary()),
    ("columns", pa.binary()),
    ("payload", pa.binary()),
])  # fmt: skip
_FILE: Final = [("place", pa.int64()), ("packet", pa.int64()), ("capture", pa.binary())]
_STORED: Final = ("stored", pa.binary())
"""The pointer to a payload that is not in its row (``payloads``)."""
SCAN_SCHEMA: Final = pa.schema([*BUNDLE_SCHEMA, *_FILE, _STORED, ("report", pa.binary())])
"""Rows of a scan: bundles, each with what is known of its file (``origins``), or the reports of the task."""
CARRIED_SCHEMA: Final = pa.schema([*BUNDLE_SCHEMA, *_FILE, ("floor_ns", pa.int64()), ("before", pa.int64())])
"""Rows that a run leaves to the next one."""
FLOW_SCHEMA: Final = pa.schema([*CARRIED_SCHEMA, _STORED])
"""Rows of a reduce task."""


def bundle_columns(bundles: Sequence[Bundle], origins: Mapping[int, FileOrigin]) -> list[pa.Array]:
    """The columns that scan and reduce have in common, for some bundles; ``origins``: that of each piece."""
    columns = [
        bytes_array(column, field.type) if field.name == "payload" else pa.array(column, field.type)
        for column, field in zip(zip(*bundles, strict=True), BUNDLE_SCHEMA, strict=True)
    ]
    known = zip(*(origins[bundle.piece] for bundle in bundles), strict=True)
    return columns + [pa.array(values, kind) for values, (_, kind) in zip(known, _FILE, strict=True)]


def bundles_of(batches: Iterable[pa.RecordBatch], origins: Origins) -> Iterator[Bundle]:
    """The bundles of Arrow batches, one batch in memory at a time; payloads in it are views, others are read.

    ``origins`` has noted where a bundle comes from when it is given.
    """
    with PayloadReader() as reader:
        for batch in batches:
            origins.note(zip(*(batch.column(name).to_pylist() for name in ORIGIN_COLUMNS), strict=True))
            *small, payload = (batch.column(name) for name in BUNDLE_SCHEMA.names)
            payloads = _payloads(payload, batch.column("stored"), reader)
            for row in zip(*(column.to_pylist() for column in small), payloads, strict=True):
                yield Bundle(*row)


def _payloads(held: pa.Array, stored: pa.Array, reader: PayloadReader) -> Iterator[bytes | memoryview]:
    """The payloads of bundles, each read when it is asked for."""
    for view, pointer in zip(_views(held), stored.to_pylist(), strict=True):
        yield view if pointer is None else reader.read(pointer)


def _views(values: pa.Array) -> Iterator[memoryview]:
    """The values of a binary array without nulls."""
    if not len(values):
        return iter(())
    _, offsets, data = values.buffers()
    edges = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].tolist()
    view = memoryview(data or b"")
    return (view[start:stop] for start, stop in pairwise(edges))
