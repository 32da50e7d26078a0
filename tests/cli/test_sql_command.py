"""``mqsniff sql`` from the arguments to the exit code."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from terminal import COMMAND, on_terminal, piped
from tinycapture import INVALID, NSQ, PUB, conversation, pcap

from mqsniff.cli import main
from mqsniff.tables.schemas import TABLES

WIDE = "select name, size, client, topics from messages order by size desc limit 1"
COUNT = "select name, count(*) as n from messages group by all order by name"


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Where captures are decoded to; empty again after every test."""
    home = tmp_path / "temporary"
    home.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    monkeypatch.setenv("TMPDIR", str(home))
    yield home
    assert list(home.iterdir()) == []


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.pcap"
    path.write_bytes(pcap(conversation([*NSQ, ("c", PUB), ("s", INVALID)])))
    return path


@pytest.fixture
def folder(tmp_path, sample):
    done = CliRunner().invoke(main, ["decode", "-o", "parquet", "--out", str(tmp_path / "tables"), str(sample)])
    assert done.exit_code == 0
    return tmp_path / "tables"


def run(*arguments, **options):
    return CliRunner().invoke(main, ["sql", *map(str, arguments)], **options)


def rows(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


COUNTED = [{"name": "ERROR", "n": 1}, {"name": "MAGIC", "n": 1}, {"name": "PUB", "n": 2}, {"name": "RESPONSE", "n": 1}]


def test_a_capture_is_asked(sample):
    done = run(sample, COUNT)
    assert (done.exit_code, rows(done)) == (0, COUNTED)
    assert re.match(r"11 packets, 1 connection, 5 messages \(nsq 5\)", done.stderr)


def test_a_folder_of_tables_is_asked(folder):
    done = run(folder, COUNT)
    assert (done.exit_code, rows(done), done.stderr) == (0, COUNTED, "")


def test_captures_and_folders_are_one_set_of_tables(folder, sample):
    assert rows(run(folder, sample, folder, "select count(*) as n from messages")) == [{"n": 15}]


def test_only_the_tables_of_the_query_are_decoded(sample, monkeypatch):
    seen = []
    from mqsniff.sinks.parquet import ParquetSink

    made = ParquetSink.__init__
    monkeypatch.setattr(ParquetSink, "__init__", lambda self, *a, **k: (seen.append(a[2]), made(self, *a, **k))[1])
    assert run(sample, "select count(*) from exchanges join problems using (connection_id)").exit_code == 0
    assert seen == [("exchanges", "problems")]


def test_records_are_opened_when_they_are_asked_for(sample):
    assert rows(run(sample, "select value from records order by stream_offset")) == [{"value": "hello"}] * 2


def test_filters_and_conditions_choose_what_captures_put_in(sample):
    assert rows(run("--errors", sample, COUNT)) == [{"name": "ERROR", "n": 1}]
    assert rows(run("--where", "size > 10", "--name", "pub", sample, COUNT)) == [
        {"name": "ERROR", "n": 1},
        {"name": "PUB", "n": 2},
    ]
    done = run("--topic", "nope", sample, COUNT)
    assert rows(done) == []
    assert "0 of 5 messages matched --topic nope; topics seen: retry" in done.stderr


@pytest.mark.parametrize("options", [["--errors"], ["--where", "size > 1"], ["--port", "4150"]])
def test_filters_are_no_part_of_a_query_on_folders(folder, options):
    done = run(*options, folder, COUNT)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "ask folders of tables with WHERE" in done.stderr


def test_a_result_goes_out_in_every_form(sample, tmp_path):
    query = "select name as a, size as a, topics from messages where name = 'PUB' limit 1"
    assert rows(run("-o", "ndjson", sample, query)) == [{"a": "PUB", "a_1": 19, "topics": ["retry"]}]
    assert json.loads(run("-o", "json", sample, query).stdout) == rows(run(sample, query))
    assert json.loads(run("-o", "json", sample, f"from ({query}) where false").stdout) == []
    assert list(csv.reader(io.StringIO(run("-o", "csv", sample, query).stdout))) == [
        ["a", "a_1", "topics"],
        ["PUB", "19", '["retry"]'],
    ]
    assert run("-o", "table", sample, query).stdout.splitlines() == ["a    a_1  topics", 'PUB  19   ["retry"]']
    out = tmp_path / "result.parquet"
    done = run("-o", "parquet", "--out", out, sample, query)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.endswith(f"1 row in {out}\n")
    assert pq.read_table(out).to_pylist() == rows(run(sample, query))


def test_a_result_file_is_replaced_only_when_asked(sample, tmp_path):
    out = tmp_path / "result.parquet"
    out.write_text("mine")
    refused = run("-o", "parquet", "--out", out, sample, COUNT)
    assert (refused.exit_code, out.read_text(), refused.stderr.count("\n")) == (2, "mine", 1)
    assert run("-o", "parquet", "--out", out, "--overwrite", sample, COUNT).exit_code == 0
    assert pq.read_table(out).num_rows == 4
    before = set(tmp_path.iterdir())
    failed = run("-o", "parquet", "--out", out, "--overwrite", sample, "select name::int from messages")
    assert (failed.exit_code, pq.read_table(out).num_rows, set(tmp_path.iterdir())) == (2, 4, before)


@pytest.mark.parametrize(
    ("name", "query", "told"),
    [
        ("no/such/folder.parquet", "select 1", "No such file"),
        ("x.parquet", "select interval 1 day", "Parquet cannot hold this result"),
    ],
)
def test_a_result_that_cannot_be_written_is_one_line(folder, tmp_path, name, query, told):
    done = run("-o", "parquet", "--out", tmp_path / name, folder, query)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert told in done.stderr
    assert list(tmp_path.glob(".*")) == []


def test_cells_that_a_spreadsheet_would_run_are_made_text(sample):
    assert run("-o", "csv", sample, "select '=1+1' as f, -1 as n").stdout_bytes == b"f,n\r\n'=1+1,-1\r\n"


@pytest.mark.parametrize(
    ("columns", "shown"),
    [(200, r"name +size +client +topics +\n.*\n +PUB +19 +127"), (40, r"row 1\n  name    PUB\n  size    19\n")],
)
def test_a_terminal_gets_a_table_or_a_block_a_row(folder, columns, shown):
    done = on_terminal("sql", str(folder), WIDE, columns=columns)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.shown)
    assert re.search(shown, plain)
    assert done.talk == "1 row\n"


