"""Every command, ended by a signal at random moments: what it leaves after. Run by hand: ``make signals``.

A run that was ended must be over within two seconds, say nothing that looks like a crash, leave no process and no
temporary file after that the next run does not delete, and only complete files under their final names.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
SAMPLES = sorted(map(str, (ROOT / "pcaps").glob("*/*.pcap*")))
CAPTURES = [sample for sample in SAMPLES if not sample.endswith((".ndjson", ".py", ".md"))]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
GREAT = "select i, repeat('x', 100) as x from range(20000000) t(i) order by hash(i)"
COMMANDS = {
    "decode": ["decode", "-o", "ndjson", *CAPTURES],
    "decode text": ["decode", "-o", "text", "-v", "--records", *CAPTURES],
    "decode csv": ["decode", "-o", "csv", "--table", "messages", *CAPTURES],
    "decode parquet": ["decode", "-o", "parquet", "--out", "{out}/tables", *CAPTURES],
    "decode where": ["decode", "-o", "ndjson", "--where", "size > 10", *CAPTURES],
    "stats": ["stats", *CAPTURES],
    "trace": ["trace", "--connection", "c1", *CAPTURES],
    "extract": ["extract", "-w", "{out}/x.pcapng", *CAPTURES],
    "extract save": ["extract", "--save", "{out}/values", *CAPTURES],
    "sql": ["sql", *CAPTURES, "from records"],
    "sql spill": ["sql", "--limit", "query_memory=134217728", CAPTURES[0], GREAT],
    "sql parquet": ["sql", CAPTURES[0], GREAT, "-o", "parquet", "--out", "{out}/result.parquet"],
    "check": ["check", str(ROOT / "pcaps")],
}


def started(arguments: list[str], temporary: Path) -> subprocess.Popen[bytes]:
    """A run of the command with its own folder for temporary files."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "dissectors")))
    environment = os.environ | {"PYTHONPATH": path, "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "mqsniff", *arguments]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def below(process: int) -> list[int]:
    """The processes below one."""
    found = [process]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue
    return found[1:]


def is_running(process: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_of_start(said: str) -> bool:
    """Whether a traceback is of Ctrl-C before the command's first line, while Python itself starts."""
    *_, last = said.rpartition("Traceback")
    return said.rstrip().endswith("KeyboardInterrupt") and not re.search(r"/mqsniff/(?!__init__\.py)", last)


def faults(name: str, number: signal.Signals, delay: float, home: Path) -> list[str]:
    """What is wrong after a run that got a signal; ``home`` is an empty folder."""
    temporary, out = home / "temporary", home / "out"
    temporary.mkdir()
    out.mkdir()
    process = started([each.format(out=out) for each in COMMANDS[name]], temporary)
    assert process.stderr is not None
    try:
        process.wait(delay)
        sent = False
    except subprocess.TimeoutExpired:
        children = below(process.pid)
        process.send_signal(number)
        sent = True
    began = time.monotonic()
    said = process.stderr.read().decode(errors="replace")
    code, seconds = process.wait(), time.monotonic() - began
    found = [f"said: {said[-500:]}"] if "Traceback" in said and not is_of_start(said) else []
    if not sent:
        return found
    if code not in (0, 1, 128 + number, -number):
        found.append(f"exit code {code}: {said[-200:]}")
    if seconds > 2:
        found.append(f"took {seconds:.1f} s to end")
    time.sleep(1.5)
    found += [f"process {child} is left" for child in children if is_running(child)]
    left = [path for path in temporary.rglob("*") if path.is_file()]
    if left and number is not signal.SIGKILL:
        found.append(f"temporary files: {left[:3]}")
    if left:
        started(["sql", CAPTURES[0], "select 1"], temporary).communicate()
        found += [f"the next run leaves {path}" for path in temporary.rglob("*") if path.is_file()]
    return found + list(broken(out, number))


def broken(out: Path, number: signal.Signals) -> list[str]:
    """Files under final names that cannot be read, and unfinished ones after a signal that can be handled."""
    found = []
    for path in out.rglob("*"):
        unfinished = path.name.endswith(".tmp") or path.name.startswith(".")
        if unfinished and path.is_file() and number is not signal.SIGKILL:
            found.append(f"unfinished file {path.name}")
        elif path.suffix == ".parquet" and not unfinished:
            try:
                pq.read_table(path)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is reported
                found.append(f"{path.name}: {error}")
    return found


def main() -> None:
    """Run all and say what is wrong."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    wanted = sys.argv[2:] or list(COMMANDS)
    seed = int(os.environ.get("SEED", time.time_ns() % 1_000_000))
    chance = random.Random(seed)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # else runs in the background inherit that it is ignored
    total: Counter[str] = Counter()
    for name in wanted:
        for number in SIGNALS:
            for _ in range(rounds):
                delay = chance.uniform(0.15, 3.0)  # before, Python itself starts
                with TemporaryDirectory() as home:
                    found = faults(name, number, delay, Path(home))
                total[name] += 1
                for fault in found:
                    print(f"{name}, {number.name} after {delay:.2f} s: {fault}", flush=True)  # noqa: T201
    print(f"seed {seed}: {dict(total)} runs")  # noqa: T201


if __name__ == "__main__":
    main()
