"""The tasks of a batch job one after the other in this process: the oracle for what Spark schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from mqsniff.batch.bundles import TIME_MIN
from mqsniff.batch.carried import CarriedIn
from mqsniff.batch.finalize import Rewrite, Rewriter
from mqsniff.batch.flowrows import FLOW_SCHEMA
from mqsniff.batch.job import JobReport
from mqsniff.batch.origins import PieceShift
from mqsniff.batch.payloads import PayloadWriter
from mqsniff.batch.plan import ScanOptions, ScanPlan, Split
from mqsniff.batch.splitrows import Stores, split_rows, stores_of
from mqsniff.batch.tasks import carried_task, learn_task, reduce_task, rewrite_rows, rewrite_task, scan_task
from mqsniff.batch.tasktables import TaskOutput
from mqsniff.topics import TopicDirectory, shows_other_names


def _order(row: dict[str, Any]) -> tuple[bytes, int, int]:
    """What a task's rows are sorted by."""
    return row["flow"], max(row["floor_ns"], row["first_ns"]), row["place"] + row["before"] + row["position"]


class InProcess:
    """Keeps bundles in memory; partitions, sorts and attempts as Spark does."""

    def __init__(self, payload_folder: str = "") -> None:
        self._payload_folder = payload_folder
        self._rows: list[dict[str, Any]] = []
        self._scanned: list[tuple[str, Stores, ScanOptions]] = []
        self.names = 0
        self.shown: list[str] = []
        self.stale = 0
        """Parts that were rewritten because they showed other names than the one that counts."""

    def check_workers(self) -> int:
        """The worker is the driver, and the only one."""
        return 1

    def scan(self, work: ScanPlan, splits: Sequence[Split]) -> list[bytes]:
        stores = stores_of(work.files)
        rows = split_rows(splits, work.files, stores)
        self._scanned += [(row, stores, work.options) for row in rows]
        return [report for row in rows for report in self._scan(row, stores, work.options)]

    def _scan(self, row: str, stores: Stores, options: ScanOptions) -> Iterator[bytes]:
        """Keep the bundles of a split; gives its reports."""
        with PayloadWriter(self._payload_folder, self._name()) as writer:
            for rows in scan_task(row, stores, options, writer):
                for each in rows.to_pylist():
                    report = each.pop("report")
                    if report is None:
                        self._rows.append(each)
                    else:
                        yield report

    def reduce(
        self, shifts: Sequence[PieceShift], output: TaskOutput, partitions: int, carried: CarriedIn
    ) -> list[str]:
        return [
            text
            for rows in self._flows(shifts, output, partitions, carried)
            for text in reduce_task(rows, output, self._name())
        ]

    def share(self, key_file: str) -> str:
        return key_file

    def learn(self, shifts: Sequence[PieceShift], output: TaskOutput, partitions: int, carried: CarriedIn) -> list[str]:
        return [text for rows in self._flows(shifts, output, partitions, carried) for text in learn_task(rows, output)]

    def _flows(
        self, shifts: Sequence[PieceShift], output: TaskOutput, partitions: int, carried: CarriedIn
    ) -> Iterator[list[pa.RecordBatch]]:
        by_piece = {shift.piece: shift for shift in shifts}
        shares: list[list[dict[str, Any]]] = [[] for _ in range(partitions)]
        for row in self._rows:
            shift = by_piece.get(row["piece"], PieceShift(row["piece"], TIME_MIN, 0, counts=True))
            if shift.counts:
                place = {"floor_ns": max(shift.floor_ns, carried.floor_ns), "before": shift.before}
                shares[row["flow"][0] % partitions].append(row | place)
        for path in carried.parts:
            for rows in carried_task(path, output.uri):
                for row in rows.to_pylist():
                    shares[row["flow"][0] % partitions].append(row)
        for share in shares:
            share.sort(key=_order)
            yield [pa.RecordBatch.from_pylist(share, FLOW_SCHEMA)] if share else []

    def lose_executor(self) -> None:
        """Lose all bundles that are kept; what is scanned again for them may differ, and nobody reads its reports."""
        self._rows = []
        for scanned in self._scanned:
            list(self._scan(*scanned))

    def rewrite(self, wanted: Sequence[Rewrite], rewriter: Rewriter) -> list[str]:
        names = TopicDirectory(rewriter.taught).names
        for part in (part for each in wanted for part in each.parts):
            self.stale += shows_other_names(part.topic_ids, names)
        return [text for row in rewrite_rows(wanted) for text in rewrite_task(row, rewriter, self._name())]

    def show(self, report: JobReport) -> None:
        self.shown.append(report.headline())

    def clean_up(self) -> None:
        self._rows = []

    def _name(self) -> str:
        self.names += 1
        return f"{self.names:05d}-0-00000000"
