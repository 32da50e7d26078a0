"""``--tls-keys`` and ``SSLKEYLOGFILE``, in every command that reads packets."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from mqsniff.cli import main

PCAPS = Path(__file__).parents[2] / "pcaps"
CAPTURE = PCAPS / "kafka" / "kafka-4.4-mtls-java.pcap"
KEYS = CAPTURE.with_suffix(".keys")


@pytest.fixture(autouse=True)
def _nothing_by_default(monkeypatch):
    monkeypatch.delenv("SSLKEYLOGFILE", raising=False)


def connections(*arguments: str, env: dict[str, str] | None = None) -> list[dict[str, object]]:
    done = CliRunner().invoke(main, ["decode", "-o", "ndjson", "--table", "connections", *arguments], env=env)
    assert done.exit_code == 0, done.output
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def test_decode_opens_tls_with_a_key_log():
    rows = connections("--tls-keys", str(KEYS), str(CAPTURE))
    assert {row["protocol"] for row in rows} == {"kafka"}
    assert {row["tls_keys"] for row in rows} == {"used"}
    assert rows[0]["tls_client_certificate_subject"]
    assert {row["tls_keys"] for row in connections(str(CAPTURE))} == {"missing"}


def test_the_variable_is_the_default_if_its_file_is_there(tmp_path):
    assert connections(str(CAPTURE), env={"SSLKEYLOGFILE": str(KEYS)})[0]["tls_keys"] == "used"
    assert connections(str(CAPTURE), env={"SSLKEYLOGFILE": str(tmp_path / "none")})[0]["tls_keys"] == "missing"
    other = tmp_path / "other"
    other.write_text("# nothing\n")
    given = connections("--tls-keys", str(other), str(CAPTURE), env={"SSLKEYLOGFILE": str(KEYS)})
    assert given[0]["tls_keys"] == "missing"


def test_several_logs_are_one(tmp_path):
    lines = KEYS.read_text().splitlines(keepends=True)
    halves = [tmp_path / "one", tmp_path / "other"]
    for half, path in zip((lines[::2], lines[1::2]), halves, strict=True):
        path.write_text("".join(half))
    rows = connections("--tls-keys", str(halves[0]), "--tls-keys", str(halves[1]), str(CAPTURE))
    assert {row["protocol"] for row in rows} == {"kafka"}


@pytest.mark.parametrize("command", ["decode", "sql", "check", "batch"])
def test_a_log_that_cannot_be_read_is_one_line(command, tmp_path):
    more = {"sql": ["select 1"], "batch": [str(tmp_path / "out")]}.get(command, [])
    done = CliRunner().invoke(main, [command, "--tls-keys", "/nosuch", str(CAPTURE), *more])
    assert done.exit_code == 2
    assert "/nosuch: No such file or directory" in done.output
    assert connections  # nothing was read


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("rubbish\n", "1 of 1 lines are no lines of a key log, and were passed over"),
        ("# nothing\n", "there are no keys of TLS in it"),
    ],
)
def test_a_log_that_holds_something_else_is_told(content, said, tmp_path):
    path = tmp_path / "log"
    path.write_text(content)
    done = CliRunner().invoke(main, ["decode", "-o", "text", "--tls-keys", str(path), str(CAPTURE)])
    assert f"mqsniff: {path}: {said}" in done.stderr
    assert "2 TLS connections (encrypted; its keys are needed: --tls-keys FILE)" in done.stderr
    assert "the key log has no line for its client random" in done.stdout


def test_sql_and_check_decrypt(tmp_path):
    query = "select distinct protocol from connections"
    done = CliRunner().invoke(main, ["sql", "--tls-keys", str(KEYS), str(CAPTURE), query, "-o", "csv"])
    assert done.stdout.split() == ["protocol", "kafka"]
    for name in (CAPTURE.name, f"{CAPTURE.name}.golden.ndjson"):
        shutil.copy(CAPTURE.with_name(name), tmp_path)
    assert CliRunner().invoke(main, ["check", str(tmp_path)]).exit_code == 1
    assert CliRunner().invoke(main, ["check", "--tls-keys", str(KEYS), str(tmp_path)]).exit_code == 0
    shutil.copy(KEYS, tmp_path)
    assert CliRunner().invoke(main, ["check", str(tmp_path)]).exit_code == 0


def test_no_output_holds_a_secret_of_the_key_log(tmp_path):
    secrets = [line.split()[2] for line in KEYS.read_text().splitlines() if not line.startswith("#")]
    assert secrets
    runs = [["-o", "text", "-v", "--records", "--show-secrets", "--show-raw"], ["-o", "ndjson", "--show-secrets"]]
    runs += [["-o", "parquet", "--out", str(tmp_path / "tables")]]
    said = b""
    for options in runs:
        done = CliRunner().invoke(main, ["decode", "--tls-keys", str(KEYS), *options, str(CAPTURE)])
        said += done.stdout_bytes + done.stderr_bytes
    said += b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in secrets:
        assert secret.lower().encode() not in said.lower()
        assert bytes.fromhex(secret) not in said


def test_help_imports_no_cipher():
    code = (
        "import sys; from mqsniff.cli import main; sys.argv = ['mqsniff', 'decode', '--help']\n"
        "try: main()\nfinally: print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "False"
