"""Reports of scan in, one block of columns for each task out; blocks in, reports out.

1. A file that was read whole without incident needs no landing check: fifteen numbers say all of it. Reports of other
   pieces go along as JSON, in the last column.
2. Where a file is not cut, its heads and the losses of its sections are of no further use, and stay behind.
3. Nothing else is lost: what is read equals what was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from mqsniff.batch.filestats import dropped
from mqsniff.batch.report import PieceReport, digest_of
from mqsniff.sources.parsers import SectionLosses

_NUMBERS: Final = (
    *("piece", "file", "end", "first_ns", "last_ns", "largest_ns", "packets", "other_packets", "left_out_packets"),
    *("segments", "bundles", "bundle_bytes", "cpu_ns"),
)
REPORT_SCHEMA: Final = pa.schema([
    *((name, pa.int64()) for name in _NUMBERS),
    ("linktypes", pa.list_(pa.int32())),
    ("rest", pa.string()),
])  # fmt: skip
"""``rest`` is the report as JSON where the other columns do not say all of it."""
_NO_HEADS: Final = digest_of(())
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="zstd")


def report_block(reports: Iterable[PieceReport]) -> bytes:
    """Reports as columns."""
    slim = list(map(_without_details, reports))
    columns = [pa.array(map(attrgetter(name), slim), pa.int64()) for name in _NUMBERS]
    columns.append(pa.array((each.linktypes for each in slim), REPORT_SCHEMA.field("linktypes").type))
    columns.append(pa.array((None if _is_plain(each) else each.to_json().decode() for each in slim), pa.string()))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, REPORT_SCHEMA, options=_OPTIONS) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=REPORT_SCHEMA))
    return bytes(sink.getvalue())


def read_reports(block: bytes) -> Iterator[PieceReport]:
    """The reports of a block."""
    with pa.ipc.open_stream(block) as stream:
        for batch in stream:
            *columns, linktypes, rest = (column.to_pylist() for column in batch.columns)
            for linked, text, *numbers in zip(linktypes, rest, *columns, strict=True):
                yield (
                    PieceReport.from_json(text)
                    if text is not None
                    else _plain(dict(zip(_NUMBERS, numbers, strict=True)), linked)
                )


def _without_details(report: PieceReport) -> PieceReport:
    """A report without what only the landing check needs, if it is about a file that was read whole."""
    if not _is_whole(report) or dropped([report]):
        return report
    return replace(report, heads=[], losses=SectionLosses({}, 0, None), begins_untimed=False)


def _is_whole(report: PieceReport) -> bool:
    return report.begin == 0 and report.is_last and not report.failure and report.heads_before == _NO_HEADS


def _is_plain(report: PieceReport) -> bool:
    """Whether the numbers of a report say all of it."""
    numbers = {name: getattr(report, name) for name in _NUMBERS}
    return report == _plain(numbers, report.linktypes)


def _plain(numbers: dict[str, Any], linktypes: list[int]) -> PieceReport:
    return PieceReport(begin=0, is_last=True, heads_before=_NO_HEADS, linktypes=linktypes, **numbers)
