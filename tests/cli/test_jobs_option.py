"""``--jobs``: rows, their order, talk and exit codes are those of one process."""

from __future__ import annotations

import lzma
import marshal
import os
import re
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner
from terminal import COMMAND
from tinycapture import NSQ, OK, PUB, conversation, pcap

from mqsniff.cli import jobwork, main, outputs
from mqsniff.cli.jobs import _JobRun, jobs_of
from mqsniff.cli.options import RunOptions
from mqsniff.jobs.lines import WorkerLines
from mqsniff.limits import Limits
from mqsniff.sinks import recordlines
from mqsniff.tables.schemas import TABLES

PCAPS = Path(__file__).parents[2] / "pcaps"
SAMPLES = sorted(path for path in PCAPS.rglob("*") if path.suffix in (".pcap", ".pcapng"))
ALL_TABLES = [word for table in TABLES for word in ("--table", table)]
SECONDS = re.compile(r", [\d.]+ s$", re.MULTILINE)
LOOP = [("c", PUB), ("s", OK)] * 5000
BUSY = PCAPS / "nsq" / "nsq-1.3.0-raw-errors.pcap"
BY_ID = PCAPS / "kafka" / "kafka-4.4.0-midstream-java-4.4.0-mje.pcap"


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp("key") / "hash.key"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    path.chmod(0o600)
    return str(path)


def run(*arguments):
    done = CliRunner().invoke(main, ["decode", *map(str, arguments)])
    return done.exit_code, done.stdout_bytes, SECONDS.sub("", done.stderr)


def same(jobs, *arguments):
    """What one process and several print; an assertion that it is the same."""
    one, several = run(*arguments, "--jobs", 1), run(*arguments, "--jobs", jobs)
    assert several == one
    return several


@pytest.mark.parametrize(("place", "sample"), list(enumerate(SAMPLES)), ids=lambda each: getattr(each, "name", ""))
def test_every_sample_gives_the_same_lines_in_the_same_order(place, sample, key):
    assert same(2 + place % 2, sample, "-o", "ndjson", *ALL_TABLES, "--hash-key", key)[0] in (0, 2)


@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.parametrize(
    "options",
    [
        ("-o", "ndjson"),
        ("-o", "csv", "--table", "exchanges"),
        ("-o", "csv", "--fields", "ts,name,size"),
        ("-o", "text"),
        ("-o", "ndjson", "--errors", "--fail-on", "answer-error", "--fail-on", "gap"),
        ("-o", "ndjson", "--name", "no-such-command"),
        ("-o", "ndjson", "--records", "--max-bytes", "10"),
        ("-o", "ndjson", "--redact", "payload", "--records"),
        ("-o", "ndjson", "-n", "20"),
        ("-o", "ndjson", "--connection", "c3"),
        ("-o", "ndjson", "--where", "size > 20"),
        ("-o", "ndjson", "--from", "+1s"),
        ("-o", "ndjson", "--slower", "1ms", "--table", "exchanges"),
        ("-o", "ndjson", "--limit", "connections_max=4"),
        ("-o", "ndjson", "--limit", "frame_max=65536", "--limit", "pending_max=16"),
    ],
    ids=" ".join,
)
def test_options_mean_the_same(jobs, options, key):
    same(jobs, BUSY, PCAPS / "kafka" / "kafka-3.9.1-portreuse-rua.pcap", *options, "--hash-key", key)


@pytest.mark.parametrize("options", [(), ALL_TABLES], ids=["records", "all-tables"])
def test_lines_of_many_records_are_complete_and_in_order(monkeypatch, options, key):
    """One process lets them wait, to make many at once."""
    monkeypatch.setattr(recordlines, "KERNELS_FROM", 0)
    monkeypatch.setattr(recordlines, "BLOCK_ROWS_MIN", 2)
    samples = [PCAPS / "kafka" / "kafka-3.9.1-portreuse-rua.pcap", BUSY, BY_ID]
    _, lines, _ = same(2, *samples, "-o", "ndjson", *(options or ["--table", "records"]), "--hash-key", key)
    assert b'"table":"records"' in lines


@pytest.mark.parametrize("topic", ["*", "no-such-topic"])
def test_filters_know_the_names_of_topics_that_other_workers_learned(topic, key):
    same(2, BY_ID, "-o", "ndjson", "--topic", topic, *ALL_TABLES, "--hash-key", key)


def test_inputs_that_cannot_be_read_are_told_once(tmp_path):
    (tmp_path / "text.pcap").write_text("no capture")
    code, _, said = same(2, BUSY, tmp_path / "text.pcap", "-o", "ndjson", "--table", "connections")
    assert (code, said.count("text.pcap")) == (2, 1)
    assert same(2, tmp_path / "text.pcap", "-o", "ndjson")[0] == 2
    code, _, said = same(2, tmp_path / "text.pcap", "-o", "parquet", "--out", tmp_path / "none")
    assert (code, (tmp_path / "none").exists()) == (2, False)
    assert "no tables were written" in said


