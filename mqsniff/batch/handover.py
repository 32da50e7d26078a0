"""The driver's part of runs that carry: what the run before left in, what the next one needs out.

1. ``--append`` and ``--window`` carry. A run goes on where the one before ended if that carried too, with the same
   options and the same versions; else its connections begin anew, and a line says why.
2. A run replaces some files of the runs before it: those with rows of connections that were open, the table ``topics``,
   and parts that show other topic names than the one that counts now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mqsniff.batch.bundles import TIME_MIN
from mqsniff.batch.carried import (
    CARRIED,
    STATE_SUFFIX,
    CarriedCounts,
    CarriedIn,
    CarriedState,
    Carry,
    options_digest,
)
from mqsniff.batch.commit import Archive
from mqsniff.batch.manifest import Published
from mqsniff.batch.plan import InputFile, ScanPlan, cut
from mqsniff.batch.report import PieceReport
from mqsniff.batch.tasks import difference, versions
from mqsniff.batch.tasktables import TaskOutput, TaskResult
from mqsniff.buildkind import build_kind
from mqsniff.sinks.parts import WrittenPart
from mqsniff.topics import DatedTeaching, Names, Teaching, shows_other_names


class Window(NamedTuple):
    """The captures of one run, and its edge: see ``carried.Carry``."""

    work: ScanPlan
    until_ns: int | None


def windows_of(work: ScanPlan, window_ns: int | None) -> list[Window]:
    """The runs that decode some captures, in order: each takes those that begin within a window of time."""
    if window_ns is None:
        return [Window(work, None)]
    groups: dict[int, list[InputFile]] = {}
    for file in work.files:
        if file.first_ns is not None:
            groups.setdefault(file.first_ns // window_ns, []).append(file)
    timed = [groups[number] for number in sorted(groups)] or [[]]
    timed[-1] += [file for file in work.files if file.first_ns is None]
    edges = [min(file.first_ns for file in files if file.first_ns is not None) for files in timed[1:]]
    return [
        Window(_part_of(work, files), until_ns) for files, until_ns in zip(timed, [*edges, None], strict=True) if files
    ]


def _part_of(work: ScanPlan, files: Sequence[InputFile]) -> ScanPlan:
    """The plan for some files of a plan."""
    ranks = {name: rank for rank, name in enumerate(sorted(file.name for file in files))}
    numbered = (replace(file, index=index, rank=ranks[file.name]) for index, file in enumerate(files))
    return replace(work, files=tuple(numbered), splits=())


class Handover:
    """One run between the run before it and the next one."""

    def __init__(
        self, archive: Archive, row_options: dict[str, Any], until_ns: int | None, *, anew: bool = False
    ) -> None:
        """``anew``: the run replaces those before it, and goes on from none."""
        self._archive = archive
        self._until_ns = until_ns
        self._options = options_digest(row_options)
        self.anew = ""
        """Why the connections of the run before are not gone on with; empty if they are, or there are none."""
        self._before = None if anew else self._state()
        self._earlier: list[Published] = []

    def _state(self) -> CarriedState | None:
        state = self._archive.carried()
        runs = self._archive.runs()
        if state is None and runs:
            last = runs[-1]
            self.anew = (
                f"what run {last.run} left of them is gone" if last.carried else f"run {last.run} was without --append"
            )
        elif state is None:
            return None
        elif state.options != self._options:
            self.anew = f"run {state.run} had other options"
        elif differing := difference(state.versions, _builds()):
            self.anew = f"run {state.run} was made with {differing}"
        return None if self.anew else state

    # ---- what the run takes

    def placed(self, work: ScanPlan) -> ScanPlan:
        """The plan with numbers of captures and pieces that go on from the run before."""
        state = self._before
        if state is None:
            return work
        options = replace(work.options, first_file=state.files, first_piece=state.pieces)
        return cut(replace(work, options=options), options.split_size)

    @property
    def carried(self) -> CarriedIn:
        """Open connections of the run before."""
        return CarriedIn() if self._before is None else CarriedIn(self._before.parts, self._before.floor_ns)

    @property
    def counts(self) -> CarriedCounts:
        """The same in figures."""
        return CarriedCounts() if self._before is None else self._before.counts

    @property
    def taught(self) -> tuple[Teaching, ...]:
        """Topic names that the runs before learned."""
        return () if self._before is None else self._before.taught

    @property
    def history(self) -> tuple[DatedTeaching, ...]:
        """When they were learned, for ``--topic``."""
        return () if self._before is None else self._before.history

    def carry(self, reports: Sequence[PieceReport]) -> Carry:
        """What tasks do with open connections."""
        last = (report.last_ns for report in reports if report.packets)
        return Carry(self._until_ns, max(last, default=TIME_MIN) if self._until_ns is None else self._until_ns)

    def late(self, work: ScanPlan) -> int:
        """Number of captures that begin before what was decoded."""
        floor_ns = self.carried.floor_ns
        return sum(file.first_ns is not None and file.first_ns < floor_ns for file in work.files)

    # ---- what the run drops, and leaves

    def outdated(self, names: Names, place: Any) -> list[WrittenPart]:
        """Parts of the runs before that show other topic names; ``place`` gives the path on the file system."""
        if self._before is None:
            return []
        found = []
        for part in self._archive.committed():
            ids = {(protocol, topic_id): name for protocol, topic_id, name in part.topic_ids}
            if part.path not in self._before.drops and shows_other_names(ids, names):
                self._earlier.append(part)
                found.append(WrittenPart(part.table, place(part.path), part.rows, part.size, ids))  # type: ignore[arg-type]
        return found

    @property
    def drops(self) -> tuple[str, ...]:
        """Files of the runs before that no longer count."""
        if self._before is None:
            return ()
        return (*self._before.drops, *(part.path for part in self._earlier))

    def leave(
        self,
        output: TaskOutput,
        result: TaskResult,
        reports: Sequence[PieceReport],
        *,
        drops: Iterable[str],
        history: tuple[DatedTeaching, ...],
        files: int,
    ) -> tuple[Published, ...]:
        """Write the state for the next run; gives all that is carried.

        ``drops``: what the next run drops; ``files``: captures of this run.
        """
        store = self._archive.store
        rows = [
            Published("carried", _below(path, store.root, output.folder), count, size)
            for path, count, size in result.carried
        ]
        largest = (report.largest_ns for report in reports if report.largest_ns is not None)
        floor_ns = max(largest, default=TIME_MIN) if self._until_ns is None else self._until_ns
        before = self._before
        state = CarriedState(
            run=output.run,
            versions=_builds(),
            options=self._options,
            floor_ns=max(floor_ns, self.carried.floor_ns),
            files=files + (0 if before is None else before.files),
            pieces=max((report.piece + 1 for report in reports), default=0 if before is None else before.pieces),
            parts=tuple(part.path for part in rows),
            counts=result.carried_counts,
            drops=tuple(drops),
            taught=(*self.taught, *result.taught),
            history=history,
        ).encoded()
        path = f"{CARRIED}/{output.run}{STATE_SUFFIX}"
        store.replace(f"{output.folder}/{path}" if output.folder else path, state)
        return (*rows, Published("carried", path, 1, len(state)))


def _builds() -> dict[str, str]:
    """What has to be equal so that a state can be restored: a compiled class is pickled in another form."""
    return versions() | {"build": build_kind()}


def _below(path: str, root: str, folder: str) -> str:
    """A path on the file system as one in OUT."""
    return path.removeprefix(root + "/").removeprefix(folder).lstrip("/")
