"""``mqsniff decode`` from the arguments to the exit code."""

from __future__ import annotations

import json
import re
import signal

import pytest
from click.testing import CliRunner
from terminal import on_terminal, piped
from tinycapture import INVALID, NSQ, OK, PUB, conversation, pcap

from mqsniff.cli import main

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
    assert re.fullmatch(r"9 packets, 1 connection, 3 messages \(nsq 3\), no problems, \d+\.\d\d s\n", done.stderr)


def test_a_terminal_gets_coloured_lines_of_its_width(sample):
    done = on_terminal(str(sample), columns=80)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.shown)
    assert done.code == 0
    assert plain != done.shown
    assert plain.splitlines()[0] == "2026-11-21"
    assert all(len(line) <= 80 for line in plain.splitlines())
    assert "09:38:50.003000Z  40000 > 4150  nsq  MAGIC" in plain


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
        ("--decode-as", "x=nsq", "'x=nsq' is no PORT=PROTO"),
        ("--decode-as", "4150", "no protocol ''; there are"),
        ("--decode-as", "70000=nsq", "is no PORT=PROTO"),
        ("--decode-as", "4150=smtp", "no protocol 'smtp'; there are"),
        ("--limit", "frame_max=0", "must be a whole number above 0"),
        ("--limit", "frame_max=many", "must be a whole number above 0"),
        ("--limit", "frame_max", "must be a whole number above 0"),
        ("--limit", "no_such=1", "no limit 'no_such'; there are "),
        ("--table", "no_such", "is not one of 'connections'"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_in_one_line(sample, option, value, told):
    done = run(option, value, sample)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr
    assert option in done.stderr


def test_a_limit_reaches_the_decoder(sample):
    assert tables(run("--table", "connections", sample)) == ["connections"]
    forgetful = run("--table", "connections", "--limit", "idle_ns=1", sample)
    assert len(tables(forgetful)) > 1


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
        "0 messages: 1 unknown on port 19092 (try --decode-as 19092=PROTO), 1 HTTP connection (no message queue), "
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


def test_rows_come_while_a_pipe_is_still_open():
    with piped("-") as process:
        process.stdin.write(pcap(conversation(NSQ)))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["name"] == "MAGIC"
        process.stdin.close()
        assert len(process.stdout.read().splitlines()) == 3


def test_an_interrupt_flushes_what_was_done_and_exits_130():
    with piped("-") as process:
        process.stdin.write(pcap(conversation(NSQ)))
        process.stdin.flush()
        for _ in range(3):
            assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        talk = process.stderr.read().decode()
    assert process.returncode == 130
    assert "3 messages" in talk
    assert "Traceback" not in talk
