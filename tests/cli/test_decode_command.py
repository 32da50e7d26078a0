"""``mqsniff decode`` from the arguments to the exit code."""

from __future__ import annotations

import json
import lzma
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner
from imports import imported
from kafkacraft import fallback
from nsqcraft import deflate, inside, opening, server
from terminal import COMMAND, on_terminal, piped
from tinycapture import INVALID, NSQ, OK, PUB, conversation, pcap

from mqsniff.cli import COMMANDS, main
from mqsniff.decode.rowbudget import ROWS_SPENT
from mqsniff.sinks import recordlines
from mqsniff.tables.schemas import TABLES
from mqsniff_nsq import Nsq

HTTP = [("c", b"GET /stats HTTP/1.1\r\nHost: a\r\n\r\n"), ("s", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")]
GIBBERISH = [("c", bytes(range(200, 256)) * 3), ("s", bytes(range(128, 180)) * 3)]


def run(*arguments, **options):
    return CliRunner().invoke(main, ["decode", *map(str, arguments)], **options)


def rows(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def tables(done):
    return [row["table"] for row in rows(done)]


def names(done):
    return [row["name"] for row in rows(done) if row["table"] == "messages"]


@pytest.fixture
def sample(tmp_path):
    return written(tmp_path / "sample.pcap", conversation(NSQ))


def written(path, *conversations):
    path.write_bytes(pcap(packet for packets in conversations for packet in packets))
    return path


def test_a_pipe_gets_rows_and_stderr_the_totals(sample):
    done = run(sample)
    assert done.exit_code == 0
    assert tables(done) == ["messages", "messages", "messages", "connections"]
    assert names(done) == ["MAGIC", "PUB", "RESPONSE"]
    hint, totals = done.stderr.splitlines()
    assert hint.endswith("for text: -o text --color always | less -RS")
    assert re.fullmatch(r"9 packets, 1 connection, 3 messages \(nsq 3\), no problems, \d+\.\d\d s", totals)


def test_who_chose_a_form_or_silence_gets_no_hint(sample):
    assert "less -RS" not in run(sample, "-o", "ndjson").stderr
    assert "less -RS" not in run(sample, "-o", "text").stderr
    quiet = run(sample, "-q")
    assert (quiet.stderr, tables(quiet)) == ("", tables(run(sample)))
    assert run("-q", sample.with_name("missing.pcap")).stderr.count("\n") == 1


def test_a_terminal_gets_coloured_lines_of_its_width(sample):
    done = on_terminal(str(sample), columns=80)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.shown)
    assert done.code == 0
    assert plain != done.shown
    assert plain.splitlines()[0] == "2026-11-21"
    assert all(len(line) <= 80 for line in plain.splitlines())
    assert "09:38:50.003000Z  c1 > 4150  MAGIC" in plain


@pytest.mark.parametrize(
    ("options", "environment", "colours"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"TERM": "dumb"}, False),
        (["--color", "never"], {}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
    ],
)
def test_colour_is_for_those_who_want_it(sample, options, environment, colours):
    assert ("\x1b[" in on_terminal(*options, str(sample), **environment).shown) is colours


def test_text_in_a_pipe_is_plain_and_whole(sample):
    done = run("-o", "text", "-v", "--records", sample)
    assert "\x1b" not in done.stdout
    assert '    - value="hello"  5 B' in done.stdout
    assert '    topic: "retry"' in done.stdout


def test_tables_are_chosen_by_name(sample):
    assert set(tables(run("--table", "exchanges", sample))) == {"exchanges"}
    assert set(tables(run("--table", "records", "--table", "connections", sample))) == {"records", "connections"}
    (record,) = [row for row in rows(run("--records", sample)) if row["table"] == "records"]
    assert (record["topic"], record["value"], record["value_encoding"]) == ("retry", "hello", "utf8")


def test_payload_is_cut_or_left_out_on_demand(sample):
    (cut,) = rows(run("--table", "records", "--max-bytes", 2, sample))
    assert (cut["value"], cut["value_encoding"], cut["value_size"]) == ("he", "cut", 5)
    (redacted,) = rows(run("--table", "records", "--redact", "payload", sample))
    assert (redacted.get("value"), redacted["value_encoding"], redacted["value_size"]) == (None, "redacted", 5)
    assert "hello" not in run("-o", "text", "--records", "--redact", "payload", sample).stdout


def test_a_count_ends_the_run_after_so_many_messages(sample):
    assert names(run("-n", 2, sample)) == ["MAGIC", "PUB"]
    assert names(run("-n", 99, sample)) == ["MAGIC", "PUB", "RESPONSE"]


def test_an_unknown_port_is_decoded_as_the_user_says(tmp_path):
    path = written(tmp_path / "odd.pcap", conversation([("c", PUB), ("s", OK)], server=9999))
    done = run("--decode-as", "9999=nsq", path)
    assert [row["detected_by"] for row in rows(done) if row["table"] == "connections"] == ["user"]


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--decode-as", "x=nsq", "'x=nsq' is not PORT=PROTO"),
        ("--decode-as", "4150", "no protocol ''; there are"),
        ("--decode-as", "70000=nsq", "is not PORT=PROTO"),
        ("--decode-as", "4150=smtp", "no protocol 'smtp'; there are"),
        ("--limit", "frame_max=10", "frame_max=10 is too small; its least value is 65536 bytes"),
        ("--limit", "idle_ns=99999999999999999999", "is too large; its greatest value is "),
        ("--limit", "frame_max=many", "frame_max='many' is not a size, such as 100MB, 64MiB or 262144"),
        ("--limit", "frame_max", "frame_max='' is not a size"),
        ("--limit", "idle_ns=1w", "idle_ns='1w' is not a duration, such as 100ms"),
        ("--limit", "topics_max=1k", "topics_max='1k' is no whole number"),
        ("--limit", "no_such=1", "no limit 'no_such'; there are "),
        ("--limit", "fram_max=1", "no limit 'fram_max', did you mean frame_max"),
        ("--table", "no_such", "no table 'no_such'; there are connections, messages"),
        ("--table", "mesages", "no table 'mesages', did you mean messages"),
        ("--protocol", "kafak", "no protocol 'kafak', did you mean kafka?"),
        ("--protocol", "q*", "no protocol 'q*'; there are "),
        ("--decode-as", "1=kafak", "no protocol 'kafak', did you mean kafka?"),
        ("--fail-on", "eror", "no kind 'eror', did you mean error?"),
        ("--redact", "payloads", "no part of records 'payloads', did you mean payload? There is payload"),
        ("--output", "jsn", "no output 'jsn', did you mean ndjson?"),
        ("--time", "loacl", "did you mean local?"),
        ("--color", "sometimes", "there are auto, always, never"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_in_one_line(sample, option, value, told):
    done = run(option, value, sample)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr
    assert option in done.stderr


@pytest.mark.parametrize("name", ["kafka", "rocketmq-ha", "tls", "http2", "unknown", "kaf*"])
def test_every_protocol_that_rows_may_have_can_be_asked_for(sample, name):
    assert run("--protocol", name, sample).exit_code == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--name", "Fecht"], "mqsniff: --name Fecht: no command has this name, did you mean Fetch?"),
        (["--name", "fecht*"], "mqsniff: --name fecht*: no command has this name, did you mean Fetch?"),
        (["--name", "PUB", "--name", "MPUBS"], "mqsniff: --name MPUBS: no command has this name, did you mean MPUB"),
        (["--protocol", "nsq", "--name", "Fetch"], "mqsniff: --name Fetch: no command of nsq has this name"),
    ],
)
def test_a_command_that_no_protocol_has_is_told_with_the_nearest_names(sample, options, told):
    done = run(*options, sample)
    assert done.exit_code == 0
    assert done.stderr.startswith(told)


