"""``mqsniff live``: options of summary and metrics, and what a run with them prints."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from terminal import on_terminal, piped
from tinycapture import INVALID, NSQ, PUB, conversation, pcap

from mqsniff.cli import main
from mqsniff.cli.captureoptions import CaptureChoice
from mqsniff.cli.live import command
from mqsniff.cli.livewatch import opened
from mqsniff.cli.run import run
from mqsniff.cli.watchoptions import read_address, read_endpoint, split_options
from mqsniff.limits import Limits
from mqsniff.sources.files import FileSource


def live(*arguments):
    return CliRunner().invoke(main, ["live", "-i", "no-such-interface", *arguments])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9420", ("127.0.0.1", 9420)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:9420", ("localhost", 9420)),
    ],
)
def test_an_address_is_a_host_and_a_port(text, address):
    assert read_address(text) == address


@pytest.mark.parametrize("text", ["9420", ":9420", "127.0.0.1", "127.0.0.1:", "a:70000", "a:x", "a:²"])
def test_an_address_without_one_of_both_is_refused(text):
    with pytest.raises(ValueError, match="no address with a port"):
        read_address(text)


def test_a_collector_gets_the_path_of_otlp_unless_it_has_one():
    assert read_endpoint("http://c:4318") == "http://c:4318/v1/metrics"
    assert read_endpoint("https://c/") == "https://c/v1/metrics"
    assert read_endpoint("http://c/otlp/v1/metrics") == "http://c/otlp/v1/metrics"
    for text in ("c:4318", "ftp://c", "http://", "http://[", "http://c:0"):
        with pytest.raises(ValueError, match="not the URL of a collector"):
            read_endpoint(text)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--interval", "5s"], "--interval belongs to --summary"),
        (["--summary", "--interval", "10ms"], "its least value is 1s"),
        (["--summary", "--interval", "soon"], "'soon' is not a duration"),
        (["--metrics-topics", "5"], "--metrics-topics belongs to --metrics and --otlp"),
        (["--summary", "-o", "ndjson"], "it does not go with -o ndjson"),
        (["--metrics", ":9420"], "':9420' is no address with a port"),
        (["--otlp", "http://user:hunter2@"], "not the URL of a collector"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_exit_2(arguments, says):
    done = live(*arguments)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr
    assert "hunter2" not in done.stderr


def test_an_address_in_use_is_one_line_and_exit_2():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        taken.listen()
        done = live("--metrics", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert re.fullmatch(r"mqsniff: --metrics 127.0.0.1:\d+: cannot listen there: Address already in use\n", done.stderr)


def test_an_address_that_is_not_ours_is_one_line_and_exit_2():
    done = live("--metrics", "203.0.113.1:9420")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "cannot listen there" in done.stderr


def test_missing_packages_are_told_with_what_to_install(monkeypatch):
    for name in [each for each in sys.modules if each.startswith("mqsniff.answers.metrics.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    done = live("--metrics", "127.0.0.1:0")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'mqsniff[metrics]'" in done.stderr


def test_no_two_options_of_a_command_share_a_parameter():
    context = click.Context(main)
    for name in main.list_commands(context):
        names = [param.name for param in main.get_command(context, name).params if param.expose_value]
        assert len(names) == len(set(names)), name


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.pcap"
    path.write_bytes(pcap(conversation([*NSQ, ("c", PUB), ("s", INVALID)])))
    return path


def options(**asked):
    """The options of ``live`` as click gives them, without those of the capture."""
    context = command.make_context("live", ["-i", "lo"])
    return CaptureChoice.split(context.params | asked)[1]


def watched(path, **asked):
    """Run over a file as ``live`` does over an interface."""
    watch, wanted = split_options(options(**asked))
    with opened(watch, wanted.limits) as watcher:
        return run(FileSource([str(path)], Limits()), wanted, watcher=watcher)


def test_a_summary_stands_in_place_of_rows(sample, capsys):
    assert watched(sample, summary=True) == 0
    shown = capsys.readouterr().out
    assert "COMMAND" in shown
    assert re.search(r"^PUB +nsq .* 1$|^PUB +nsq ", shown, re.MULTILINE)
    assert "E_INVALID" in shown
    assert '"table"' not in shown


def test_rows_are_the_same_with_and_without_metrics(sample, capsys):
    watched(sample, output="ndjson")
    plain = capsys.readouterr().out
    watched(sample, output="ndjson", metrics=("127.0.0.1", 0), metrics_topics=5)
    assert capsys.readouterr().out == plain
    assert json.loads(plain.splitlines()[0])


def test_metrics_are_served_while_a_run_goes_on(sample, capsys):
    watch, wanted = split_options(options(metrics=("127.0.0.1", 0)))
    with opened(watch, Limits()) as watcher:
        url = re.search(r"http://\S+", capsys.readouterr().err)[0]
        run(FileSource([str(sample)], Limits()), wanted, watcher=watcher)
        got = []
        asking = threading.Thread(target=lambda: got.append(urllib.request.urlopen(url, timeout=20).read().decode()))
        asking.start()
        while asking.is_alive():
            watcher.tick()
            time.sleep(0.001)
    assert 'mqsniff_messages_total{broker="127.0.0.1:4150",command="PUB",kind="request",protocol="nsq"}' in got[0]
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=5)


@pytest.mark.parametrize("output", ["text", "csv"])
def test_text_and_csv_are_the_same_with_and_without_metrics(output, capsys):
    kafka = Path(__file__).parents[2] / "pcaps/kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
    watched(kafka, output=output)
    plain = capsys.readouterr().out
    watched(kafka, output=output, metrics=("127.0.0.1", 0))
    assert capsys.readouterr().out == plain
    assert len(plain.splitlines()) > 50


FOLLOWED = ["--summary", "--interval", "1s", "--idle", "2s"]


def test_lines_of_a_summary_go_to_stdout_while_packets_are_decoded(sample):
    with piped("live", "--follow", str(sample), *FOLLOWED) as process:
        out, err = process.communicate()
    lines = [line for line in out.decode().splitlines() if "packets/s" in line and "commands:" in line]
    assert lines, (out, err)
    assert "PUB" in lines[0]
    assert b"printed" not in err


def test_a_summary_is_a_page_on_a_terminal(sample):
    done = on_terminal("live", "--follow", str(sample), *FOLLOWED, columns=100)
    assert "\x1b[?1049h" in done.shown  # the other screen of the terminal
    during, _, after = done.shown.partition("\x1b[?1049l")
    for page in (during, after):
        assert "COMMAND" in page
        assert "E_INVALID" in page
    assert "printed" not in done.talk
