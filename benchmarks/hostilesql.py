"""What hostile queries cost, and what ends them: ``python benchmarks/hostilesql.py [NAME…] [--wait 30]``, on Linux.

1. The tables are those of all captures of ``pcaps/``, decoded once. Each statement runs in ``mqsniff sql`` as users
   run it.
2. First it runs alone until it ends, for ``--wait`` seconds at most: how it ends, what the user reads, the peaks of
   memory of the command and of its processes, the most that it has on disk.
3. Then it runs again and gets SIGINT some seconds after its process began to compute: the seconds until the command,
   and until all its processes, have ended, and what is left in the folder for temporary files. A result that goes to a
   pipe loses its reader instead.
4. The mark: no process has more than ``query_memory`` beyond what it had for ``select 1``, all end within a second, and
   nothing is left. The exit code is 1 if a statement misses it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from measuring import MB, environment, markdown

from mqsniff.limits import Limits

PCAPS: Final = Path(__file__).parents[1] / "pcaps"
ELEMENTS: Final = 300_000
DEPTH: Final = 100_000
DOUBLINGS: Final = 40
MQSNIFF: Final = (sys.executable, "-m", "mqsniff")
"""As users run it: what handles Ctrl-C during imports is a part of this."""
STEP_S: Final = 0.01
BUSY_S: Final = 2.0
"""Processor time after which a process of a query computes, and no longer starts."""
START_S: Final = 60.0
"""Most time to wait for that."""
MIDDLE_S: Final = 4.0
END_S: Final = 1.0
GIVE_UP_S: Final = 120.0


def doubled() -> str:
    """Names for a query that stands twice in the next, and so on: a planner that writes them out never ends."""
    steps = [f"a{n} as (select x.i from a{n - 1} x, a{n - 1} y)" for n in range(1, DOUBLINGS)]
    return (
        f"with a0 as (select connection_id i from messages), {', '.join(steps)} select count(*) from a{DOUBLINGS - 1}"
    )


STATEMENTS: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "repeat": ("`repeat('x', 4000000000)`", lambda: "select repeat('x', 4000000000)"),
    "cross": (
        "sum over a cross join of ranges",
        lambda: "select sum(a.range * b.range % 7) from range(1000000) a, range(1000000) b, range(1000) c",
    ),
    "tables": (
        "`messages` three times, grouped by all columns",
        lambda: "select count(*) from (select a.*, b.*, c.* from messages a, messages b, messages c group by all)",
    ),
    "series": (
        "`generate_series` of 9.2e18 numbers",
        lambda: "select sum(hash(i)) from generate_series(0, 9223372036854775806) t(i)",
    ),
    "recursive": (
        "a recursive query without end",
        lambda: "with recursive r(i) as (select 1 union all select i + 1 from r) select max(i) from r",
    ),
    "growing": (
        "a recursive query that doubles its rows",
        lambda: "with recursive r(i) as (select 1 union all select i + n from r, range(2) t(n)) select count(*) from r",
    ),
    "sort": (
        "a sort of 1e9 rows of 100 bytes",
        lambda: "select i, repeat('x', 100) x from range(1000000000) t(i) order by hash(i)",
    ),
    "list": ("`list` of 1e10 numbers", lambda: "select len(list(i)) from range(10000000000) t(i)"),
    "strings": (
        "`string_agg` of 10 GB",
        lambda: "select length(string_agg(repeat('x', 1000), ',')) from range(10000000)",
    ),
    "regexp": (
        "regular expressions that make other engines backtrack",
        lambda: (
            "select count(*) from range(100000000) t(i)"
            " where regexp_matches(repeat('a', 10000 + i % 7) || '!', '^(a|a|a?)*(a+)+(.*a){100}$')"
        ),
    ),
    "rows": (
        "1e9 rows to a pipe whose reader goes",
        lambda: "select i, repeat('x', 100) x from range(1000000000) t(i)",
    ),
    "in": (
        f"`IN` with {ELEMENTS:,} elements",
        lambda: f"select count(*) from messages where size in ({', '.join(map(str, range(ELEMENTS)))})",
    ),
    "nested": (f"{DEPTH:,} nested parentheses", lambda: f"select {'(' * DEPTH}1{')' * DEPTH}"),
    "sums": (f"a sum of {DEPTH:,} terms", lambda: f"select {' + '.join(['1'] * DEPTH)}"),
    "doubled": (f"`WITH` names that double {DOUBLINGS} times", doubled),
    "window": (
        "windows over everything",
        lambda: (
            "select max(r), max(m) from (select row_number() over (order by hash(i)) r,"
            " median(i) over (order by i rows between unbounded preceding and unbounded following) m"
            " from range(1000000000) t(i))"
        ),
    ),
}
"""Name -> (what the table says, the statement)."""
CLOSED: Final = "rows"
"""The statement whose reader goes."""
COLUMNS: Final = (
    "statement",
    "ends",
    "after s",
    "command, MB",
    "query process, MB",
    "disk, MB",
    "signal to end, s",
    "what the user reads",
)


class Watched(NamedTuple):
    """A run of a statement."""

    code: int | None
    """Exit code; None where it had to be ended."""
    wall_s: float
    said: str
    command_mb: float
    """Peak of resident memory."""
    process_mb: float
    """The same of the largest of its child processes."""
    disk_mb: float
    """The most that was in the folder for temporary files."""
    end_s: float
    """From the signal to the end of the command and of all its processes."""
    left: int
    """Files and folders that are left."""


def below(process: int) -> list[int]:
    """All processes below one."""
    found = [process]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text().split())
    return found[1:]


def is_running(process: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def peak_mb(process: int) -> float:
    """Most resident memory of a process so far; 0 if it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / MB
    return 0.0