@pytest.mark.parametrize("name", ["fetch", "pub", "PUB*", "[A-Z]*", "unknown(77)", "unknown*", "MAGIC", "SaslToken"])
def test_a_command_that_may_come_is_not_warned_of(sample, name):
    assert "no command" not in run("--name", name, sample).stderr


def test_a_limit_reaches_the_decoder(tmp_path):
    path = tmp_path / "sample.pcap.xz"
    path.write_bytes(lzma.compress(pcap(conversation(NSQ)), preset=9))
    assert run(path).exit_code == 0
    poor = run("--limit", "codec_memory=1048576", path)
    assert poor.exit_code == 2
    assert "more memory than codec_memory allows" in poor.stderr


def test_an_empty_result_explains_itself(tmp_path):
    path = written(
        tmp_path / "poor.pcap",
        conversation(HTTP, client=1001, server=4151),
        conversation(GIBBERISH, client=1002, server=19092),
        conversation([], client=1003, answered=False),
    )
    done = run(path)
    assert done.exit_code == 0
    assert done.stderr.splitlines()[-1] == (
        "0 messages: 1 unknown on port 19092 (try --decode-as 19092=PROTO), 1 HTTP connection (another protocol), "
        "1 handshake without an answer"
    )


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--fail-on", "error"], 0),
        (["--fail-on", "malformed"], 0),
        (["--fail-on", "answer-error"], 1),
        (["--fail-on", "malformed", "--fail-on", "answer-error"], 1),
        (["--fail-on", "empty"], 0),
    ],
)
def test_fail_on_decides_the_exit_code(tmp_path, options, code):
    path = written(tmp_path / "refused.pcap", conversation([*NSQ[:2], ("s", INVALID)]))
    done = run(*options, path)
    assert done.exit_code == code
    assert done.stderr.endswith("mqsniff: failed, since there is: answer-error (1)\n") is (code == 1)


