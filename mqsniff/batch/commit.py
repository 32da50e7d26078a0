"""Staged files of a run in, a folder of tables out that holds all of the run or nothing of it.

1. The manifests in ``_mqsniff/runs`` decide which files count; ``committed`` gives the state before a run or after it,
   never one in between.
2. Where files can be renamed, tasks write below ``_mqsniff/staging/<run>``, which readers of folders skip. A run is
   decided when its manifest is written there; from then on every step can be repeated, and the next run completes it.
3. On object stores tasks write to the final paths, and writing the manifest publishes the run.
4. A file in the folder of a table whose name is that of a run, but that no manifest lists, is an orphan and is deleted.
   Other files are never touched, such as those of another archive in a subfolder.
5. A run that is not decided leaves nothing. One run at a time: a lock ensures it on local file systems.
6. Files of a run that was replaced stay for a day, for readers that have their names: where files can be renamed, below
   ``_mqsniff/replaced/<run>``, since readers of folders must not see them. The first run after that day deletes them.
7. A run lists the folder once, and reads each manifest once: most of them from a checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from mqsniff.batch.carried import CARRIED, STATE_SUFFIX, CarriedState
from mqsniff.batch.filestats import FILES
from mqsniff.batch.manifest import Manifest, ManifestError, Published, decoded_checkpoint, encoded_checkpoint
from mqsniff.batch.store import Store, StoredFile
from mqsniff.sinks.outputfolder import made_folders, remove_folders
from mqsniff.tables.schemas import TABLES

HOME: Final = "_mqsniff"
RUNS: Final = f"{HOME}/runs"
STAGING: Final = f"{HOME}/staging"
REPLACED: Final = f"{HOME}/replaced"
CHECKPOINT: Final = f"{HOME}/checkpoint"
REPLACED_KEPT_S: Final = 24 * 3600
"""How long files of replaced runs are kept."""
_CHECKPOINT_MIN: Final = 16
"""Manifests outside the checkpoint that are worth a new one; and at least a tenth of those inside."""
_BEGUN: Final = "begun"
_DECIDED: Final = "manifest.json"
_RUN_TIME: Final = "%Y%m%dT%H%M%S"
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
    deleted: list[str] = field(default_factory=list)
    """Replaced runs whose files are older than a day."""

    def lines(self) -> list[str]:
        """The recovery in words; empty if nothing was found."""
        said = [f"run {run}, which died while it was published, is complete now" for run in self.completed]
        said += [f"run {run}, which did not get so far, is gone" for run in self.rolled_back]
        if self.orphans:
            said.append(f"{len(self.orphans)} files that no run counts are gone")
        if self.deleted:
            said.append(f"files of runs that were replaced more than a day ago are gone: {', '.join(self.deleted)}")
        return said


class Changed(NamedTuple):
    """Inputs that an earlier run decoded, and those of them that differ now."""

    done: list[str]
    changed: list[str]


def new_run(now: datetime | None = None, *, after: str = "") -> str:
    """A unique name for a run: the time, or a second after the run ``after`` if the clock is not that far."""
    moment = now or datetime.now(UTC)
    if after:
        before = datetime.strptime(after.partition("-")[0], _RUN_TIME).replace(tzinfo=UTC)
        moment = max(moment, before + timedelta(seconds=1))
    return f"{moment:{_RUN_TIME}}-{os.urandom(4).hex()}"


class Archive:
    """A folder of tables and the runs that made it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._listing: dict[str, StoredFile] | None = None
        """All files of the folder by path, as ``recover`` found and left them; None: it has to be listed."""
        self._checkpointed = 0
        """Manifests that were read from the checkpoint."""
        self._known: dict[str, Manifest] = {}
        """Path -> manifest; a manifest never changes."""

    def runs(self) -> list[Manifest]:
        """The committed runs that count, oldest first; CommitError for a manifest that cannot be read."""
        every = self._every()
        replaced = {run for manifest in every for run in manifest.replaces}
        return [manifest for manifest in every if manifest.run not in replaced]

    def new_run(self) -> str:
        """A name for the next run, which sorts behind those of all runs so far."""
        every = self._every()
        return new_run(after=every[-1].run if every else "")

    def committed(self, table: str | None = None) -> list[Published]:
        """The files that count, of one table or of all."""
        runs = self.runs()
        dropped = {path for run in runs for path in run.drops}
        parts = (part for run in runs for part in run.parts if part.path not in dropped)
        return [part for part in parts if table in (None, part.table)]

    def carried(self) -> CarriedState | None:
        """What the last run left for the next one; None if it ended all connections. CarriedError if it is damaged."""
        runs = self.runs()
        for part in runs[-1].carried if runs else ():
            if part.path.endswith(STATE_SUFFIX):
                data = self.store.read(part.path)
                return None if data is None else CarriedState.decoded(data)
        return None

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
            self._set_aside(manifest)
        else:
            self.store.replace(_manifest_path(manifest.run), manifest.encoded())
        self._listing = None
        self._delete_carried(manifest, self.store.files(CARRIED))

    def roll_back(self, run: str) -> None:
        """Delete all files of a run, unless it is decided: then ``recover`` completes it."""
        if self.store.exists(f"{STAGING}/{run}/{_DECIDED}") or self.store.exists(_manifest_path(run)):
            return
        self.store.delete_tree(f"{STAGING}/{run}")
        if not self.store.renames:
            for path in self._tables_files():
                if _run_of(path) == run and _is_in_table(path):
                    self.store.delete(path)
            for stored in list(self.store.files(CARRIED)):
                if _run_of(stored.path) == run:
                    self.store.delete(stored.path)

    def recover(self) -> Recovery:
        """Complete earlier runs that were decided, and roll back the others."""
        recovery = Recovery()
        for run in self.store.folders(STAGING):
            decided = self.store.read(f"{STAGING}/{run}/{_DECIDED}")
            if decided is not None:
                self._complete(self._decoded(decided, f"{STAGING}/{run}/{_DECIDED}"))
                recovery.completed.append(run)
                continue
            if self.store.read(_manifest_path(run)) is None:
                recovery.rolled_back.append(run)
            self.store.delete_tree(f"{STAGING}/{run}")
        self._listing = {stored.path: stored for stored in self.store.files()}
        recovery.deleted = self._delete_expired()
        for manifest in self.runs():
            self._set_aside(manifest)
        recovery.orphans = self._sweep()
        self._write_checkpoint()
        return recovery

    # ---- steps

    def _check(self, manifest: Manifest) -> None:
        staging = self.staging(manifest.run)
        parts = manifest.parts + manifest.carried
        paths = [f"{staging}/{part.path}" if staging else part.path for part in parts]
        sizes = self.store.sizes(paths)
        for path, part in zip(paths, parts, strict=True):
            if sizes.get(path) != part.size:
                found = f"has {sizes[path]} bytes" if path in sizes else "is gone"
                raise CommitError(f"{part.path} {found}, not {part.size} bytes: something else writes here")

    def _drop_unnamed(self, manifest: Manifest) -> None:
        """Delete staged files of attempts that no task reported; on object stores the next run does it."""
        staging = self.staging(manifest.run)
        named = {f"{staging}/{part.path}" for part in manifest.parts + manifest.carried}
        for stored in list(self.store.files(staging)) if staging else ():
            if stored.path not in named:
                self.store.delete(stored.path)

    def _complete(self, manifest: Manifest) -> None:
        """Publish a decided run; each step may have been done before."""
        for part in manifest.parts + manifest.carried:
            self.store.move(f"{STAGING}/{manifest.run}/{part.path}", part.path)
        if not self.store.exists(_manifest_path(manifest.run)):  # HDFS does not rename onto an existing file
            self.store.replace(_manifest_path(manifest.run), manifest.encoded())
        self.store.delete(f"{STAGING}/{manifest.run}/{_DECIDED}")
        self.store.delete_tree(f"{STAGING}/{manifest.run}")

    def _set_aside(self, manifest: Manifest) -> None:
        """Move what a committed run replaces or drops out of the folders of the tables."""
        if not self.store.renames:
            return
        replaced = [part.path for run in self._replaced_by(manifest) for part in run.parts]
        for path in [*replaced, *manifest.drops]:
            if self._is_there(path):
                self.store.move(path, _aside(path))
                if self._listing is not None:
                    del self._listing[path]

    def _delete_expired(self) -> list[str]:
        """Delete replaced runs a day after the run that replaces them was committed; returns their names."""
        committed_ns = {stored.path: stored.mtime_ns for stored in self._files()}
        expired = []
        for manifest in self._every():
            if committed_ns[_manifest_path(manifest.run)] < time.time_ns() - REPLACED_KEPT_S * 10**9:
                for path in [path for dropped in manifest.drops for path in (dropped, _aside(dropped))]:
                    if self._is_there(path):
                        self._delete(path)
                expired += [run for replaced in self._replaced_by(manifest) for run in self._delete_run(replaced)]
        return expired

    def _delete_run(self, manifest: Manifest) -> list[str]:
        """Delete a replaced run, after those that it replaced itself, which would count again without it."""
        before = [run for replaced in self._replaced_by(manifest) for run in self._delete_run(replaced)]
        self.store.delete_tree(f"{REPLACED}/{manifest.run}")
        for path in [part.path for part in manifest.parts if self._is_there(part.path)]:
            self._delete(path)
        self._delete(_manifest_path(manifest.run))
        return [*before, manifest.run]

    def _replaced_by(self, manifest: Manifest) -> list[Manifest]:
        """The runs that a run replaces and that are still kept."""
        kept = {path for path, _, _ in self._manifests()} if manifest.replaces else set()
        return [self._manifest(_manifest_path(run)) for run in manifest.replaces if _manifest_path(run) in kept]

    def _sweep(self) -> list[str]:
        """Delete files that carry the name of a run and that no run names."""
        every = self._every()
        named = {part.path for manifest in every for part in manifest.parts}
        orphans = [path for path in self._tables_files() if path not in named and _is_in_table(path)]
        for path in orphans:
            self._delete(path)
        carried = [stored for stored in self._files() if stored.path.startswith(f"{CARRIED}/")]
        self._delete_carried(every[-1] if every else None, carried)
        return orphans

    def _delete_carried(self, last: Manifest | None, carried: Iterable[StoredFile]) -> None:
        """Delete what was carried into a run that is committed; ``last`` is the last run."""
        needed = {part.path for part in last.carried} if last is not None else set()
        for path in [stored.path for stored in carried if stored.path not in needed]:
            self._delete(path)

    # ---- what is there

    def _files(self) -> list[StoredFile]:
        return list(self.store.files() if self._listing is None else self._listing.values())

    def _delete(self, path: str) -> None:
        self.store.delete(path)
        if self._listing is not None:
            self._listing.pop(path, None)

    def _is_there(self, path: str) -> bool:
        return self.store.exists(path) if self._listing is None else path in self._listing

    def _tables_files(self) -> list[str]:
        return [stored.path for stored in self._files() if not stored.path.startswith(f"{HOME}/")]

    def _manifests(self) -> list[StoredFile]:
        every = self.store.files(RUNS) if self._listing is None else list(self._listing.values())
        return [stored for stored in every if stored.path.startswith(f"{RUNS}/") and stored.path.endswith(".json")]

    def _every(self) -> list[Manifest]:
        """The manifests of all runs, also of those that are replaced."""
        stored = self._manifests()
        if len([each for each in stored if each.path not in self._known]) > 1:
            self._read_checkpoint(stored)
        return [self._manifest(each.path) for each in stored]

    def _read_checkpoint(self, stored: Iterable[StoredFile]) -> None:
        checkpoint = decoded_checkpoint(self.store.read(CHECKPOINT))
        for path, size, _ in stored:
            copied_size, line = checkpoint.get(path, (-1, b""))
            if path not in self._known and copied_size == size:
                with contextlib.suppress(ManifestError):  # then the manifest itself is read
                    self._known[path] = Manifest.decoded(line)
                    self._checkpointed += 1

    def _write_checkpoint(self) -> None:
        stored = self._manifests()
        if len(stored) - self._checkpointed >= max(_CHECKPOINT_MIN, self._checkpointed // 10):
            copies = {path: (size, self._manifest(path).encoded(indented=False)) for path, size, _ in stored}
            self.store.replace(CHECKPOINT, encoded_checkpoint(copies))

    def _manifest(self, path: str) -> Manifest:
        if path not in self._known:
            data = self.store.read(path)
            if data is None:
                raise CommitError(f"{path} disappeared while it was read: another run is writing here")
            self._known[path] = self._decoded(data, path)
        return self._known[path]

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


def _aside(path: str) -> str:
    """Where a part file that counts no longer is kept for a day."""
    return f"{REPLACED}/{_run_of(path)}/{path}"


def _manifest_path(run: str) -> str:
    return f"{RUNS}/{run}.json"


def _is_in_table(path: str) -> bool:
    """Whether a path is in the folder of a table, where runs put their files."""
    return bool(_run_of(path)) and path.partition("/")[0] in (FILES, *TABLES)


def _run_of(path: str) -> str:
    """The run that made a file, by its name; '' for a file of another program."""
    found = _RUN.search(path)
    return found.group(1) if found else ""
