"""``mqsniff live --follow``: rows as ``decode`` gives, across SIGKILL and SIGTERM, in NDJSON and in Parquet."""

from __future__ import annotations

import collections
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from mqsniff.cli import main

MQSNIFF = (sys.executable, "-m", "mqsniff")
PCAP_HEAD = 24
FILES = 10


def rotated(folder, capture):
    """The packets of a capture as so many rotated files."""
    folder.mkdir()
    records, at = [], PCAP_HEAD
    while at < len(capture):
        size = 16 + struct.unpack_from("<I", capture, at + 8)[0]
        records.append(capture[at : at + size])
        at += size
    share = -(-len(records) // FILES)
    for number in range(FILES):
        part = records[number * share : (number + 1) * share]
        (folder / f"cap-{number:03d}.pcap").write_bytes(capture[:PCAP_HEAD] + b"".join(part))
    return sorted(folder.iterdir())


SAMPLE = Path(__file__).parents[2] / "pcaps/nsq/nsq-1.3.0-go-req-touch.pcap"


@pytest.fixture
def folder(tmp_path):
    """A folder with the first half of the files, and the rest beside it."""
    files = rotated(tmp_path / "all", SAMPLE.read_bytes())
    there = tmp_path / "caps"
    there.mkdir()
    for file in files[: FILES // 2]:
        file.rename(there / file.name)
    return there


def bring_the_rest(folder):
    for file in sorted((folder.parent / "all").iterdir()):
        file.rename(folder / file.name)


def wait_for(ready):
    until = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.05)


def decoded(folder):
    done = subprocess.run([*MQSNIFF, "decode", str(folder), "-o", "ndjson"], capture_output=True, check=True)
    return collections.Counter(done.stdout.splitlines())


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_no_row_of_ndjson_is_lost_or_doubled_by_a_restart(folder, tmp_path, ending):
    rows = tmp_path / "rows.ndjson"
    follow = [*MQSNIFF, "live", "--follow", str(folder), "--state", str(tmp_path / "state"), "-o", "ndjson"]
    with rows.open("ab") as out:
        first = subprocess.Popen(follow, stdout=out, stderr=subprocess.PIPE)
        wait_for(lambda: rows.stat().st_size)
        first.send_signal(ending)
        first.communicate()
        assert first.returncode == (0 if ending == signal.SIGTERM else -ending)
        bring_the_rest(folder)
        subprocess.run([*follow, "--idle", "0.3"], stdout=out, check=True, stderr=subprocess.DEVNULL)
    assert collections.Counter(rows.read_bytes().splitlines()) == decoded(folder)


def test_no_row_of_parquet_is_lost_or_doubled_by_a_kill(folder, tmp_path):
    out = tmp_path / "rows"
    follow = [*MQSNIFF, "live", "--follow", str(folder), "--state", str(tmp_path / "state"), "-o", "parquet"]
    follow += ["--out", str(out), "--every", "1s"]
    first = subprocess.Popen(follow, stderr=subprocess.PIPE)
    wait_for(lambda: any(out.rglob("*.parquet")))
    bring_the_rest(folder)
    time.sleep(0.4)
    first.kill()
    first.communicate()
    subprocess.run([*follow, "--idle", "0.3"], check=True, capture_output=True)
    whole = tmp_path / "whole"
    subprocess.run(
        [*MQSNIFF, "decode", str(folder), "-o", "parquet", "--out", str(whole)], check=True, capture_output=True
    )
    for table in whole.iterdir():
        assert rows_of(out / table.name) == rows_of(table), table.name


def rows_of(table):
    return collections.Counter(repr(row) for part in table.glob("*.parquet") for row in pq.read_table(part).to_pylist())


def test_a_run_that_has_ended_goes_on_with_what_comes_later(folder, tmp_path):
    rows = tmp_path / "rows.ndjson"
    follow = [*MQSNIFF, "live", "--follow", str(folder), "--state", str(tmp_path / "state"), "-o", "ndjson"]
    with rows.open("ab") as out:
        for _ in range(2):
            subprocess.run([*follow, "--idle", "0.2"], stdout=out, check=True, stderr=subprocess.DEVNULL)
    assert collections.Counter(rows.read_bytes().splitlines()) == decoded(folder)


def refused(*words):
    done = CliRunner().invoke(main, ["live", *words])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    return done.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "-i IFACE or --follow PATH"),
        (("-i", "lo", "--follow", "."), "one of the two"),
        (("-i", "lo", "--state", "s"), "--state belongs to --follow"),
        (("--follow", ".", "-w", "x"), "belong to -i"),
        (("-i", "lo", "--ring-files", "3"), "belong to -w FILE"),
        (("-i", "lo", "-w", "x", "--ring-files", "3"), "--ring-files needs"),
        (("-i", "lo", "--every", "1m"), "--every belongs to -o parquet"),
        (("-i", "lo", "--snaplen", "8"), "--snaplen"),
        (("-i", "lo", "--buffer", "much"), "not a size"),
        (("-i", "lo", "--duration", "soon"), "not a duration"),
        (("-i", "lo", "-f", "tcp", "--ports-only"), "-f gives another one"),
        (("--follow", "no-such-path"), "no-such-path: No such file"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(words, why):
    assert why in refused(*words, "-q") if words else refused("-q")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 2}', '{"version": 1}', "\0"])
def test_a_state_that_is_none_is_refused(tmp_path, text):
    state = tmp_path / "state"
    state.write_text(text)
    out = str(tmp_path / "rows")
    assert str(state) in refused("--follow", str(tmp_path), "--state", str(state), "-o", "parquet", "--out", out)


def test_a_state_belongs_to_its_output(folder, tmp_path):
    words = ["live", "--follow", str(folder), "--state", str(tmp_path / "state"), "-o", "parquet", "--idle", "0.1"]
    assert CliRunner().invoke(main, [*words, "--out", str(tmp_path / "rows")]).exit_code == 0
    assert "it belongs to another output" in refused(*words[1:], "--out", str(tmp_path / "other"))
