"""A landing folder that is followed while processes are killed at random moments: rows of one run, or what differs.

A chore: ``make follow-faults``, or ``python tests/batch/follow_faults.py --kills 20``; it needs Java.

1. Files of one capture arrive at random moments. A worker, the JVM, or the command with all that it started is killed.
   A command that was killed is started again; one that lost its JVM has to go on by itself.
2. In the end all files are decoded, and the rows are compared with those of one run in this process.
3. ``--stream``: the same for ``spark.readStream`` of each file by itself, whose query ends with its JVM and is started
   again; its rows are compared with those of a read. Three of four kills fall into a batch, at a random moment of the
   time that one took, the others after one; what the query did then is told.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from batchrows import PCAPS, committed, differing, rotated
from inprocess import InProcess
from processtree import descendants, kill_all

from mqsniff.batch.commit import Archive
from mqsniff.batch.driver import run_job
from mqsniff.batch.job import JobOptions
from mqsniff.batch.store import Store

ROOT = Path(__file__).parents[2]
HASH_KEY = "the key of a comparison, 32 bytes"
IDLE_S = 3.0
"""Seconds after a batch within which a query without work is killed."""
COMMAND = (sys.executable, "-c", "from mqsniff.cli import main; main()", "batch", "--follow", "--settle", "1s")


STREAM = """
import sys
from mqsniff.batch.datasource import register
from mqsniff.batch.session import open_session

landing, folder, once = sys.argv[1:]
spark = open_session("local[2,4]")
register(spark)
stream = spark.readStream.format("mqsniff").option("table", "messages").option("scope", "file")
rows = stream.option("log", folder + "/log").option("settle", "1s").load(landing)
writer = rows.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
trigger = {"availableNow": True} if once else {"processingTime": "1 second"}
query = writer.trigger(**trigger).start(folder + "/out")
print("started", flush=True)
query.awaitTermination()
if once:
    whole = spark.read.format("mqsniff").option("table", "messages").option("scope", "file").load(landing)
    found = spark.read.parquet(folder + "/out")
    differ = whole.exceptAll(found).count() + found.exceptAll(whole).count()
    print(f"{found.count()} rows of {found.select('capture').distinct().count()} files, {differ} differ")
    sys.exit(1 if differ else 0)
"""


def kill_one(process: subprocess.Popen[bytes], what: str) -> bool:
    """Kill the JVM, or a Python worker; whether there was one."""
    wanted = [number for number, below in descendants(process.pid).items() if below.name.startswith(what)]
    if wanted:
        os.kill(random.choice(wanted), signal.SIGKILL)
    return bool(wanted)


def started(landing: Path, out: Path, key: Path, log: Path) -> subprocess.Popen[bytes]:
    """The command."""
    arguments = [*COMMAND, "--master", "local[2,4]", "--hash-key", str(key), str(landing), str(out)]
    with log.open("ab") as said:
        return subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=said)


def runs_of(out: Path) -> int:
    """How many runs are committed."""
    return len(Archive(Store.at(str(out))).runs()) if out.exists() else 0


def inputs_of(out: Path) -> list[str]:
    """The inputs that were decoded, each as often as a run decoded it."""
    runs = Archive(Store.at(str(out))).runs() if out.exists() else []
    return [Path(taken.uri).name for run in runs for taken in run.inputs]


class Query:
    """What the files of a streaming query tell: its checkpoint, and its rows in ``out``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = self._files()

    def in_batch(self) -> bool:
        """Whether a batch was begun and not ended: its number is in ``offsets`` first, in ``commits`` last."""
        return self._last("checkpoint/offsets") > self._last("checkpoint/commits")

    def moment(self) -> str:
        """What the query was doing when it was killed."""
        if not self.in_batch():
            return "between batches"
        if self._last("out/_spark_metadata") == self._last("checkpoint/offsets"):
            return "batch written, not committed"
        return "batch half written" if self._files() > self._before else "batch reading"

    def _last(self, folder: str) -> int:
        names = (path.name.partition(".")[0] for path in (self._folder / folder).glob("*"))
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def _files(self) -> set[str]:
        return {path.name for path in (self._folder / "out").glob("*.parquet")}


def wait_until(condition: Callable[[], bool]) -> float:
    """Wait for it, two minutes at most; the seconds that it took."""
    began = time.monotonic()
    while not condition() and time.monotonic() < began + 120:
        time.sleep(0.01)
    return time.monotonic() - began


