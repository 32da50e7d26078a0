"""A plan in, a preview of its run out: files, splits, tasks, and the expected bytes of the shuffle.

Bundles hold payloads and 46 bytes per segment, about as much as the packet headers in captures. The size of a
decompressed file is a guess (``plan.EXPANSION``), and filters are not counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mqsniff.batch.handover import windows_of
from mqsniff.batch.inputs import list_inputs
from mqsniff.batch.job import JobOptions, counted
from mqsniff.batch.jobruns import for_cores, partitions_of
from mqsniff.batch.plan import EXPANSION, ScanPlan, Split, plan
from mqsniff.tables.times import rfc3339

Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """The files and splits of a run, and its expected shuffle."""

    work: ScanPlan
    partitions: int
    shuffle_bytes: int
    windows: int = 1
    """Runs, one after the other."""

    def plain(self) -> dict[str, Any]:
        """The preview as JSON values."""
        counts = {"scan_tasks": len(self.work.splits), "reduce_tasks": self.partitions, "windows": self.windows}
        return self.work.as_dict() | counts | {"expected_shuffle_bytes": self.shuffle_bytes}

    def file_cells(self) -> list[Cells]:
        """For each file: name, bytes, format, first packet, domain, status."""
        return [
            (
                file.name,
                str(file.size),
                f"{file.format} {file.compression}".strip(),
                "" if file.first_ns is None else rfc3339(file.first_ns) or "",
                file.domain,
                f"{file.status}: {file.error}" if file.error else file.status,
            )
            for file in self.work.files
        ]

    def split_cells(self) -> list[Cells]:
        """For each split: number, bytes, content."""
        return [(str(split.number), str(split.size), self._holds(split)) for split in self.work.splits]

    def _holds(self, split: Split) -> str:
        names = [self.work.files[piece.file].name for piece in split.pieces]
        if len(names) > 1:
            return f"{len(names)} files, {names[0]} to {names[-1]}"
        piece = split.pieces[0]
        if not piece.start and piece.stop is None:
            return names[0]
        return f"{names[0]} from byte {piece.start} {f'to {piece.stop}' if piece.stop is not None else 'on'}"

    def total(self) -> str:
        """The totals in one line."""
        return (
            f"{f'{self.windows} windows, ' if self.windows > 1 else ''}"
            f"{counted(len(self.work.files), 'file')}, {self.work.size / 1e6:.1f} MB, "
            f"{counted(len(self.work.splits), 'scan task')}, {counted(self.partitions, 'reduce task')}, "
            f"about {self.shuffle_bytes / 1e6:.1f} MB to shuffle"
        )


def preview(inputs: Iterable[str], options: JobOptions) -> Preview:
    """The preview of a run on this machine; raises InputError."""
    cores = os.cpu_count() or 1
    work = for_cores(plan(list_inputs(inputs), options.scan_options), options, cores)
    shuffle_bytes = sum(_expected(work))
    windows = len(windows_of(work, options.window_ns))
    return Preview(work, options.partitions or partitions_of(shuffle_bytes, cores), shuffle_bytes, windows)


def _expected(work: ScanPlan) -> Iterator[int]:
    for split in work.splits:
        for piece in split.pieces:
            file = work.files[piece.file]
            stop = file.size if piece.stop is None else piece.stop
            yield (stop - piece.start) * (EXPANSION if file.compression else 1)