def test_an_unreadable_input_is_one_line_and_the_others_go_on(tmp_path, sample):
    text, missing = tmp_path / "notes.txt", tmp_path / "missing.pcap"
    text.write_text("dear diary\n")
    done = run("--fail-on", "info", sample, text, missing)
    assert done.exit_code == 2
    assert names(done) == ["MAGIC", "PUB", "RESPONSE"]
    told = [line for line in done.stderr.splitlines() if line.startswith(f"mqsniff: {tmp_path}")]
    assert [line.split(": ")[1] for line in told] == [str(missing), str(text)]


def test_when_nothing_was_readable_only_that_is_said(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("dear diary\n")
    done = run(text)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_file_that_was_cut_is_decoded_as_far_as_it_goes(tmp_path, sample):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(sample.read_bytes()[:-30])
    done = run(cut)
    assert done.exit_code == 0
    assert names(done) == ["MAGIC", "PUB", "RESPONSE"]
    assert "input" in [row["kind"] for row in rows(done) if row["table"] == "problems"]


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_rows_come_while_a_pipe_is_still_open(unbuffered, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with piped("-") as process:
        process.stdin.write(pcap(conversation(NSQ)))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["name"] == "MAGIC"
        process.stdin.close()
        assert len(process.stdout.read().splitlines()) == 3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_flushes_what_was_done(number, code):
    with piped("-") as process:
        process.stdin.write(pcap(conversation(NSQ)))
        process.stdin.flush()
        for _ in range(3):
            assert process.stdout.readline()
        process.send_signal(number)
        talk = process.stderr.read().decode()
    assert process.returncode == code
    assert "3 messages" in talk
    assert "Traceback" not in talk


# ---- filters, CSV and Parquet


def test_filters_choose_messages_and_say_how_many(sample):
    done = run("--topic", "ret*", sample)
    assert names(done) == ["PUB", "RESPONSE"]
    assert done.stderr.endswith("\n2 of 3 messages matched --topic 'ret*'\n")
    assert tables(done) == ["messages", "messages", "connections"]


def test_an_empty_choice_explains_itself(sample):
    done = run("--topic", "rety", sample)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.endswith("\n0 of 3 messages matched --topic rety; topics seen: retry\n")


def test_a_count_and_fail_on_speak_of_what_was_chosen(sample):
    assert names(run("--name", "pub", "-n", 1, sample)) == ["PUB"]
    assert run("--fail-on", "empty", "--name", "SUB", sample).exit_code == 1
    assert run("--fail-on", "empty", "--name", "PUB", sample).exit_code == 0
    assert run("--fail-on", "empty", "--where", "name = 'SUB'", sample).exit_code == 1


@pytest.mark.parametrize(
    ("option", "value", "chosen"),
    [
        ("--key", "0x", []),
        ("--host", "127.0.0.0/8", ["MAGIC", "PUB", "RESPONSE"]),
        ("--host", "::1", []),
        ("--port", "4150", ["MAGIC", "PUB", "RESPONSE"]),
        ("--from", "2026-11-21T09:38:50.004Z", ["PUB", "RESPONSE"]),
        ("--from", "2026-11-21T10:38:50.004+01:00", ["PUB", "RESPONSE"]),
        ("--from", "1795253930.004", ["PUB", "RESPONSE"]),
        ("--to", "2026-11-21 09:38:50.004", ["MAGIC"]),
        ("--to", "2026-11-21", []),
        ("--where", "size > 10 and name <> 'MAGIC'", ["PUB"]),
    ],
)
def test_values_of_filters_are_read_as_they_are_written(sample, option, value, chosen):
    assert names(run(option, value, sample)) == chosen


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--from", "noon", "'noon' is not a time, such as 2026-11-21T09:38:50.7Z or 1795253930.7"),
        ("--from", "nan", "'nan' is not a time"),
        ("--host", "broker", "'broker' is not an address, such as 10.0.0.7, 10.0.0.0/8 or fe80::1"),
        ("--offset", "9-x", "'9-x' is not an offset, such as 1200, 1200-1299 or 1200-"),
        ("--key", "0x123", "'0x123' has an odd number of hex digits"),
        ("--port", "0", "no whole number from 1 to 65535"),
        ("--where", "latency_ns > 5", "it fits --table exchanges"),
        ("--where", "size >", "syntax error"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused_in_one_line(sample, option, value, told):
    done = run(option, value, sample)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def test_a_condition_says_what_it_leaves_out_and_what_came_of_it(sample):
    done = run("--where", "size > 10", sample)
    assert done.stderr.splitlines()[0] == "mqsniff: --where leaves out connections: it does not fit their columns"
    assert done.stderr.splitlines()[-1] == "1 of 3 rows met --where (messages, problems)"


def test_records_are_found_by_their_key(tmp_path):
    path = written(tmp_path / "sample.pcap", conversation(NSQ))
    assert rows(run("--table", "records", "--key", "nokey", path)) == []


@pytest.mark.parametrize("options", [[], ["--errors", "--topic", "x", "--key", "k"], ["-o", "csv"], ["-o", "text"]])
def test_streams_and_filters_need_neither_arrow_nor_duckdb(sample, options):
    assert imported(("pyarrow", "duckdb", "rich", "pyspark"), "decode", *options, sample) == []


def test_csv_is_one_table(sample):
    done = run("-o", "csv", sample)
    head, *lines = done.stdout.splitlines()
    assert head.startswith("connection_id,side,stream_offset,")
    assert len(lines) == 3
    assert run("-o", "csv", "--records", sample).stdout.splitlines()[1].count(",hello,utf8,5,") == 1
    assert run("-o", "csv", "--table", "problems", sample).stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-o", "csv", "--table", "messages", "--table", "problems"], "-o csv writes one table at a time"),
        (["-o", "parquet"], "-o parquet needs --out DIR"),
        (["--out", "x"], "--out and --overwrite belong to -o parquet"),
        (["-o", "csv", "--overwrite"], "--out and --overwrite belong to -o parquet"),
    ],
)
def test_options_that_cannot_go_together_are_refused(sample, options, told):
    done = run(*options, sample)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def test_parquet_is_all_tables_or_those_that_are_named(sample, tmp_path):
    assert run("-o", "parquet", "--out", tmp_path / "all", sample).exit_code == 0
    assert {path.name for path in (tmp_path / "all").iterdir()} == set(TABLES)
    assert run("-o", "parquet", "--out", tmp_path / "one", "--table", "messages", sample).exit_code == 0
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["messages"]
    assert ds.dataset(tmp_path / "all" / "records").to_table()["value"].to_pylist() == [b"hello"]


def test_parquet_overwrites_only_when_asked(sample, tmp_path):
    out = tmp_path / "tables"
    run("-o", "parquet", "--out", out, sample)
    before = sorted(out.rglob("*.parquet"))
    refused = run("-o", "parquet", "--out", out, sample)
    assert (refused.exit_code, refused.stderr.count("\n"), sorted(out.rglob("*.parquet"))) == (2, 1, before)
    assert "is not empty" in refused.stderr
    assert run("-o", "parquet", "--out", out, "--overwrite", "--name", "PUB", sample).exit_code == 0
    assert ds.dataset(out / "messages").to_table()["name"].to_pylist() == ["PUB", "RESPONSE"]


def test_after_input_that_cannot_be_read_no_tables_are_left_and_those_that_stood_there_stay(sample, tmp_path):
    (tmp_path / "more.pcap").write_text("nor is this")
    (tmp_path / "words.pcap").write_text("no capture at all")
    out = tmp_path / "a" / "tables"
    for inputs in (["more.pcap"], ["words.pcap"], ["more.pcap", "words.pcap", "gone.pcap"]):
        done = run("-o", "parquet", "--out", out, *(tmp_path / name for name in inputs))
        assert done.exit_code == 2
        assert done.stderr.splitlines()[-1] == "mqsniff: no input could be read, so no tables were written"
        assert len(done.stderr.splitlines()) == len(inputs) + 1
        assert not (tmp_path / "a").exists()
    assert run("-o", "parquet", "--out", out, sample).exit_code == 0
    before = sorted(out.rglob("*.parquet"))
    assert run("-o", "parquet", "--overwrite", "--out", out, tmp_path / "more.pcap").exit_code == 2
    assert sorted(out.rglob("*.parquet")) == before != []
    mixed = run("-o", "parquet", "--overwrite", "--out", out, tmp_path / "more.pcap", sample)
    assert (mixed.exit_code, len(before)) == (2, len(sorted(out.rglob("*.parquet"))))


def test_parquet_overwrites_nothing_that_a_link_leads_to(sample, tmp_path):
    run("-o", "parquet", "--out", tmp_path / "precious", sample)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "precious").rglob("*.parquet")}
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "records").symlink_to(tmp_path / "precious" / "records")
    done = run("-o", "parquet", "--overwrite", "--out", tmp_path / "out", sample)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "out/records is a link, and nothing is written or deleted through links" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "precious").rglob("*.parquet")} == before
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["records"]


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("output", ["ndjson", "parquet"])
def test_a_dissector_that_raises_in_the_last_records_of_an_internal_topic_is_named(tmp_path, monkeypatch, output, jobs):
    """Their rows wait until the end of the input."""

    def broken(*_):
        raise RuntimeError

    published = Path(__file__).parents[2] / "pcaps" / "nsq" / "nsq-1.3.0-go-req-touch.pcap"
    monkeypatch.setattr(Nsq, "internal_topic", lambda _: True)
    monkeypatch.setattr(Nsq, "decode_record", broken)
    monkeypatch.setattr(recordlines, "KERNELS_FROM", 0)
    out = tmp_path / "tables"
    place = ["--out", out] if output == "parquet" else []
    options = ["-o", output, *place, "--table", "records", "--table", "problems", "--jobs", jobs]
    done = run(published, *options)
    assert done.exit_code == 0
    written = ds.dataset(out / "problems").to_table().to_pylist() if place else rows(done)
    found = {row["detail"] for row in written if row.get("kind") == "internal"}
    assert found == {"RuntimeError in the records of an internal topic of nsq"}
    assert "problems: error" in done.stderr


