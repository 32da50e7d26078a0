"""``mqsniff explain`` from the arguments to the exit code."""

from __future__ import annotations

import json
import re
import ssl
from pathlib import Path

import pytest
from click.testing import CliRunner
from nsqcraft import opening, publishing
from terminal import on_terminal, piped
from tinycapture import NSQ, conversation, pcap
from tlscraft import contexts, talk

from mqsniff.cli import main
from mqsniff.testing.conversations import Say, segments, write_pcap

PCAPS = Path(__file__).parents[2] / "pcaps"
KAFKA = PCAPS / "kafka" / "kafka-3.9.1-franz-go-max-0.8.0-codecs-fz39080s.pcap"
HTTP = [("c", b"GET /stats HTTP/1.1\r\nHost: a\r\n\r\n"), ("s", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")]


def explain(*arguments, **options):
    return CliRunner().invoke(main, ["explain", *map(str, arguments)], **options)


def told(*arguments):
    done = explain(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def nsq(tmp_path):
    path = tmp_path / "nsq.pcap"
    path.write_bytes(pcap(conversation(NSQ)))
    return path


def test_a_message_is_shown_field_by_field_beside_its_bytes(nsq):
    done = explain(nsq, 5)
    assert done.exit_code == 0
    title, _, _, head, place, wireshark, _, *fields = done.stdout.splitlines()
    assert title.endswith("nsq.pcap: 1 message  Wireshark: frame.number == 5")
    assert "PUB" in head
    assert place == "  packet 5, stream offset 4, 19 bytes"
    assert wireshark.endswith("tcp.port == 40000 && tcp.port == 4150")
    assert [" ".join(line.split()) for line in fields] == [
        '0 4 50 55 42 20 command: "PUB" command',
        '4 6 72 65 74 72 79 0a topic: "retry" parameter',
        "10 4 00 00 00 05 size: 5 bytes of the body",
        '14 5 68 65 6c 6c 6f body: "hello" message data',
    ]


def test_as_json_it_is_one_object(nsq):
    found = told(nsq, 6)
    (message,) = found["messages"]
    assert (found["packet"], message["name"], message["first_packet"]) == (6, "RESPONSE", 6)
    assert message["ts"].startswith("2026-11-2")
    assert message["fields"][-1] == {
        "offset": 8,
        "size": 2,
        "hex": "4f4b",
        "path": "data",
        "value": "OK",
        "meaning": "response",
    }


def test_a_code_has_its_name():
    path = PCAPS / "kafka" / "kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
    assert "error_code: 35  UNSUPPORTED_VERSION" in explain(path, 20).stdout
    assert "kafka.correlation_id == 4" in explain(path, 20).stdout


def test_records_of_a_compressed_batch_are_shown_at_offsets_of_the_plain_bytes():
    shown = explain(KAFKA, 52).stdout
    assert "inside, decompressed (gzip): 1404 bytes; offsets count from their first one" in shown
    fields = told(KAFKA, 52)["messages"][0]["fields"]
    inside = next(field["inside"] for field in fields if "inside" in field)
    assert (inside["codec"], inside["size"]) == ("gzip", 1404)
    assert inside["fields"][0]["offset"] == 0
    assert any(field["path"].endswith("records[0].key") and field["value"] == "fk0" for field in inside["fields"])


def test_a_message_over_several_packets_is_explained_by_each_of_them():
    names = [[each["first_packet"] for each in told(KAFKA, number)["messages"]] for number in (18, 20)]
    assert names == [[18], [18]]


def test_secrets_are_hidden_in_values_and_bytes():
    path = PCAPS / "nsq" / "nsq-1.3.0-auth.pcap"
    done = explain(path, 10)
    assert "secret: <redacted, 16 bytes>" in done.stdout
    assert "** ** **" in done.stdout
    assert b"all-s3cr3t".hex(" ") not in done.stdout
    assert b"all-s3cr3t".hex(" ") in explain(path, 10, "--show-secrets").stdout


def test_payload_is_hidden_where_that_is_asked_for(nsq):
    shown = explain(nsq, 5, "--redact", "payload").stdout
    assert "** ** ** ** **" in shown
    assert "hello" not in shown
    assert "68 65" not in shown


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (1, "it is a TCP SYN, without bytes of a stream"),
        (2, "it is a TCP SYN, ACK, without bytes of a stream"),
        (3, "it is a pure TCP ACK, without bytes of a stream"),
        (7, "it is a TCP FIN, ACK, without bytes of a stream"),
    ],
)
def test_a_packet_without_messages_says_why_and_where_messages_are(nsq, number, why):
    found = told(nsq, number)
    assert (found["messages"], found["why"]) == ([], why)
    nearest = found["nearest"]["before" if number == 7 else "after"]
    assert nearest["first_packet"] == (6 if number == 7 else 4)
    assert "nearest message" in explain(nsq, number).stdout


def test_another_protocol_and_tls_are_named(tmp_path):
    path = tmp_path / "http.pcap"
    path.write_bytes(pcap(conversation(HTTP)))
    assert "HTTP" in told(path, 4)["why"]
    assert "TLS" in told(PCAPS / "nsq" / "nsq-1.3.0-midstream-tls.pcap", 2)["why"]


def test_a_retransmission_names_the_packets_that_had_its_bytes(tmp_path):
    packets = list(conversation(NSQ))
    path = tmp_path / "again.pcap"
    path.write_bytes(pcap([*packets[:6], packets[4], *packets[6:]]))
    assert told(path, 7)["why"] == "it is a retransmission: its bytes stand in PUB of packet 5"


def test_a_packet_that_is_not_there_is_an_error(nsq):
    done = explain(nsq, 500)
    assert done.exit_code == 2
    assert "there is no packet 500: it has 9" in done.stderr


def test_a_packet_that_is_no_tcp_says_so(tmp_path):
    packets = list(conversation(NSQ))
    udp = packets[0][:9] + b"\x11" + packets[0][10:]
    path = tmp_path / "udp.pcap"
    path.write_bytes(pcap([udp, *packets]))
    found = told(path, 1)
    assert found["why"] == "it carries no TCP segment"
    assert found["nearest"]["after"]["name"] == "MAGIC"


def test_of_several_files_the_one_is_named(nsq, tmp_path):
    other = tmp_path / "other.pcap"
    other.write_bytes(pcap(conversation(NSQ, client=40_001)))
    assert told(nsq, other, "other.pcap:5")["messages"][0]["client"] == "127.0.0.1:40001"
    assert "packet 5 of which file? write it as other.pcap:5" in explain(nsq, other, 5).stderr
    assert "names none of the files" in explain(nsq, other, "third.pcap:5").stderr


@pytest.mark.parametrize("arguments", [["5"], ["x.pcap"], ["x.pcap", "0"], ["x.pcap", "five"]])
def test_what_cannot_be_meant_is_refused(arguments):
    assert explain(*arguments).exit_code == 2


def test_one_of_several_messages_can_be_chosen():
    path = PCAPS / "pulsar" / "pulsar-4.2.4-py-batching-a.pcap"
    every = told(path, 30)["messages"]
    assert len(every) > 1
    assert [each["stream_offset"] for each in told(path, 30, "--message", 2)["messages"]] == [every[1]["stream_offset"]]
    assert explain(path, 30, "--message", 99).exit_code == 2


def test_reading_ends_with_the_packet(nsq):
    whole = nsq.read_bytes()
    nsq.write_bytes(whole + b"\xff" * 64)  # a damaged end, which nobody reads
    done = explain(nsq, 5)
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_capture_comes_from_stdin_too(nsq):
    with piped("explain", "-", "5") as process:
        shown, talk = process.communicate(nsq.read_bytes())
    assert b"PUB" in shown
    assert talk == b""


def test_on_a_terminal_lines_are_coloured_and_fit(nsq):
    for columns in (80, 120):
        done = on_terminal("explain", str(nsq), "5", columns=columns)
        assert "\x1b[" in done.shown
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in done.shown.splitlines()]
        assert max(len(line) for line in lines if "Wireshark: " not in line) <= columns
        assert any(line.endswith(f"frame.number == {5}") for line in lines)  # to be copied: never cut


