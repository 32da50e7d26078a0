"""Keys of TLS in the batch job: the rows of one process, and secrets nowhere but in one private file."""

from __future__ import annotations

import pickle
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from batchrows import PCAPS, committed, decoded, differing
from inprocess import InProcess

from mqsniff.batch.commit import CommitError
from mqsniff.batch.driver import run_job
from mqsniff.batch.job import JobOptions
from mqsniff.batch.spark import run
from mqsniff.batch.taskkeys import TaskKeys
from mqsniff.filters.itemfilter import Filters
from mqsniff.tls.keylog import TLS_KEY_LOG, KeyLog

SAMPLES = ("kafka/kafka-4.4-mtls-java", "pulsar/pulsar-4.2.4-go-tls13-a", "nsq/nsq-1.3.0-go-tls12-deflate-dsb")
KEY_FILES = [path for name in SAMPLES if (path := PCAPS / f"{name}.keys").exists()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Captures with keys, beside them or in them."""
    made = tmp_path / "captures"
    made.mkdir()
    for name in SAMPLES:
        for path in PCAPS.glob(f"{name}.pcap*"):
            if path.suffix in (".pcap", ".pcapng"):
                shutil.copy(path, made)
    return made


@pytest.fixture
def logs() -> tuple[KeyLog, ...]:
    return tuple(KeyLog(str(path)) for path in KEY_FILES)


def secrets() -> list[str]:
    """The secrets of all key logs, as hex."""
    return [line.split()[2] for path in KEY_FILES for line in path.read_text().splitlines() if not line.startswith("#")]


class Watched(InProcess):
    """Looks at the file of keys when it is shared."""

    shared: Path
    mode: int
    content: str

    def share(self, key_file: str) -> str:
        self.shared = Path(key_file)
        self.mode, self.content = stat.S_IMODE(self.shared.stat().st_mode), self.shared.read_text()
        return super().share(key_file)


@pytest.mark.parametrize("filters", [Filters(), Filters(topics=("ta-tls",))])
def test_tasks_decrypt_as_one_process_does(
    folder: Path, tmp_path: Path, logs: Sequence[KeyLog], filters: Filters
) -> None:
    names = [path.name for path in folder.iterdir()]
    expected = decoded(folder, names, tmp_path / "decode", filters=filters, keys=logs)
    assert any("'tls_keys': 'used'" in row for row in expected["connections"])
    tasks = Watched()
    options = JobOptions(partitions=3, split_size=20_000, tls_keys=tuple(logs), filters=filters)
    run_job(tasks, [str(folder)], str(tmp_path / "out"), options)
    assert differing(expected, committed(tmp_path / "out")) == {}
    assert all(secret in tasks.content for secret in secrets())
    assert tasks.mode == 0o600
    assert stat.S_IMODE(tasks.shared.parent.stat().st_mode) == 0o700
    assert tasks.shared.read_bytes() == b""


def test_secrets_are_in_no_manifest_and_no_table(folder: Path, tmp_path: Path, logs: Sequence[KeyLog]) -> None:
    options = JobOptions(tls_keys=tuple(logs))
    run_job(InProcess(), [str(folder)], str(tmp_path / "out"), options)
    assert_absent(b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()))
    assert_absent(repr(options).encode())


def assert_absent(data: bytes) -> None:
    found = secrets()
    assert len(found) > 10
    for secret in found:
        for form in (secret.encode(), secret.lower().encode(), bytes.fromhex(secret)):
            assert form not in data


def test_other_keys_are_other_rows(folder: Path, tmp_path: Path, logs: Sequence[KeyLog]) -> None:
    run_job(InProcess(), [str(folder)], str(tmp_path / "out"), JobOptions(tls_keys=tuple(logs)))
    again = run_job(InProcess(), [str(folder)], str(tmp_path / "out"), JobOptions(tls_keys=tuple(logs)))
    assert again.status == "nothing to do"
    with pytest.raises(CommitError, match="other inputs or options"):
        run_job(InProcess(), [str(folder)], str(tmp_path / "out"), JobOptions())


def test_a_key_log_does_not_travel(logs: Sequence[KeyLog]) -> None:
    with pytest.raises(TypeError, match="does not travel"):
        pickle.dumps(JobOptions(tls_keys=tuple(logs)))


def test_the_file_holds_what_captures_hold_and_is_emptied_at_the_end() -> None:
    with TaskKeys([]) as keys:
        path = keys.write_key_logs([(TLS_KEY_LOG, b"CLIENT_RANDOM"), (1, b"something else")])
        assert path is not None
        assert Path(path).read_bytes() == b"CLIENT_RANDOM\n"
    assert Path(path).read_bytes() == b""


@contextmanager
def logged(spark: Any, path: Path) -> Iterator[None]:
    """Write what Spark logs into a file, as talkative as it can be."""
    core = spark._jvm.org.apache.logging.log4j.core
    builder = core.appender.FileAppender.newBuilder()
    builder.setName("test")
    builder.setLayout(core.layout.PatternLayout.newBuilder().withPattern("%m%n%ex").build())
    builder.withFileName(str(path))
    appender = builder.build()
    appender.start()
    root = spark._jvm.org.apache.logging.log4j.LogManager.getRootLogger()
    root.addAppender(appender)
    spark.sparkContext.setLogLevel("DEBUG")
    others = [each for name, each in root.getAppenders().items() if name != "test"]
    for each in others:
        root.removeAppender(each)
    try:
        yield
    finally:
        spark.sparkContext.setLogLevel("OFF")
        for each in others:
            root.addAppender(each)
        root.removeAppender(appender)
        appender.stop()


def plans(spark: Any) -> str:
    """The text of all plans of the session."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    return "".join(executions.apply(at).physicalPlanDescription() for at in range(executions.size()))


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_cluster_decrypts_and_neither_its_log_nor_its_plans_hold_a_secret(
    spark: Any, folder: Path, tmp_path: Path, logs: Sequence[KeyLog]
) -> None:
    names = [path.name for path in folder.iterdir()]
    expected = decoded(folder, names, tmp_path / "decode", keys=logs)
    with logged(spark, tmp_path / "log"):
        run(spark, [str(folder)], str(tmp_path / "out"), tls_keys=tuple(logs), partitions=2)
    assert differing(expected, committed(tmp_path / "out")) == {}
    log = (tmp_path / "log").read_text()
    assert "mqsniff-" in log  # it tells of the file, by its name
    assert "MapInArrow" in plans(spark)
    assert_absent((log + plans(spark)).encode())
