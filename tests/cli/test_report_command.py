"""``mqsniff report`` from the arguments to the exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tinycapture import INVALID, NSQ, PUB, conversation, pcap

from mqsniff.cli import main

PCAPS = Path(__file__).parents[2] / "pcaps"
SECRETS = [
    ("nsq/nsq-1.3.0-auth.pcap", "s3cr3t-lab"),
    ("kafka/kafka-4.4-sasl-raw-v0-java.pcap", "ali-sa-pw"),
    ("rocketmq/rocketmq-4.9.7-c-admin-acl-config-commands.pcapng", "ledgerSK1234567"),
]
"""(capture, what it holds and a page must not)."""


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.pcap"
    path.write_bytes(pcap(conversation([*NSQ, ("c", PUB), ("s", INVALID)])))
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


def document(*arguments):
    done = run(*arguments, "--out", "-", "-q")
    assert done.exit_code == 0, done.output
    return json.loads(re.search(r'id="document">(.*?)</script>', done.stdout, re.DOTALL)[1])


def test_a_page_is_written_and_named(sample, tmp_path):
    out = tmp_path / "page.html"
    done = run(sample, "--out", out)
    assert done.exit_code == 0
    assert done.stdout == ""
    assert f"{out}: 0." in done.stderr
    assert out.read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_the_summary_says_what_failed_and_when(sample):
    told = document(sample)
    assert told["sentences"][0].startswith("1 server, 1 client, 1 topic with records, 5 messages in")
    assert any(re.fullmatch(r"1 × PUB E_INVALID at \d\d:\d\d:\d\d\.", line) for line in told["sentences"])
    assert ["errors", "1 PUB E_INVALID"] in told["run"]["head"]


def test_filters_choose_and_stand_in_the_commands_of_the_page(sample):
    told = document(sample, "--topic", "no such", "--topic", "retry*", "--where", "size > 5", "--errors")
    words = told["run"]["prefix"]
    assert words[:3] == ["mqsniff", "decode", str(sample)]
    assert words[3:] == ["--topic", "no such", "--topic", "retry*", "--errors"]
    assert told["run"]["where"] == "size > 5"
    assert told["span"]["messages"] < document(sample)["span"]["messages"]


def test_what_cannot_be_read_makes_no_page_and_leaves_the_old_one(tmp_path):
    out = tmp_path / "page.html"
    out.write_text("old")
    assert run(tmp_path / "none.pcap", "--out", out).exit_code == 2
    assert out.read_text() == "old"


def test_a_page_that_cannot_be_written_is_an_error_in_one_line(sample, tmp_path):
    done = run(sample, "--out", tmp_path / "none" / "page.html")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].endswith("No such file or directory")


@pytest.mark.parametrize("command", ["report", "stats"])
def test_quiet_says_nothing(sample, tmp_path, command):
    own = ["--out", str(tmp_path / "page.html")] if command == "report" else []
    done = CliRunner().invoke(main, [command, "-q", str(sample), *own])
    assert (done.exit_code, done.stderr) == (0, "")


def test_the_same_input_gives_the_same_page(sample):
    assert run(sample, "--out", "-").stdout == run(sample, "--out", "-").stdout


@pytest.mark.parametrize(("capture", "secret"), SECRETS)
def test_secrets_are_not_on_the_page(capture, secret):
    assert secret.encode() in (PCAPS / capture).read_bytes()
    done = run(PCAPS / capture, "--out", "-")
    assert done.exit_code == 0
    assert secret not in done.stdout
