"""``mqsniff trace`` from the arguments to what is shown."""

from __future__ import annotations

import json
from pathlib import Path

import nsqcraft
import pytest
from click.testing import CliRunner
from imports import imported
from terminal import on_terminal, piped

from mqsniff.cli import main
from mqsniff.testing.conversations import client, segments, server, write_pcap

PCAPS = Path(__file__).parents[2] / "pcaps"
MSG_TIMEOUT = PCAPS / "nsq" / "nsq-1.3.0-go-msg-timeout.pcap"
SLOW = "18a2faf2f26cf000"
NACK_DLQ = PCAPS / "pulsar" / "pulsar-4.2.4-py-nack-dlq-a.pcap"


def run(*arguments):
    return CliRunner().invoke(main, ["trace", *map(str, arguments)])


def test_a_trace_is_a_timeline_with_waits():
    lines = run(MSG_TIMEOUT, "--message-id", SLOW).stdout.splitlines()
    assert lines[0].startswith(f"record:  nsq  topic=slow  message_id={SLOW}")
    assert lines[2].split()[1:3] == ["produced", "(found"]
    assert "+1.704 s  finished, refused  E_FIN_FAILED  1.704 s held by group s before FIN  FIN packet 49" in lines[5]
    assert lines[-1] == "  total 10.726 s"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "say what to trace"),
        (("--topic", "a", "--group", "b"), "one kind of thing, not a record and a group"),
        (("--offset", "x"), "'x' is not an offset"),
        (("--key", ""), ""),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, says):
    done = run(MSG_TIMEOUT, *arguments)
    if says:
        assert done.exit_code == 2
        assert says in done.stderr


def test_of_many_records_the_oldest_are_shown_and_all_counted():
    done = run(MSG_TIMEOUT, "--topic", "slow", "-n", "2")
    assert done.stdout.count("record ") == 2
    assert (
        "3 records fit: the 2 oldest are shown (-n COUNT shows more); the newest is slow 18a2faf2f26cf002"
        in done.stderr
    )


def test_more_records_than_are_told_apart_are_more_than_so_many():
    done = run(MSG_TIMEOUT, "--topic", "slow", "-n", "1", "--limit", "trace_records_max=2")
    assert done.stderr.startswith("more than ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--topic", "slaw"), "no topic slaw, did you mean slow?"),
        (("--message-id", "none"), "no record fits; records of 1 topic were seen 10 times"),
        (("--group", "t"), "no group t; there are s"),
        (("--connection", "ffff"), "no connection ffff; there are "),
        (("--transaction", "t"), "no transaction t; there is none"),
    ],
)
def test_where_nothing_fits_what_there_is_is_told(arguments, says):
    done = run(MSG_TIMEOUT, *arguments)
    assert done.exit_code == 0
    assert not done.stdout
    assert says in done.stderr


def test_partitions_and_offsets_are_told_where_nothing_fits():
    done = run(NACK_DLQ, "--topic", "orders-dlq", "--offset", "99")
    assert "pulsar persistent://public/default/orders-dlq: 12 times, offsets 0 to 2" in done.stderr


def test_encrypted_connections_are_named_where_nothing_fits():
    done = run(PCAPS / "nsq" / "nsq-1.3.0-midstream-tls.pcap", "--topic", "orders")
    assert "TLS connection" in done.stderr


def test_keys_and_values_are_left_out_where_the_payload_is_redacted():
    done = run(MSG_TIMEOUT, "--message-id", SLOW, "--redact", "payload")
    assert "value=<redacted>  40 B" in done.stdout
    document = run(MSG_TIMEOUT, "--message-id", SLOW, "--redact", "payload", "--json").stdout
    assert "lorem" not in done.stdout + document
    assert json.loads(document)["traces"][0]["about"]["value_encoding"] == "redacted"


def test_traffic_cannot_write_on_the_terminal(tmp_path):
    path = tmp_path / "hostile.pcap"
    dialogue = [
        client(
            nsqcraft.MAGIC + nsqcraft.identify(client_id="\x1b[31mred\n"), nsqcraft.pub("orders", b"\x1b]0;title\x07")
        ),
        server(nsqcraft.response(b"OK"), nsqcraft.response(b"OK")),
    ]
    write_pcap(path, segments(dialogue))
    done = run(path, "--topic", "orders")
    assert "\x1b" not in done.stdout
    assert "\\x1b[31mred\\n" in done.stdout


def test_stdin_is_read_twice():
    with piped("trace", "-", "--message-id", SLOW) as process:
        shown, talk = process.communicate(MSG_TIMEOUT.read_bytes())
    assert process.returncode == 0, talk
    assert b"total 10.726 s" in shown


def test_a_file_that_is_no_capture_is_an_error(tmp_path):
    (tmp_path / "none.pcap").write_bytes(b"nothing at all")
    done = run(tmp_path / "none.pcap", "--topic", "a")
    assert done.exit_code == 2
    assert "none.pcap" in done.stderr


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_terminal_gets_every_word_in_lines_that_fit(columns):
    shown = on_terminal("trace", str(MSG_TIMEOUT), "--message-id", SLOW, columns=columns, NO_COLOR="1").shown
    assert max(map(len, shown.splitlines())) <= columns
    words = run(MSG_TIMEOUT, "--message-id", SLOW).stdout.split()
    assert shown.split() == words


def test_a_terminal_gets_errors_in_red():
    shown = on_terminal("trace", str(MSG_TIMEOUT), "--message-id", SLOW, columns=200).shown
    assert "\x1b[1;31mE_FIN_FAILED\x1b[0m" in shown


def test_nothing_found_is_an_empty_document_too():
    done = run(MSG_TIMEOUT, "--topic", "none", "--json")
    assert json.loads(done.stdout) == {"found": 0, "found_more": False, "traces": []}


def test_nothing_heavy_is_imported():
    assert imported(("numpy", "pyarrow", "rich", "mqsniff.pipeline"), "trace", "--help") == []
    assert imported(("pyarrow", "duckdb", "rich"), "trace", MSG_TIMEOUT, "--message-id", SLOW) == []


@pytest.mark.parametrize(
    ("name", "secrets"),
    [
        ("nsq/nsq-1.3.0-auth.pcap", ["all-s3cr3t-lab-1"]),
        ("kafka/kafka-4.4-sasl-raw-v0-java.pcap", ["adm-sa-pw", "ali-sa-pw", "car-sa-pw"]),
        ("kafka/kafka-4.4-sasl-scram-sha-256-librdkafka.pcap", ["adm-sa-pw", "ali-sa-pw", "car-sa-pw"]),
    ],
)
def test_no_trace_of_a_connection_tells_a_secret(name, secrets):
    path = PCAPS / name
    assert all(secret.encode() in path.with_suffix(".json").read_bytes() for secret in secrets)
    decoded = CliRunner().invoke(main, ["decode", str(path), "-o", "ndjson", "--table", "connections"])
    for row in map(json.loads, decoded.stdout.splitlines()):
        for form in ((), ("--json",)):
            shown = run(path, "--connection", row["connection_id"], *form).stdout
            assert row["client"] in shown
            assert not [secret for secret in secrets if secret in shown]


def test_a_connection_goes_by_the_short_name_that_text_shows():
    shown = CliRunner().invoke(main, ["decode", "-o", "text", "--connection", "c2", str(MSG_TIMEOUT)]).stdout
    client_end = shown.splitlines()[1].split()[2]
    assert run(MSG_TIMEOUT, "--connection", "c2").stdout == run(MSG_TIMEOUT, "--connection", client_end).stdout != ""