def test_parquet_takes_conditions(sample, tmp_path):
    run("-o", "parquet", "--out", tmp_path / "x", "--where", "size > 10", sample)
    assert ds.dataset(tmp_path / "x" / "messages").to_table()["name"].to_pylist() == ["PUB"]


def test_a_signal_before_anything_is_read_leaves_no_tables(tmp_path):
    with piped("decode", "-o", "parquet", "--out", str(tmp_path / "a" / "x"), "-") as process:
        until = time.monotonic() + 20
        while not (tmp_path / "a" / "x").exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)  # it reads now
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_closes_the_parts_of_parquet(tmp_path, number, code):
    with piped("decode", "-o", "parquet", "--out", str(tmp_path / "x"), "-") as process:
        process.stdin.write(pcap(conversation(NSQ)))
        process.stdin.flush()
        while not (tmp_path / "x").is_dir():
            assert process.poll() is None
        time.sleep(1)
        process.send_signal(number)
        talk = process.stderr.read().decode()
    assert process.returncode == code
    assert "Traceback" not in talk
    assert ds.dataset(tmp_path / "x" / "messages").count_rows() == 3
    assert list((tmp_path / "x").rglob("*.tmp")) == []


def test_a_full_disk_is_one_line_and_leaves_whole_parts(sample, tmp_path):
    sample.write_bytes(pcap(conversation([*NSQ, ("c", b"PUB retry\n" + (60_000).to_bytes(4) + os.urandom(60_000))])))
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)); "
    asked = ["decode", "-o", "parquet", "--out", str(tmp_path / "x"), str(sample)]
    done = subprocess.run([COMMAND[0], "-c", limited + COMMAND[2], *asked], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{tmp_path / 'x'}: " in done.stderr
    assert "File too large" in done.stderr
    assert [path.parent.name for path in sorted((tmp_path / "x").rglob("*.*"))] == [
        "connections", "exchanges", "messages", "partitions", "problems", "topics"
    ]  # fmt: skip
    assert ds.dataset(tmp_path / "x" / "messages").count_rows() == 4


@pytest.mark.parametrize("output", ["text", "ndjson", "csv"])
def test_a_full_disk_behind_stdout_is_one_line_and_exit_2(sample, output):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "decode", "-o", output, str(sample)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (2, "mqsniff: stdout: No space left on device\n")


def test_a_connection_is_chosen_by_the_short_name_that_text_shows(tmp_path):
    capture = tmp_path / "two.pcap"
    capture.write_bytes(pcap([*conversation(NSQ), *conversation(NSQ, client=40_001)]))
    everything = run(capture, "-o", "text").stdout.splitlines()
    second = [line for line in everything if "  c2 " in line]
    assert 0 < len(second) < len(everything)
    assert run(capture, "-o", "text", "--connection", "c2").stdout.splitlines()[1:] == second


def test_a_request_without_an_answer_is_told_everywhere(tmp_path):
    sample = written(tmp_path / "open.pcap", conversation([*NSQ, ("c", PUB)]))
    done = run(sample, "-o", "text", "--fail-on", "unanswered")
    assert "  NO ANSWER  after" in done.stdout
    assert ", 1 unanswered, no problems" in done.stderr
    assert done.exit_code == 1
    assert ", 1 unanswered, no problems" in run(sample).stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--slower", "fast"), "not a duration, such as 100ms"),
        (("--slower", "100"), "not a duration, such as 100ms"),
        (("--grep", "/(/"), "missing ): ("),
        (("--grep", ""), "the value is empty"),
        (("--header", "=x"), "names no header"),
        (("--fields", "naem,size", "-o", "csv"), "no field 'naem', did you mean name?"),
        (("--fields", "name", "-o", "ndjson"), "--fields belongs to -o text and -o csv, and this is ndjson"),
    ],
)
def test_a_search_that_cannot_be_meant_is_one_line(sample, options, told):
    done = run(sample, *options)
    assert done.exit_code == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_searches_are_filters_as_the_others(sample):
    assert names(run(sample, "--slower", "1us")) == ["PUB", "RESPONSE"]
    assert names(run(sample, "--slower", "1s")) == []
    done = run(sample, "--grep", "hello", "--table", "records")
    assert [row["value"] for row in rows(done)] == ["hello"]
    assert "2 of 3 messages matched --grep hello" in done.stderr
    assert (
        "0 of 3 messages matched --header a=b --slower 1.5ms"
        in run(sample, "--slower", "1.5ms", "--header", "a=b").stderr
    )


