"""The command on other kinds of Spark: executors of their own processes, and Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from batchrows import PCAPS, committed, decoded, differing
from builds import PLACE

CAPTURES = ("nsq-1.3.0-auth.pcap", "nsqlookupd-1.3.0-raw.pcap", "nsq-1.3.0-raw-lifecycle.pcap")


@pytest.mark.usefixtures("spark")  # it knows whether there is Java
@pytest.mark.parametrize(
    "where",
    [("--master", "local-cluster[2,1,1024]"), ("--remote", "local[2]")],
    ids=["executors", "Spark Connect"],
)
def test_the_command_gives_the_rows_of_one_process(tmp_path: Path, where: tuple[str, str]) -> None:
    expected = decoded(PCAPS / "nsq", CAPTURES, tmp_path / "decode")
    inputs = [str(PCAPS / "nsq" / name) for name in CAPTURES]
    environment = os.environ | {"PYTHONPATH": PLACE, "PYSPARK_PYTHON": sys.executable}
    events = tmp_path / "events"
    events.mkdir()
    environment["PYSPARK_SUBMIT_ARGS"] = (
        f"--conf spark.eventLog.enabled=true --conf spark.eventLog.dir={events.as_uri()} "
        "--conf spark.eventLog.compress=false --conf spark.ui.enabled=false pyspark-shell"
    )
    if "--remote" in where:
        environment["SPARK_TESTING"] = "1"  # the server takes a port that is free
    main = "from mqsniff.cli import main; main()"
    arguments = [*where, "--tasks", "2", "--split-size", "20k", "--json", *inputs, str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", main, "batch", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert differing(expected, committed(tmp_path / "out")) == {}
    assert json.loads(done.stdout)["status"] == "finished"
    logged = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    assert "mqsniff: decoding" in logged or "--remote" in where  # jobs have names on Spark's page
    assert not [name for name in CAPTURES if name in logged]  # where inputs are, and how to get at them, is nobody's
