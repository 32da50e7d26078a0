"""One Spark session for all tests, on two cores with four attempts a task."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from mqsniff.batch.session import SessionError, open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session; tests are skipped with the reason where there can be none, unless CI asks for them."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--driver-memory 1g --conf spark.ui.enabled=false pyspark-shell")
    try:
        session = open_session("local[2,4]")
    except SessionError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()
