"""An extract of a sample decodes to the same rows for what was chosen, and holds no secret."""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections import Counter
from pathlib import Path
from typing import Any

import dpkt
import pytest
from click.testing import CliRunner
from watching import explained_messages

from mqsniff.cli import main
from mqsniff.model import Secret
from mqsniff.sources.files import FileSource
from mqsniff.testing.conversations import client, segments, server, write_pcap

PCAPS = Path(__file__).parents[1] / "pcaps"
MOVED = frozenset(
    (
        *("capture", "packet", "first_packet", "last_packet", "last_capture"),
        *("request_capture", "request_packet", "response_capture", "response_packet"),
        *("queue_ns", "work_ns"),
    )
)
"""Columns that name packets, which an extract numbers anew, or tell of messages before, which it need not hold."""
TABLES = [argument for table in ("messages", "exchanges", "records") for argument in ("--table", table)]


def run(*arguments: object) -> Any:
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done


def rows(path: Path, *filters: str) -> Counter[str]:
    """The rows of what the filters choose, without what an extract may change."""
    found: Counter[str] = Counter()
    for line in run("decode", path, "-o", "ndjson", *TABLES, *filters).stdout.splitlines():
        row = {name: value for name, value in json.loads(line).items() if name not in MOVED}
        found[json.dumps(row, sort_keys=True)] += 1
    return found


def extracted(tmp_path: Path, name: str, *arguments: str) -> tuple[Path, str]:
    out = tmp_path / "out.pcapng"
    done = run("extract", PCAPS / name, "-w", out, *arguments)
    assert done.exit_code == 0, done.output
    return out, done.stderr


@pytest.mark.parametrize(
    ("name", "filters", "smaller"),
    [
        ("kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng", ("--name", "Produce"), True),
        ("kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng", ("--name", "Fetch"), True),
        ("kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng", ("--errors",), True),
        ("kafka/kafka-4.4-sasl-raw-v0-java.pcap", ("--name", "Produce"), True),
        ("kafka/kafka-4.4-sasl-scram-sha-256-librdkafka.pcap", ("--topic", "sa-t"), True),
        ("kafka/kafka-3.9.1-franz-go-max-0.8.0-codecs-fz39080s.pcap", ("--topic", "fz39080s.gzip"), True),
        ("kafka/kafka-4.4.0-midstream-java-4.4.0-mje.pcap", ("--name", "Fetch"), True),
        ("kafka/kafka-4.4-proxy-v2-proxied.pcap", ("--name", "Produce"), True),
        ("nsq/nsq-1.3.0-go-req-touch.pcap", ("--name", "REQ"), True),
        ("nsq/nsq-1.3.0-auth.pcap", ("--name", "SUB"), True),
        ("nsq/nsq-1.3.0-ipv6.pcap", ("--name", "PUB"), True),
        ("nsq/nsq-1.3.0-rust-snappy.pcap", ("--name", "MPUB"), True),
        ("nsq/nsq-1.3.0-nsqjs-deflate.pcap", ("--name", "PUB"), True),
        ("nsq/nsq-1.3.0-var-loss-client.pcap", ("--name", "FIN"), True),
        ("nsq/nsq-1.3.0-var-duplicate.pcap", (), False),
        ("pulsar/pulsar-4.2.4-py-batching-a.pcap", ("--name", "MESSAGE"), True),
        ("pulsar/pulsar-4.2.4-java-acks-a.pcap", ("--name", "ACK"), False),
        ("pulsar/pulsar-4.2.4-py-errors-a.pcap", ("--errors",), True),
        ("pulsar/pulsar-4.2.4-py-nack-dlq-a.pcap", ("--group", "*"), True),
        ("rocketmq/rocketmq-5.5.0-cli5.5.0-a-push-consumer.pcapng", ("--name", "PULL_MESSAGE"), True),
        ("rocketmq/rocketmq-4.9.7-var-acl.pcapng", ("--name", "SEND_MESSAGE_V2"), True),
        ("rocketmq/rocketmq-5.5.0-var-midstream-start.pcapng", ("--name", "SEND*"), True),
    ],
)
def test_an_extract_decodes_to_the_same_rows_for_what_was_chosen(tmp_path, name, filters, *, smaller):
    out, talk = extracted(tmp_path, name, *filters)
    chosen = rows(PCAPS / name, *filters)
    assert chosen
    assert rows(out, *filters) == chosen
    assert "decode differently" not in talk
    everything = sum(rows(PCAPS / name).values())
    assert (sum(rows(out).values()) < everything) == smaller


# ---- secrets


def truth_secrets(name: str) -> set[bytes]:
    """What the truth of a sample names as secret."""
    path = (PCAPS / name).with_suffix(".json")
    truth = json.loads(path.read_text()) if path.exists() else {}
    found = {secret.encode() for secret in truth.get("secrets", ())}
    found |= {user["password"].encode() for user in truth.get("users", {}).values()}
    if "hmac_base64" in truth.get("facts", {}):
        found.add(b64decode(truth["facts"]["hmac_base64"]))
    return found


def body_secrets(value: object) -> set[bytes]:
    match value:
        case Secret():
            return {value.data} if len(value.data) > 5 else set()
        case dict():
            return set().union(*map(body_secrets, value.values()))
        case list() | tuple():
            return set().union(*map(body_secrets, value))
    return set()


def forms(secret: bytes) -> tuple[bytes, ...]:
    """A secret as it stands, in base64 and in hex."""
    return secret, b64encode(secret), secret.hex().encode()