def test_fields_choose_columns(sample):
    assert run(sample, "-o", "csv", "--fields", "size,name").stdout.splitlines() == [
        "size,name", "4,MAGIC", "19,PUB", "10,RESPONSE"
    ]  # fmt: skip
    assert run(sample, "-o", "text", "--fields", "name, size").stdout.splitlines()[:2] == ["name   size", "MAGIC  4"]


def test_a_pager_gets_lines_that_are_not_cut(sample):
    done = on_terminal("decode", str(sample), columns=40, MQSNIFF_PAGER="sed s/^/paged:/")
    lines = done.shown.splitlines()
    assert all(line.startswith("paged:") for line in lines)
    assert max(map(len, lines)) > 60
    assert "\x1b[" in done.shown
    assert done.talk.startswith("9 packets, ")


def test_a_pager_that_is_left_early_ends_the_run_quietly(sample):
    done = on_terminal("decode", str(sample), MQSNIFF_PAGER="true")
    assert (done.code, done.talk.count("Traceback")) == (0, 0)


def test_a_pager_that_there_is_not_is_told(sample):
    done = on_terminal("decode", str(sample), MQSNIFF_PAGER="nosuchpager -x")
    assert done.code == 2
    assert "no pager 'nosuchpager': set MQSNIFF_PAGER" in done.talk


