"""Clusters on this machine and a packed environment in; where their rows are not those of ``decode``, out.

A chore, no part of the tests: ``make cluster-runs``. Each cluster decodes all captures of ``pcaps/``, or of another
folder (``--captures``):

1. ``standalone``: Spark's master and two workers, whose Python has no mqsniff; the job refuses them without
   ``--package``. ``killed``: one of the workers is killed, with all that it started, while tasks decode.
2. ``yarn``: two node managers, captures and tables on HDFS, in client mode; then the same by ``spark-submit`` in
   cluster mode, where the driver runs in a container too.
3. Rows that differ, and a killed worker that Spark did not miss, are printed; the exit code is 1 then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from batchrows import PCAPS, Tables, committed, decoded, differing
from clusters import LOOPBACK, SPARK_HOME, MiniCluster, hadoop, plain_environment, standalone
from follow_faults import descendants
from pyarrow.fs import LocalFileSystem, copy_files

from mqsniff.answers.captures import captures_under
from mqsniff.batch.filesystems import open_filesystem

COMMAND = str(Path(sys.executable).with_name("mqsniff"))
"""Not this Python with a path: YARN hands the driver's PYTHONPATH to executors."""
SPLITS = ("--split-size", "100k", "--tasks", "8")
EXECUTORS = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.memory": "1g",
    "spark.executor.cores": "1",
    "spark.executor.instances": "2",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "768m",
    "spark.ui.enabled": "false",
}
YARN = {"spark.yarn.jars": f"local:{SPARK_HOME}/jars/*"}
"""The jars are on every machine of this cluster; without it they are packed and uploaded for each job."""
SCRIPT = "from mqsniff.cli import main\nmain()\n"


class Trial:
    """One way to run the job: a folder of its own, and what went wrong."""

    def __init__(self, folder: Path, package: Path, captures: Path, expected: Tables) -> None:
        self.folder = folder
        self.package = package
        self.captures = captures
        self.names = names_under(captures)
        self.wrong: list[str] = []
        self._expected = expected

    def command(self, settings: dict[str, str], *arguments: str) -> tuple[list[str], dict[str, str]]:
        """``mqsniff batch`` with its environment."""
        given = " ".join(f"--conf {name}={value}" for name, value in (EXECUTORS | settings).items())
        environment = plain_environment(self.folder) | {"PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell"}
        return [COMMAND, "batch", "--json", *SPLITS, *arguments], environment

    def check(self, done: subprocess.CompletedProcess[str], out: Path, way: str) -> None:
        """Compare the rows of a run that has ended; ``way``: how it was run."""
        if done.returncode:
            self.wrong.append(f"{way}: exit {done.returncode}: {done.stderr[-2000:] or done.stdout[-2000:]}")
            return
        found = committed(out)
        rows, tables = sum(map(len, found.values())), sum(map(bool, found.values()))
        differ = differing(self._expected, found)
        self.wrong += [f"{way}: {table}: {some}" for table, some in differ.items()]
        files = len(self.names)
        click.echo(f"{way}: {files} captures, {rows} rows of {tables} tables, {len(differ)} tables differ")


def on_standalone(trial: Trial) -> None:
    """Two workers; without the package the job names what they lack."""
    with standalone(trial.folder) as (url, _):
        out = trial.folder / "out"
        command, environment = trial.command({}, "--master", url)
        places = [str(trial.captures), str(out)]
        refused = ended([*command, *places], environment)
        if "give --package" not in refused.stderr:
            trial.wrong.append(f"without --package: exit {refused.returncode}: {refused.stderr[-500:]}")
        trial.check(ended([*command, "--package", str(trial.package), *places], environment), out, "standalone")