def test_a_terminal_is_not_flooded(folder):
    done = on_terminal("sql", str(folder), "select i from range(5000) t(i)")
    assert "the first 1,000 rows; -o csv or ndjson gives all" in done.talk
    assert "4999" not in done.shown


def test_what_traffic_wrote_does_not_act_on_a_terminal(folder):
    done = on_terminal("sql", str(folder), "select chr(27) || '[2J' as x")
    assert "\x1b[2J" not in done.shown
    assert r"\x1b[2J" in done.shown


def test_one_long_cell_does_not_widen_all_rows(folder):
    done = run("-o", "table", folder, "select repeat('x', i) as a, i as b from (values (1), (5000)) t(i) order by i")
    head, short, long = done.stdout.splitlines()
    assert (head.index("b"), short.index("1")) == (122, 122)
    assert long == "x" * 5000 + "  5000"


def test_without_a_query_tables_are_listed_with_their_rows(sample, folder):
    for file in (sample, folder):
        done = run(file)
        assert done.exit_code == 0
        assert done.stdout.splitlines()[0].startswith("table        rows  columns")
        assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == list(TABLES)
        assert "latency_ns" in done.stdout
        assert re.search(r"^messages +5 +connection_id", done.stdout, re.MULTILINE)
        examples = [line for line in done.stderr.splitlines() if line.startswith("  mqsniff sql FILE... ")]
        assert len(examples) == 3
        for line in examples:
            query = line.split("FILE... ")[1]
            name = query.split()[0] if query.startswith(":") else query.strip("'")
            assert run(folder, name).exit_code == 0


def test_queries_with_names_are_listed_and_asked(sample):
    listed = [line.split()[0] for line in run("--queries").stdout.splitlines()[1:]]
    assert {":slow", ":errors", ":lag", ":rebalances", ":topics", ":clients"} <= {*listed}
    assert rows(run(sample, ":topics"))[0]["records"] == 2
    assert rows(run(sample, ":errors"))[0]["error_name"] == "E_INVALID"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["missing.pcap"], "missing.pcap: no such file"),
        (["missing.pcap", "messages"], "missing.pcap: no such file"),
        (["select 1 as one", "{sample}"], "the query comes after the files: mqsniff sql FILE... 'select 1 as one'"),
        ([":slow", "{sample}"], "the query comes after the files"),
        (["messages", "{sample}"], "the query comes after the files"),
        (["{sample}", ":slw"], "no query ':slw', did you mean :slow?"),
    ],
)
def test_a_missing_file_and_swapped_arguments_are_told(sample, arguments, told):
    done = run(*(text.format(sample=sample) for text in arguments))
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def test_a_terminal_wraps_cells_before_it_turns_to_blocks(folder):
    words = "select 'one two three four five six seven eight nine ten' as text, 12 as number, 'x' as x"
    done = on_terminal("sql", str(folder), words, columns=40)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.shown)
    assert "row 1" not in plain
    assert "ten" in plain


@pytest.mark.parametrize("table", TABLES)
def test_the_name_of_a_table_explains_its_columns(sample, table):
    done = run(sample, f" {table}\n")
    assert (done.exit_code, done.stderr) == (0, "")
    shown = done.stdout.splitlines()[1:]
    assert [line.split()[0] for line in shown] == [column.name for column in TABLES[table]]
    assert all(column.doc in line for line, column in zip(shown, TABLES[table], strict=True))


