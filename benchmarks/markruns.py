"""CPU time against tshark over the same capture, and by stage: ``python benchmarks/run.py marks`` and ``stages``.

1. K: 800,000 records of 100 bytes in batches of 100. M: a mix of five codecs, sizes and losses. S: 200,000 messages
   with 100,000 batches of one record.
2. Both write to files, each by one process (``--jobs 1``). The figures are the smallest of some runs, in turn; a mark
   says how many of our runs fit in one of theirs, by CPU seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from kafkaruns import RECORD_FIELDS, SEED, fields, ndjson, record_capture, tshark
from measuring import HERE, MQSNIFF, OUTPUT, Capture, Used, builds, environment, has_tshark, made, run, show

PASSES = 3
SLOW_S = 20.0
"""What takes longer runs once."""
JSON = ("-T", "json")
COLUMNS = ("work", "capture", "tshark s", "build", "CPU s", "times faster", "mark", "", "peak MB")


class Work(NamedTuple):
    """A row of the table: what is compared, and the marks of the plain and of the compiled build."""

    name: str
    capture: str
    theirs: Sequence[str]
    ours: Sequence[str]
    marks: tuple[float, float]


def captures(scale: int) -> dict[str, Capture]:
    """K, M and S."""
    even, single = 800 * scale, 10_000 * scale
    return {
        "K": made("kafkatraffic.py", f"kafka-even-{even}-seed{SEED}", even, SEED, mode="even"),
        "M": record_capture(scale),
        "S": made("kafkatraffic.py", f"kafka-single-{single}-seed{SEED}", single, SEED, mode="single"),
    }


def works(found: dict[str, Capture]) -> list[Work]:
    """All rows."""
    values = fields(RECORD_FIELDS)
    records = {name: ndjson(capture, "records") for name, capture in found.items()}
    parquet = {
        name: [*MQSNIFF, "decode", str(capture.path), "--jobs", "1", "-o", "parquet", "--out", str(OUTPUT)]
        for name, capture in found.items()
    }
    small = found["S"]
    text = [*MQSNIFF, "decode", str(small.path), "-o", "text"]
    stats = {name: [*MQSNIFF, "stats", str(found[name].path)] for name in "SK"}
    return [
        Work("NDJSON of records, -T json", "K", JSON, records["K"], (7, 11)),
        Work("NDJSON of records, -T json", "M", JSON, records["M"], (14, 18)),
        Work("NDJSON of messages, -T json", "S", JSON, ndjson(small, "messages"), (5, 12)),
        Work("Parquet of all tables, -T fields", "K", values, parquet["K"], (1.6, 3)),
        Work("Parquet of all tables, -T fields", "M", values, parquet["M"], (4.5, 6)),
        Work("Parquet of all tables, -T fields", "S", values, parquet["S"], (0.4, 1)),
        Work("text, -T fields", "S", values, text, (0.6, 1.3)),
        Work("stats, -T fields", "S", values, stats["S"], (1, 2.5)),
        Work("stats, -T fields", "K", values, stats["K"], (3, 5)),
    ]


def marks(scale: int) -> None:
    """The table."""
    if not has_tshark():
        return
    found = captures(scale)
    known: dict[tuple[str, ...], Used] = {}
    rows: list[list[str]] = []
    print(f"\nload before: {os.getloadavg()[0]:.2f}, cores: {len(os.sched_getaffinity(0))}")
    for work in works(found):
        theirs = tuple(tshark(found[work.capture], *work.theirs))
        ours = builds("plain", work.ours)
        used = in_turn({"tshark": theirs} if theirs not in known else {}, ours)
        known.setdefault(theirs, used.get("tshark", Used(0, 0, 0, 0)))
        for (build, mark), first in zip(zip(ours, work.marks, strict=False), (True, False), strict=False):
            times = known[theirs].cpu_s / used[build].cpu_s
            named = [work.name, work.capture, f"{known[theirs].cpu_s:.1f}"] if first else ["", "", ""]
            reached = "reached" if times >= mark else "missed"
            figures = [f"{used[build].cpu_s:.2f}", f"{times:.2f}", f"{mark:g}", reached, f"{used[build].peak_mb:.0f}"]
            rows.append([*named, build.removeprefix("plain, "), *figures])
    told = ", ".join(f"{name}: {each.mb:.0f} MB, {each.messages:,} messages" for name, each in found.items())
    show(f"marks ({told})", COLUMNS, rows)


STAGES = ("read", "packets", "streams", "decode", "write")
STAGED = {"K": "records", "M": "records", "S": "messages"}
FORMS = {**{f"{name}, NDJSON of {form}": (name, form) for name, form in STAGED.items()}, "S, Parquet": ("S", "parquet")}


def stages(scale: int) -> None:
    """What each stage of a run adds, by ``stages.py``; start-up is not in it."""
    found = captures(scale)
    rows: list[list[str]] = []
    for title, (name, form) in FORMS.items():
        command = [sys.executable, str(HERE / "stages.py"), str(found[name].path), form]
        for build, each in builds("plain", command).items():
            told = subprocess.run(each, stdout=subprocess.PIPE, text=True, check=True, env=environment()).stdout
            sums = dict(line.split() for line in told.splitlines())
            before = [0.0, *(float(sums[stage]) for stage in STAGES[:-1])]
            added = [f"{float(sums[stage]) - less:.2f}" for stage, less in zip(STAGES, before, strict=True)]
            rows.append([title, build.removeprefix("plain, "), *added, sums["write"]])
    show("CPU seconds that each stage adds", ("capture and output", "build", *STAGES, "all"), rows)


def in_turn(theirs: dict[str, Sequence[str]], ours: dict[str, list[str]]) -> dict[str, Used]:
    """The smallest figures of commands that take turns; what is slow runs once."""
    runs: dict[str, list[Used]] = {}
    for _ in range(PASSES):
        for name, command in {**theirs, **ours}.items():
            before = runs.setdefault(name, [])
            if not before or before[0].cpu_s < SLOW_S:
                before.append(run(*command))
    return {name: Used(*(min(figures) for figures in zip(*each, strict=True))) for name, each in runs.items()}
