"""A file and the reports of its pieces in; its row in the table of files, its problems and its secrets out.

1. The result equals that of one reader of the whole file: each problem once, with packet numbers of the file, and
   limits counted over all pieces.
2. A file that cannot be read has a row, and a problem that names its URI.
3. The table ``files`` tells where rows came from. Only batch runs have it, and ``run_id``, the last column of each of
   their tables. Its URIs hold no credentials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from mqsniff.batch.plan import FileStatus, InputFile
from mqsniff.batch.report import PieceReport
from mqsniff.limits import Limits
from mqsniff.model import Problem, ProblemItem, packet_id, packet_number
from mqsniff.sources.batches import PROBLEMS_MAX
from mqsniff.sources.parsers import NOT_COUNTED, Losses, lost
from mqsniff.sources.pcapng_blocks import MORE_NOTES, MORE_SECRETS
from mqsniff.tables.schemas import SCHEMA_VERSION, Column, TableName, arrow_schema, arrow_type

if TYPE_CHECKING:
    import pyarrow as pa


Secrets: TypeAlias = tuple[tuple[int, bytes], ...]
"""(type, data) of decryption secrets."""


@dataclass(frozen=True, slots=True)
class FileStats:
    """A row of the table of files, without the run."""

    index: int
    name: str
    uri: str
    size: int
    mtime_ns: int | None
    format: str
    compression: str
    linktypes: tuple[int, ...]
    first_ns: int | None
    last_ns: int | None
    """The largest time."""
    packets: int
    other_packets: int
    left_out_packets: int
    dropped: int
    """Packets that the capturing side says it lost."""
    status: FileStatus
    error: str
    domain: str


class FileReading(NamedTuple):
    """The pieces of a file that count, in file order, and why others do not."""

    file: InputFile
    reports: Sequence[PieceReport]
    failure: str = ""
    """Why it could not be read on from ``end``."""
    end: int = 0

    @property
    def unreadable(self) -> str:
        """Why nothing of the file could be read; empty if something was."""
        if self.file.status == "unreadable":
            return self.file.error
        return self.reports[0].unreadable if self.reports else self.failure


def file_stats(reading: FileReading, problems: Sequence[ProblemItem]) -> FileStats:
    """The row of a file that was scanned completely; ``problems`` are those of the file."""
    file, reports = reading.file, reading.reports
    status, error = _status(reading, problems)
    return FileStats(
        index=file.index,
        name=file.name,
        uri=file.uri,
        size=file.size,
        mtime_ns=file.mtime_ns,
        format=file.format,
        compression=file.compression,
        linktypes=tuple(sorted({linktype for report in reports for linktype in report.linktypes})),
        first_ns=next((report.first_ns for report in reports if report.packets), None),
        last_ns=max((report.largest_ns for report in reports if report.largest_ns is not None), default=None),
        packets=sum(report.packets for report in reports),
        other_packets=sum(report.other_packets for report in reports),
        left_out_packets=sum(report.left_out_packets for report in reports),
        dropped=dropped(reports),
        status=status,
        error=error,
        domain=file.domain,
    )


def _status(reading: FileReading, problems: Sequence[ProblemItem]) -> tuple[FileStatus, str]:
    if reading.file.status == "skipped":
        return "skipped", ""
    if reading.unreadable:
        return "unreadable", reading.unreadable
    for noticed in problems:
        is_whole = not packet_number(noticed.packet or 0)
        if is_whole and (noticed.problem.kind, noticed.problem.severity) == ("input", "error"):
            return "damaged", noticed.problem.detail
    return ("ok", "") if any(report.packets for report in reading.reports) else ("empty", "")


def dropped(reports: Sequence[PieceReport]) -> int:
    """Packets that the capturing side of a file lost: a section may span pieces."""
    over = 0
    section: Losses = {}
    for report in reports:
        first, between, last = report.losses
        for interface, (counted, total) in first.items():
            before = section.get(interface, (0, NOT_COUNTED))
            section[interface] = before[0] + counted, before[1] if total == NOT_COUNTED else total
        if last is not None:
            over += lost(section) + between
            section = dict(last)
    return over + lost(section)


def problems_of(reading: FileReading, limits: Limits) -> list[ProblemItem]:
    """The problems of a file, as one reader of the whole file reports them."""
    file = reading.file
    whole = packet_id(file.index, 0)
    if file.status == "skipped":
        return []
    if reading.unreadable:
        return [ProblemItem(None, Problem("input", "error", f"{file.uri}: {reading.unreadable}"), None, whole)]
    packets = 0
    own: dict[str, Problem] = {}
    once: dict[str, ProblemItem] = {}
    for report in reading.reports:
        for problem in report.problems:
            moved = _moved(problem, packets)
            own.setdefault(moved.detail, replace(moved, packet=whole))
        for each in report.once:
            packet = packet_id(file.index, packets + packet_number(each.packet))
            once.setdefault(each.problem.detail, ProblemItem(None, each.problem, each.ts_ns, packet))
        packets += report.packets
    if reading.failure:
        detail = f"reading failed at byte {reading.end}: {reading.failure}"
        own[detail] = Problem("input", "error", detail, offset=reading.end, packet=whole)
    if _notes_left_out(reading.reports, limits):
        own.setdefault(MORE_NOTES, Problem("limit", "info", MORE_NOTES, packet=whole))
    if len(secrets_of(reading.reports, limits)) < sum(len(report.secrets) for report in reading.reports):
        own.setdefault(MORE_SECRETS, Problem("limit", "error", MORE_SECRETS, packet=whole))
    noticed = [ProblemItem(None, problem, problem.ts_ns, whole) for problem in list(own.values())[:PROBLEMS_MAX]]
    return [*once.values(), *noticed]


def _notes_left_out(reports: Sequence[PieceReport], limits: Limits) -> bool:
    """Whether a note came after the limit of notes was reached."""
    spent = 0
    for report in reports:
        spent += report.notes.size
        if report.notes.size and spent - report.notes.last >= limits.notes_max:
            return True
    return False


def _moved(problem: Problem, packets: int) -> Problem:
    """A problem of a piece, with its packet counted from the start of the file; ``packets`` precede the piece."""
    if problem.packet is None:
        return problem
    number = f"packet {problem.packet}"
    return replace(problem, detail=problem.detail.replace(number, f"packet {problem.packet + packets}"))


def secrets_of(reports: Sequence[PieceReport], limits: Limits) -> Secrets:
    """The decryption secrets of a file, up to their limit."""
    room = limits.secrets_max
    kept = []
    for kind, data in (secret for report in reports for secret in report.secrets):
        if len(data) <= room:
            room -= len(data)
            kept.append((kind, data))
    return tuple(kept)


# ---- the table of files

FILES: Final = "files"
RUN_ID: Final = Column("run_id", "text", "run that wrote the row", "", nullable=False)

FILE_COLUMNS: Final = (
    Column("uri", "text", "where it was read from, without credentials", "", nullable=False),
    Column("capture", "text", "its name in the other tables", "", nullable=False),
    Column("size", "int64", "its length as it is stored", "bytes"),
    Column("mark", "text", "modification time or entity tag: it changes when the content changes"),
    Column("format", "text", "pcap, pcapng, … or unknown", "", nullable=False),
    Column("compression", "text", "gzip, zstd, … or empty", "", nullable=False),
    Column("linktypes", "texts", "link types of its packets, as numbers"),
    Column("first_ts", "timestamp", "first packet"),
    Column("last_ts", "timestamp", "last packet"),
    Column("packets", "int64", "packets in it", "packets", nullable=False),
    Column("other_packets", "int64", "number of these that are not TCP", "packets", nullable=False),
    Column("dropped", "int64", "packets that the capturing host reports as lost", "packets", nullable=False),
    Column("status", "text", "ok, or what is wrong: cut, empty, unreadable, …", "", nullable=False),
    Column("error", "text", "why it could not be read, or not to its end"),
    Column("domain", "text", "capture domain", "", nullable=False),
)


@cache
def run_schema(table: TableName | str) -> pa.Schema:
    """The Arrow schema of a table of a batch run: as ``decode`` has it, and ``run_id``."""
    import pyarrow as pa  # noqa: PLC0415  # start-up is a budget

    run_id = pa.field(RUN_ID.name, arrow_type(RUN_ID.type), RUN_ID.nullable, {"doc": RUN_ID.doc})
    if table != FILES:
        return arrow_schema(table).append(run_id)
    fields = [pa.field(c.name, arrow_type(c.type), c.nullable, {"doc": c.doc}) for c in FILE_COLUMNS]
    return pa.schema([*fields, run_id], metadata={"mqsniff.table": FILES, "mqsniff.schema_version": SCHEMA_VERSION})


def with_run(rows: pa.RecordBatch, table: TableName | str, run: str) -> pa.RecordBatch:
    """Rows of a table with the run that wrote them."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    named = pa.repeat(pa.scalar(run, pa.string()), rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, named], schema=run_schema(table))


def file_rows(rows: Sequence[Mapping[str, Any]], run: str) -> pa.RecordBatch:
    """Rows of ``files``; times in nanoseconds."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    from mqsniff.tables.cells import array_of  # noqa: PLC0415  # it imports pyarrow

    columns = [array_of([row.get(column.name) for row in rows], column.type) for column in FILE_COLUMNS]
    columns.append(pa.array([run] * len(rows), pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=run_schema(FILES))
