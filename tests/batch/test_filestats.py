"""The row, the problems and the secrets of a file, from the reports on its pieces: as one reader of it gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from mqsniff.batch.filestats import (
    FILE_COLUMNS,
    FileReading,
    FileStats,
    dropped,
    file_rows,
    file_stats,
    problems_of,
    run_schema,
    secrets_of,
    with_run,
)
from mqsniff.batch.inputs import Location
from mqsniff.batch.plan import InputFile
from mqsniff.batch.report import PieceReport
from mqsniff.limits import Limits
from mqsniff.model import PacketProblem, Problem, ProblemItem, packet_id
from mqsniff.sources.parsers import NOT_COUNTED, SectionLosses, Spent
from mqsniff.sources.pcapng_blocks import MORE_NOTES, MORE_SECRETS
from mqsniff.tables.schemas import arrow_schema

FILE = InputFile(
    3, 5, "a.pcap", "/x/a.pcap", Location("/x/a.pcap"), 900, 77, "pcap", "gzip", first_ns=10, domain="site"
)
WHOLE = packet_id(3, 0)


def report(**fields: Any) -> PieceReport:
    return replace(PieceReport(0, 3), **fields)


FIRST = report(
    packets=4,
    other_packets=1,
    left_out_packets=2,
    first_ns=10,
    largest_ns=30,
    linktypes=[113, 1],
    losses=SectionLosses({0: (0, 6)}, 0, None),
)
SECOND = report(packets=3, other_packets=2, left_out_packets=1, first_ns=25, largest_ns=28, linktypes=[1, 101])
EMPTY = report(packets=0)


# ---- the row


def test_the_row_of_a_file_adds_up_its_pieces() -> None:
    assert file_stats(FileReading(FILE, [EMPTY, FIRST, SECOND]), []) == FileStats(
        index=3,
        name="a.pcap",
        uri="/x/a.pcap",
        size=900,
        mtime_ns=77,
        format="pcap",
        compression="gzip",
        linktypes=(1, 101, 113),
        first_ns=10,
        last_ns=30,
        packets=7,
        other_packets=3,
        left_out_packets=3,
        dropped=6,
        status="ok",
        error="",
        domain="site",
    )


def test_a_file_without_packets_has_no_times() -> None:
    stats = file_stats(FileReading(FILE, [EMPTY]), [])
    assert (stats.first_ns, stats.last_ns, stats.packets, stats.linktypes, stats.status) == (None, None, 0, (), "empty")


DAMAGE = ProblemItem(None, Problem("input", "error", "cut"), None, WHOLE)


@pytest.mark.parametrize(
    ("reading", "problems", "status"),
    [
        (FileReading(replace(FILE, status="skipped"), [FIRST]), [DAMAGE], ("skipped", "")),
        (FileReading(replace(FILE, status="unreadable", error="gone"), [FIRST]), [DAMAGE], ("unreadable", "gone")),
        (FileReading(FILE, [report(unreadable="no capture"), FIRST], "why"), [], ("unreadable", "no capture")),
        (FileReading(FILE, [], "why"), [], ("unreadable", "why")),
        (FileReading(FILE, [FIRST], "why"), [], ("ok", "")),
        (FileReading(FILE, [FIRST]), [DAMAGE], ("damaged", "cut")),
        (FileReading(FILE, [FIRST]), [replace(DAMAGE, packet=packet_id(3, 1))], ("ok", "")),
        (FileReading(FILE, [FIRST]), [replace(DAMAGE, packet=None)], ("damaged", "cut")),
        (FileReading(FILE, [FIRST]), [replace(DAMAGE, problem=Problem("input", "info", "odd"))], ("ok", "")),
        (FileReading(FILE, [FIRST]), [replace(DAMAGE, problem=Problem("limit", "error", "odd"))], ("ok", "")),
        (FileReading(FILE, [EMPTY, EMPTY]), [], ("empty", "")),
        (FileReading(FILE, [EMPTY, SECOND]), [], ("ok", "")),
    ],
)
def test_the_status_of_a_file_says_what_became_of_it(
    reading: FileReading, problems: list[ProblemItem], status: tuple[str, str]
) -> None:
    stats = file_stats(reading, problems)
    assert (stats.status, stats.error) == status


@pytest.mark.parametrize(
    ("losses", "count"),
    [
        ([SectionLosses({}, 0, None)], 0),
        ([SectionLosses({0: (2, 5)}, 0, None)], 5),
        ([SectionLosses({0: (2, NOT_COUNTED)}, 0, None)], 2),
        ([SectionLosses({0: (2, NOT_COUNTED)}, 0, None), SectionLosses({0: (3, NOT_COUNTED)}, 0, None)], 5),
        ([SectionLosses({0: (2, 4)}, 0, None), SectionLosses({0: (3, NOT_COUNTED)}, 0, None)], 5),
        ([SectionLosses({0: (2, 4)}, 0, None), SectionLosses({0: (3, 9)}, 0, None)], 9),
        ([SectionLosses({0: (0, 4), 1: (0, 5)}, 0, None)], 9),
        ([SectionLosses({0: (0, 4)}, 10, {0: (0, 7)})], 21),
        ([SectionLosses({0: (0, 4)}, 10, {0: (1, NOT_COUNTED)}), SectionLosses({0: (2, NOT_COUNTED)}, 0, None)], 17),
    ],
)
def test_packets_that_the_capturing_side_lost_are_counted_over_pieces(losses: list[SectionLosses], count: int) -> None:
    assert dropped([report(losses=each) for each in losses]) == count


# ---- its problems


def odd(detail: str, **fields: Any) -> Problem:
    return Problem("input", "warning", detail, **fields)


def test_a_file_that_was_skipped_has_no_problem_and_one_that_cannot_be_read_has_one() -> None:
    skipped = FileReading(replace(FILE, status="skipped"), [report(problems=[odd("x")])])
    assert problems_of(skipped, Limits()) == []
    gone = FileReading(replace(FILE, status="unreadable", error="gone"), [])
    assert problems_of(gone, Limits()) == [ProblemItem(None, Problem("input", "error", "/x/a.pcap: gone"), None, WHOLE)]


def test_problems_of_pieces_are_told_once_with_packets_counted_from_the_start_of_the_file() -> None:
    pieces = [
        report(packets=4, problems=[odd("packet 2 is odd", packet=2, ts_ns=20), odd("a note")]),
        report(packets=3, problems=[odd("packet 2 is odd", packet=2, ts_ns=25), odd("a note")]),
    ]
    assert problems_of(FileReading(FILE, pieces), Limits()) == [
        ProblemItem(None, odd("packet 2 is odd", packet=WHOLE, ts_ns=20), 20, WHOLE),
        ProblemItem(None, odd("a note", packet=WHOLE), None, WHOLE),
        ProblemItem(None, odd("packet 6 is odd", packet=WHOLE, ts_ns=25), 25, WHOLE),
    ]


def test_problems_of_packets_stand_before_those_of_the_file_at_their_packet() -> None:
    once = Problem("malformed", "error", "odd link")
    pieces = [
        report(packets=4, problems=[odd("a note")]),
        report(packets=3, once=[PacketProblem(0, 25, 2, 60, once)]),
        report(packets=3, once=[PacketProblem(0, 35, 1, 60, once)]),
    ]
    assert problems_of(FileReading(FILE, pieces), Limits()) == [
        ProblemItem(None, once, 25, packet_id(3, 6)),
        ProblemItem(None, odd("a note", packet=WHOLE), None, WHOLE),
    ]


def test_where_reading_failed_is_told() -> None:
    detail = "reading failed at byte 700: gone"
    told = Problem("input", "error", detail, offset=700, packet=WHOLE)
    assert problems_of(FileReading(FILE, [FIRST], "gone", 700), Limits()) == [ProblemItem(None, told, None, WHOLE)]


@pytest.mark.parametrize(
    ("notes", "left_out"),
    [
        ([Spent(0, 0)], False),
        ([Spent(9, 5)], False),
        ([Spent(10, 5)], False),
        ([Spent(14, 5)], False),
        ([Spent(15, 5)], True),
        ([Spent(10, 5), Spent(0, 0)], False),
        ([Spent(10, 5), Spent(5, 5)], True),
        ([Spent(9, 5), Spent(5, 5)], False),
        ([Spent(9, 5), Spent(6, 5)], True),
    ],
)
def test_notes_beyond_their_limit_are_told_once(notes: list[Spent], left_out: bool) -> None:
    found = problems_of(FileReading(FILE, [report(notes=each) for each in notes]), Limits(notes_max=10))
    told = Problem("limit", "info", MORE_NOTES, packet=WHOLE)
    assert found == [ProblemItem(None, told, None, WHOLE)] * left_out


def test_secrets_of_a_file_are_kept_up_to_their_limit_and_the_rest_is_told() -> None:
    pieces = [report(secrets=[(1, b"four"), (2, b"seven..")]), report(secrets=[(3, b"six...")])]
    for most, kept in ((17, 3), (16, 2), (11, 2), (10, 2), (4, 1), (3, 0)):
        limits = Limits(secrets_max=most)
        found = secrets_of(pieces, limits)
        assert len(found) == kept
        told = Problem("limit", "error", MORE_SECRETS, packet=WHOLE)
        problems = problems_of(FileReading(FILE, pieces), limits)
        assert problems == [ProblemItem(None, told, None, WHOLE)] * (kept < 3)
    assert secrets_of(pieces, Limits(secrets_max=10)) == ((1, b"four"), (3, b"six..."))


# ---- rows


def test_rows_of_files_have_every_column_and_their_run() -> None:
    row = {column.name: None for column in FILE_COLUMNS} | {
        "uri": "/x/a.pcap",
        "capture": "a.pcap",
        "size": 900,
        "format": "pcap",
        "compression": "",
        "linktypes": ["1"],
        "first_ts": 10_000,
        "packets": 7,
        "other_packets": 3,
        "dropped": 6,
        "status": "ok",
        "domain": "",
    }
    rows = file_rows([row], "r1")
    assert rows.schema == run_schema("files")
    assert rows.num_rows == 1
    told = {name: column.to_pylist()[0] for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    del told["first_ts"]
    assert rows["first_ts"].cast("int64").to_pylist() == [10], "microseconds"
    assert told == {name: value for name, value in row.items() if name != "first_ts"} | {"run_id": "r1"}


def test_the_tables_of_a_run_are_those_of_decode_and_the_run_last() -> None:
    schema = run_schema("messages")
    assert schema.names == [*arrow_schema("messages").names, "run_id"]
    assert not schema.field("run_id").nullable
    empty = arrow_schema("messages").empty_table().to_batches(max_chunksize=1)
    batch = empty[0] if empty else pa.RecordBatch.from_pylist([], schema=arrow_schema("messages"))
    assert with_run(batch, "messages", "r1").schema == schema
    files = run_schema("files")
    assert files.names == [*(column.name for column in FILE_COLUMNS), "run_id"]
    assert files.metadata[b"mqsniff.table"] == b"files"
    assert [files.field(column.name).nullable for column in FILE_COLUMNS] == [
        column.nullable for column in FILE_COLUMNS
    ]
