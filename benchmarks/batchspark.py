"""The batch job on Spark beside ``decode -o parquet``: ``python benchmarks/run.py batch-spark``.

1. The same Kafka traffic, about 1 GB, as one file and as 64 rotated ones; Parquet of all tables both times.
2. ``batch`` runs on ``local[1,4]``, pinned to one core with everything that it starts, and on ``local[2,4]``.
3. CPU seconds are those that the kernel counts for the JVM and for Python (driver and workers); peaks are of resident
   memory, of the largest process. ``wall`` leaves out the start of the session, which the report tells.
4. ``over decode`` is what the job takes more than ``decode``, in core-seconds per GiB; ``efficiency`` is the wall time
   on one core over twice that on two.
5. Modules are compiled, as those of an installed package are.
"""

from __future__ import annotations

import compileall
import json
import os
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from measuring import DATA, HERE, MB, MQSNIFF, OUTPUT, environment, forget_output, made, run, show

FILES = 64
GIB = 1 << 30
PCAP_HEAD = 24
PERIOD_S = 0.1
TICKS = os.sysconf("SC_CLK_TCK")
COLUMNS = (*("capture", "command", "wall s", "CPU s", "of it JVM", "worker MB", "JVM MB", "over decode", "efficiency"),)


@dataclass
class Watched:
    """The processes below one, while they live: CPU seconds and peaks by what they run."""

    cpu_s: dict[int, tuple[bool, float]] = field(default_factory=dict)
    """Process -> (whether it is a JVM, CPU seconds when it was last seen)."""
    peaks: dict[bool, float] = field(default_factory=dict)

    def look(self, pid: int) -> None:
        """Take note of a process and all below it."""
        try:
            base = Path(f"/proc/{pid}")
            name, _, rest = (base / "stat").read_text().partition("(")[2].rpartition(")")
            is_jvm = name == "java"
            self.cpu_s[pid] = is_jvm, sum(map(int, rest.split()[11:13])) / TICKS
            peak = next(line for line in (base / "status").read_text().splitlines() if line.startswith("VmHWM"))
            self.peaks[is_jvm] = max(self.peaks.get(is_jvm, 0), int(peak.split()[1]) * 1024 / MB)
            for task in (base / "task").iterdir():
                for child in (task / "children").read_text().split():
                    self.look(int(child))
        except (OSError, StopIteration):
            return  # it has ended

    def seconds(self, *, jvm: bool) -> float:
        """CPU seconds of one kind."""
        return sum(seconds for is_jvm, seconds in self.cpu_s.values() if is_jvm is jvm)


class Run(NamedTuple):
    """One run of the job."""

    cores: int
    wall_s: float
    worker_mb: float
    watched: Watched


def batch(path: Path, cores: int) -> Run:
    """Run the job on so many cores."""
    forget_output()
    command = [*MQSNIFF, "batch", "--master", f"local[{cores},4]", "--json", str(path), str(OUTPUT)]
    mask = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))
    watched, over = Watched(), threading.Event()
    with subprocess.Popen(
        ["taskset", "-c", mask, *command],
        stdout=subprocess.PIPE,
        stderr=(DATA / "stderr").open("wb"),
        env=environment(),
    ) as process:

        def watch() -> None:
            while not over.wait(PERIOD_S):
                watched.look(process.pid)

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert process.stdout is not None
        told = process.stdout.read()
        over.set()
        watcher.join()
    forget_output()
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}, see {DATA / 'stderr'}")
    report = json.loads(told)
    return Run(cores, report["seconds"] - report["start_seconds"], report["worker_memory"] / MB, watched)


def spark(scale: int) -> None:
    """Both shapes of the traffic, so many hundred MB of it."""
    get_ready()
    mb = 108 * scale
    one = made("kafkatraffic.py", f"kafka-batch-{mb}mb", mb, 200_000 * scale, 7, mode="records").path
    rows = []
    for path in (one, rotated(one)):
        files = [path] if path.is_file() else sorted(path.iterdir())
        gib = sum(file.stat().st_size for file in files) / GIB
        decode = run(*MQSNIFF, "decode", "--jobs", "1", "-o", "parquet", "--out", str(OUTPUT), *map(str, files))
        figures = [f"{decode.wall_s:.1f}", f"{decode.cpu_s:.1f}", "0.0", f"{decode.peak_mb:.0f}"]
        rows.append([path.stem, "decode", *figures, "", "", ""])
        runs = [batch(path, cores) for cores in (1, 2)]
        rows += [[path.stem, *cells(each, runs[0], decode.cpu_s, gib)] for each in runs]
    show("the batch job on Spark", COLUMNS, rows)


def get_ready() -> None:
    """Compile the modules (rule 5)."""
    for folder in ("mqsniff", "dissectors"):
        compileall.compile_dir(HERE.parent / folder, quiet=1)


def cells(each: Run, single: Run, decode_s: float, gib: float) -> list[str]:
    """What a run took."""
    jvm = each.watched.seconds(jvm=True)
    total = jvm + each.watched.seconds(jvm=False)
    return [
        f"local[{each.cores}]",
        f"{each.wall_s:.1f}",
        f"{total:.1f}",
        f"{jvm:.1f}",
        f"{each.worker_mb:.0f}",
        f"{each.watched.peaks.get(True, 0):.0f}",
        f"{(total - decode_s) / gib:.1f}",
        f"{single.wall_s / (2 * each.wall_s):.2f}" if each.cores > 1 else "",
    ]


def rotated(capture: Path) -> Path:
    """The capture as files of the same size, as tcpdump rotates."""
    folder = capture.with_name(f"{capture.stem}-rotated")
    if folder.exists():
        return folder
    unfinished = folder.with_suffix(".tmp")
    unfinished.mkdir(exist_ok=True)
    step = capture.stat().st_size // FILES
    with capture.open("rb") as source:
        head = source.read(PCAP_HEAD)
        for number in range(FILES):
            with (unfinished / f"{number:03d}.pcap").open("wb") as out:
                out.write(head)
                while (out.tell() < step or number == FILES - 1) and (record := source.read(16)):
                    out.write(record + source.read(struct.unpack_from("<I", record, 8)[0]))
    unfinished.rename(folder)
    return folder
