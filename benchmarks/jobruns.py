"""One process against two over the same large capture: ``python benchmarks/run.py jobs``.

1. The capture is that of ``kafka-records`` at ten times the length: 1 GB, ten pairs of a producer and a consumer, so
   that every batch of records passes twice; and the same as zstd.
2. Wall seconds count; CPU seconds say what dividing costs. Runs of both take turns, and the smallest count.
"""

from __future__ import annotations

import os
import subprocess

from kafkaruns import record_capture
from measuring import DATA, MQSNIFF, OUTPUT, Capture, Used, run, show

PASSES = 3
COLUMNS = ("capture", "command", "jobs", "wall s", "times faster", "CPU s", "peak MB of a process", "output MB")


def jobs(scale: int) -> None:
    """One process and two."""
    capture = record_capture(10 * scale)
    rows = [row for each in (capture, compressed(capture)) for row in measured(each)]
    print(f"\nload before: {os.getloadavg()[0]:.2f}, cores: {len(os.sched_getaffinity(0))}")
    show(f"--jobs; {capture.mb:.0f} MB with {capture.records:,} rows of records", COLUMNS, rows)


def compressed(capture: Capture) -> Capture:
    """The same capture as zstd."""
    path = DATA / f"{capture.path.name}.zst"
    if not path.exists():
        subprocess.run(["zstd", "-q", str(capture.path), "-o", str(path)], check=True)
    return capture._replace(path=path)


def measured(capture: Capture) -> list[list[str]]:
    """The rows of one capture."""
    commands = {
        "NDJSON of records": ["-o", "ndjson", "--table", "records"],
        "Parquet of all tables": ["-o", "parquet", "--out", str(OUTPUT)],
    }
    rows: list[list[str]] = []
    for name, options in commands.items():
        used: dict[int, list[Used]] = {1: [], 2: []}
        for _ in range(PASSES):
            for number, runs in used.items():
                runs.append(run(*MQSNIFF, "decode", "-q", str(capture.path), *options, "--jobs", str(number)))
        best = {number: min(runs, key=lambda each: each.wall_s) for number, runs in used.items()}
        for number, each in best.items():
            faster = f"{best[1].wall_s / each.wall_s:.2f}" if number > 1 else ""
            figures = (
                f"{each.wall_s:.1f}",
                faster,
                f"{each.cpu_s:.1f}",
                f"{each.peak_mb:.0f}",
                f"{each.output_mb:.0f}",
            )
            rows.append([capture.path.suffix[1:], name, str(number), *figures])
    return rows
