"""How long `batch` takes to the first table of a small archive: ``python benchmarks/run.py first-table``.

1. 6 MB of Kafka traffic in one file. The clock starts with the command, and stops when a run is committed, and again
   when the command has ended.
2. CPU seconds until then are those of the driver, of the JVM, and of Python workers, as the kernel counts them.
3. One run that is not counted comes first: the machine is warm. With ``MQSNIFF_SPARK_CLASSES=FILE`` it makes the
   archive of Spark's classes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from batchspark import Watched, get_ready
from measuring import DATA, MQSNIFF, OUTPUT, environment, forget_output, made, show

RUNS = 3
LOOK_S = 0.02
COLUMNS = ("until", "wall s", "CPU s", "driver", "JVM", "workers", "load")


def table(scale: int) -> None:
    """So many runs, whatever the scale."""
    del scale
    get_ready()
    capture = made("kafkatraffic.py", "kafka-6mb", 6, 2_000, 7, mode="records").path
    one_run(capture)
    rows = [row for _ in range(RUNS) for row in one_run(capture)]
    show(f"the first table of {capture.stat().st_size / 1e6:.1f} MB", COLUMNS, rows)


def one_run(capture: Path) -> list[list[str]]:
    """A row for the first table, and one for the end of the command."""
    forget_output()
    started, watched, rows = time.perf_counter(), Watched(), []
    with (DATA / "stderr").open("wb") as said:
        process = subprocess.Popen([*MQSNIFF, "batch", str(capture), str(OUTPUT)], stderr=said, env=environment())
    while process.poll() is None:
        watched.look(process.pid)
        if not rows and any(OUTPUT.glob("_mqsniff/runs/*.json")):
            rows.append(cells("the first table", started, watched, process.pid))
        time.sleep(LOOK_S)
    if process.returncode:
        sys.exit(f"exit code {process.returncode}, see {DATA / 'stderr'}")
    rows.append(cells("the end", started, watched, process.pid))
    forget_output()
    return rows


def cells(until: str, started: float, watched: Watched, driver: int) -> list[str]:
    """What was taken so far."""
    wall_s, jvm, python = time.perf_counter() - started, watched.seconds(jvm=True), watched.seconds(jvm=False)
    of_driver = watched.cpu_s[driver][1]
    parts = (jvm + python, of_driver, jvm, python - of_driver, os.getloadavg()[0])
    return [until, f"{wall_s:.1f}", *(f"{each:.1f}" for each in parts)]