def on_standalone_killed(trial: Trial) -> None:
    """Of two workers, one is killed as soon as a task has written a part."""
    events = trial.folder / "events"
    events.mkdir()
    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    settings["spark.eventLog.compress"] = "false"
    with standalone(trial.folder) as (url, workers):
        out = trial.folder / "out"
        command, environment = trial.command(settings, "--master", url, "--package", str(trial.package))
        process = subprocess.Popen(
            [*command, str(trial.captures), str(out)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while process.poll() is None and not any((out / "_mqsniff" / "staging").rglob("*.parquet")):
            time.sleep(0.05)
        for number in (workers[0].pid, *descendants(workers[0].pid)):
            os.kill(number, signal.SIGKILL)
        stdout, stderr = process.communicate()
        done = subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
    logged = "".join(path.read_text() for path in events.rglob("*") if path.is_file()).splitlines()
    kinds = [(json.loads(line)["Event"], line) for line in logged]
    lost = sum(kind == "SparkListenerExecutorRemoved" for kind, _ in kinds)
    again = sum(kind == "SparkListenerTaskEnd" and '"Reason":"Success"' not in line for kind, line in kinds)
    if not lost:
        trial.wrong.append("Spark lost no executor: the worker was killed too late")
    trial.check(done, out, f"standalone, worker killed ({lost} executor lost, {again} attempts of tasks failed)")


def on_yarn(trial: Trial) -> None:
    """Client mode, where the driver is a process of this machine, and cluster mode."""
    with hadoop(trial.folder, nodes=2) as cluster:
        put_captures(trial, cluster)
        command, environment = trial.command(YARN, "--master", "yarn", "--package", str(trial.package))
        environment["HADOOP_CONF_DIR"] = str(cluster.conf)
        done = ended([*command, "hdfs:///taps", "hdfs:///client"], environment)
        trial.check(done, fetched_tables(trial, cluster, "client"), "YARN, client mode")
        command, environment = submitted(trial, cluster)
        done = ended([*command, "hdfs:///taps", "hdfs:///cluster"], environment)
        if done.returncode:
            logs = sorted(trial.folder.glob("target/**/std*"))
            done.stderr += "\n".join(f"{path.parent.name}: {path.read_text()[-1500:]}" for path in logs)
        trial.check(done, fetched_tables(trial, cluster, "cluster"), "YARN, cluster mode")


def submitted(trial: Trial, cluster: MiniCluster) -> tuple[list[str], dict[str, str]]:
    """``spark-submit``, which starts the driver in a container with the Python of the package; its environment."""
    script = trial.folder / "batch.py"
    script.write_text(SCRIPT)
    settings = EXECUTORS | YARN | {"spark.pyspark.python": "./environment/bin/python"}
    del settings["spark.driver.host"]
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster"]
    submit += ["--archives", f"{trial.package}#environment"]
    submit += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    environment = plain_environment(trial.folder) | {"HADOOP_CONF_DIR": str(cluster.conf)}
    return [*submit, str(script), "batch", *SPLITS], environment


def put_captures(trial: Trial, cluster: MiniCluster) -> None:
    """Copy the captures to HDFS."""
    hdfs, root, _ = open_filesystem(f"hdfs://localhost:{cluster.port}/taps?web=localhost:{cluster.web}")
    for name in trial.names:
        hdfs.create_dir(f"{root}/{name}".rpartition("/")[0])
        with hdfs.open_output_stream(f"{root}/{name}") as stream:
            stream.write((trial.captures / name).read_bytes())


def fetched_tables(trial: Trial, cluster: MiniCluster, name: str) -> Path:
    """A copy of the tables in a folder of HDFS, which need not be there."""
    hdfs, root, _ = open_filesystem(f"hdfs://localhost:{cluster.port}/{name}?web=localhost:{cluster.web}")
    copy = trial.folder / name
    copy.mkdir()
    hdfs.create_dir(root)
    copy_files(root, str(copy), source_filesystem=hdfs, destination_filesystem=LocalFileSystem())
    return copy


def ended(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A command that has ended."""
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1800)


TRIALS: dict[str, Callable[[Trial], None]] = {
    "standalone": on_standalone,
    "killed": on_standalone_killed,
    "yarn": on_yarn,
}


def names_under(folder: Path) -> list[str]:
    """The captures below a folder, by their names in the tables."""
    return sorted(path.relative_to(folder).as_posix() for path in captures_under([folder]))


def tried(names: tuple[str, ...], package: Path, captures: Path) -> Iterator[str]:
    """What went wrong, one line each."""
    with TemporaryDirectory(prefix="mqsniff-clusters-") as place:
        expected = decoded(captures, names_under(captures), Path(place) / "decode")
        for name in names:
            folder = Path(place) / name
            folder.mkdir()
            trial = Trial(folder, package, captures, expected)
            TRIALS[name](trial)
            yield from trial.wrong


@click.command()
@click.argument("package", type=click.Path(path_type=Path, exists=True, resolve_path=True))
@click.option("--only", "names", multiple=True, type=click.Choice(list(TRIALS)), default=tuple(TRIALS))
@click.option("--captures", type=click.Path(path_type=Path, exists=True, resolve_path=True), default=PCAPS)
def main(package: Path, names: tuple[str, ...], captures: Path) -> None:
    """Run the batch job on clusters, with an environment that venv-pack made."""
    wrong = list(tried(names, package, captures))
    for line in wrong:
        click.echo(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
