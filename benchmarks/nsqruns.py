"""NSQ as users decode it: ``python benchmarks/run.py nsq`` and ``nsq-memory``.

1. Two captures, plain and compressed by snappy, go to each form of output. tshark knows no NSQ, so it reassembles and
   names only.
2. The peak of memory is measured once more over captures ten times as long.
"""

from __future__ import annotations

import sys

from measuring import COMPARED, HERE, MQSNIFF, PASSES, Capture, compared, has_tshark, made, run, show

TABLES = ("messages", "exchanges", "records", "problems", "connections")
FORMS = {
    "connections only": ["-o", "ndjson", "--table", "connections"],
    "text": ["-o", "text"],
    "NDJSON": ["-o", "ndjson"],
    "NDJSON, all tables, records": ["-o", "ndjson", "--records", *(f"--table={name}" for name in TABLES)],
}
"""Name of an output -> options that ask for it."""
RAW = ("-q -z io,stat,0", "-T fields -e tcp.stream -e tcp.payload")


def captures(scale: int, times: int = 1) -> list[Capture]:
    """The plain one and the compressed one."""
    mb, longer = 6 * scale * times, "-tenfold" if times > 1 else ""
    plain = made("nsqtraffic.py", f"plain-{6 * scale}{longer}", mb)
    return [plain, made("nsqtraffic.py", f"snappy-{6 * scale}{longer}", mb, "--snappy")]


def forms(capture: Capture) -> dict[str, list[str]]:
    """Commands for each form of output."""
    return {form: [*MQSNIFF, "decode", str(capture.path), *options] for form, options in FORMS.items()}


def nsq(scale: int) -> None:
    """Decoding to each form of output, and tshark."""
    rows, made_now = [], captures(scale)
    there = has_tshark()
    for capture in made_now:
        path = str(capture.path)
        theirs = {f"tshark {task}": ["tshark", "-n", "-r", path, *task.split()] for task in RAW if there}
        ours = {"reassembly only": [sys.executable, str(HERE / "reassembly.py"), path]} | forms(capture)
        rows += compared(capture, theirs, ours, PASSES)
    told = ", ".join(f"{c.path.stem}: {c.mb:.0f} MB, {c.messages:,} messages" for c in made_now)
    show(f"NSQ ({told})", COMPARED, rows)


def memory(scale: int) -> None:
    """The peak of memory against the length of the input."""
    rows = []
    for pair in zip(captures(scale), captures(scale, 10), strict=True):
        for capture in pair:
            used = run(*forms(capture)["NDJSON"])
            rows.append([capture.path.stem, f"{capture.mb:.0f}", f"{used.peak_mb:.0f}", f"{used.cpu_s:.1f}"])
    show("memory", ["capture", "MB", "peak MB", "CPU s"], rows)
