"""``mqsniff extract`` from the arguments to the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import dpkt
import pytest
from click.testing import CliRunner
from terminal import piped
from tinycapture import NSQ, OK, conversation, ip_tcp, pcap

from mqsniff.cli import main

PCAPS = Path(__file__).parents[2] / "pcaps"
AUTH = PCAPS / "nsq" / "nsq-1.3.0-auth.pcap"


def extract(*arguments):
    return CliRunner().invoke(main, ["extract", *map(str, arguments)])


def names(path):
    done = CliRunner().invoke(main, ["decode", "-o", "ndjson", "--table", "messages", str(path)])
    return [json.loads(line)["name"] for line in done.stdout.splitlines()]


def packets(path):
    with path.open("rb") as file:
        return [data for _, data in dpkt.pcapng.Reader(file)]


def times(path):
    done = CliRunner().invoke(main, ["decode", "-o", "ndjson", "--table", "messages", str(path)])
    return [json.loads(line)["ts_ns"] for line in done.stdout.splitlines()]


@pytest.fixture
def nsq(tmp_path):
    path = tmp_path / "nsq.pcap"
    path.write_bytes(pcap(conversation(NSQ)))
    return path


def test_chosen_messages_go_out_with_what_makes_them_readable(nsq, tmp_path):
    out = tmp_path / "out.pcapng"
    done = extract(nsq, "--name", "PUB", "-w", out)
    assert done.exit_code == 0
    assert "2 messages in" in done.stderr
    assert "nothing had to be hidden" in done.stderr
    assert names(out) == ["MAGIC", "PUB", "RESPONSE"]


def test_a_comment_on_each_packet_says_what_was_decoded(nsq, tmp_path):
    out = tmp_path / "out.pcapng"
    extract(nsq, "--name", "PUB", "-w", out)
    raw = out.read_bytes()
    assert b"nsq PUB request  retry" in raw
    assert b"packet 5 of nsq.pcap" in raw


def test_secrets_are_overwritten_in_place(tmp_path):
    out = tmp_path / "out.pcapng"
    done = extract(AUTH, "--name", "AUTH", "-w", out)
    assert "14 secrets overwritten" in done.stderr
    assert b"s3cr3t" not in out.read_bytes()
    assert b"[secrets overwritten: 16 bytes]" in out.read_bytes()
    assert any(b"AUTH\n\0\0\0\x10" + b"*" * 16 in packet for packet in packets(out))
    done = extract(AUTH, "--name", "AUTH", "-w", out, "--overwrite", "--show-secrets")
    assert b"all-s3cr3t-lab-1" in out.read_bytes()


def test_bytes_that_nobody_decoded_are_blanked_and_counted(tmp_path):
    out = tmp_path / "out.pcapng"
    path = PCAPS / "foreign" / "foreign-redis.pcap"
    assert "3,969 undecoded bytes blanked" in extract(path, "-w", out).stderr
    assert not any(word in packet for packet in packets(out) for word in (b"SET", b"PING", b"+OK"))
    extract(path, "-w", out, "--overwrite", "--show-raw")
    assert any(b"+OK" in packet for packet in packets(out))


def test_what_is_sent_twice_is_hidden_twice(tmp_path):
    secret = b"AUTH\n\0\0\0\x06hush-1"
    made = list(conversation([("c", b"  V2"), ("c", secret), ("s", OK)]))
    path, out = tmp_path / "a.pcap", tmp_path / "out.pcapng"
    path.write_bytes(pcap([*made[:6], made[4], *made[6:]]))
    extract(path, "-w", out)
    assert len(packets(out)) == len(made) + 1
    assert b"hush" not in out.read_bytes()


def test_what_is_sent_again_and_differs_is_blanked(tmp_path):
    made = list(conversation([("c", b"  V2"), ("c", b"AUTH\n\0\0\0\x06hush-1"), ("s", OK)]))
    forged = made[4].replace(b"AUTH\n\0\0\0\x06hush-1", b"PUB hush-2\n1234")
    path, out = tmp_path / "a.pcap", tmp_path / "out.pcapng"
    path.write_bytes(pcap([*made[:6], forged, *made[6:]]))
    extract(path, "-w", out)
    assert len(packets(out)) == len(made) + 1
    assert b"hush" not in out.read_bytes()


def test_compressed_batches_with_redacted_payload_are_blanked_and_counted(tmp_path):
    path = PCAPS / "kafka" / "kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
    done = extract(path, "--redact", "payload", "-w", tmp_path / "out.pcapng")
    assert "8 compressed batches blanked" in done.stderr
    assert b"a CRC over them no longer matches" in (tmp_path / "out.pcapng").read_bytes()


def test_decryption_secrets_stay_behind(tmp_path):
    path = PCAPS / "nsq" / "nsq-1.3.0-go-tls12-deflate-dsb.pcapng"
    out = tmp_path / "out.pcapng"
    assert b"CLIENT_RANDOM" in path.read_bytes()
    extract(path, "--raw", "-w", out)
    assert b"CLIENT_RANDOM" not in out.read_bytes()


def test_raw_says_that_nothing_is_hidden(tmp_path):
    out = tmp_path / "out.pcapng"
    done = extract(AUTH, "-w", out, "--raw")
    assert "--raw: nothing is hidden" in done.stderr
    assert b"s3cr3t" in out.read_bytes()


def test_times_link_types_and_packets_of_several_files_are_kept(nsq, tmp_path):
    other, out = tmp_path / "other.pcap", tmp_path / "out.pcapng"
    other.write_bytes(pcap([ip_tcp((1, 2), 0, 0, 2, b"")]))
    assert extract(nsq, other, "-w", out).exit_code == 0
    made = list(conversation(NSQ))
    assert sorted(packets(out)) == sorted([*made, ip_tcp((1, 2), 0, 0, 2, b"")])
    (first, *_), (again, *_) = (times(path) for path in (nsq, out))
    assert first == again


def test_nothing_chosen_is_an_empty_capture(nsq, tmp_path):
    out = tmp_path / "out.pcapng"
    done = extract(nsq, "--topic", "nobody", "-w", out)
    assert done.exit_code == 0
    assert "0 of 3 messages matched" in done.stderr
    assert names(out) == []


def test_where_and_count_choose_too(nsq, tmp_path):
    out = tmp_path / "out.pcapng"
    extract(nsq, "--where", "name = 'PUB'", "-w", out)
    assert names(out) == ["MAGIC", "PUB", "RESPONSE"]
    extract(PCAPS / "nsq" / "nsq-1.3.0-ipv6.pcap", "-n", "3", "-w", out, "--overwrite")
    assert 3 <= len(names(out)) < len(names(PCAPS / "nsq" / "nsq-1.3.0-ipv6.pcap"))


def test_values_are_saved_with_an_index(nsq, tmp_path):
    folder = tmp_path / "values"
    done = extract(nsq, "--save", folder)
    assert "1 value (5 bytes)" in done.stderr
    (line,) = [json.loads(each) for each in (folder / "index.ndjson").read_text().splitlines()]
    assert (folder / line["file"]).read_bytes() == b"hello"
    assert (line["topic"], line["size"], line["packet"]) == ("retry", 5, 5)


def test_names_of_saved_values_are_safe_and_different(tmp_path):
    folder = tmp_path / "values"
    path = PCAPS / "pulsar" / "pulsar-4.2.4-py-batching-a.pcap"
    extract(path, "--save", folder)
    lines = [json.loads(each) for each in (folder / "index.ndjson").read_text().splitlines()]
    files = [line["file"] for line in lines if line["file"] is not None]
    assert len(files) == len(set(files)) == len(list(folder.iterdir())) - 1
    assert all(set(name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") for name in files)
    assert not any(name.startswith(".") for name in files)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["x.pcap"], "nothing to write"),
        (["-", "-w", "out"], "a capture is read several times"),
        (["x.pcap", "-w", "out", "--raw", "--redact", "payload"], "choose one"),
        (["x.pcap", "--save", "out", "--redact", "payload"], "choose one"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, why):
    done = extract(*arguments)
    assert done.exit_code == 2
    assert why in done.stderr


def test_files_that_are_there_stay(nsq, tmp_path):
    out = tmp_path / "out.pcapng"
    out.write_bytes(b"mine")
    assert "--overwrite replaces it" in extract(nsq, "-w", out).stderr
    assert "one of the captures" in extract(nsq, "-w", nsq, "--overwrite").stderr
    assert out.read_bytes() == b"mine"
    (tmp_path / "values").mkdir()
    (tmp_path / "values" / "mine").write_bytes(b"")
    assert "is not empty" in extract(nsq, "--save", tmp_path / "values").stderr


def test_an_unreadable_capture_is_an_error_and_leaves_no_file(tmp_path):
    out = tmp_path / "out.pcapng"
    done = extract(tmp_path / "none.pcap", "-w", out)
    assert done.exit_code == 2
    assert not out.exists()


def test_a_capture_goes_to_stdout_too(nsq):
    with piped("extract", str(nsq), "-w", "-") as process:
        written, _ = process.communicate()
    assert written.startswith(b"\x0a\x0d\x0d\x0a")


def fragments(packet):
    """An IPv4 packet as two fragments."""
    head, body = packet[:20], packet[20:]

    def part(data, place):
        return head[:2] + (20 + len(data)).to_bytes(2, "big") + head[4:6] + place.to_bytes(2, "big") + head[8:] + data

    return part(body[:32], 0x2000), part(body[32:], 32 // 8)


def test_fragments_whose_bytes_cannot_be_hidden_are_left_out_and_counted(tmp_path):
    made = list(conversation([("c", b"  V2"), ("c", b"AUTH\n\0\0\0\x06hush-1"), ("s", OK)]))
    path, out = tmp_path / "a.pcap", tmp_path / "out.pcapng"
    path.write_bytes(pcap([*made[:4], *fragments(made[4]), *made[5:]]))
    assert "AUTH" in names(path)
    done = extract(path, "-w", out)
    assert "1 packet left out" in done.stderr
    assert b"hush" not in out.read_bytes()


def test_secrets_inside_a_tunnel_are_overwritten_too(tmp_path):
    made = list(conversation([("c", b"  V2"), ("c", b"AUTH\n\0\0\0\x06hush-1"), ("s", OK)]))
    gre = [
        bytes((0x45, 0)) + (24 + len(each)).to_bytes(2, "big") + bytes(5) + b"\x2f" + bytes(10) + b"\0\0\x08\0" + each
        for each in made
    ]
    for number, packets_of in enumerate((gre, made)):
        path, out = tmp_path / f"{number}.pcap", tmp_path / f"{number}.pcapng"
        path.write_bytes(pcap(packets_of))
        assert "AUTH" in names(path)
        assert "1 secret overwritten" in extract(path, "-w", out).stderr
        assert b"hush" not in out.read_bytes()
        assert names(out) == names(path)
