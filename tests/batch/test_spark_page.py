"""What Spark's page shows of a job, as the stores behind the page have it; a session that shows none keeps them too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from batchrows import PCAPS
from inprocess import InProcess

from mqsniff.batch.driver import run_job
from mqsniff.batch.session import without_pandas_warning
from mqsniff.batch.spark import run

CAPTURES = [str(PCAPS / "kafka" / "kafka-3.9.1-portreuse-rua.pcap"), str(PCAPS / "nsq" / "nsq-1.3.0-auth.pcap")]
DESCRIPTION = "spark.job.description"

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


def queries(spark: Any) -> list[Any]:
    """The queries of the tab "SQL / DataFrame", once Spark has told the page all that it did."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    return [found.apply(index) for index in range(found.size())]


def test_spark_names_each_step_and_shows_the_figures_of_the_run(spark: Any, tmp_path: Path) -> None:
    before = len(queries(spark))
    spark.sparkContext.setJobDescription("of a user")
    try:
        report = run(spark, CAPTURES, str(tmp_path / "out"), split_size=20_000, partitions=2)
        assert spark.sparkContext.getLocalProperty(DESCRIPTION) == "of a user"
    finally:
        spark.sparkContext.setLocalProperty(DESCRIPTION, None)
    *steps, last = queries(spark)[before:]
    assert [step.description() for step in steps[:3]] == [
        "mqsniff: checking workers",
        f"mqsniff: scanning 0 MB in 2 files, {report.splits} splits",
        f"mqsniff: decoding 0 MB of segments from {report.packets} packets, 2 tasks",
    ]
    assert last.description() == f"mqsniff: {report.headline()}"
    assert min(report.packets, report.messages.total(), report.tables["records"], report.problems.total()) > 0
    for name, number in report.figures().items():
        assert f"{number} AS {name}#" in last.physicalPlanDescription()


def test_the_figures_are_told_in_one_line(tmp_path: Path) -> None:
    tasks = InProcess()
    report = run_job(tasks, CAPTURES[1:], str(tmp_path / "out"))
    numbers = report.figures()
    assert tasks.shown == [report.headline()]
    assert report.headline() == (
        f"1 file, {numbers['bytes'] / 1e6:.1f} MB, {report.packets} packets, {report.connections} connections, "
        f"{report.messages.total()} messages, {report.tables['records']} records, {numbers['problems']} problems; "
        f"run {report.run}"
    )


def test_a_run_whose_figures_cannot_be_shown_is_committed_all_the_same(spark: Any, tmp_path: Path) -> None:
    class Hidden:
        """A session that ends with the run: it has no page any more."""

        def __getattr__(self, name: str) -> Any:
            if name == "range" and any((tmp_path / "out" / "_mqsniff" / "runs").glob("*")):
                raise RuntimeError("the session is closed")
            return getattr(spark, name)

    with without_pandas_warning():
        assert run(Hidden(), CAPTURES[1:], str(tmp_path / "out")).status == "finished"  # type: ignore[arg-type]
