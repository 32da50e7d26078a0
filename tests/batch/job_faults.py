"""A batch job whose processes are killed, whose inputs change and whose disks fill up: what becomes of its rows.

A chore: ``make job-faults KILLS=20``, or ``python tests/batch/job_faults.py worker --kills 20``; it needs Java.

1. Jobs run over samples of ``pcaps/``, plain and compressed; ``faultbench`` says what is checked.
2. ``worker``: a Python worker is killed; ``executor``: the JVM of one of two executors; ``driver``: the process that
   runs the job, with all that it started. Then another process runs the same job again. ``forked`` is a driver that
   runs the tasks itself, without Spark: a hundred kills take a minute. A kill falls into a stage of the job, each in
   its turn, at a random moment of it. It met running work if Spark counts an attempt of a task that failed; a driver
   always runs.
3. ``inputs``: a capture is deleted, grows, shrinks, or is rewritten with the same size, between listing and scan,
   between scan and decoding, and there with an executor killed too.
4. ``disks`` (as root): small disks are full, of random sizes, those of Spark's temporary files and of OUT.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
from batchrows import committed, decoded, differing
from faultbench import SPLIT_SIZE, TASKS, Bench, Session, misled_commands, samples
from inprocess import InProcess
from processtree import Below, kill_all, left_of

from mqsniff.batch.driver import run_job
from mqsniff.batch.job import JobOptions, JobReport

MASTER: Final = "local[2,4]"
EXECUTORS: Final = "local-cluster[2,1,1024]"
STAGES: Final = ("scanning", "decoding", "finishing", "publishing")
WITH_TASKS: Final = STAGES[:3]
"""In the others, workers and executors do nothing."""


class Strike:
    """Kills at a random moment of a stage."""

    def __init__(
        self,
        kind: str,
        session: Session,
        stage: str,
        delay: float,
        *,
        before: Callable[[str], None] = lambda _stage: None,
    ) -> None:
        """``before`` is called before each stage."""
        self._kind = kind
        self.session = session
        self._stage = stage
        self._before = before
        self._timer = threading.Timer(delay, self._strike)
        self.hit = ""
        """The stage in which it killed; empty if the job was faster."""
        self.processes: list[tuple[int, Below]] = []
        """Those that the session had then."""

    def on_stage(self, stage: str) -> None:
        """Begin to wait, if this is the stage."""
        self._before(stage)
        if stage == self._stage:
            self._timer.start()

    def over(self) -> None:
        """The job is over: kill no more."""
        self._timer.cancel()
        if self._timer.ident is not None:
            self._timer.join()

    def _strike(self) -> None:
        process, stage = self.session.process, self.session.stage
        self.processes = self.session.processes()
        if self._kind == "driver":
            self.hit = stage
            kill_all(process)
        elif wanted := self._wanted():
            self.hit = stage
            os.kill(random.choice(wanted), signal.SIGKILL)

    def _wanted(self) -> list[int]:
        """The workers, or the JVMs of executors: children of a process of the same name."""
        name = {"worker": "python", "executor": "java"}[self._kind]
        below = dict(self.processes)
        return [
            number
            for number, process in below.items()
            if process.name.startswith(name) and process.parent in below and below[process.parent].name == process.name
        ]


# ---- kills


def killed_jobs(bench: Bench, kind: str, kills: int) -> None:
    """Kill in the midst of so many jobs."""
    home = bench.folder / kind
    master = EXECUTORS if kind == "executor" else MASTER
    session = Session(home, master)
    other = Session(bench.folder / "other", master) if kind == "driver" else session
    out = bench.new_out()
    with bench.read(out):
        assert session.run(bench.captures, out).code == 0
    bench.check(out)
    seconds, hits, met, ends = session.seconds, Counter[str](), Counter[str](), Counter[str]()
    stages = [name for name in (STAGES if kind == "driver" else WITH_TASKS) if name in seconds]
    while hits.total() < kills and bench.number < 3 * kills + 3:
        stage = stages[bench.number % len(stages)]
        out = bench.new_out()
        strike = Strike(kind, session, stage, random.uniform(0, seconds[stage]))
        with bench.read(out) as reader:
            outcome = session.run(bench.captures, out, strike.on_stage)
            strike.over()
            if strike.hit and kind == "driver":
                bench.faults += [f"{out.name}: process {name} is left" for name in left_of(strike.processes, 20)]
                bench.faults += misled_commands(out, len(bench.rows["messages"]))
                again = other.run(bench.captures, out)
                ends[" ".join((again.status, *(line.partition(", ")[2] for line in again.said)))] += 1
                met[strike.hit] += 1
                session = _another(bench, session)
            else:
                again = outcome
                seconds = session.seconds
                met.update([strike.hit] if strike.hit and outcome.failed else [])
        bench.faults += [f"{out.name}: {again}"] if again.code else []
        bench.check(out)
        hits.update([strike.hit] if strike.hit else [])
        bench.tell(f"{kind} {hits.total()}: {strike.hit or 'missed'}, {outcome.status}; {again}; {reader.looks} looks")
        shutil.rmtree(out)
    left = session.close()
    told = ", ".join(f"{name} {count}, {met[name]} of them met running work" for name, count in sorted(hits.items()))
    click.echo(f"{kind}: {hits.total()} kills ({told}), then {dict(ends)}; left at the end: {left or 'nothing'}")


def _another(bench: Bench, killed: Session) -> Session:
    """Another session in the place of one that was killed; temporary files of that one have to go."""
    left = killed.temporary()
    session = Session(killed.home, MASTER)
    bench.faults += [f"{name} is left" for name in set(left) & set(session.temporary())]
    return session


class ForkedJob:
    """A job in a process of its own, whose tasks run there too."""

    def __init__(self, captures: Path) -> None:
        self._captures = captures
        self.seconds: dict[str, float] = {}
        """Stage -> its processor time in the last job."""

    def run(self, out: Path) -> JobReport:
        """Run the job here."""
        began: dict[str, float] = {}
        report = self._run(out, lambda stage: began.setdefault(stage.split()[0], time.process_time()))
        ends = [*list(began.values())[1:], time.process_time()]
        if report.status == "finished":
            self.seconds = {stage: end - start for (stage, start), end in zip(began.items(), ends, strict=True)}
        return report

    def killed(self, out: Path, stage: str, seconds: float) -> bool:
        """Run it in a process that ends so much processor time after a stage began; whether it came not to its end.

        Nothing handles SIGPROF: the process ends as by SIGKILL, at a moment that does not depend on the load.
        """
        if child := os.fork():
            return bool(os.waitpid(child, 0)[1])

        def on_stage(begun: str) -> None:
            if begun.split(maxsplit=1)[0] == stage:
                signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-6))

        self._run(out, on_stage)
        os._exit(0)

    def _run(self, out: Path, on_stage: Callable[[str], object]) -> JobReport:
        options = JobOptions(split_size=int(SPLIT_SIZE), partitions=int(TASKS))
        return run_job(InProcess(), [str(self._captures)], str(out), options, on_stage)


def forked_jobs(bench: Bench, kills: int) -> None:
    """Kill so many drivers that run the tasks themselves."""
    job = ForkedJob(bench.captures)
    job.run(bench.new_out())
    hits, ends = Counter[str](), Counter[str]()
    while hits.total() < kills:
        stage = STAGES[bench.number % len(STAGES)]
        out = bench.new_out()
        if stage in job.seconds and job.killed(out, stage, random.uniform(0, job.seconds[stage])):
            hits[stage] += 1
            with bench.read(out):
                report = job.run(out)
            ends[" ".join((report.status, *(line.partition(", ")[2] for line in report.recovered)))] += 1
            bench.check(out)
            bench.tell(f"forked {hits.total()}: {stage}, then {dict(ends)}")
        shutil.rmtree(out, ignore_errors=True)
    click.echo(f"forked: {hits.total()} kills ({dict(hits)}), then {dict(ends)}")


# ---- inputs that change


def _grow(capture: Path) -> None:
    content = capture.read_bytes()
    capture.write_bytes(content + content[24:])


def _shrink(capture: Path) -> None:
    os.truncate(capture, capture.stat().st_size // 2)


def _rewrite(capture: Path) -> None:
    content = capture.read_bytes()
    capture.write_bytes(content[:24] + bytes(len(content) - 24))


CHANGES: Final[dict[str, Callable[[Path], None]]] = {
    "deleted": Path.unlink,
    "grown": _grow,
    "shrunk": _shrink,
    "rewritten": _rewrite,
}


def changed_inputs(bench: Bench) -> None:
    """Change a capture after it was listed, and after it was scanned."""
    name = bench.largest()
    rest = decoded(bench.captures, [each for each in bench.names if each != name], bench.folder / "rest")
    session = Session(bench.folder / "inputs", MASTER)
    for what, change in CHANGES.items():
        for stage in ("checking", "decoding"):
            captures, out = bench.copied(), bench.new_out()
            outcome = session.run(captures, out, _at(stage, change, captures / name))
            if stage == "checking":  # the others are decoded, and one row says why it is not
                found = differing(rest, committed(out))
                problems = set(committed(out)["problems"]) - set(rest["problems"])
                told = len(problems) == 1 and str(captures / name) in problems.pop()
                fault = {*found} != {"problems"} or not told or outcome.code != 2
            else:
                bench.check(out)
                again = session.run(captures, out)
                fault = outcome.code != 0 or "of other inputs" not in again.said[0]
                bench.check(out)
            if fault:
                bench.faults.append(f"{what} before {stage}: {outcome}")
            bench.tell(f"{what} before {stage}: {outcome.status} ({outcome.code}), {outcome.said}")
    session.close()


def changed_and_lost(bench: Bench) -> None:
    """Change a capture that was scanned, and kill an executor that may hold what was scanned of it."""
    name = bench.largest()
    session = Session(bench.folder / "lost", EXECUTORS)
    session.run(bench.captures, bench.new_out())
    for what, change in CHANGES.items():
        captures, out = bench.copied(), bench.new_out()
        strike = Strike("executor", session, "decoding", 0, before=_at("decoding", change, captures / name))
        with bench.read(out):
            outcome = session.run(captures, out, strike.on_stage)
        strike.over()
        if outcome.code == 0:
            bench.check(out)
        elif out.exists() or str(captures / name) not in outcome.said[0]:
            bench.faults.append(f"{what} and an executor killed: {outcome}")
        bench.tell(f"{what} and an executor killed: {outcome.status} ({outcome.code}), {outcome.said}")
    session.close()


def _at(wanted: str, change: Callable[[Path], None], capture: Path) -> Callable[[str], None]:
    """Changes a capture when a stage begins."""
    return lambda stage: change(capture) if stage == wanted else None


# ---- disks that are full


def full_disks(bench: Bench, times: int) -> None:
    """Fill the disk of Spark's temporary files, then that of OUT, at so many random sizes each."""
    home = bench.folder / "disks"
    with disk(home / "scratch") as scratch, disk(home / "tables") as tables:
        session = Session(home, MASTER, scratch)
        for place, said in ((scratch, "no space left for Spark's temporary files, in"), (tables, "the tables in")):
            before = used(place)
            first = tables / "first"
            session.run(bench.captures, first)
            need = max(used(place) - before, 1 << 20)
            shutil.rmtree(first)
            for _ in range(times):
                size = int(need * random.uniform(0.02, 0.98))
                resize(place, used(place) + size)
                out = tables / f"out-{size}"
                with bench.read(out):
                    outcome = session.run(bench.captures, out)
                    resize(place, 1 << 30)
                    if outcome.code == 2 and (said not in outcome.said[0] or str(place) not in outcome.said[0]):
                        bench.faults.append(f"{place.name} full: {outcome}")
                    left = sorted(path.name for path in out.rglob("*")) if out.exists() else []
                    again = session.run(bench.captures, out)
                bench.check(out)
                bench.tell(f"{place.name} with {size} bytes: {outcome}, left {left[:4]}; then {again}")
                shutil.rmtree(out)
        session.close()