@pytest.mark.parametrize(
    ("name", "on_the_wire"),
    [
        ("kafka/kafka-4.4-envelope-principal.pcap", True),
        ("kafka/kafka-4.4-sasl-oauthbearer-librdkafka.pcap", False),
        ("kafka/kafka-4.4-sasl-raw-v0-java.pcap", True),
        ("kafka/kafka-4.4-sasl-scram-sha-256-librdkafka.pcap", False),  # SCRAM sends no password
        ("kafka/kafka-4.4.0-java-4.4.0-delegation-tokens-toka.pcapng", True),
        ("nsq/nsq-1.3.0-auth.pcap", True),
        ("rocketmq/rocketmq-4.9.7-c-admin-acl-config-commands.pcapng", False),
        ("rocketmq/rocketmq-5.5.0-a-admin-auth-commands.pcapng", False),
        ("rocketmq/rocketmq-4.9.7-var-acl.pcapng", False),
    ],
)
def test_an_extract_holds_no_secret_and_a_raw_one_does(tmp_path, name, *, on_the_wire):
    named = truth_secrets(name)
    told = set().union(*(body_secrets(item.message.body) for item in explained_messages(PCAPS / name)))
    out, talk = extracted(tmp_path, name)
    assert "overwritten" in talk
    hidden = out.read_bytes()
    assert [secret for secret in named | told for form in forms(secret) if form in hidden] == []
    raw, talk = extracted(tmp_path, name, "--raw", "--overwrite")
    assert "nothing is hidden" in talk
    bare = raw.read_bytes()
    assert any(form in bare for secret in named for form in forms(secret)) == on_the_wire
    assert told
    assert sum(secret in bare for secret in told) > len(told) / 2  # some go over two packets, or stand there escaped


@pytest.mark.parametrize(
    "name",
    [
        "kafka/kafka-4.4-proxy-v2-proxied.pcap",
        "kafka/kafka-0.10.2.2-mixed-magic-mix.c.pcap",
        "nsq/nsq-1.3.0-go-req-touch.pcap",
        "nsq/nsq-1.3.0-var-duplicate.pcap",
        "nsq/nsq-1.3.0-rust-snappy.pcap",
        "pulsar/pulsar-4.2.4-py-batching-a.pcap",
        "rocketmq/rocketmq-5.5.0-cli5.5.0-a-push-consumer.pcapng",
        "rocketmq/rocketmq-4.9.7-cli4.9.7-c-batch-and-delay.pcapng",
    ],
)
def test_with_the_payload_redacted_no_value_or_key_is_left(tmp_path, name):
    lines = run("decode", PCAPS / name, "-o", "ndjson", "--table", "records").stdout.splitlines()
    payload = {json.loads(line).get(field) for line in lines for field in ("key", "value")}
    texts = {text.encode() for text in payload if isinstance(text, str) and len(text) > 5}
    assert texts
    out, talk = extracted(tmp_path, name, "--redact", "payload")
    assert "overwritten" in talk or "blanked" in talk
    left = out.read_bytes()
    assert [text for text in texts if text in left] == []


def packets_of(path: Path) -> list[tuple[int, bytes, int, int]]:
    """Time, bytes, length on the wire and link type of each packet."""
    found = []
    for batch in FileSource([str(path)]).batches():
        view = memoryview(batch.buffer)
        for row in range(len(batch)):
            start, size = int(batch.start[row]), int(batch.caplen[row])
            data = bytes(view[start : start + size])
            found.append((int(batch.ts_ns[row]), data, int(batch.wirelen[row]), int(batch.linktype[row])))
    return found


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("nsq/nsq-1.3.0-auth.pcap", ("--raw",)),
        ("nsq/nsq-1.3.0-snaplen120.pcap", ("--raw",)),
        ("rocketmq/rocketmq-5.5.0-var-ipv6.pcapng", ("--raw",)),
        ("pulsar/pulsar-4.2.4-py-batching-a.pcap", ()),  # where nothing has to be hidden
        ("nsq/nsq-1.3.0-var-loss-client.pcap", ()),
    ],
)
def test_what_is_not_hidden_is_as_it_was_captured(tmp_path, name, arguments):
    out, _ = extracted(tmp_path, name, *arguments)
    assert packets_of(out) == packets_of(PCAPS / name)


def test_an_extract_of_an_extract_is_the_same(tmp_path):
    out, _ = extracted(tmp_path, "kafka/kafka-4.4-sasl-raw-v0-java.pcap", "--name", "Produce")
    again = tmp_path / "again.pcapng"
    run("extract", out, "--name", "Produce", "-w", again)
    assert packets_of(again) == packets_of(out)


def test_checksums_that_were_right_stay_right(tmp_path):
    path, out = tmp_path / "a.pcap", tmp_path / "out.pcapng"
    write_pcap(path, segments([client(b"  V2"), client(b"AUTH\n\0\0\0\x06hush-1"), server(b"\0\0\0\6\0\0\0\0OK")]))
    assert "1 secret overwritten" in run("extract", path, "-w", out).stderr
    before, after = ([data for _, data, *_ in packets_of(each)] for each in (path, out))
    assert before != after
    assert all(map(sum_is_right, [*before, *after]))


def sum_is_right(data: bytes) -> bool:
    """Whether the checksum of a TCP segment in IPv4 in Ethernet fits."""
    ip = dpkt.ethernet.Ethernet(data).data
    there, ip.data.sum = ip.data.sum, 0
    segment = bytes(ip.data)
    return bool(dpkt.in_cksum(ip.src + ip.dst + struct.pack(">HH", 6, len(segment)) + segment) == there)