def cpu_s(process: int) -> float:
    """Processor time of a process so far; 0 if it is gone."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return float(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def disk_mb(folder: Path) -> float:
    """What files of a folder have."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(place, name)).st_blocks * 512  # noqa: PTH118  # often
    return size / MB


class Run:
    """A statement in ``mqsniff sql``, with a folder for temporary files of its own."""

    def __init__(self, tables: Path, statement: str, place: Path, *, piped: bool) -> None:
        self._temporary = place / "temporary"
        self._temporary.mkdir()
        self._said = place / "said"
        (place / "query").write_text(statement)
        with (place / "query").open("rb") as query, self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [*MQSNIFF, "sql", "-o", "ndjson", str(tables), "-"],
                stdin=query,
                stdout=subprocess.PIPE if piped else subprocess.DEVNULL,
                stderr=said,
                env=environment() | {"TMPDIR": str(self._temporary)},
            )
        self._began = time.monotonic()
        self._peaks: dict[int, float] = {}
        self._disk_mb = 0.0

    def watch(self, seconds: float) -> bool:
        """Look at its processes for some time; whether it has ended."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() >= end:
                return False
            self._look()
        return True

    def await_query(self) -> None:
        """Look at its processes until one computes, or the run has ended."""
        end = time.monotonic() + START_S
        while self.process.poll() is None and time.monotonic() < end:
            if any(cpu_s(each) > BUSY_S for each in below(self.process.pid)):
                return
            self._look()

    def _look(self) -> None:
        """Measure its processes once."""
        for each in (self.process.pid, *below(self.process.pid)):
            self._peaks[each] = max(peak_mb(each), self._peaks.get(each, 0.0))
        self._disk_mb = max(self._disk_mb, disk_mb(self._temporary))
        time.sleep(STEP_S)

    def end(self, *, by_reader: bool) -> Watched:
        """End it, unless it has ended by itself."""
        wall_s = time.monotonic() - self._began
        code = self.process.poll()
        all_of_it = [*below(self.process.pid), *self._peaks]
        sent = time.monotonic()
        if by_reader:
            assert self.process.stdout is not None
            self.process.stdout.close()
        elif code is None:
            self.process.send_signal(signal.SIGINT)
        while (self.process.poll() is None or any(map(is_running, all_of_it))) and time.monotonic() < sent + GIVE_UP_S:
            time.sleep(STEP_S)
        end_s = time.monotonic() - sent
        peaks = [peak for process, peak in self._peaks.items() if process != self.process.pid]
        return Watched(
            code,
            wall_s,
            self._said.read_text(errors="replace").strip(),
            self._peaks.get(self.process.pid, 0.0),
            max(peaks, default=0.0),
            self._disk_mb,
            end_s,
            sum(1 for _ in self._temporary.rglob("*")),
        )


def watched(tables: Path, statement: str, seconds: float, *, piped: bool = False, is_long: bool = True) -> Watched:
    """A run of a statement that is ended after some seconds; from when it computes on if ``is_long``."""
    with tempfile.TemporaryDirectory(prefix="mqsniff-hostilesql-") as place:
        run = Run(tables, statement, Path(place), piped=piped)
        if piped:
            assert run.process.stdout is not None
            run.process.stdout.read(1 << 16)
        elif is_long:
            run.await_query()
        run.watch(seconds)
        return run.end(by_reader=piped)


def row(name: str, tables: Path, wait_s: float, most_mb: float) -> tuple[list[str], bool]:
    """(row of the table, whether the mark is met) of a statement."""
    about, make = STATEMENTS[name]
    piped = name == CLOSED
    alone = watched(tables, make(), wait_s)
    middle = MIDDLE_S if alone.code is None else alone.wall_s * 0.6
    ended = watched(tables, make(), min(MIDDLE_S, middle), piped=piped, is_long=alone.code is None)
    how = {None: "no", 0: "with a result"}.get(alone.code, f"exit code {alone.code}")
    runs = (alone, ended)
    met = all(each.end_s <= END_S and not each.left and each.process_mb <= most_mb for each in runs)
    cells = (
        about if met else f"{about} – **misses the mark**: {[each.left for each in runs]} files left",
        how,
        "" if alone.code is None else f"{alone.wall_s:.1f}",
        f"{max(each.command_mb for each in runs):.0f}",
        f"{max(each.process_mb for each in runs):.0f}",
        f"{max(each.disk_mb for each in runs):.0f}",
        " / ".join(f"{each.end_s:.2f}" for each in runs if each is ended or each.code is None),
        (alone.said or ended.said).replace("|", "\\|") or "nothing",
    )
    return list(cells), met


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What hostile queries cost, and what ends them.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(STATEMENTS)}; all without one")
    parser.add_argument("--wait", type=float, default=30, help="seconds that a statement may take to end by itself")
    asked = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored, also in what is started
    with tempfile.TemporaryDirectory(prefix="mqsniff-hostilesql-") as place:
        tables = Path(place) / "tables"
        decode = [*MQSNIFF, "decode", "-o", "parquet", "--out", str(tables), str(PCAPS)]
        subprocess.run(decode, check=False, stderr=subprocess.DEVNULL, env=environment())
        started = watched(tables, "select 1", asked.wait)
        most_mb = started.process_mb + Limits().query_memory / MB
        print(f"select 1: {started.wall_s:.1f} s, {started.command_mb:.0f} MB and {started.process_mb:.0f} MB")
        print(f"a process may have {most_mb:.0f} MB\n", flush=True)
        rows, all_met = [], True
        for name in asked.names or STATEMENTS:
            cells, met = row(name, tables, asked.wait, most_mb)
            all_met &= met
            rows.append(cells)
            print(" | ".join(cells), flush=True)
    print(f"\n{markdown(COLUMNS, rows)}")
    sys.exit(0 if all_met else 1)


if __name__ == "__main__":
    main()