def stream_killed(kills: int, capture: Path) -> int:
    """Kill a streaming query again and again; the exit code of the comparison. One that ends by itself is a fault."""
    moments: Counter[str] = Counter()
    seconds = 0.0
    with TemporaryDirectory(prefix="mqsniff-stream-faults-") as place:
        folder = Path(place)
        for name in ("pieces", "landing"):
            (folder / name).mkdir()
        rotated(capture, folder / "pieces", kills + 2)
        command = (sys.executable, "-c", STREAM, str(folder / "landing"), place)
        for number, file in enumerate(sorted((folder / "pieces").iterdir())):
            shutil.copy(file, folder / "landing")
            if number > kills:
                break
            with (folder / "said").open("wb") as said:
                process = subprocess.Popen([*command, ""], cwd=ROOT, stdout=subprocess.PIPE, stderr=said)
            query = Query(folder)
            assert process.stdout is not None
            assert process.stdout.readline() == b"started\n", (folder / "said").read_text()
            wait_until(query.in_batch)
            if number % 4 == 0:
                seconds = wait_until(lambda query=query: not query.in_batch())  # type: ignore[misc]  # it is a Query
            time.sleep(random.uniform(0, seconds if number % 4 else IDLE_S))
            assert process.poll() is None, (folder / "said").read_text()
            kill_all(process)
            moments.update([query.moment()] if number else [])
            click.echo(f"{number}: killed: {query.moment()}; a batch takes {seconds:.1f} s", err=True)
        time.sleep(2)
        click.echo(f"killed: {', '.join(f'{moment} {count}' for moment, count in moments.items())}")
        once = [*command, "once"]
        subprocess.run(once, cwd=ROOT, stderr=subprocess.DEVNULL, check=False)  # ends with the batch that was killed
        return subprocess.run(once, cwd=ROOT, stderr=subprocess.DEVNULL, check=False).returncode


@click.command()
@click.option("--kills", default=20, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--stream", is_flag=True, help="A streaming query, not the command.")
@click.option("--capture", type=click.Path(path_type=Path), default=PCAPS / "kafka" / "lab-kafka-4.4.0-groups.pcap")
def main(kills: int, seed: int, capture: Path, *, stream: bool) -> None:
    """Kill what follows a landing folder, again and again, and compare the rows."""
    random.seed(seed)
    os.environ["MQSNIFF_SPARK_CLASSES"] = ""  # a JVM that archives classes lives on for a while
    if stream:
        sys.exit(stream_killed(kills, capture))
    counts: Counter[str] = Counter()
    with TemporaryDirectory(prefix="mqsniff-follow-faults-") as place:
        folder = Path(place)
        pieces, landing, out, key, log = (folder / name for name in ("pieces", "landing", "out", "key", "log"))
        pieces.mkdir()
        landing.mkdir()
        key.write_text(HASH_KEY)
        rotated(capture, pieces, kills + 2)
        files = sorted(pieces.iterdir())
        process = started(landing, out, key, log)
        for number, file in enumerate(files):
            shutil.copy(file, landing / f".{file.name}.part")
            (landing / f".{file.name}.part").rename(landing / file.name)
            time.sleep(random.uniform(1, 15))
            if number >= kills:
                continue
            what = random.choice(("command", "command", "java", "python"))
            if what == "command" or process.poll() is not None or not kill_one(process, what):
                kill_all(process)
                process = started(landing, out, key, log)
                what = "command"
            counts[what] += 1
            click.echo(f"{number + 1}: killed {what}; {runs_of(out)} runs", err=True)
        until = time.monotonic() + 600
        while len(set(inputs_of(out))) < len(files) and time.monotonic() < until and process.poll() is None:
            time.sleep(1)
        process.send_signal(signal.SIGINT)
        code = process.wait(120)
        decoded = inputs_of(out)
        run_job(
            InProcess(),
            map(str, files),
            str(folder / "one"),
            JobOptions(),
        )
        found = differing(committed(folder / "one"), committed(out))
        left = [path.name for path in (out / "_mqsniff" / "staging").glob("*")]
        click.echo(log.read_text(), err=True)
    told = ", ".join(f"{name} {count}" for name, count in counts.items())
    click.echo(
        f"killed: {told}; {len(files)} files, {len(decoded)} decoded, {len(set(decoded))} different; last exit {code}; "
        f"tables that differ: {sorted(found) or 'none'}; staging left: {left or 'none'}"
    )
    sys.exit(1 if found or len(decoded) != len(files) or code else 0)


if __name__ == "__main__":
    main()
