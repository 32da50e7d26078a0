"""Failures of Spark: the line that operators read, and the log that is named in it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mqsniff.batch import failures
from mqsniff.batch.failures import JvmLog, failure, private_scratch, unreachable
from mqsniff.batch.session import SessionError, open_session
from mqsniff.sinks.privatefolder import process_folder

JAVA = """An error occurred while calling o94.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)
Caused by: java.io.IOException: {said}
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
PYTHON = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/mqsniff/batch/spark.py", line 180, in task
OSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device
"""


def test_a_jvm_that_is_killed_while_it_starts_is_not_explained_by_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "x.log"
    log.write_text("WARNING: Using incubator modules: jdk.incubator.vector\n")
    monkeypatch.setattr(failures._JVM_LOG, "keep", lambda: log)
    said = failure(RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited"))
    assert said.startswith("the JVM ended while it started")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (JAVA.format(said="No space left on device"), "temporary files, in /scratch: name a larger folder"),
        ("An error occurred while calling o94.collectToPython.\n: x: No space left on device", "temporary files"),
        (PYTHON, "no space left for the tables in /tables: nothing was committed"),
        (
            "[PYTHON_EXCEPTION] of a worker: Traceback\nModuleNotFoundError: No module named 'pyarrow'\n",
            "workers have no pyarrow: install mqsniff there, or give --package",
        ),
        (PYTHON.replace("OSError:", "mqsniff.batch.payloads.PayloadError:"), "temporary files, in /scratch"),
        (JAVA.format(said="java.lang.OutOfMemoryError: Java heap space"), "the JVM ran out of memory"),
        (JAVA.format(said="Python worker exited unexpectedly (crashed)"), "a Python worker died"),
        ("Answer from Java side is empty", "the JVM is gone"),
        ("[Errno 111] Connection refused", "the JVM is gone"),
        (
            "x\nCaused by: org.apache.spark.SparkException: All masters are unresponsive! Giving up.",
            "is --master right",
        ),
        ("<_MultiThreadedRendezvous>\n status = StatusCode.UNAVAILABLE", "is --remote right"),
        (JAVA.format(said="of s3://KEY:SECRET@bucket/x"), "java.io.IOException: of s3://bucket/x"),
    ],
)
def test_a_failure_says_what_to_do_in_one_line(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/scratch")
    monkeypatch.setattr(failures, "_JVM_LOG", JvmLog())
    line = failure(Exception(text), out="/tables")
    assert said in line
    assert "collectToPython" not in line
    assert "\n" not in line


def test_the_log_is_kept_and_named_after_a_failure_and_only_if_it_says_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for text in (b"", b"java.lang.Exception"):
        log = JvmLog()
        monkeypatch.setattr(failures, "_JVM_LOG", log)
        with log.open() as file:
            file.write(text)
        line = failure(Exception("x"))
        assert bool(text) == line.startswith("x (Spark's log: ")
    kept = Path(line.partition(": ")[2].rstrip(")"))
    assert kept.read_bytes() == text
    kept.unlink()
    again = JvmLog()
    again.open().close()
    assert again.path is not None
    assert again.path.parent == process_folder()  # it goes with the process
    assert again.keep() is None


def test_temporary_files_of_spark_are_in_private_folders_where_the_user_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_LOCAL_DIRS", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    with private_scratch():
        assert os.environ["SPARK_LOCAL_DIRS"] == str(process_folder())
    assert "SPARK_LOCAL_DIRS" not in os.environ
    places = [tmp_path / "a", tmp_path / "b"]
    for place in places:
        place.mkdir()
    chosen = ",".join(map(str, places))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", chosen)
    with private_scratch():
        assert os.environ["SPARK_LOCAL_DIRS"] == ",".join(str(process_folder(str(place))) for place in places)
        assert [len(list(place.glob("mqsniff-run-*"))) for place in places] == [1, 1]
    assert os.environ["SPARK_LOCAL_DIRS"] == chosen
    missing = str(tmp_path / "missing")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", missing)
    with private_scratch():
        assert os.environ["SPARK_LOCAL_DIRS"] == missing  # Spark says what is wrong with it


@pytest.mark.parametrize(
    ("name", "value"), [("SPARK_HOME", "/spark"), ("PYSPARK_SUBMIT_ARGS", "--conf spark.local.dir=/x")]
)
def test_temporary_files_stay_where_settings_of_the_user_put_them(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setenv(name, value)
    with private_scratch():
        assert "SPARK_LOCAL_DIRS" not in os.environ


def test_a_server_that_is_not_there_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        remote = f"sc://127.0.0.1:{taken.getsockname()[1]}"
        assert "no Spark Connect server answers at sc://127.0.0.1" in unreachable(f"{remote}/;token=secret")
        assert "secret" not in unreachable(f"{remote}/;token=secret")
        with pytest.raises(SessionError, match=r"^no Spark Connect server answers at sc://127\.0\.0\.1"):
            open_session(remote=remote)
        taken.listen()
        assert not unreachable(remote)
    assert not unreachable("local[2]")
    assert "answers at sc://h:99999999" in unreachable("sc://h:99999999")
