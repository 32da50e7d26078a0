"""What Spark logs and plans while something runs, as text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
