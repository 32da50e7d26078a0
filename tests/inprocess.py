"""The tasks of a batch job one after the other in this process: the oracle for what Spark schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from mqsniff.batch.bundles import Bundle, PiecePlaces
from mqsniff.batch.finalize import Rewrite, Rewriter
from mqsniff.batch.plan import ScanPlan, Split
from mqsniff.batch.reduce import TaskOutput
from mqsniff.batch.tasks import BUNDLE_SCHEMA, bundles_of, learn_task, reduce_task, rewrite_task, scan_task
from mqsniff.topics import TopicDirectory, shows_other_names


class InProcess:
    """Keeps bundles in memory; partitions, sorts and attempts as Spark does."""

    def __init__(self) -> None:
        self._bundles: list[Bundle] = []
        self._scanned: list[tuple[ScanPlan, Split]] = []
        self.names = 0
        self.stale = 0
        """Parts that were rewritten because they showed other names than the one that counts."""

    def check_workers(self) -> None:
        """The worker is the driver."""

    def scan(self, work: ScanPlan, splits: Sequence[Split]) -> list[str]:
        reports = []
        for split in splits:
            self._scanned.append((work, split))
            for rows in scan_task(work, split):
                told = [text for text in rows.column("report").to_pylist() if text is not None]
                reports += told
                if not told:
                    self._bundles += bundles_of([rows])
        return reports

    def reduce(self, placing: PiecePlaces, names: Sequence[str], output: TaskOutput, partitions: int) -> list[str]:
        return [
            text
            for rows in self._flows(placing, partitions)
            for text in reduce_task(rows, placing, names, output, self._name())
        ]

    def share(self, key_file: str) -> str:
        return key_file

    def learn(self, placing: PiecePlaces, output: TaskOutput, partitions: int) -> list[str]:
        return [text for rows in self._flows(placing, partitions) for text in learn_task(rows, placing, output)]

    def _flows(self, placing: PiecePlaces, partitions: int) -> Iterator[list[pa.RecordBatch]]:
        shares: list[list[Bundle]] = [[] for _ in range(partitions)]
        for bundle in self._bundles:
            if bundle.piece in placing.places:
                shares[bundle.flow[0] % partitions].append(bundle)
        for share in shares:
            share.sort(key=lambda bundle: (bundle.flow, *placing.key(bundle)))
            rows = [bundle._asdict() for bundle in share]
            yield [pa.RecordBatch.from_pylist(rows, BUNDLE_SCHEMA)] if rows else []

    def lose_executor(self) -> None:
        """Lose all bundles that are kept; what is scanned again for them may differ, and nobody reads its reports."""
        self._bundles = []
        for work, split in self._scanned:
            for rows in scan_task(work, split):
                if not any(rows.column("report").to_pylist()):
                    self._bundles += bundles_of([rows])

    def rewrite(self, wanted: Sequence[Rewrite], rewriter: Rewriter) -> list[str]:
        names = TopicDirectory(rewriter.taught).names
        for part in (part for each in wanted for part in each.parts):
            self.stale += shows_other_names(part.topic_ids, names)
        return [text for each in wanted for text in rewrite_task(each, rewriter, self._name())]

    def clean_up(self) -> None:
        self._bundles = []

    def _name(self) -> str:
        self.names += 1
        return f"{self.names:05d}-0-00000000"
