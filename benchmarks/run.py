"""How fast mqsniff is and how much memory it takes: ``make bench``, or ``python benchmarks/run.py [--quick]``.

1. What is measured is the command as its users run it: whole processes, with their CPU seconds (user and system) and
   their peak of resident memory as the kernel counts them. This process stays small, since a child inherits its peak.
2. The captures are made here, the same on every run, and kept in ``benchmarks/data/``.
3. Each figure is the best of three, since other work on the machine only ever adds; nothing is asserted.
4. tshark, where it is there, takes the same files in the same run: it knows no NSQ, so it reassembles and names only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

HERE = Path(__file__).parent
DATA = HERE / "data"
SAMPLE = HERE.parent / "pcaps" / "nsq" / "nsq-1.3.0-go-req-touch.pcap"
MQSNIFF = [sys.executable, "-c", "from mqsniff.cli import main; main()"]
TABLES = ("messages", "exchanges", "records", "problems", "connections")
FORMS = {
    "connections only": ["-o", "ndjson", "--table", "connections"],
    "text": ["-o", "text"],
    "NDJSON": ["-o", "ndjson"],
    "NDJSON, all tables, records": ["-o", "ndjson", "--records", *(f"--table={name}" for name in TABLES)],
}
"""Name of an output -> options that ask for it."""

MB = 1_000_000
PASSES = 3


class Used(NamedTuple):
    """What a process took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


class Capture(NamedTuple):
    """A file that was made, and how many NSQ messages are in it."""

    path: Path
    messages: int

    @property
    def mb(self) -> float:
        """Its size."""
        return self.path.stat().st_size / MB


def script(name: str, *arguments: str) -> str:
    """What a script beside this one prints."""
    command = [sys.executable, str(HERE / name), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def run(*command: str) -> Used:
    """One run of a command, its output thrown away."""
    started = perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}")
    return Used(usage.ru_utime + usage.ru_stime, perf_counter() - started, usage.ru_maxrss * 1024 / MB)


def best(*command: str, passes: int = PASSES) -> Used:
    """The smallest figures of some runs."""
    runs = [run(*command) for _ in range(passes)]
    return Used(*(min(figures) for figures in zip(*runs, strict=True)))


def made(name: str, mb: int, *, compressed: bool) -> Capture:
    """A capture of this size, from the folder of data where it is there already."""
    DATA.mkdir(exist_ok=True)
    path, count = DATA / f"{name}.pcap", DATA / f"{name}.messages"
    if not count.exists():
        options = ["--snappy"] if compressed else []
        count.write_text(script("nsqtraffic.py", str(path), str(mb), *options))
    return Capture(path, int(count.read_text()))


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table."""
    print(f"\n{title}")
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), flush=True)


def startup_rows() -> list[list[str]]:
    """Whole processes that have little to do."""
    tasks = {"--help": ["--help"], "decode a capture of 137 packets": ["decode", str(SAMPLE)]}
    rows = []
    for task, arguments in tasks.items():
        used = best(*MQSNIFF, *arguments, passes=10)
        rows.append([task, f"{used.wall_s:.2f}", f"{used.cpu_s:.2f}", f"{used.peak_mb:.0f}"])
    return rows


def decode_times(capture: Capture) -> dict[str, Used]:
    """Reassembling a capture, and decoding it to each form of output."""
    path = str(capture.path)
    times = {"reassembly only": best(sys.executable, str(HERE / "reassembly.py"), path)}
    return times | {form: best(*MQSNIFF, "decode", path, *options) for form, options in FORMS.items()}


def decode_rows(capture: Capture, times: Mapping[str, Used]) -> list[list[str]]:
    """The same with speeds."""
    return [
        [
            capture.path.stem,
            form,
            *(f"{used.cpu_s:.2f}", f"{used.wall_s:.2f}", f"{used.peak_mb:.0f}"),
            *(f"{capture.messages / used.cpu_s:,.0f}", f"{capture.mb / used.cpu_s:.1f}"),
        ]
        for form, used in times.items()
    ]


def memory_rows(captures: Sequence[Capture]) -> list[list[str]]:
    """The peak of memory against the length of the input."""
    rows = []
    for capture in captures:
        used = run(*MQSNIFF, "decode", str(capture.path), "-o", "ndjson")
        rows.append([capture.path.stem, f"{capture.mb:.0f}", f"{used.peak_mb:.0f}", f"{used.cpu_s:.1f}"])
    return rows


def tshark_rows(capture: Capture, times: Mapping[str, Used]) -> list[list[str]]:
    """CPU seconds of tshark over the same file, and how many times those of mqsniff they are."""
    rows = []
    for task in ("-q -z io,stat,0", "-T fields -e tcp.stream -e tcp.payload"):
        theirs = best("tshark", "-n", "-r", str(capture.path), *task.split())
        ratios = [f"{theirs.cpu_s / used.cpu_s:.2f}" for used in times.values()]
        rows.append([capture.path.stem, task, f"{theirs.cpu_s:.2f}", f"{theirs.peak_mb:.0f}", *ratios])
    return rows


def main() -> None:
    """Print all tables; ``--quick`` takes captures of a tenth of the size."""
    scale = 1 if "--quick" in sys.argv[1:] else 10
    plain = made(f"plain-{6 * scale}", 6 * scale, compressed=False)
    snappy = made(f"snappy-{6 * scale}", 6 * scale, compressed=True)
    print(f"packets to segments\n{script('packets.py')}", end="")
    show("start-up", ["command", "wall s", "CPU s", "peak MB"], startup_rows())
    captures = (plain, snappy)
    times = {capture: decode_times(capture) for capture in captures}
    show(
        f"decode ({', '.join(f'{c.path.stem}: {c.mb:.0f} MB, {c.messages:,} messages' for c in captures)})",
        ["capture", "output", "CPU s", "wall s", "peak MB", "messages/CPU s", "MB/CPU s"],
        [row for capture in captures for row in decode_rows(capture, times[capture])],
    )
    tenfold = [made(f"{c.path.stem}-tenfold", 60 * scale, compressed=c is snappy) for c in captures]
    show("memory", ["capture", "MB", "peak MB", "CPU s"], memory_rows([plain, tenfold[0], snappy, tenfold[1]]))
    if shutil.which("tshark") is None:
        print("\ntshark is not there: no comparison")
        return
    show(
        "tshark on the same files, and its CPU seconds for one of mqsniff",
        ["capture", "tshark", "CPU s", "peak MB", *times[plain]],
        [row for capture in captures for row in tshark_rows(capture, times[capture])],
    )


if __name__ == "__main__":
    main()
