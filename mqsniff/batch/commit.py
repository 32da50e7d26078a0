"""Staged files of a run in, a folder of tables out that holds all of the run or nothing of it.

1. The manifests in ``_mqsniff/runs`` decide which files count; ``committed`` gives the state before a run or after it,
   never one in between.
2. Where files can be renamed, tasks write below ``_mqsniff/staging/<run>``, which readers of folders skip. A run is
   decided when its manifest is written there; from then on every step can be repeated, and the next run completes it.
3. On object stores tasks write to the final paths, and writing the manifest publishes the run.
4. A file in the folder of a table whose name is that of a run, but that no manifest lists, is an orphan and is deleted.
   Other files are never touched, such as those of another archive in a subfolder.
5. A run that is not decided leaves nothing. One run at a time: a lock ensures it on local file systems.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from mqsniff.batch.filestats import FILES
from mqsniff.batch.manifest import Manifest, ManifestError, Published
from mqsniff.batch.store import Store
from mqsniff.sinks.outputfolder import made_folders, remove_folders
from mqsniff.tables.schemas import TABLES

HOME: Final = "_mqsniff"
RUNS: Final = f"{HOME}/runs"
STAGING: Final = f"{HOME}/staging"
_BEGUN: Final = "begun"
_DECIDED: Final = "manifest.json"
_RUN: Final = re.compile(r"(?:^|/)(\d{8}T\d{6}-[0-9a-f]{8})-[^/]*$")
"""File names of tables begin with their run."""


class CommitError(Exception):
    """A folder that cannot be published to; the text is one line that says what to do."""


@dataclass(slots=True)
class Recovery:
    """What was found of earlier runs, and what was done with it."""

    completed: list[str] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The recovery in words; empty if nothing was found."""
        said = [f"run {run}, which died while it was published, is complete now" for run in self.completed]
        said += [f"run {run}, which did not get so far, is gone" for run in self.rolled_back]
        if self.orphans:
            said.append(f"{len(self.orphans)} files that no run counts are gone")
        return said


class Changed(NamedTuple):
    """Inputs that an earlier run decoded, and those of them that differ now."""

    done: list[str]
    changed: list[str]


def new_run(now: datetime | None = None) -> str:
    """A unique name for a run that sorts by time."""
    moment = now or datetime.now(UTC)
    return f"{moment:%Y%m%dT%H%M%S}-{os.urandom(4).hex()}"