def test_a_query_comes_from_stdin(sample):
    assert rows(run(sample, "-", input=COUNT)) == COUNTED


def test_a_capture_comes_from_stdin(sample):
    with piped("sql", "-", COUNT) as process:
        out, _ = process.communicate(sample.read_bytes())
    assert [json.loads(line) for line in out.splitlines()] == COUNTED


def test_a_long_query_is_no_file_name(sample):
    assert rows(run(sample, "select 1 as one" + " " * 5000)) == [{"one": 1}]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("select nme from messages", 'mqsniff sql: Referenced column "nme" not found'),
        ("selec 1", "mqsniff sql: syntax error"),
        ("select * from read_csv('/etc/passwd')", "mqsniff sql: Cannot access file"),
        ("copy messages to 'evil.csv'", "mqsniff sql: COPY does more than read"),
        ("", "mqsniff sql: the query is empty"),
        ("select 1; select 2", "mqsniff sql: 2 statements"),
        ("select name::int from messages", "Could not convert string"),
    ],
)
@pytest.mark.parametrize("source", ["sample", "folder"])
def test_a_query_that_cannot_be_answered_is_one_line_and_exit_2(request, source, query, told):
    done = run(request.getfixturevalue(source), query)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr
    lines = [line for line in done.stderr.splitlines() if " packets, " not in line]
    assert len(lines) == 1


def test_tables_that_could_not_be_written_are_not_asked(sample):
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); "
    command = [COMMAND[0], "-c", limited + COMMAND[2], "sql", str(sample), COUNT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "File too large" in done.stderr


@pytest.mark.parametrize("output", ["table", "csv", "ndjson", "json"])
def test_a_full_disk_behind_stdout_is_one_line_and_exit_2(folder, output):
    with Path("/dev/full").open("wb") as full:
        pending = [*COMMAND, "sql", "-o", output, str(folder), "from range(100000)"]
        done = subprocess.run(pending, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "mqsniff: stdout: No space left on device")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_query_that_never_would(folder, temporary, number, code):
    with piped("sql", str(folder), "select count(*) from range(10_000_000_000_000) t(i) where i % 7 = 3") as process:
        while not list(temporary.iterdir()):
            assert process.poll() is None
        time.sleep(1)
        process.send_signal(number)
        assert process.wait(10) == code
        assert process.stderr.read() == b""


def test_a_mistake_is_told_before_anything_is_decoded(tmp_path):
    done = run(tmp_path / "missing.pcap", "select nme from messages")
    assert "missing.pcap" not in done.stderr
    assert "nme" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["select 1"], "no file before the query 'select 1'"),
        (["-o", "parquet", "x.pcap", "select 1"], "-o parquet and --out FILE [--overwrite] belong together"),
        (["--out", "y.parquet", "x.pcap", "select 1"], "belong together"),
        (["--overwrite", "x.pcap", "select 1"], "belong together"),
        (["--where", "size > 1 and", "x.pcap", "from messages"], "--where: syntax error"),
        (["x.pcap", "exchange"], "no table 'exchange', did you mean exchanges?"),
        (["-o", "jsn", "x.pcap", "select 1"], "no output 'jsn', did you mean json or ndjson?"),
        (["--protocol", "kafak", "x.pcap", "from messages"], "no protocol 'kafak', did you mean kafka?"),
    ],
)
def test_a_wrong_usage_is_one_line_and_exit_2(arguments, told):
    done = run(*arguments)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def test_a_command_that_no_protocol_has_is_told(sample):
    done = run("--name", "Fecht", sample, "from messages")
    assert done.exit_code == 0
    assert "mqsniff: --name Fecht: no command has this name, did you mean Fetch?" in done.stderr


def test_a_folder_without_tables_is_told(tmp_path):
    done = run(tmp_path, "select 1")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert f"{tmp_path}: a folder without tables" in done.stderr


def test_an_unreadable_capture_is_told_and_the_others_are_asked(sample, tmp_path):
    done = run(sample, tmp_path / "missing.pcap", COUNT)
    assert (done.exit_code, rows(done)) == (2, COUNTED)
    assert "missing.pcap: no such file" in done.stderr
    nothing = run(tmp_path / "missing.pcap", COUNT)
    assert (nothing.exit_code, nothing.stdout, nothing.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_ends_it_finds_nothing_left_behind(temporary, number, code):
    with piped("sql", "-", COUNT) as process:
        process.stdin.write(pcap(conversation(NSQ)))
        process.stdin.flush()
        while not list(temporary.glob("*/tables")):
            assert process.poll() is None
        time.sleep(0.5)
        process.send_signal(number)
        assert process.stdout.read() == b""
        talk = process.stderr.read().decode()
    assert process.returncode == code
    assert "Traceback" not in talk
