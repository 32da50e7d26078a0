"""Every command that reads packets opens TLS: with key logs, with the default one, and with those in captures."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import pytest
from click.testing import CliRunner
from inprocess import InProcess

from mqsniff.batch.driver import run_job
from mqsniff.batch.job import JobOptions
from mqsniff.cli import COMMANDS, main
from mqsniff.sources.files import FileSource
from mqsniff.tls.keylog import KeyLog

PCAPS = Path(__file__).parents[2] / "pcaps"
CAPTURE = PCAPS / "kafka" / "kafka-4.4-mtls-java.pcap"
KEYS = CAPTURE.with_suffix(".keys")
HELD = PCAPS / "nsq" / "nsq-1.3.0-go-tls12-deflate-dsb.pcapng"
"""A capture that holds its keys."""
NEEDED: Final = "encrypted; its keys are needed: --tls-keys FILE"
WITHOUT_PACKETS: Final = ("protocols",)


class Ran(NamedTuple):
    """What a command gave."""

    opened: bool
    """Whether it showed something that TLS hides."""
    told: str


Options = Sequence[str]


def invoke(*arguments: object) -> Any:
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done


def shows(word: str, *arguments: object) -> Ran:
    done = invoke(*arguments)
    return Ran(word in done.stdout, done.stderr + done.stdout)


def topic_of(capture: Path) -> tuple[str, int]:
    """A topic inside the TLS of a capture, and a packet with a message about it."""
    return ("ta-tls", 28) if capture == CAPTURE else ("tdefl", 24)


def extracted(capture: Path, options: Options, folder: Path) -> Ran:
    topic, _ = topic_of(capture)
    done = invoke("extract", capture, "--topic", topic, "--decrypted", "-w", folder / "o.pcapng", *options)
    return Ran(topic.encode() in (folder / "o.pcapng").read_bytes(), done.stderr)


def reported(capture: Path, options: Options, folder: Path) -> Ran:
    page = folder / "page.html"
    done = invoke("report", capture, "--out", page, *options)
    return Ran(topic_of(capture)[0] in (page.read_text() if page.exists() else ""), done.stderr)


def checked(capture: Path, options: Options, folder: Path) -> Ran:
    (folder / capture.name).write_bytes(capture.read_bytes())
    golden = f"{capture.name}.golden.ndjson"
    (folder / golden).write_bytes((capture.parent / golden).read_bytes())
    done = invoke("check", folder, *options)
    return Ran(done.exit_code == 0, NEEDED if "undecoded_bytes: 0 ->" in done.stdout else done.stdout)


def in_batch(capture: Path, options: Options, folder: Path) -> Ran:
    """As the command, without Spark: ``test_batch_tls.py`` runs it there."""
    command = main.get_command(click.Context(main), "batch")
    assert command is not None
    parent = click.Context(main, info_name="mqsniff", **main.context_settings)
    context = command.make_context("batch", [*options, str(capture), str(folder / "out")], parent)
    logs: tuple[KeyLog, ...] = context.params["tls_keys"]
    report = run_job(InProcess(), [str(capture)], str(folder / "out"), JobOptions(partitions=2, tls_keys=logs))
    return Ran(report.messages.total() > 0, "\n".join(report.lines()))


def sent_to_loopback(capture: Path) -> None:
    """Send the packets of a capture on the loopback interface, a little later."""
    time.sleep(0.7)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind(("lo", 0))
        for batch in FileSource([str(capture)]).batches():
            view = memoryview(batch.buffer)
            for start, size in zip(batch.start.tolist(), batch.caplen.tolist(), strict=True):
                raw.send(view[start : start + size])
                time.sleep(0.001)


def live(capture: Path, options: Options, folder: Path) -> Ran:  # noqa: ARG001  # as the others
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except (AttributeError, PermissionError):
        pytest.skip("no rights to capture")
    sender = threading.Thread(target=sent_to_loopback, args=(capture,))
    sender.start()
    port = "33002" if capture == CAPTURE else "4150"
    topic, _ = topic_of(capture)
    try:
        return shows(topic, "live", "-i", "lo", "--duration", "2", "-o", "text", "--port", port, *options)
    finally:
        sender.join()


HOW: Final[dict[str, Callable[[Path, Options, Path], Ran]]] = {
    "decode": lambda capture, options, _: shows(topic_of(capture)[0], "decode", capture, "-o", "text", *options),
    "live": live,
    "stats": lambda capture, options, _: shows(topic_of(capture)[0], "stats", capture, "--all", *options),
    "trace": lambda capture, options, _: shows(
        topic_of(capture)[0], "trace", capture, "--topic", topic_of(capture)[0], *options
    ),
    "explain": lambda capture, options, _: shows(
        topic_of(capture)[0], "explain", capture, topic_of(capture)[1], *options
    ),
    "extract": extracted,
    "sql": lambda capture, options, _: shows(
        topic_of(capture)[0], "sql", capture, "select topic from records", *options, "-o", "csv"
    ),
    "report": reported,
    "batch": in_batch,
    "check": checked,
}
"""Command -> how it is run."""


@pytest.fixture(autouse=True)
def _nothing_by_default(monkeypatch):
    monkeypatch.delenv("SSLKEYLOGFILE", raising=False)


def test_every_command_that_reads_packets_is_tried():
    assert set(HOW) == set(COMMANDS) - set(WITHOUT_PACKETS)
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert any(option.name == "tls_keys" for option in command.params) == (name in HOW)


@pytest.mark.parametrize("name", HOW)
def test_a_key_log_opens_tls_and_may_be_one_of_several(name, tmp_path):
    other = tmp_path / "other.keys"
    other.write_text(f"CLIENT_RANDOM {'ab' * 32} {'cd' * 48}\n")
    folder = tmp_path / "o"
    folder.mkdir()
    ran = HOW[name](CAPTURE, ["--tls-keys", str(other), "--tls-keys", str(KEYS)], folder)
    assert ran.opened, ran.told


@pytest.mark.parametrize("name", HOW)
def test_the_key_log_of_the_variable_is_the_default(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SSLKEYLOGFILE", str(KEYS))
    ran = HOW[name](CAPTURE, [], tmp_path)
    assert ran.opened, ran.told


@pytest.mark.parametrize("name", [name for name in HOW if name != "live"])
def test_keys_that_a_capture_holds_open_it(name, tmp_path):
    ran = HOW[name](HELD, [], tmp_path)
    assert ran.opened, ran.told


@pytest.mark.parametrize("name", HOW)
def test_without_keys_it_is_said_what_would_help(name, tmp_path):
    ran = HOW[name](CAPTURE, [], tmp_path)
    assert not ran.opened
    assert NEEDED in ran.told or "--tls-keys FILE may open it" in ran.told


@pytest.mark.parametrize("name", [name for name in HOW if name not in {"live", "batch", "check", "trace", "explain"}])
def test_filters_see_what_was_decrypted(name, tmp_path):
    keys = ["--tls-keys", str(KEYS)]
    assert HOW[name](CAPTURE, [*keys, "--name", "Produce"], tmp_path).opened
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "o.pcapng").unlink()
    assert not HOW[name](CAPTURE, [*keys, "--name", "Fetch"], tmp_path).opened
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "o.pcapng").unlink()
    assert HOW[name](CAPTURE, [*keys, "--connection", "c2"], tmp_path).opened


def numbers(capture: Path, *options: str) -> dict[str, Any]:
    """What stats counts, without what it says of bytes on the wire."""
    sections = json.loads(invoke("stats", capture, "--json", *options).stdout)
    kept = ("commands", "topics", "clients", "groups", "errors", "partitions")
    on_the_wire = ("sent_bytes", "received_bytes", "wire_bytes")
    return {
        name: [{key: value for key, value in row.items() if key not in on_the_wire} for row in sections[name]]
        for name in kept
        if name in sections
    }


def test_stats_and_trace_tell_of_tls_what_they_tell_of_its_plain_twin(tmp_path):
    twin = tmp_path / "kafka-4.4-mtls-java.pcap"
    invoke("extract", CAPTURE, "--tls-keys", KEYS, "--decrypted", "--raw", "-w", twin)
    assert numbers(twin)
    assert numbers(CAPTURE, "--tls-keys", str(KEYS)) == numbers(twin)
    keys = ["--tls-keys", KEYS]
    told = invoke("trace", CAPTURE, "--topic", "ta-tls", *keys).stdout
    assert told.count("\n") > 4
    assert without_packets(invoke("trace", twin, "--topic", "ta-tls").stdout) == without_packets(told)


def without_packets(text: str) -> list[str]:
    """Lines without the numbers of packets, which differ."""
    return [" ".join(re.sub(r"packets? \d+( to \d+)?", "", line).split()) for line in text.splitlines()]
