"""Commands in, what they took out: CPU seconds, wall seconds, peak of memory; and captures that are made once.

1. What is measured are whole processes as the kernel counts them (user and system time, resident memory). This process
   stays small, since a child inherits its peak.
2. The smallest figures of some runs count, since other work on the machine only ever adds.
3. Captures and outputs live in ``benchmarks/data/``, which is not committed; outputs go when they have been measured.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

HERE = Path(__file__).parent
DATA = HERE / "data"
OUTPUT = DATA / "output"
MQSNIFF = (sys.executable, "-c", "from mqsniff.cli import main; main()")
COMPILED = HERE.parent / "build" / "compiled"
"""Where ``make compiled`` puts its build."""
_ODD = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
"""Variables that images for machines like to set, and people do not."""
MB = 1_000_000
PASSES = 3
COMPARED = ("capture", "command", "CPU s", "wall s", "peak MB", "output MB", "times faster")
"""Columns of ``compared``."""


class Used(NamedTuple):
    """What a process took."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    output_mb: float


class Capture(NamedTuple):
    """A file that was made, and how many messages and rows of records are in it."""

    path: Path
    messages: int
    records: int = 0

    @property
    def mb(self) -> float:
        """Its size."""
        return self.path.stat().st_size / MB


def script(name: str, *arguments: str) -> str:
    """What a script beside this one prints."""
    command = [sys.executable, str(HERE / name), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def made(writer: str, name: str, *arguments: object, mode: str = "") -> Capture:
    """A capture by this writer, from the folder of data where it is there already."""
    DATA.mkdir(exist_ok=True)
    path, count = DATA / f"{name}.pcap", DATA / f"{name}.messages"
    if not (count.exists() and path.exists()):
        count.write_text(script(writer, *filter(None, (mode,)), str(path), *map(str, arguments)))
    return Capture(path, *map(int, count.read_text().split()))


def environment() -> dict[str, str]:
    """What measured processes are given: as people have it, and without the working folder among the modules."""
    usual = {name: value for name, value in os.environ.items() if name not in _ODD}
    return usual | {"PYTHONSAFEPATH": "1"}


def run(*command: str) -> Used:
    """One run of a command, its output into a file or the folder that it is told, ``OUTPUT``."""
    DATA.mkdir(exist_ok=True)
    forget_output()
    started = time.perf_counter()
    with (
        (DATA / "stdout").open("wb") as stdout,
        (DATA / "stderr").open("wb") as stderr,
        subprocess.Popen(command, stdout=stdout, stderr=stderr, env=environment()) as process,
    ):
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}, see {DATA / 'stderr'}")
    written = sum(path.stat().st_size for path in (DATA / "stdout", *OUTPUT.rglob("*")) if path.is_file())
    forget_output()
    return Used(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss * 1024 / MB, written / MB)


class Spent(NamedTuple):
    """What a process that may fail took, and how it ended."""

    code: int
    """Its exit code; below 0 the signal that ended it."""
    cpu_s: float
    wall_s: float
    peak_mb: float
    said: str
    """What it wrote to stderr."""


def spend(*command: str, seconds: int | None = None, out: Path = Path(os.devnull)) -> Spent:
    """One run of a command, its output into a file; the kernel ends it after ``seconds`` of processor time."""
    if seconds is not None:
        command = ("sh", "-c", f'ulimit -t {seconds}; exec "$@"', "sh", *command)
    started = time.perf_counter()
    with TemporaryFile() as said, out.open("wb") as stdout:
        process = subprocess.Popen(command, stdout=stdout, stderr=said, env=environment())
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode(errors="replace").strip()
    return Spent(process.returncode, usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss * 1024 / MB, text)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = (columns, ["---"] * len(columns), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def builds(name: str, command: Sequence[str]) -> dict[str, list[str]]:
    """A command of ours by the Python sources, and by the build of ``make compiled`` where it is there."""
    found = {name: list(command)}
    if COMPILED.exists():
        prefix = ["env", f"PYTHONPATH={COMPILED}"]
        where = [*prefix, sys.executable, "-c", "from mqsniff import pipeline; print(pipeline.__file__)"]
        module = subprocess.run(where, stdout=subprocess.PIPE, text=True, check=True, env=environment()).stdout
        if not Path(module).is_relative_to(COMPILED) or module.strip().endswith(".py"):
            sys.exit(f"{COMPILED} is not what runs, or is not compiled: {module.strip()}")
        found[f"{name}, compiled"] = [*prefix, *command]
    return found


def forget_output() -> None:
    """Remove what the last run has written."""
    (DATA / "stdout").unlink(missing_ok=True)
    shutil.rmtree(OUTPUT, ignore_errors=True)


def best(*command: str, passes: int = PASSES) -> Used:
    """The smallest figures of some runs."""
    runs = [run(*command) for _ in range(passes)]
    return Used(*(min(figures) for figures in zip(*runs, strict=True)))


def microseconds(work: Callable[[], object], number: int, units: int = 1, passes: int = 7) -> str:
    """CPU time of one unit, where a call of ``work`` does so many: the best of some passes of ``number`` units."""
    seconds = []
    for _ in range(passes):
        started = time.process_time()
        for _ in range(number // units):
            work()
        seconds.append(time.process_time() - started)
    return f"{min(seconds) / (number // units * units) * 1e6:.1f}"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table."""
    print(f"\n{title}")
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), flush=True)


def compared(
    capture: Capture, theirs: Mapping[str, Sequence[str]], ours: Mapping[str, Sequence[str]], passes: int
) -> list[list[str]]:
    """Commands of others and of ours over one capture; after ours, the CPU seconds of each of theirs for one of it."""
    rows: list[list[str]] = []
    by_others: list[float] = []
    for name, command in {**theirs, **ours}.items():
        used = best(*command, passes=passes)
        if name in theirs:
            by_others.append(used.cpu_s)
        ratios = "" if name in theirs else ", ".join(f"{other / used.cpu_s:.2f}" for other in by_others)
        figures = f"{used.cpu_s:.2f}", f"{used.wall_s:.2f}", f"{used.peak_mb:.0f}", f"{used.output_mb:.0f}"
        rows.append([capture.path.stem, name, *figures, ratios])
    return rows


def has_tshark() -> bool:
    """Whether there is something to compare with."""
    if shutil.which("tshark") is None:
        print("\ntshark is not there: no comparison")
        return False
    return True
