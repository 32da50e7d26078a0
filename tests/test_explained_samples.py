"""Every byte of every message of every sample is explained exactly once, inside of what is compressed too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from watching import explained_messages, explained_with_records

from mqsniff.answers.captures import captures_under, key_logs_beside
from mqsniff.model import Message, Secret, Span
from mqsniff.sinks.panes import PaneOptions, field_objects, pane_lines
from mqsniff.tables.values import Redaction

PCAPS = Path(__file__).parents[1] / "pcaps"
SAMPLES = {str(path.relative_to(PCAPS)): path for path in captures_under([PCAPS])}


def tiled(spans: tuple[Span, ...], data: bytes, opened: Counter[str]) -> None:
    at = 0
    for span in spans:
        assert span.start == at, span
        assert span.stop >= at, span
        at = span.stop
        if span.inside is not None:
            opened[span.inside.codec] += 1
            tiled(span.inside.spans, span.inside.data, opened)
    assert at == len(data)


def secrets_of(value: object) -> set[bytes]:
    """The secrets in a body, but for those so short that they stand anywhere."""
    match value:
        case Secret():
            return {value.data} if len(value.data) > 5 else set()
        case dict():
            return set().union(*map(secrets_of, value.values()))
        case list() | tuple():
            return set().union(*map(secrets_of, value))
    return set()


def shown_of(message: Message, spans: tuple[Span, ...], shown: Redaction) -> tuple[str, bytes]:
    """All that is shown of a message, as text and as JSON."""
    options = PaneOptions(wide=True, shown=shown)
    lines = ["".join(text for _, text in line) for line in pane_lines(spans, message.frame.data, options)]
    return "\n".join(lines), shown.json(list(field_objects(spans, message.frame.data, options)))


def test_every_byte_of_every_message_is_explained_exactly_once():
    opened: Counter[str] = Counter()
    protocols: Counter[str] = Counter()
    decrypted: Counter[str] = Counter()
    for path in SAMPLES.values():
        for item, records in explained_with_records(path):
            assert item.spans is not None
            tiled(item.spans, item.message.frame.data, opened)
            protocols[item.message.protocol] += 1
            if records:
                decrypted[item.message.protocol] += 1
    assert {"kafka", "nsq", "pulsar", "rocketmq"} <= set(protocols)
    assert {"kafka", "nsq", "pulsar", "rocketmq"} <= set(decrypted)
    assert {"gzip", "zlib", "lz4", "zstd"} <= set(opened)


KEYED = [name for name, path in SAMPLES.items() if key_logs_beside(path)]


@pytest.mark.parametrize("name", KEYED)
def test_every_byte_of_a_decrypted_message_came_from_one_record(name):
    count = 0
    for item, records in explained_with_records(SAMPLES[name]):
        frame = item.message.frame
        if not item.connection.layered or not records:
            continue
        count += 1
        at = frame.offset
        for record in records:
            assert record.side is frame.side
            assert record.kind == 23
            assert record.plain[0] <= at < record.plain[1]
            assert record.first.packet <= record.last.packet
            assert record.stop - record.start > record.plain[1] - record.plain[0]
            at = record.plain[1]
        assert at >= frame.offset + frame.size
        assert records[0].last.packet == frame.first_packet
        assert records[-1].last.packet == frame.last_packet
    assert count or "refused" in name or "unknown-ca" in name


def test_a_message_in_deflate_in_tls_came_from_records():
    path = SAMPLES["nsq/nsq-1.3.0-go-tls12-deflate-dsb.pcapng"]
    behind = [(item, records) for item, records in explained_with_records(path) if item.message.name == "MESSAGE"]
    assert len(behind) > 100
    for item, records in behind:
        assert records, item.message.frame.offset
        assert records[-1].last.packet == item.message.frame.last_packet


@pytest.mark.parametrize(
    "name",
    [
        "kafka/kafka-4.4-sasl-raw-v0-java.pcap",
        "kafka/kafka-4.4-sasl-scram-sha-256-librdkafka.pcap",
        "kafka/kafka-4.4.0-java-4.4.0-delegation-tokens-toka.pcapng",
        "nsq/nsq-1.3.0-auth.pcap",
        "rocketmq/rocketmq-5.5.0-a-admin-auth-commands.pcapng",
    ],
)
def test_no_secret_of_a_message_stands_in_its_values_or_bytes(name):
    found = 0
    for item in explained_messages(SAMPLES[name]):
        assert item.spans is not None
        text, made = shown_of(item.message, item.spans, Redaction())
        open_text, open_made = shown_of(item.message, item.spans, Redaction(secrets=True))
        for secret in secrets_of(item.message.body):
            found += 1
            assert secret.hex(" ") in open_text.replace("\n", " ") or secret.hex() in open_made.decode()
            assert secret.hex() not in made.decode()
            assert secret not in made
            assert secret not in text.encode()
            assert secret[:16].hex(" ") not in text
    assert found


def test_what_an_envelope_forwards_is_explained_field_by_field():
    found = set()
    for item in explained_messages(SAMPLES["kafka/kafka-4.4-envelope-principal.pcap"]):
        if item.message.name == "Envelope":
            found |= {span.path for span in item.spans or () if not isinstance(span.value, Secret)}
    assert {"request_data.size", "request_data.api_key", "request_data.client_id"} <= found
    assert {"response_data.size", "response_data.correlation_id"} <= found