def rows_of(folder):
    """The rows of each table, in an order of their own."""
    found = {}
    for table in TABLES:
        rows = ds.dataset(folder / table, format="parquet").to_table().to_pylist()
        found[table] = sorted(map(repr, rows))
    return found


@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.parametrize("sample", [BUSY, BY_ID], ids=lambda path: path.name)
def test_tables_of_parquet_have_the_same_rows(tmp_path, sample, jobs, key):
    words = ["-o", "parquet", "--hash-key", key]
    one = run(sample, *words, "--out", tmp_path / "one", "--jobs", 1)
    several = run(sample, *words, "--out", tmp_path / "several", "--jobs", jobs)
    assert several == one
    assert rows_of(tmp_path / "several") == rows_of(tmp_path / "one")
    assert sorted(path.name for path in (tmp_path / "several").iterdir()) == sorted(TABLES)


def test_old_tables_stay_until_the_new_ones_are_complete(tmp_path):
    run(BUSY, "-o", "parquet", "--out", tmp_path / "t")
    before = rows_of(tmp_path / "t")
    (tmp_path / "text.pcap").write_text("no capture")
    words = ["-o", "parquet", "--overwrite", "--out", tmp_path / "t", "--jobs", 2]
    assert run(tmp_path / "text.pcap", *words)[0] == 2
    assert rows_of(tmp_path / "t") == before
    assert run(BY_ID, *words)[0] == 0
    assert rows_of(tmp_path / "t") != before


def test_a_query_asks_the_tables_of_all_workers():
    query = "select protocol, count(*) as n from messages group by all order by all"
    one, two = (CliRunner().invoke(main, ["sql", str(BUSY), query, "--jobs", jobs]) for jobs in "12")
    assert (one.exit_code, one.stdout) == (two.exit_code, two.stdout)
    assert "nsqlookupd" in one.stdout


# ---- limits of a whole run


@pytest.mark.parametrize("limit", ["connections_max=40", "state_max=1048576", "topics_max=1"])
def test_a_limit_of_the_run_acts_as_in_one_process(limit, key):
    same(2, BUSY, BY_ID, "-o", "ndjson", *ALL_TABLES, "--limit", limit, "--hash-key", key)


def test_limits_of_the_run_act_as_in_one_process_on_tables_and_csv_too(tmp_path, key):
    limited = ["--limit", "connections_max=40", "--hash-key", key]
    same(2, BUSY, "-o", "csv", *limited)
    done = [run(BUSY, "-o", "parquet", "--out", tmp_path / jobs, "--jobs", jobs, *limited) for jobs in "12"]
    assert done[0] == done[1]
    assert rows_of(tmp_path / "1") == rows_of(tmp_path / "2")
    assert sorted(path.name for path in (tmp_path / "2").iterdir()) == sorted(TABLES)


def test_rows_that_are_out_are_not_written_again(tmp_path, monkeypatch):
    path, skipped = tmp_path / "twelve.pcap", []
    ports = range(40_000, 40_012)
    path.write_bytes(pcap(each for port in ports for each in conversation(NSQ + LOOP[:3000], client=port)))
    rest = outputs.RestOfRows
    monkeypatch.setattr(outputs, "RestOfRows", lambda stream, skip: skipped.append(skip) or rest(stream, skip))
    monkeypatch.setattr(jobwork, "FRAME", 1 << 14)
    same(2, path, "-o", "ndjson", "--limit", "connections_max=10")
    assert skipped
    assert skipped[0] > 0


def test_small_files_and_what_is_not_divisible_take_one_process(tmp_path, monkeypatch):
    wanted = {"decode_as": {}, "show_secrets": False, "show_raw": False, "redact": (), "limits": Limits()}
    files, options = (str(BUSY),), RunOptions(**wanted, output="ndjson")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    assert jobs_of(files, options) == 1
    monkeypatch.setattr("mqsniff.cli.jobs.PAYS", 1)
    assert jobs_of(files, options) == 3
    assert jobs_of(files, replace(options, jobs=2)) == 2
    assert jobs_of(files, replace(options, jobs=1)) == 1
    assert jobs_of(files, replace(options, output="text", jobs=2)) == 1
    assert jobs_of(("-",), replace(options, jobs=2)) == 1
    assert jobs_of(files, replace(options, count=3, jobs=2)) == 1
    assert jobs_of(files, replace(options, limits=Limits(state_max=1 << 20))) == 1
    slow = tmp_path / "x.pcap.bz2"
    slow.write_bytes(b"x")
    assert jobs_of((str(slow),), options) == 1