def test_empty_and_unreadable_captures_say_so(tmp_path):
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(pcap([]))
    assert "there is no packet 1: it has 0" in explain(empty, 1).stderr
    assert explain(tmp_path / "none.pcap", 1).exit_code == 2


# ---- TLS


def sealed(path, *, mss):
    """A capture of a conversation in TLS whose packets cut records, the keys beside it; how many packets it has."""
    says = [*opening(), *publishing(), *publishing()]
    tape = talk(*contexts(ssl.TLSVersion.TLSv1_3), [(say.side, say.data) for say in says])
    packets = segments([Say(side, data) for side, data in tape.sent], mss=mss)
    write_pcap(path, packets)
    path.with_suffix(".keys").write_text(tape.keys)
    return len(packets)


def test_a_decrypted_message_is_shown_with_the_records_and_packets_that_it_came_from(tmp_path):
    path = tmp_path / "a.pcap"
    count = sealed(path, mss=50)
    keys = ("--tls-keys", path.with_suffix(".keys"))
    touched, silent = 0, set()
    for number in range(1, count + 1):
        shown = told(path, number, *keys)
        for message in shown["messages"]:
            records = message["tls_records"]
            assert any(each["first_packet"] <= number <= each["last_packet"] for each in records)
            assert {each["type"] for each in records} == {"application data"}
            assert {each["side"] for each in records} == {message["side"]}
            start = records[0]["data_offset"]
            assert start <= message["stream_offset"] < start + records[0]["data_size"]
            size = sum(each["data_size"] for each in records)
            assert start + size >= message["stream_offset"] + message["size"]
            touched += 1
        if not shown["messages"]:
            silent.add(re.sub(r"\d+ ", "", shown["why"]))
    assert touched > count / 3
    assert "its bytes are record of TLS without data: handshake" in silent


def test_records_are_named_in_text(tmp_path):
    path = tmp_path / "a.pcap"
    count = sealed(path, mss=50)
    pages = [explain(path, n, "--tls-keys", path.with_suffix(".keys")).stdout for n in range(count // 2, count)]
    records = [line.strip() for page in pages for line in page.splitlines() if line.strip().startswith("record ")]
    place = r"packets? \d+( to \d+)?, stream offset \d+"
    shape = rf"record \d+, application data, {place}: \d+ bytes, data \d+ to \d+"
    assert records
    assert all(re.fullmatch(shape, line) for line in records)
    assert any(" to " in line for line in records)


def test_deflate_in_tls_is_explained_down_to_its_records():
    path = PCAPS / "nsq" / "nsq-1.3.0-go-tls12-deflate-dsb.pcapng"
    (message,) = told(path, 63)["messages"][:1]
    assert message["name"] == "MESSAGE"
    assert [each["last_packet"] for each in message["tls_records"]] == [63]
    assert message["tls_records"][0]["data_size"] < message["size"]
