"""Sessions: what is checked before a job, which settings are ours, and what is said when something is missing."""

from __future__ import annotations

from typing import Any

from mqsniff.batch.session import calm, job_settings
from mqsniff.batch.spark import SparkSteps

ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


def test_workers_of_this_machine_run_what_the_driver_runs(spark: Any) -> None:
    with calm():
        SparkSteps(lambda: spark).check_workers()


def test_settings_are_ours_only_where_the_user_has_none_and_only_for_a_while(spark: Any) -> None:
    before = dict(spark.conf.getAll)
    with job_settings(spark):
        assert spark.conf.get(ARROW_BYTES) == "4m"
    assert dict(spark.conf.getAll) == before
    spark.conf.set(ARROW_BYTES, "32m")
    try:
        with job_settings(spark):
            assert spark.conf.get(ARROW_BYTES) == "32m"
        assert spark.conf.get(ARROW_BYTES) == "32m"
    finally:
        spark.conf.unset(ARROW_BYTES)
