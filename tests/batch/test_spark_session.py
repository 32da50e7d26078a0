"""Sessions: what is checked before a job, which settings are ours, and what is said when something is missing."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pyspark import SparkFiles

from mqsniff.batch.classarchive import CLASSES
from mqsniff.batch.failures import one_line
from mqsniff.batch.session import job_settings, local_settings, payload_folder, without_pandas_warning
from mqsniff.batch.sparksteps import SparkSteps

if TYPE_CHECKING:
    import pytest

ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


def test_the_telling_line_of_a_java_error_is_found_behind_its_marks() -> None:
    said = """An error occurred while calling o164.collectToPython.
: org.apache.spark.SparkException: Job aborted: of s3://KEY:SECRET@bucket/x
\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)
"""
    assert one_line(Exception(said)) == "org.apache.spark.SparkException: Job aborted: of s3://bucket/x"
    assert one_line(Exception(said + "Caused by: java.io.IOException: No space left\n\tat x\n")) == (
        "java.io.IOException: No space left"
    )


def test_workers_of_this_machine_run_what_the_driver_runs(spark: Any) -> None:
    with without_pandas_warning():
        SparkSteps(lambda: spark).check_workers()


def test_payloads_have_a_folder_among_sparks_files_only_where_all_tasks_find_it(spark: Any) -> None:
    folder = Path(payload_folder(spark))
    assert folder.parent == Path(SparkFiles.getRootDirectory())
    folder.rmdir()
    for master in ("local-cluster[2,1,1024]", "spark://host:7077", "yarn"):
        assert payload_folder(cast("Any", SimpleNamespace(sparkContext=SimpleNamespace(master=master)))) == ""
    assert payload_folder(cast("Any", SimpleNamespace())) == ""


def test_settings_are_ours_only_where_the_user_has_none_and_only_for_a_while(spark: Any) -> None:
    before = dict(spark.conf.getAll)
    with job_settings(spark):
        assert spark.conf.get(ARROW_BYTES) == "1m"
    assert dict(spark.conf.getAll) == before
    spark.conf.set(ARROW_BYTES, "32m")
    try:
        with job_settings(spark):
            assert spark.conf.get(ARROW_BYTES) == "32m"
        assert spark.conf.get(ARROW_BYTES) == "32m"
    finally:
        spark.conf.unset(ARROW_BYTES)


def test_settings_of_a_session_of_this_machine_are_ours_where_the_user_chose_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 9g --conf spark.shuffle.compress=true pyspark-shell")
    settings = local_settings()
    assert "spark.driver.memory" not in settings
    assert "spark.shuffle.compress" not in settings
    assert settings["spark.shuffle.checksum.enabled"] == "false"
    assert settings["spark.python.daemon.module"] == "mqsniff.batch.daemon"


def test_workers_of_another_python_are_started_as_pyspark_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    assert "spark.python.daemon.module" not in local_settings()


def test_options_for_an_archive_of_classes_come_after_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "Spark's classes.jsa"
    monkeypatch.setenv(CLASSES, str(archive))
    options = shlex.split(local_settings()["spark.driver.defaultJavaOptions"])  # as Spark splits it
    assert options[:2] == ["-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1"]
    assert options[2] == f"-XX:ArchiveClassesAtExit={archive}"
