"""What breaks in the middle: workers that raise, are killed or starve, and a driver that dies; no row changes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import saboteur
from batchrows import PCAPS, Tables, committed, decoded, differing, rotated, unnamed_files
from builds import PLACE
from processtree import descendants, left_of

from mqsniff.batch.commit import Archive
from mqsniff.batch.driver import run_job
from mqsniff.batch.inputs import InputError
from mqsniff.batch.job import JobOptions
from mqsniff.batch.spark import run
from mqsniff.batch.sparksteps import SparkSteps
from mqsniff.batch.store import Store

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

CAPTURES = (
    "kafka/kafka-3.9.1-portreuse-rua.pcap",
    "nsq/nsq-1.3.0-raw-errors.pcap",
    "nsq/nsqlookupd-1.3.0-restart.pcap",
    "rocketmq/rocketmq-5.5.0-b-bserrocket-pop-raw.pcap",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("captures")
    for name in CAPTURES:
        shutil.copy(PCAPS / name, found)
    return found


@pytest.fixture(scope="module")
def expected(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return decoded(folder, [path.name for path in folder.iterdir()], tmp_path_factory.mktemp("decode"))


class Sabotage:
    """A plugin folder for a job of its own process, and what it is to break."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        saboteur.install(folder / "plugin")

    def environment(self, partitions: dict[str, Sequence[int]], attempts: int) -> dict[str, str]:
        plan = self._folder / "plan.json"
        plan.write_text(json.dumps({"partitions": partitions, "attempts": attempts}))
        path = os.pathsep.join((str(self._folder / "plugin"), PLACE))
        return os.environ | {"PYTHONPATH": path, "SABOTAGE": str(plan), "PYSPARK_PYTHON": sys.executable}

    @property
    def struck(self) -> set[str]:
        return {path.name for path in (self._folder / "struck").glob("*")}


@pytest.fixture
def sabotage(tmp_path: Path) -> Sabotage:
    return Sabotage(tmp_path)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from mqsniff.cli import main; main()", "batch", *arguments]


def holds_one_run_and_nothing_else(out: Path) -> bool:
    return len(Archive(Store.at(str(out))).runs()) == 1 and not unnamed_files(out)


