"""What jobs are broken on: sessions that run them, readers that look at their tables, and the rows to expect.

1. A session is a process with folders for temporary files of its own (``jobserver``).
2. Two readers look at OUT all the time: by the manifests, and as ``mqsniff sql`` does. Each has to see all or nothing.
3. In the end the rows are those of one process that reads the captures, and OUT holds the files of one run and nothing
   else.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import pyarrow.parquet as pq
from batchrows import PCAPS, Tables, committed, differing, unnamed_files
from processtree import Below, descendants, kill_all, left_of

from mqsniff.answers.folders import FolderError, table_files
from mqsniff.batch.commit import Archive
from mqsniff.batch.store import Store

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = Path(__file__).parent
SPLIT_SIZE: Final = "200000"
TASKS: Final = "4"
HUNG_S: Final = 900.0
"""A job that takes longer hangs."""
LOOK_S: Final = 0.5
"""Pause between two looks of the readers."""


class Outcome(NamedTuple):
    """How a job ended; code -9: its process was killed."""

    code: int
    status: str
    said: list[str]
    failed: int = 0
    """Attempts of tasks that failed."""


KILLED: Final = Outcome(-9, "killed", [])


class Session:
    """A process that runs jobs in a Spark session of its own, with its own folders for temporary files."""

    def __init__(self, home: Path, master: str, scratch: Path | None = None) -> None:
        """``scratch``: the folder for Spark's temporary files."""
        self.home = home
        self.folders = {name: home / name for name in ("TMPDIR", "SPARK_LOCAL_DIRS", "SPARK_WORKER_DIR")}
        if scratch is not None:
            self.folders["SPARK_LOCAL_DIRS"] = scratch
        for folder in self.folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {name: str(folder) for name, folder in self.folders.items()}
        environment |= {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "dissectors", ROOT / "tests")))}
        environment |= {"MQSNIFF_SPARK_CLASSES": ""}  # a JVM that archives classes lives on for a while
        command = [sys.executable, str(TESTS / "jobserver.py"), master, SPLIT_SIZE, TASKS]
        with (home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        self.stage = ""
        self.seconds: dict[str, float] = {}
        """Stage -> how long it took in the last job that ended well."""
        assert self._read() == {"ready": True}

    def run(self, inputs: Path, out: Path, on_stage: Callable[[str], None] = lambda _stage: None) -> Outcome:
        """Run a job; ``on_stage`` is called before each stage, with its first word."""
        began: dict[str, float] = {}
        watch = threading.Timer(HUNG_S, kill_all, [self.process])
        watch.start()
        self._write(json.dumps({"inputs": [str(inputs)], "out": str(out)}))
        while said := self._read():
            if "stage" not in said:
                break
            self.stage = str(said["stage"]).split()[0]
            began[self.stage] = time.monotonic()
            on_stage(self.stage)
            self._write("")
        watch.cancel()
        self.stage = ""
        if not said:
            self.process.wait()
            return KILLED
        ends = [*list(began.values())[1:], time.monotonic()]
        if said["status"] == "finished":
            self.seconds = {stage: end - start for (stage, start), end in zip(began.items(), ends, strict=True)}
        return Outcome(said["code"], said["status"], said["said"], said.get("failed", 0))

    def processes(self) -> list[tuple[int, Below]]:
        """The processes that this one started."""
        return list(descendants(self.process.pid).items())

    def close(self) -> list[str]:
        """End the session; what is left of it, of processes and temporary files."""
        processes = self.processes()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(120)
        return [*left_of(processes, 20), *self.temporary()]

    def temporary(self) -> list[str]:
        """The temporary files and folders there are."""
        folders = (self.folders[name] for name in ("TMPDIR", "SPARK_LOCAL_DIRS"))
        return sorted(path.name for folder in folders for path in folder.iterdir() if path.name != "hsperfdata_root")

    def _read(self) -> dict[str, Any]:
        """The next line; empty at the end."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {}

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            return


class Reader(threading.Thread):
    """Looks at OUT again and again; every look has to find all rows or none."""

    def __init__(self, out: Path, rows: Mapping[str, int]) -> None:
        super().__init__(daemon=True)
        self._out = out
        self._rows = rows
        self._over = threading.Event()
        self.looks = 0
        self.misled: list[str] = []

    def run(self) -> None:
        """Look until ``end``."""
        while not self._over.wait(LOOK_S):
            self.look()

    def end(self) -> None:
        """The last look."""
        self._over.set()
        self.join()
        self.look()

    def look(self) -> None:
        """By the manifests, and as ``sql`` does."""
        self.looks += 1
        if not self._out.exists():
            return
        for reader in (by_manifests, by_sql):
            try:
                found = {table: count for table, count in reader(self._out).items() if table != "files"}
            except Exception as error:  # noqa: BLE001  # it is reported
                self.misled.append(f"{reader.__name__}: {error!r}")
                continue
            if found and Counter(found) != Counter(self._rows):
                self.misled.append(f"{reader.__name__}: {found}")


def by_manifests(out: Path) -> dict[str, int]:
    """Table -> rows, as a reader of the manifests sees them."""
    rows: Counter[str] = Counter()
    for part in Archive(Store.at(str(out))).committed():
        rows[part.table] += pq.read_metadata(out / part.path).num_rows
    return dict(rows)


def by_sql(out: Path) -> dict[str, int]:
    """Table -> rows, as ``mqsniff sql`` sees them."""
    try:
        found = table_files(out)
    except FolderError:
        return {}
    return {table: sum(pq.read_metadata(file).num_rows for file in files) for table, files in found.items()}


def misled_commands(out: Path, messages: int) -> list[str]:
    """What commands that read OUT say wrong after a kill: they have to see all of the run or nothing."""
    command = (sys.executable, "-c", "from mqsniff.cli import main; main()")
    asked = (
        ("batch", "--list", "--json", str(out)),
        ("sql", str(out), "-o", "csv", "select count(*) from messages"),
    )
    found = []
    for arguments in asked:
        done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        is_nothing = done.stdout.strip() in ("", "[]") and "no run is committed" in done.stderr
        is_all = done.returncode == 0 and (arguments[0] == "batch" or done.stdout.split()[-1] == str(messages))
        if not is_nothing and not is_all:
            found.append(f"{arguments[0]} says {done.returncode} {done.stdout[-200:]} {done.stderr[-200:]}")
    return found


def samples(folder: Path, count: int) -> list[str]:
    """Samples of all protocols, every third one compressed; their names."""
    every = sorted(path for path in PCAPS.glob("*/*") if path.suffix in (".pcap", ".pcapng"))
    chosen = [path for path in every if path.parent.name not in ("broken", "foreign")][:: max(1, 104 // count)]
    names = []
    for number, path in enumerate(chosen):
        target = folder / path.parent.name / (path.name + (".gz" if number % 3 == 2 else ""))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(path.read_bytes()) if target.suffix == ".gz" else path.read_bytes())
        names.append(target.relative_to(folder).as_posix())
    return names


@dataclass
class Bench:
    """The captures, their rows, and what was found wrong."""

    folder: Path
    names: list[str]
    rows: Tables
    faults: list[str] = field(default_factory=list)
    number: int = 0

    @property
    def captures(self) -> Path:
        return self.folder / "captures"

    def copied(self) -> Path:
        """A copy of the captures, which may be changed."""
        self.number += 1
        return Path(shutil.copytree(self.captures, self.folder / f"captures-{self.number}"))

    def largest(self) -> str:
        """The largest capture that is not compressed."""
        plain = [name for name in self.names if not name.endswith(".gz")]
        return max(plain, key=lambda name: (self.captures / name).stat().st_size)

    def new_out(self) -> Path:
        """A folder for the tables of the next job."""
        self.number += 1
        return self.folder / f"out-{self.number}"

    @contextmanager
    def read(self, out: Path, rows: Tables | None = None) -> Iterator[Reader]:
        """With readers that look at OUT."""
        reader = Reader(out, {table: len(each) for table, each in (rows or self.rows).items()})
        reader.start()
        yield reader
        reader.end()
        self.faults += [f"{out.name}: a reader was misled: {found}" for found in reader.misled]

    def check(self, out: Path, rows: Tables | None = None) -> None:
        """The rows are those that they should be, and nothing else is there."""
        found = differing(self.rows if rows is None else rows, committed(out))
        self.faults += [f"{out.name}: {table} differs: {some}" for table, some in found.items()]
        self.faults += [f"{out.name}: {name} is left" for name in unnamed_files(out)]

    def tell(self, text: str) -> None:
        """What happened, and how many faults were found so far: a run that is stopped has told what it saw."""
        click.echo(f"{time.strftime('%H:%M:%S')} {text}; {len(self.faults)} faults", err=True)
