"""A clock of the machine that jumps changes nothing: durations come from one that only goes forward."""

from __future__ import annotations

import ast
import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from capturecraft import pcap as capture
from click.testing import CliRunner
from tinycapture import NSQ, OK, PUB, conversation

from mqsniff.cli import main
from mqsniff.model import CaptureInfo
from mqsniff.sinks.recording import CaptureRecorder, RingWishes
from mqsniff.sources.batches import empty_batch
from mqsniff.sources.live import InterfaceCounts

ROOT = Path(__file__).parents[1]
WALL = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "date.today"}
ALLOWED = {
    "mqsniff/batch/classarchive.py",  # how long nobody has used an archive: they are deleted then
    "mqsniff/batch/commit.py",  # the name of a run
    "mqsniff/batch/follow.py",  # how old a file is that nobody saw arrive
    "mqsniff/answers/metrics/meters.py",  # when metrics were counted: what their readers compare with their own clock
    "mqsniff/answers/metrics/otlp.py",  # the same
    "mqsniff/cli/livewatch.py",  # the time before a line of a summary
    "mqsniff/sinks/recording.py",  # names of files in a ring, and the span of their statistics
}


def test_only_a_few_modules_ask_for_the_time_of_day():
    asking = {
        path.relative_to(ROOT).as_posix()
        for folder in ("mqsniff", "dissectors")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in WALL
    }
    assert asking == ALLOWED


HOUR_NS = 3_600 * 10**9
JUMPS_NS = {
    "an hour ahead": HOUR_NS,
    "an hour back": -HOUR_NS,
    "ten years ahead": 87_660 * HOUR_NS,
    "ten years back": -87_660 * HOUR_NS,
}
START_NS = 1_795_253_930 * 10**9
PACKETS = [*conversation([*NSQ, ("c", PUB), ("s", OK)])]


def decoded(path: Path, times: list[int]) -> tuple[list[dict[str, object]], int]:
    """(rows, exit code) of a capture with packets at these times."""
    path.write_bytes(capture(zip(times, PACKETS, strict=True), kind="nano", linktype=101))
    done = CliRunner().invoke(main, ["decode", "-q", "-o", "ndjson", str(path)])
    return [json.loads(line) for line in done.stdout.splitlines()], done.exit_code


@pytest.mark.parametrize("jump_ns", JUMPS_NS.values(), ids=JUMPS_NS)
@pytest.mark.parametrize("place", range(1, len(PACKETS)))
def test_no_message_is_lost_where_times_of_packets_jump(tmp_path: Path, place: int, jump_ns: int):
    even = [START_NS + at * 10**6 for at in range(len(PACKETS))]
    jumping = [each + jump_ns * (at >= place) for at, each in enumerate(even)]
    expected, _ = decoded(tmp_path / "even.pcap", even)
    found, code = decoded(tmp_path / "jumping.pcap", jumping)
    assert code == 0
    assert names(found) == names(expected) != []


@pytest.mark.parametrize("jump_ns", JUMPS_NS.values(), ids=JUMPS_NS)
def test_one_packet_with_a_wrong_time_loses_no_message(tmp_path: Path, jump_ns: int):
    for place in range(len(PACKETS)):
        times = [START_NS + at * 10**6 + jump_ns * (at == place) for at in range(len(PACKETS))]
        found, code = decoded(tmp_path / "wrong.pcap", times)
        assert code == 0
        assert names(found) == ["PUB", "RESPONSE", "PUB", "RESPONSE"], place


def names(rows: list[dict[str, object]]) -> list[object]:
    """Names of the messages, in order; MAGIC begins a connection, and one that was silent for an hour is another."""
    return [row["name"] for row in rows if row["table"] == "messages" and row["name"] != "MAGIC"]


def test_a_ring_is_not_turned_by_the_time_of_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    elapsed_s, day_ns = 100.0, START_NS
    monkeypatch.setattr(time, "monotonic", lambda: elapsed_s)
    monkeypatch.setattr(time, "time_ns", lambda: day_ns)
    recorder = CaptureRecorder(tmp_path / "ring.pcapng", Tap(), RingWishes(seconds=5), [])
    for jump_ns in (87_660 * HOUR_NS, -87_660 * HOUR_NS, HOUR_NS, -HOUR_NS):
        day_ns = START_NS + jump_ns
        recorder.write(empty_batch())
    assert len(list(tmp_path.iterdir())) == 1
    elapsed_s += 6
    recorder.write(empty_batch())
    assert len(list(tmp_path.iterdir())) == 2
    recorder.close()


class Tap:
    """A live source without packets."""

    captures = (CaptureInfo(0, "lo"),)
    interfaces = ("lo",)
    counts = (InterfaceCounts("lo"),)
    wishes = SimpleNamespace(snaplen=1000, bpf="")

    def linktype(self, _number: int) -> int:
        return 1

    def count(self) -> None:
        """Nothing changes."""
