"""``--hash-key``, in every command that shows hashes."""

from __future__ import annotations

import concurrent.futures
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from mqsniff.cli import main

CAPTURE = Path(__file__).parents[2] / "pcaps" / "nsq" / "nsqlookupd-1.3.0-raw.pcap"
"""It has undecoded bytes in a body."""
MORE = {
    "sql": ["from messages"],
    "batch": ["out"],
    "explain": ["1"],
    "extract": ["-w", "out"],
    "trace": ["--topic", "*"],
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "hash.key"
    path.touch(mode=0o600)
    path.write_text("a key of a test, long enough\n")
    return path


def hashes(text: str) -> list[str]:
    """The hashes in lines of JSON, in their order."""
    found = []

    def look(value: object) -> None:
        if isinstance(value, dict):
            found.extend([value["hmac_sha256"]] if "hmac_sha256" in value else [])
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for one in inner:
            look(one)

    for line in text.splitlines():
        row = orjson.loads(line)
        look(row)
        if isinstance(row.get("body"), str):
            look(orjson.loads(row["body"]))
    return found


@pytest.mark.parametrize("command", ["decode", "sql", "check", "batch", "stats", "trace", "explain", "extract"])
@pytest.mark.parametrize(
    ("content", "words"),
    [("short", "holds 5 bytes; a key has 16 or more"), (None, "No such file or directory"), ("x" * 5000, "is no key")],
)
def test_what_is_no_key_is_one_line(command, content, words, tmp_path):
    path = tmp_path / "bad.key"
    if content is not None:
        path.write_text(content)
    done = run(command, "--hash-key", path, CAPTURE, *MORE.get(command, ()))
    assert done.exit_code == 2
    assert words in done.stderr
    assert str(path) in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_hash_is_that_of_openssl_with_the_content_of_the_file(key_file):
    shown = run("decode", CAPTURE, "-o", "ndjson", "--hash-key", key_file, "--table", "messages").stdout
    raw = run("decode", CAPTURE, "-o", "ndjson", "--show-raw", "--table", "messages").stdout
    assert hashes(shown)
    assert hashes(raw) == []
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to compare with")
    command = ["openssl", "dgst", "-sha256", "-hmac", key_file.read_text().rstrip("\n"), "-r"]
    undecoded = [orjson.loads(line)["body"] for line in raw.splitlines()]
    texts = {value for body in undecoded for value in body.values() if isinstance(value, str)}
    made = {subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout[:64] for text in texts}
    assert {one.encode() for one in hashes(shown)} & made


def test_decode_and_sql_and_two_runs_agree_with_a_key_and_differ_without(key_file):
    decoded = [run("decode", CAPTURE, "-o", "ndjson", "--table", "messages", "--hash-key", key_file) for _ in range(2)]
    asked = run("sql", CAPTURE, "select body from messages order by first_packet", "--hash-key", key_file)
    assert hashes(decoded[0].stdout) == hashes(decoded[1].stdout)
    assert sorted(hashes(decoded[0].stdout)) == sorted(hashes(asked.stdout))
    free = [hashes(run("decode", CAPTURE, "-o", "ndjson", "--table", "messages").stdout) for _ in range(2)]
    assert len(free[0]) == len(free[1]) > 0
    assert not set(free[0]) & set(free[1])


def test_a_key_that_others_can_read_is_told(key_file):
    assert "chmod" not in run("decode", CAPTURE, "--hash-key", key_file).stderr
    key_file.chmod(0o644)
    done = run("decode", CAPTURE, "-q", "--hash-key", key_file)
    assert done.exit_code == 0
    assert done.stderr == f"mqsniff: others on this machine can read the key in {key_file}: chmod 600 {key_file}\n"


def test_goldens_are_those_of_the_key_that_wrote_them(tmp_path, key_file):
    copy = tmp_path / CAPTURE.name
    shutil.copy(CAPTURE, copy)
    assert run("check", "--update", "--hash-key", key_file, copy).exit_code == 0
    assert run("check", "--hash-key", key_file, copy).exit_code == 0
    differing = run("check", copy)
    assert differing.exit_code == 1
    assert "hmac_sha256" in differing.stdout
    assert run("check", "--update", copy).exit_code == 0
    assert run("check", copy).exit_code == 0


def test_goldens_are_checked_by_several_processes_with_the_key_too(tmp_path, key_file, monkeypatch):
    for name in ("a.pcap", "b.pcap"):
        shutil.copy(CAPTURE, tmp_path / name)
    assert run("check", "--update", "--hash-key", key_file, tmp_path).exit_code == 0
    started = []
    pool = concurrent.futures.ProcessPoolExecutor

    def count(workers: int, **more: object) -> concurrent.futures.ProcessPoolExecutor:
        started.append(workers)
        return pool(workers, **more)

    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", count)
    done = run("check", "--hash-key", key_file, "--jobs", "2", tmp_path)
    assert (done.exit_code, started) == (0, [2])
    assert run("check", "--jobs", "2", tmp_path).exit_code == 1
