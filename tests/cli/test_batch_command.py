"""``mqsniff batch`` as users meet it, as far as it goes without a Spark session."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from mqsniff.batch.commit import Archive
from mqsniff.batch.manifest import Manifest
from mqsniff.batch.store import Store

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "pcaps" / "nsq" / "nsq-1.3.0-auth.pcap"


def batch(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from mqsniff.cli import main; main()", "batch", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def without_pyspark(tmp_path: Path) -> str:
    """A folder that hides PySpark from a command."""
    hidden = tmp_path / "hidden" / "pyspark"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('not here')")
    return os.pathsep.join((str(hidden.parent), str(ROOT)))


def test_without_pyspark_one_line_says_what_to_install(without_pyspark: str, tmp_path: Path) -> None:
    done = batch(CAPTURE, tmp_path / "out", PYTHONPATH=without_pyspark)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mqsniff: batch needs PySpark: pip install 'mqsniff[spark]'\n"


def test_without_java_one_line_says_what_to_install(tmp_path: Path) -> None:
    done = batch(CAPTURE, tmp_path / "out", JAVA_HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("mqsniff: Spark needs Java 17 or newer: install it")
    assert done.stderr.endswith(f"JAVA_HOME is {tmp_path}\n")
    assert done.stderr.count("\n") == 1
    assert Archive(Store.at(str(tmp_path / "out"))).runs() == []


def test_java_that_is_too_old_is_told_with_its_version(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019' >&2\n")
    java.chmod(0o755)
    done = batch(CAPTURE, tmp_path / "out", JAVA_HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.endswith(f"; {java} is version 11\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((CAPTURE,), "inputs and a folder for the tables are needed"),
        ((CAPTURE, "out", "--overwrite", "--append"), "choose one"),
        ((CAPTURE, "out", "--folders", "topic"), "--folders: no folder 'topic'; there are protocol, day"),
        ((CAPTURE, "out", "--table", "record"), "no table 'record', did you mean records?"),
        ((CAPTURE, "out", "--protocol", "kafak"), "no protocol 'kafak', did you mean kafka?"),
        ((CAPTURE, "out", "--limit", "frame_max=10"), "its least value is 65536 bytes"),
        ((CAPTURE, "out", "--split-size", "10x"), "not a size, such as 64m"),
        ((CAPTURE, "out", "--split-size", "10"), "at least 1024 bytes"),
        ((CAPTURE, "out", "--from", "+30s"), "give a date"),
        ((CAPTURE, "out", "--connection", "c1"), "batch takes their connection_id"),
        ((CAPTURE, "out", "--domain", "("), "--domain: '(' is not a regular expression"),
        (("/nosuch/a.pcap", "out"), "/nosuch/a.pcap: no such file or directory"),
        (("/nosuch/*.pcap", "out"), "/nosuch/*.pcap: no captures there"),
        (("s3x://me:secret@bucket/a", "out"), "s3x://bucket/a: "),
        (("--list", "out", "more"), "--list takes the folder"),
    ],
)
def test_what_cannot_be_meant_is_one_line_before_spark_starts(
    arguments: tuple[object, ...], said: str, tmp_path: Path, without_pyspark: str
) -> None:
    placed = [str(tmp_path / "out") if each == "out" else each for each in arguments]
    pythonpath = without_pyspark if "--list" in placed else str(ROOT)
    done = batch(*placed, PYTHONPATH=pythonpath)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


def test_a_command_that_no_protocol_has_is_told(without_pyspark: str, tmp_path: Path) -> None:
    done = batch("--dry-run", "--name", "Fecht", CAPTURE, tmp_path / "out", PYTHONPATH=without_pyspark)
    assert done.returncode == 0
    assert done.stderr.startswith("mqsniff: --name Fecht: no command has this name, did you mean Fetch?\n")


def test_a_dry_run_shows_files_splits_and_tasks_without_spark(without_pyspark: str, tmp_path: Path) -> None:
    shutil.copy(CAPTURE, tmp_path / "a.pcap")
    shutil.copy(CAPTURE, tmp_path / "b.pcap")
    (tmp_path / "c.pcap").write_bytes(b"")
    options = ("--dry-run", "--split-size", "30k", tmp_path / "*.pcap", tmp_path / "out")
    done = batch(*options, PYTHONPATH=without_pyspark)
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines[1:4]] == ["a.pcap", "b.pcap", "c.pcap"]
    assert "a.pcap from byte 28054 on" in done.stdout
    assert done.stderr == "3 files, 0.1 MB, 4 scan tasks, 1 reduce task, about 0.1 MB to shuffle\n"
    plan = json.loads(batch(*options, "--json", PYTHONPATH=without_pyspark).stdout)
    assert [file["status"] for file in plan["files"]] == ["ok", "ok", "unreadable"]
    assert (plan["scan_tasks"], plan["reduce_tasks"]) == (4, 1)
    assert not (tmp_path / "out").exists()


def test_the_list_shows_committed_runs_and_files(tmp_path: Path, without_pyspark: str) -> None:
    archive = Archive(Store.at(str(tmp_path)))
    manifest = Manifest("20260101T000000-00000001", "d", "0.1.0", "1.0", (), ())
    archive.publish(manifest)
    done = batch("--list", tmp_path, PYTHONPATH=without_pyspark)
    assert done.returncode == 0
    assert "20260101T000000-00000001" in done.stdout
    [plain] = json.loads(batch("--list", tmp_path, "--json", PYTHONPATH=without_pyspark).stdout)
    assert Manifest.decoded(orjson.dumps(plain)) == manifest


@pytest.mark.parametrize(
    "option", [("--overwrite",), ("--window", "1h"), ("--fail-fast",), ("--dry-run",)], ids=lambda option: option[0]
)
def test_what_does_not_go_with_following_is_refused_by_name(tmp_path: Path, option: tuple[str, ...]) -> None:
    done = batch("--follow", *option, tmp_path, tmp_path / "out")
    assert done.returncode == 2
    assert f"{option[0]} does not go with it" in done.stderr


@pytest.mark.parametrize("length", ["0s", "1", "-1h"])
def test_a_window_has_a_length(tmp_path: Path, length: str) -> None:
    done = batch("--window", length, CAPTURE, tmp_path / "out")
    assert done.returncode == 2
    assert f"'{length}' is no" in done.stderr


def test_a_dry_run_tells_the_number_of_windows(tmp_path: Path) -> None:
    other = ROOT / "pcaps" / "kafka" / "kafka-3.9.1-portreuse-rua.pcap"
    done = batch("--dry-run", "--window", "1s", CAPTURE, other, tmp_path / "out")
    assert "2 windows, 2 files" in done.stderr
