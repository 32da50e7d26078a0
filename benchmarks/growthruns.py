"""Cost as work grows: ``python benchmarks/run.py growth``, and up to a power of ten ``growthruns.py KIND COUNT``.

1. A capture grows by one thing at a time, in steps of ten: packets, messages, records, connections, topics.
2. ``decode`` writes NDJSON: messages, and records where records grow. Flat means: the microseconds of a unit and the
   peak of memory stay, start-up aside, which is measured with the smallest capture and taken off.
3. ``make bench`` ends where a step takes a minute; the last steps up to 10^7 are rows that are asked for by name.
"""

from __future__ import annotations

import sys

from kafkaruns import SEED, ndjson
from measuring import Capture, Used, made, run, show

POWERS = {"packets": (3, 7), "messages": (3, 6), "records": (4, 7), "connections": (3, 5), "topics": (3, 6)}
"""Kind -> the first and the last power of ten."""
LARGE_MB = 1000
"""A capture that is larger does not stay."""
COLUMNS = ("kind", "units", "capture MB", "CPU s", "µs a unit", "MB/s", "peak MB")


def capture_of(kind: str, units: int) -> Capture:
    """A capture with so many of them."""
    name = f"growth-{kind}-{units}"
    match kind:
        case "messages":
            return made("kafkatraffic.py", name, units // 2, SEED, mode="small")
        case "records":
            return made("kafkatraffic.py", name, units // 100, SEED, mode="even")
        case "connections":
            return made("manyconnections.py", name, units, mode="asked")
    return made("growthtraffic.py", name, units, mode=kind)


def measured(kind: str, units: int) -> tuple[Capture, Used]:
    """A run over it."""
    capture = capture_of(kind, units)
    return capture, run(*ndjson(capture, "records" if kind == "records" else "messages"))


def rows_of(kind: str, last: int) -> list[list[str]]:
    """The rows of a kind; the first step stands for what starting costs."""
    first = POWERS[kind][0]
    start_s = 0.0
    rows = []
    for units in (10**power for power in range(first, last + 1)):
        capture, used = measured(kind, units)
        start_s = start_s or used.cpu_s
        spent_s = used.cpu_s - start_s
        row = [kind, f"{units:,}", f"{capture.mb:.1f}", f"{used.cpu_s:.2f}", f"{used.peak_mb:.0f}"]
        told = [f"{spent_s / units * 1e6:.1f}", f"{capture.mb / spent_s:.1f}"] if spent_s > 0 else ["", ""]
        rows.append([*row[:4], *told, row[4]])
        if capture.mb > LARGE_MB:
            capture.path.unlink()
    return rows


def growth(scale: int) -> None:
    """All kinds."""
    less = 0 if scale > 1 else 2
    show("cost as work grows", COLUMNS, [row for kind in POWERS for row in rows_of(kind, POWERS[kind][1] - less)])


if __name__ == "__main__":
    asked, power = sys.argv[1], len(sys.argv[2]) - 1
    show("cost as work grows", COLUMNS, rows_of(asked, power))
