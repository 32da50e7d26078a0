"""Workers of our own sessions: PySpark from where it is installed, and without pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mqsniff.batch.daemon import installed_first

ARRAYS = """
import sys
from mqsniff.batch.daemon import NoPandas
sys.meta_path.insert(0, NoPandas)
import pyarrow as pa
import pyarrow.compute as pc
assert pc.equal(pa.array([1, 2]), 1).to_pylist() == [True, False]
assert pa.array(["x"]).to_numpy(zero_copy_only=False).tolist() == ["x"]
print("pandas" in sys.modules)
"""


def test_pyarrow_makes_arrays_without_pandas() -> None:
    told = subprocess.run([sys.executable, "-c", ARRAYS], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def test_the_archive_of_pyspark_is_left_out_where_pyspark_is_installed() -> None:
    pytest.importorskip("pyspark")
    assert installed_first(["/spark/python/lib/pyspark.zip", *sys.path]) == sys.path


def test_the_archive_of_pyspark_stays_where_there_is_nothing_else(tmp_path: Path) -> None:
    path = ["/spark/python/lib/pyspark.zip", str(tmp_path)]
    assert installed_first(path) == path