@pytest.mark.usefixtures("spark")  # it knows whether there is Java
def test_workers_that_raise_are_killed_or_starve_twice_each_change_no_row(
    folder: Path, expected: Tables, tmp_path: Path, sabotage: Sabotage
) -> None:
    environment = sabotage.environment({"exception": [0], "kill": [1], "memory": [2]}, attempts=2)
    out = tmp_path / "out"
    done = subprocess.run(
        command("--master", "local[2,4]", "--tasks", "4", "--json", str(folder), str(out)),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    faults = (("exception", 0), ("kill", 1), ("memory", 2))
    assert sabotage.struck == {f"{fault}-{where}-{attempt}" for fault, where in faults for attempt in (0, 1)}
    assert differing(expected, committed(out)) == {}
    assert holds_one_run_and_nothing_else(out)
    assert json.loads(done.stdout)["tables"]["messages"] == len(expected["messages"])
    assert done.stderr.startswith("4 files, ")  # of Spark, no word


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("full", "said"),
    [("spark", "no space left for Spark's temporary files, in"), ("out", "no space left for the tables in")],
)
def test_a_full_disk_ends_a_run_in_one_line_that_names_the_disk(
    folder: Path, tmp_path: Path, full: str, said: str
) -> None:
    disk = tmp_path / full
    disk.mkdir()
    (tmp_path / "spark").mkdir(exist_ok=True)
    disk_of_its_own = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    size = {"spark": "200k", "out": "60k"}[full]
    mount = f"mount -t tmpfs -o size={size} none {disk}"
    if not shutil.which("unshare") or subprocess.run([*disk_of_its_own, mount], check=False).returncode:
        pytest.skip("this machine lets no user mount a file system")
    environment = os.environ | {
        "PYTHONPATH": PLACE, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(tmp_path / "spark")
    }  # fmt: skip
    job = shlex.join(command("--master", "local[2]", str(folder), str(tmp_path / "out" / "tables")))
    done = subprocess.run(
        [*disk_of_its_own, f"{mount} && exec {job}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert said in line
    assert str(disk) in line
    log = Path(line.partition("(Spark's log: ")[2].rstrip(")"))
    assert "No space left" in log.read_text()
    log.unlink()
    assert not (tmp_path / "out" / "tables").exists()


def test_a_query_that_fails_ends_after_its_last_task(spark: Any, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")

    def task(batches: Any) -> Any:
        import time
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from (batch for batch in batches if not batch.num_rows)
        for _ in range(1200):
            if context.partitionId():
                Path(runs).write_text(str(time.time()))  # as a task that writes its tables
            elif Path(runs).exists():
                raise ValueError("in mid query")
            time.sleep(0.05)

    with pytest.raises(Exception, match="in mid query"):
        SparkSteps(lambda: spark)._values(spark.range(0, 2, 1, 2).mapInArrow(task, "id bigint"))
    last = Path(runs).read_text()
    time.sleep(0.5)
    assert Path(runs).read_text() == last


class Forgetful(SparkSteps):
    """Its executors lose what they hold between scan and shuffle, and an input goes meanwhile."""

    def __init__(self, spark: Any, gone: Path | None) -> None:
        super().__init__(lambda: spark)
        self._gone = gone

    def reduce(self, *args: Any) -> list[str]:
        if self._gone is not None:
            self._gone.unlink()
        for scanned in self._scanned:
            scanned.unpersist(blocking=True)
        return super().reduce(*args)


def test_bundles_that_are_lost_with_their_input_fail_the_run_and_else_are_made_again(
    spark: Any, folder: Path, expected: Tables, tmp_path: Path
) -> None:
    run_job(Forgetful(spark, None), [str(folder)], str(tmp_path / "out"), JobOptions(partitions=2, split_size=20_000))
    assert differing(expected, committed(tmp_path / "out")) == {}
    shutil.copytree(folder, tmp_path / "captures")
    gone = tmp_path / "captures" / Path(CAPTURES[0]).name
    options = JobOptions(partitions=2, split_size=20_000, overwrite=True)
    with pytest.raises(InputError, match=r": no such file or directory; .* segments were decoded"):
        run_job(Forgetful(spark, gone), [str(gone.parent)], str(tmp_path / "out"), options)
    assert differing(expected, committed(tmp_path / "out")) == {}
    assert holds_one_run_and_nothing_else(tmp_path / "out")


class Driver(NamedTuple):
    process: subprocess.Popen[bytes]
    inputs: Path


@pytest.fixture
def driver(folder: Path, tmp_path: Path, sabotage: Sabotage) -> Iterator[Driver]:
    """A job that never ends: of its two tasks one hangs."""
    environment = sabotage.environment({"hang": [0]}, attempts=9)
    arguments = command("--master", "local[2,4]", "--tasks", "2", str(folder), str(tmp_path / "out"))
    with subprocess.Popen(arguments, env=environment, stderr=subprocess.DEVNULL) as process:
        yield Driver(process, folder)
        process.kill()


def test_a_driver_that_was_killed_leaves_a_folder_that_the_same_command_finishes(
    spark: Any, expected: Tables, tmp_path: Path, sabotage: Sabotage, driver: Driver
) -> None:
    process, folder = driver
    out = tmp_path / "out"
    wait_for(lambda: sabotage.struck and list(out.rglob("*.parquet")), process)
    children = list(descendants(process.pid).items())
    [staged] = (out / "_mqsniff" / "staging").iterdir()
    process.kill()
    process.wait()
    assert Archive(Store.at(str(out))).runs() == []
    report = run(spark, [str(folder)], str(out), partitions=2)
    assert report.recovered == [f"run {staged.name}, which did not get so far, is gone"]
    assert differing(expected, committed(out)) == {}
    assert left_of(children, 120) == []  # they would write on, below a folder of their own
    Archive(Store.at(str(out))).recover()
    assert holds_one_run_and_nothing_else(out)


def test_a_landing_folder_is_followed_until_a_signal_and_the_same_command_goes_on(
    tmp_path: Path, sabotage: Sabotage
) -> None:
    landing, out, pieces = (tmp_path / name for name in ("landing", "out", "pieces"))
    landing.mkdir()
    pieces.mkdir()
    original = rotated(PCAPS / "nsq" / "nsq-1.3.0-go-req-touch.pcap", pieces, 2)
    expected = decoded(PCAPS / "nsq", ["nsq-1.3.0-go-req-touch.pcap"], tmp_path / "decode")
    arguments = command("--master", "local[2,4]", "--follow", "--settle", "1s", "--json", str(landing), str(out))
    for number, piece in enumerate(sorted(pieces.iterdir()), 1):
        shutil.copy(piece, landing)
        with subprocess.Popen(
            arguments, env=sabotage.environment({}, attempts=4), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            wait_for(lambda number=number: len(Archive(Store.at(str(out))).runs()) == number, process)
            process.send_signal(signal.SIGINT)
            reports = [json.loads(line) for line in process.communicate(timeout=60)[0].splitlines()]
        assert process.returncode == 0
        assert [(report["files"], report["status"]) for report in reports] == [(1, "finished")]
    assert differing(expected, committed(out, original)) == {}


def wait_for(condition: Any, process: subprocess.Popen[bytes] | None, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came to that"
        assert process is None or process.poll() is None, "the driver ended by itself"
        time.sleep(0.1)
