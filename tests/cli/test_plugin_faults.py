"""A plugin that raises, hangs, prints or breaks the contract: the run goes on, and the plugin is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from builds import PLACE
from terminal import COMMAND
from tinycapture import NSQ, conversation, pcap

from mqsniff.cli import pluginwatch

PLUGIN = """
import time
from mqsniff.plugin import NO_FRAME, FramedDissector, Message, Verdict

class Evil(FramedDissector):
    names = ("evil",)
    ports = frozenset((7777,))
    head_max = 4

    @classmethod
    def probe(cls, side, head):
        return 8 if head[:4] == b"EVIL" else NO_FRAME

    @classmethod
    def detect(cls, client, server):
        return Verdict.YES if client.data[:4] == b"EVIL" else Verdict.NO

    def frame_size(self, side, head):
        {frame_size}

    def decode(self, frame):
        {decode}
"""
FINE = "return 8"
MESSAGE = 'yield Message(frame, "evil", "X", "oneway", {})'


@pytest.fixture
def run(tmp_path):
    """Runs decode with a plugin on a connection of its protocol, and one of NSQ after it."""

    def start(decode=MESSAGE, frame_size=FINE, *options):
        info = tmp_path / "evil-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: evil\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[mqsniff.dissectors]\nevil = evil_plugin:Evil\n")
        (tmp_path / "evil_plugin.py").write_text(PLUGIN.format(decode=decode, frame_size=frame_size))
        evil = conversation([("c", b"EVIL0001"), ("c", b"EVIL0002")], server=7777, client=40_001)
        (tmp_path / "x.pcap").write_bytes(pcap([*evil, *conversation(NSQ)]))
        path = os.pathsep.join((str(tmp_path), *sys.path, PLACE))
        environment = os.environ | {"PYTHONPATH": path}
        command = [*COMMAND, "decode", "-o", "ndjson", *options, str(tmp_path / "x.pcap")]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def rows(process):
    out, talk = process.communicate(timeout=60)
    return out, talk


def test_a_plugin_that_does_its_work_is_a_protocol(run):
    out, talk = rows(run())
    assert out.count('"evil"') >= 2
    assert "Traceback" not in talk


@pytest.mark.parametrize(
    "decode",
    [
        "raise ZeroDivisionError",
        "raise MemoryError",
        "return 7",
        "return [None, 7]",
        "yield Message('x', None, 'y', 3, 4)",
        "def f(): f()\n        f()",
        "import sys; sys.exit(3)",
    ],
)
def test_a_decode_that_raises_or_breaks_the_contract_is_named_and_the_rest_is_decoded(run, decode):
    process = run(decode)
    out, talk = rows(process)
    assert "Traceback" not in talk
    assert "Evil" in out + talk
    assert '"protocol":"nsq"' in out
    assert process.returncode == 0


@pytest.mark.parametrize("frame_size", ["return -1", "return 'x'", "return 1 << 80", "raise ValueError", "return 0"])
def test_a_size_that_is_none_is_named_or_skipped_and_the_rest_is_decoded(run, frame_size):
    process = run(MESSAGE, frame_size)
    out, talk = rows(process)
    assert "Traceback" not in talk
    assert '"protocol":"nsq"' in out
    assert process.returncode == 0


def test_what_a_plugin_prints_is_told_on_stderr_and_is_not_between_the_rows(run):
    out, talk = rows(run('print("hello\\x1b[2J")\n        ' + MESSAGE))
    assert "hello" not in out
    assert "mqsniff: evil_plugin printed: hello\\x1b[2J" in talk


def test_a_plugin_that_hangs_is_named_with_its_packet_and_ended_by_ctrl_c(run):

    process = run("while True: time.sleep(0.01)")
    time.sleep(0.1)
    first = process.stderr.readline()
    assert "evil_plugin.Evil.decode, on packet 4 of " in first
    assert "takes more than 10 s; Ctrl-C ends the run" in first
    process.send_signal(signal.SIGINT)
    rows(process)
    assert process.returncode == 128 + signal.SIGINT


def test_time_that_passes_outside_of_plugins_is_not_theirs(capsys):
    with pluginwatch.watched_plugins([], slow_s=0.1):
        time.sleep(0.4)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("output", ["text", "ndjson", "csv", "parquet"])
@pytest.mark.parametrize(
    "fields", ['5, "oneway", {}', '"X", 5, {}', '"X", "oneway", {1: object()}', '"X", "oneway", 7']
)
def test_a_message_with_values_of_other_types_does_not_crash(run, tmp_path, output, fields):
    options = ["-o", output, *(["--out", str(tmp_path / "tables")] if output == "parquet" else [])]
    process = run(f'yield Message(frame, "evil", {fields})', FINE, *options)
    _, talk = rows(process)
    assert "Traceback" not in talk
    assert process.returncode == 0 or "evil (evil 1.0) breaks the contract of dissectors" in talk
