"""Splits as rows, and reports as blocks: all that a task needs and says, and nothing that grows with other files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from simulated import HEADS, simulated

from mqsniff.batch.inputs import Location
from mqsniff.batch.plan import FILES_MAX, InputFile, PieceMaker, Split
from mqsniff.batch.report import PieceReport, digest_of
from mqsniff.batch.reportrows import read_reports, report_block
from mqsniff.batch.splitrows import read_split, split_rows, stores_of
from mqsniff.model import Problem
from mqsniff.sources.parsers import Head, SectionLosses, Spent

STORE = "s3://KEY:SECRET@bucket/a.pcap?endpoint_override=host:9000&scheme=http"


def test_a_row_gives_back_its_split_and_the_files_that_it_reads() -> None:
    one = InputFile(4, 2, "caf\udce9.pcap", "/x", Location("/taps/caf\udce9.pcap", "", 90, 5), 90, 5, heads=HEADS)
    two = replace(one, index=0, location=Location("bucket/a.pcap", STORE, 90, None), compression="zstd", domain="d")
    files = [two, one, one, one, one]
    splits = [*PieceMaker(40).cut(one, 0), *PieceMaker(40).whole([two, replace(one, index=1)])]
    stores = stores_of(files)
    rows = split_rows(splits, files, stores)
    read = [read_split(row, stores) for row in rows]
    assert [each.split for each in read] == splits
    assert "SECRET" not in "".join(rows)
    assert stores == ("", "s3://KEY:SECRET@bucket/?endpoint_override=host:9000&scheme=http")
    back = read[1].files[4]
    assert (back.index, back.rank, back.name, back.location, back.heads) == (4, 2, one.name, one.location, HEADS)
    whole = next(each.files[0] for each in read if 0 in each.files)
    assert (whole.location.path, whole.location.store, whole.compression) == ("bucket/a.pcap", stores[1], "zstd")
    assert (whole.domain, whole.heads) == ("d", ())


def test_many_files_named_one_by_one_have_one_file_system() -> None:
    files = [
        InputFile(index, index, "", "", Location(f"bucket/{index}", STORE.replace("a.pcap", str(index))), 1, None)
        for index in range(50)
    ]
    assert len(stores_of(files)) == 2


@pytest.mark.parametrize("count", [1000, 20_000])
def test_a_row_is_as_large_with_any_number_of_files(count: int) -> None:
    work = simulated(count)
    rows = split_rows(work.splits, work.files, stores_of(work.files))
    assert max(map(len, rows)) < 120 * max(len(split.pieces) for split in work.splits)
    assert len(rows) == len(work.splits)


def reports() -> Iterator[PieceReport]:
    plain = PieceReport(3, 4, 0, 900, is_last=True, heads_before=digest_of(()), linktypes=[1, 113], packets=7)
    plain = replace(plain, last_ns=5, largest_ns=9, first_ns=5, bundles=2, bundle_bytes=700, segments=6, cpu_ns=100)
    yield plain
    yield replace(plain, piece=5, packets=0, first_ns=None, largest_ns=None, linktypes=[])
    yield replace(plain, piece=6, problems=[Problem("input", "error", "cut \udce9"[:4], offset=3)])
    yield replace(plain, piece=7, begin=4, heads=[Head(9, b"\xff")], losses=SectionLosses({0: (1, 2)}, 3, {}))
    yield replace(plain, piece=8, notes=Spent(4, 2), secrets=[(1, b"\xff")])
    yield PieceReport(9, 4, failure="no such file or directory", is_lost=True)


def test_a_block_of_reports_gives_them_back() -> None:
    assert list(read_reports(report_block(reports()))) == list(reports())


def test_heads_of_files_that_were_read_whole_stay_behind_and_their_losses_do_not() -> None:
    first = next(reports())
    heads = replace(first, heads=[*HEADS], losses=SectionLosses({0: (0, 0)}, 0, None))
    lossy = replace(heads, losses=SectionLosses({0: (0, 4)}, 0, None))
    assert list(read_reports(report_block([heads, lossy]))) == [first, lossy]


def test_a_report_of_a_file_read_whole_takes_few_bytes() -> None:
    first = next(reports())
    many = [replace(first, piece=number, file=number, packets=number % 900) for number in range(10_000)]
    block = report_block(many)
    assert len(block) < 30 * len(many)
    assert pa.ipc.open_stream(block).read_all()["rest"].null_count == len(many)


def test_splits_hold_a_bounded_number_of_files() -> None:
    splits: tuple[Split, ...] = simulated(20_000, size=10).splits
    assert max(len(split.pieces) for split in splits) <= FILES_MAX