# ---- ends


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A capture that takes seconds."""
    path = tmp_path_factory.mktemp("large") / "large.pcap"
    path.write_bytes(pcap(each for port in range(40_000, 40_008) for each in conversation(NSQ + LOOP, client=port)))
    return path


def workers_of(process):
    """The processes that a process has started."""
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def is_gone(pid):
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def started(*arguments, stdout=subprocess.DEVNULL):
    """A run with two workers that are decoding."""
    command = [*COMMAND, "decode", *map(str, arguments), "--jobs", "2"]
    process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE)
    until = time.monotonic() + 30
    while time.monotonic() < until and len(workers := workers_of(process)) < 2:
        time.sleep(0.01)
    time.sleep(0.3)
    assert process.poll() is None, process.stderr.read()
    return process, workers


@pytest.mark.parametrize(("owner", "step"), [(WorkerLines, "ready"), (marshal, "loads")])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_amid_a_step_loses_no_line(large, monkeypatch, owner, step, number):
    """The signal comes when lines are off their lane but not written, or when half of a message was received."""
    plain = getattr(owner, step)
    calls = iter(range(1000))

    def interrupted(*arguments):
        result = plain(*arguments)
        if next(calls) == 6:
            signal.raise_signal(number)
        return result

    monkeypatch.setattr(owner, step, interrupted)
    code, out, _ = run(large, "-o", "ndjson", "--jobs", 2)
    monkeypatch.undo()
    assert code == 128 + number
    assert out
    assert run(large, "-o", "ndjson", "--jobs", 1)[1].startswith(out)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_all_workers_and_leaves_whole_lines(large, tmp_path, number, code):
    with (tmp_path / "rows").open("wb") as rows:
        process, workers = started(large, "-o", "ndjson", stdout=rows)
        until = time.monotonic() + 30
        while time.monotonic() < until and not rows.tell() and not (tmp_path / "rows").stat().st_size:
            time.sleep(0.01)
        process.send_signal(number)
        said = process.communicate(timeout=20)[1].decode()
    assert process.returncode == code, said
    assert all(map(is_gone, workers))
    whole, out = run(large, "-o", "ndjson", "--jobs", 1)[1], (tmp_path / "rows").read_bytes()
    assert 0 < len(out) < len(whole)
    assert whole.startswith(out)
    assert out.endswith(b"\n")


def test_a_signal_completes_the_parts_of_all_workers(large, tmp_path):
    process, workers = started(large, "-o", "parquet", "--out", tmp_path / "t")
    until = time.monotonic() + 30
    while time.monotonic() < until and len(list((tmp_path / "t").glob(".mqsniff-*/*"))) < 2:
        time.sleep(0.01)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[1].decode()
    assert process.returncode == 130, said
    assert all(map(is_gone, workers))
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == sorted(TABLES)
    rows_of(tmp_path / "t")


@pytest.mark.parametrize("output", ["ndjson", "parquet"])
def test_a_worker_that_is_killed_fails_the_run(large, tmp_path, output):
    words = ["--out", tmp_path / "t"] if output == "parquet" else []
    process, workers = started(large, "-o", output, *words)
    os.kill(workers[1], signal.SIGKILL)
    said = process.communicate(timeout=20)[1].decode().splitlines()
    assert process.returncode == 2
    end = "no tables were written" if words else "the rows are not complete"
    assert said == [f"mqsniff: a worker process was ended by SIGKILL; {end}"]
    assert all(map(is_gone, workers))
    assert not any((tmp_path / "t").rglob("*.parquet*"))
    assert not any(tmp_path.rglob(".mqsniff*"))


@pytest.mark.parametrize("output", ["ndjson", "parquet"])
def test_workers_do_not_outlive_a_run_that_is_killed(large, tmp_path, output):
    words = ["--out", tmp_path / "t"] if output == "parquet" else []
    process, workers = started(large, "-o", output, *words)
    process.kill()
    process.communicate(timeout=20)
    until = time.monotonic() + 20
    while time.monotonic() < until and not all(map(is_gone, workers)):
        time.sleep(0.05)
    assert all(map(is_gone, workers))
    assert not any(tmp_path.rglob("*.parquet*"))


def test_a_reader_that_goes_away_ends_all_workers(large):
    process, workers = started(large, "-o", "ndjson", stdout=subprocess.PIPE)
    process.stdout.read(100)
    process.stdout.close()
    with process.stderr as stderr:
        stderr.read()
    assert process.wait(timeout=20) == 0
    assert all(map(is_gone, workers))


def test_a_worker_leaves_a_run_that_may_spend_its_rows_to_one_process(tmp_path, monkeypatch):
    together = []
    alone = _JobRun._together
    monkeypatch.setattr(_JobRun, "_together", lambda self: together.append(self) or alone(self))
    path = tmp_path / "many.pcap.xz"
    said = [*conversation(NSQ)]
    path.write_bytes(lzma.compress(pcap(said + [said[-1]] * 60_000)))
    few = ("--limit", "capture_rows_free=2", "--limit", "capture_row_cost=1048576")
    _, lines, _ = same(2, path, "-o", "ndjson", *ALL_TABLES, *few)
    assert b"capture_row_cost and capture_rows_free" in lines
    assert len(together) == 1