@contextmanager
def disk(folder: Path) -> Iterator[Path]:
    """A file system of its own."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={1 << 30}", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def resize(folder: Path, size: int) -> None:
    """Make a file system larger or smaller."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)


def used(folder: Path) -> int:
    """Bytes that are in use on a file system."""
    status = os.statvfs(folder)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


# ---- main


KINDS: Final = ("worker", "executor", "driver", "forked", "inputs", "disks")


@click.command()
@click.argument("kinds", nargs=-1, type=click.Choice(KINDS))
@click.option("--kills", default=20, show_default=True, help="Kills of each kind.")
@click.option("--seed", default=1, show_default=True)
@click.option("--captures", "count", default=35, show_default=True, help="About so many samples are the input.")
def main(kinds: tuple[str, ...], kills: int, seed: int, count: int) -> None:
    """Break jobs in the ways KINDS, by default all, and tell what became of their rows."""
    random.seed(seed)
    with TemporaryDirectory(prefix="mqsniff-job-faults-") as place:
        folder = Path(place)
        names = samples(folder / "captures", count)
        bench = Bench(folder, names, decoded(folder / "captures", names, folder / "decode"))
        bench.tell(f"{len(names)} captures, {sum(map(len, bench.rows.values()))} rows")
        for kind in kinds or KINDS:
            if kind == "inputs":
                changed_inputs(bench)
                changed_and_lost(bench)
            elif kind == "forked":
                forked_jobs(bench, 5 * kills)
            elif kind == "disks":
                full_disks(bench, max(1, kills // 4))
            else:
                killed_jobs(bench, kind, kills)
        for fault in bench.faults:
            click.echo(fault)
    click.echo(f"{len(bench.faults)} faults")
    sys.exit(1 if bench.faults else 0)


if __name__ == "__main__":
    main()