class Archive:
    """A folder of tables and the runs that made it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def runs(self) -> list[Manifest]:
        """The committed runs that count, oldest first; CommitError for a manifest that cannot be read."""
        every = [self._manifest(path) for path in self._manifests()]
        replaced = {run for manifest in every for run in manifest.replaces}
        return [manifest for manifest in every if manifest.run not in replaced]

    def committed(self, table: str | None = None) -> list[Published]:
        """The files that count, of one table or of all."""
        return [part for run in self.runs() for part in run.parts if table in (None, part.table)]

    def ledger(self) -> dict[str, tuple[int, str]]:
        """The inputs that were decoded, URI -> (size, mark), without those that could not be read."""
        every = (taken for run in self.runs() for taken in run.inputs if taken.status not in ("unreadable", "skipped"))
        return {taken.uri: (taken.size, taken.mark) for taken in every}

    def foreign(self) -> list[str]:
        """Parquet files that no run made: readers of the folder would read them as ours."""
        return [path for path in self._tables_files() if path.endswith(".parquet") and not _run_of(path)]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock out other runs on this machine; CommitError if one is running.

        The lock is released when the process ends, however it ends.
        """
        if self.store.folder is None:
            yield
            return
        import fcntl  # noqa: PLC0415  # not on every system

        for folder in (RUNS, STAGING, FILES, *TABLES):
            self.store.check_links(f"{folder}/")
        home = self.store.folder / HOME
        try:
            made = made_folders(home)
            file = (home / "lock").open("w")
        except OSError as error:
            raise CommitError(f"{self.store.where} cannot be written to: {(error.strerror or '').lower()}") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = os.path.samestat(os.fstat(file.fileno()), (home / "lock").stat())
            except OSError:
                is_ours = False
            if not is_ours:  # also if the other run removed the folder
                raise CommitError(f"{self.store.where}: another run is writing here")
            try:
                yield
            except BaseException:
                self._leave_no_folder(home, made)
                raise

    def _leave_no_folder(self, home: Path, made: list[Path]) -> None:
        """Remove the folders that were made for a failed run, unless something was committed to them."""
        if home in made and not self._manifests() and not self.store.folders(STAGING):
            (home / "lock").unlink(missing_ok=True)
            for folder in (RUNS, STAGING):
                remove_folders([home.parent / folder])
            remove_folders(made)

    # ---- a run

    def staging(self, run: str) -> str:
        """The folder below which the tasks of a run write its tables."""
        return f"{STAGING}/{run}" if self.store.renames else ""

    def begin(self, run: str) -> None:
        """Record that a run began, so that the next run can report what became of it."""
        if self.store.renames:
            self.store.replace(f"{self.staging(run)}/{_BEGUN}", b"")

    def publish(self, manifest: Manifest) -> None:
        """Commit a run, whose files are below ``staging(run)`` at the paths that the manifest names.

        CommitError if a file is missing or has another size: then nothing of the run counts.
        """
        self._check(manifest)
        self._drop_unnamed(manifest)
        if self.store.renames:
            self.store.replace(f"{STAGING}/{manifest.run}/{_DECIDED}", manifest.encoded())
            self._complete(manifest)
        else:
            self.store.replace(f"{RUNS}/{manifest.run}.json", manifest.encoded())
            self._clear(manifest)

    def roll_back(self, run: str) -> None:
        """Delete all files of a run, unless it is decided: then ``recover`` completes it."""
        if self.store.exists(f"{STAGING}/{run}/{_DECIDED}") or self.store.exists(f"{RUNS}/{run}.json"):
            return
        self.store.delete_tree(f"{STAGING}/{run}")
        if not self.store.renames:
            for path in self._tables_files():
                if _run_of(path) == run and _is_in_table(path):
                    self.store.delete(path)

    def recover(self) -> Recovery:
        """Complete earlier runs that were decided, and roll back the others."""
        recovery = Recovery()
        for run in self.store.folders(STAGING):
            decided = self.store.read(f"{STAGING}/{run}/{_DECIDED}")
            if decided is not None:
                self._complete(self._decoded(decided, f"{STAGING}/{run}/{_DECIDED}"))
                recovery.completed.append(run)
                continue
            if self.store.read(f"{RUNS}/{run}.json") is None:
                recovery.rolled_back.append(run)
            self.store.delete_tree(f"{STAGING}/{run}")
        for manifest in self.runs():
            self._clear(manifest)
        recovery.orphans = self._sweep()
        return recovery

    # ---- steps

    def _check(self, manifest: Manifest) -> None:
        staging = self.staging(manifest.run)
        sizes = {stored.path: stored.size for stored in self.store.files(staging)}
        for part in manifest.parts:
            path = f"{staging}/{part.path}" if staging else part.path
            if sizes.get(path) != part.size:
                found = f"has {sizes[path]} bytes" if path in sizes else "is gone"
                raise CommitError(f"{part.path} {found}, not {part.size} bytes: something else writes here")

    def _drop_unnamed(self, manifest: Manifest) -> None:
        """Delete files of attempts that no task reported."""
        staging = self.staging(manifest.run)
        named = {f"{staging}/{part.path}" if staging else part.path for part in manifest.parts}
        for stored in list(self.store.files(staging)):
            if stored.path not in named and (staging or _run_of(stored.path) == manifest.run):
                self.store.delete(stored.path)

    def _complete(self, manifest: Manifest) -> None:
        """Publish a decided run; each step may have been done before."""
        for part in manifest.parts:
            self.store.move(f"{STAGING}/{manifest.run}/{part.path}", part.path)
        if not self.store.exists(f"{RUNS}/{manifest.run}.json"):  # HDFS does not rename onto an existing file
            self.store.replace(f"{RUNS}/{manifest.run}.json", manifest.encoded())
        self.store.delete(f"{STAGING}/{manifest.run}/{_DECIDED}")
        self._clear(manifest)

    def _clear(self, manifest: Manifest) -> None:
        """Delete what a committed run no longer needs: its staging folder, and the runs that it replaces."""
        self.store.delete_tree(f"{STAGING}/{manifest.run}")
        for run in manifest.replaces:
            data = self.store.read(f"{RUNS}/{run}.json")
            if data is None:
                continue
            for part in self._decoded(data, f"{RUNS}/{run}.json").parts:
                self.store.delete(part.path)
            self.store.delete(f"{RUNS}/{run}.json")

    def _sweep(self) -> list[str]:
        """Delete files that carry the name of a run and that no committed run names."""
        named = {part.path for part in self.committed()}
        orphans = [path for path in self._tables_files() if path not in named and _is_in_table(path)]
        for path in orphans:
            self.store.delete(path)
        return orphans

    def _tables_files(self) -> list[str]:
        return [stored.path for stored in self.store.files() if not stored.path.startswith(f"{HOME}/")]

    def _manifests(self) -> list[str]:
        return [stored.path for stored in self.store.files(RUNS) if stored.path.endswith(".json")]

    def _manifest(self, path: str) -> Manifest:
        data = self.store.read(path)
        if data is None:
            raise CommitError(f"{path} disappeared while it was read: another run is writing here")
        return self._decoded(data, path)

    def _decoded(self, data: bytes, path: str) -> Manifest:
        try:
            return Manifest.decoded(data)
        except ManifestError as error:
            raise CommitError(f"{self.store.where}/{path}: {error}") from None


def compare(ledger: Mapping[str, tuple[int, str]], inputs: Iterable[tuple[str, int, str]]) -> Changed:
    """Which of the inputs (URI, size, mark) are in a ledger, and which of these have changed."""
    found = Changed([], [])
    for uri, size, mark in inputs:
        known = ledger.get(uri)
        if known is not None:
            (found.done if known == (size, mark) else found.changed).append(uri)
    return found


def _is_in_table(path: str) -> bool:
    """Whether a path is in the folder of a table, where runs put their files."""
    return bool(_run_of(path)) and path.partition("/")[0] in (FILES, *TABLES)


def _run_of(path: str) -> str:
    """The run that made a file, by its name; '' for a file of another program."""
    found = _RUN.search(path)
    return found.group(1) if found else ""
