"""The command on other kinds of Spark: executors of their own processes, and Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from batchrows import PCAPS, committed, decoded, differing
from builds import PLACE

from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.values import Redaction
from mqsniff.tls.keylog import KeyLog

CAPTURES = ("nsq-1.3.0-auth.pcap", "nsqlookupd-1.3.0-raw.pcap", "nsq-1.3.0-tls-required.pcap")
KEYS = PCAPS / "nsq" / "nsq-1.3.0-tls-required.keys"
HASH_KEY = "a-key-of-a-test-that-nobody-else-has"


def packed(folder: Path, used: Path) -> Path:
    """A packed environment whose Python is this one, and writes to a file that it was started."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\necho >> '{used}'\nexec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    with tarfile.open(folder / "env.tar.gz", "w:gz") as archive:
        archive.add(python, "bin/python")
    return folder / "env.tar.gz"


@pytest.mark.usefixtures("spark")  # it knows whether there is Java
@pytest.mark.parametrize(
    "where",
    [("--master", "local-cluster[2,1,1024]"), ("--remote", "local[2]")],
    ids=["executors", "Spark Connect"],
)
def test_the_command_gives_the_rows_of_one_process(tmp_path: Path, where: tuple[str, str]) -> None:
    shown = Redaction(payload=False, hash_key=HashKey(HASH_KEY.encode()))
    expected = decoded(PCAPS / "nsq", CAPTURES, tmp_path / "decode", keys=[KeyLog(str(KEYS))], shown=shown)
    assert any("'tls_keys': 'used'" in row for row in expected["connections"])
    hash_key = tmp_path / "hash.key"
    hash_key.touch(mode=0o600)
    hash_key.write_text(HASH_KEY)
    keys = ["--tls-keys", str(KEYS), "--redact", "payload", "--hash-key", str(hash_key)]
    inputs = [str(PCAPS / "nsq" / name) for name in CAPTURES]
    environment = os.environ | {"PYTHONPATH": PLACE, "PYSPARK_PYTHON": sys.executable}
    events = tmp_path / "events"
    events.mkdir()
    environment["PYSPARK_SUBMIT_ARGS"] = (
        f"--conf spark.eventLog.enabled=true --conf spark.eventLog.dir={events.as_uri()} "
        "--conf spark.eventLog.compress=false --conf spark.ui.enabled=false pyspark-shell"
    )
    used = tmp_path / "used"
    if "--master" in where:  # over Spark Connect, a server on this machine has tasks in the driver's process
        where = (*where, "--package", str(packed(tmp_path, used)))
    if "--remote" in where:
        environment["SPARK_TESTING"] = "1"  # the server takes a port that is free
    main = "from mqsniff.cli import main; main()"
    arguments = [*where, *keys, "--tasks", "2", "--split-size", "20k", "--json", *inputs, str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", main, "batch", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert differing(expected, committed(tmp_path / "out", hashes=True)) == {}
    assert json.loads(done.stdout)["status"] == "finished"
    assert used.exists() or "--remote" in where
    logged = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    assert "mqsniff: decoding" in logged or "--remote" in where  # jobs have names on Spark's page
    secrets = [HASH_KEY, *(line.split()[2] for line in KEYS.read_text().splitlines() if line[:1] != "#")]
    said = (logged + done.stdout + done.stderr).lower()
    assert len(secrets) > 4
    assert not [secret for secret in secrets if secret.lower() in said]
    assert not [name for name in CAPTURES if name in logged]  # where inputs are, and how to get at them, is nobody's