def test_in_a_pipe_there_is_no_pager(sample, monkeypatch):
    monkeypatch.setenv("MQSNIFF_PAGER", "nosuchpager")
    assert run(sample, "-o", "text", "--pager").exit_code == 0


def test_folders_and_globs_are_inputs(tmp_path):
    (tmp_path / "below").mkdir()
    for port, name in enumerate(("one.pcap", "below/two.pcap"), 40_000):
        written(tmp_path / name, conversation(NSQ, client=port))
    (tmp_path / "one.pcap.golden.ndjson").write_text("{}")
    assert len(names(run(tmp_path))) == 6
    assert len(names(run(f"{tmp_path}/*.pcap*"))) == 3
    assert len(names(run(f"{tmp_path}/**/*.pcap"))) == 6
    for nothing, told in (
        (tmp_path / "*.cap", "no captures there"),
        (tmp_path / "empty", "no captures in this folder"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        done = run(nothing)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert told in done.stderr


def test_times_count_from_the_first_and_the_last_packet(sample):
    assert names(run(sample, "--from", "+4ms")) == ["PUB", "RESPONSE"]
    assert names(run(sample, "--to", "+4ms")) == ["MAGIC"]
    assert names(run(sample, "--from", "-4ms")) == ["PUB", "RESPONSE"]
    assert names(run(sample, "--from", "09:38:50.004", "--to", "09:39")) == ["PUB", "RESPONSE"]
    for moment, told, shown in (("-5m", b"counts back from the last packet", 0), ("+4ms", b"2 of 3 messages", 3)):
        with piped("decode", "-", "--from", moment) as process:
            out, talk = process.communicate(sample.read_bytes())
        assert told in talk
        assert out.count(b"\n") == shown


def test_the_end_of_text_points_to_the_overview(sample, monkeypatch):
    monkeypatch.setattr("mqsniff.cli.COMMANDS", (*COMMANDS, "stats"))
    assert f"an overview of it: mqsniff stats {sample}\n" in run(sample, "-o", "text").stderr
    assert "overview" not in run(sample, "-o", "ndjson").stderr
    assert "overview" not in run(sample, "-o", "text", "-q").stderr


def test_a_compressed_capture_that_becomes_too_much_ends_with_a_limit_problem(tmp_path):
    path = tmp_path / "bomb.pcap.xz"
    packet = next(iter(conversation(NSQ)))
    path.write_bytes(lzma.compress(pcap([packet] * 60_000)))
    few = ("--limit", "capture_free=65536", "--limit", "capture_ratio=1", "-o", "ndjson", "--table", "problems")
    cut = run(path, *few)
    limits = [row for row in rows(cut) if row["kind"] == "limit"]
    assert [row["severity"] for row in limits] == ["error"]
    assert "capture_ratio" in limits[0]["detail"]
    assert cut.exit_code == 0
    assert run(path, *few, "--fail-on", "limit").exit_code == 1
    whole = run(path, "-o", "ndjson", "--table", "problems")
    assert not any(row["kind"] == "limit" for row in rows(whole))


def steps(dialogue):
    return [("cs"[said.side], said.data) for said in dialogue]


HEAD = b"\0\0\x01\0\0\x03\0\0"
HEADS_THAT_ARE_NONE = [*steps(fallback()[2:4]), ("c", b"\xff\xff" + HEAD * 5_000), ("c", HEAD * 5_000)]
"""A search finds a head of Kafka's requests in every few bytes; none is followed by another."""
ZEROS_INFLATED = steps([*opening(deflate=True), *inside(deflate, [server(OK), server(bytes(2_000_000))])])
"""NSQ with Deflate: 2 MB in a packet of 2 KB."""


@pytest.mark.parametrize(
    ("said", "port"), [(HEADS_THAT_ARE_NONE, 9092), (ZEROS_INFLATED, 4150)], ids=["search", "inflation"]
)
def test_work_without_rows_counts_as_rows_of_a_compressed_capture(tmp_path, said, port):
    plain = pcap(conversation(said, server=port))
    (tmp_path / "work.pcap").write_bytes(plain)
    (tmp_path / "work.pcap.xz").write_bytes(lzma.compress(plain))
    few = ("--limit", "capture_rows_free=500", "--limit", "capture_row_cost=1048576", "-o", "ndjson")
    details = [row.get("detail") for row in rows(run(tmp_path / "work.pcap.xz", *few))]
    assert ROWS_SPENT in details
    assert len(details) < 50
    assert ROWS_SPENT not in [row.get("detail") for row in rows(run(tmp_path / "work.pcap", *few))]
    assert ROWS_SPENT not in [row.get("detail") for row in rows(run(tmp_path / "work.pcap.xz", "-o", "ndjson"))]


@pytest.mark.parametrize(("name", "pack"), [("many.pcap.xz", lzma.compress), ("many.pcap", bytes)])
def test_a_compressed_capture_that_becomes_too_many_rows_ends_with_a_limit_problem(tmp_path, name, pack):
    path = tmp_path / name
    said = [*conversation(NSQ)]
    path.write_bytes(pack(pcap(said + [said[-1]] * 60_000)))
    few = ("--limit", "capture_rows_free=2", "--limit", "capture_row_cost=1048576", "-o", "ndjson")
    cut = run(path, *few)
    limits = [row["detail"] for row in rows(cut) if row["table"] == "problems" and row["kind"] == "limit"]
    expected = [ROWS_SPENT]
    assert limits == (expected if name.endswith("xz") else [])
    assert any(row["table"] == "connections" for row in rows(cut))
    assert cut.exit_code == 0
    assert run(path, *few, "--fail-on", "limit").exit_code == name.endswith("xz")
    assert not any(row.get("kind") == "limit" for row in rows(run(path, "-o", "ndjson")))
