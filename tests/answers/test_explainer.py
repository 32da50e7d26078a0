"""What is told of each packet of a capture."""

from __future__ import annotations

from pathlib import Path

import pytest
from watching import explained_messages

from mqsniff.answers.explain import Explainer, Explanation
from mqsniff.answers.packetfinder import PacketFinder
from mqsniff.dissector import USUAL, Settings
from mqsniff.model import MessageItem, packet_number
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource

PCAPS = Path(__file__).parents[2] / "pcaps"


def explained(path: Path, number: int) -> Explanation:
    finder = PacketFinder()
    finder.look_for(lambda: 0, number)
    run = Pipeline(FileSource([str(path)]), Settings(wanted=USUAL | {"spans"}), observer=finder)
    return Explainer(finder).explain(run.items())


def place(item: MessageItem) -> tuple[str, int, int]:
    frame = item.message.frame
    return item.connection.connection_id, int(frame.side), frame.offset


@pytest.mark.parametrize(
    "name",
    [
        "nsq/nsq-1.3.0-var-duplicate.pcap",
        "kafka/kafka-3.9.1-portreuse-rua.pcap",
        "pulsar/pulsar-4.2.4-cut-s200-a.pcap",
    ],
)
def test_every_packet_has_its_messages_or_a_reason(name):
    path = PCAPS / name
    messages = list(explained_messages(path))
    ends = [(packet_number(m.message.frame.first_packet), packet_number(m.message.frame.last_packet)) for m in messages]
    for number in range(1, sum(len(batch) for batch in FileSource([str(path)]).batches()) + 1):
        told = explained(path, number)
        found = {place(item) for item in told.found}
        assert bool(found) != bool(told.why), number
        both = list(zip(messages, ends, strict=True))
        assert {place(item) for item, edges in both if number in edges} <= found
        assert found <= {place(item) for item, (first, last) in both if first <= number <= last}


@pytest.mark.parametrize(
    ("name", "number", "why"),
    [
        ("kafka/kafka-4.4-proxy-v2-proxied.pcap", 4, "a PROXY protocol head: the client is"),
        ("nsq/nsq-1.3.0-nsqjs-deflate.pcap", 45, "its 4 bytes are compressed or encrypted, and complete no message"),
        ("nsq/nsq-1.3.0-go-tls12-deflate-dsb.pcapng", 30, "its 33 bytes are compressed or encrypted, and complete no"),
        ("nsq/nsq-1.3.0-midstream-tls.pcap", 10, "bytes are TLS, which is not decoded"),
    ],
)
def test_bytes_in_no_message_are_named(name, number, why):
    assert why in explained(PCAPS / name, number).why
