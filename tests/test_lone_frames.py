"""One packet in the middle of nowhere: strong frames of every protocol are believed, what is like them is not."""

from __future__ import annotations

import random
import struct

import kafkacraft as kafka
import nsqcraft as nsq
import pulsarcraft as pulsar
import pytest
import remotingcraft as remoting
from tinycapture import ACK, PSH, ip_tcp, pcap

from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.dissector import WITH_RECORDS, Sample, Settings
from mqsniff.model import ClosedItem, MessageItem, ProblemItem
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource

REGISTRY = Registry(load_dissectors())
ID = "0123456789abcdef"
STRONG = {
    "Metadata": ("kafka", "client", kafka.request(kafka.METADATA, 12, 900)),
    "Produce": ("kafka", "client", kafka.produce(900, b"value")),
    "Fetch": ("kafka", "client", kafka.fetch(900, topics=kafka.ASKED)),
    "ACK": (
        "pulsar",
        "client",
        pulsar.frame("ACK", consumer_id=1, ack_type=0, message_id=[{"ledger_id": 1, "entry_id": 2}]),
    ),
    "SEND": ("pulsar", "client", pulsar.send(b"value")),
    "MESSAGE": ("pulsar", "server", pulsar.message(b"value", entry=b"\x08\x01\x10\x02")),
    "SEND_MESSAGE": ("rocketmq", "client", remoting.json_frame(10, 7, remoting.send_fields(), b"value")),
    "PULL_MESSAGE": ("rocketmq", "client", remoting.binary_frame(11, 7, remoting.pull_fields())),
    "PUB": ("nsq", "client", nsq.pub("orders", b"value")),
    "MPUB": ("nsq", "client", nsq.mpub("orders", b"one", b"two")),
    "FIN": ("nsq", "client", nsq.line("FIN", ID)),
    "ERROR": ("nsq", "server", nsq.error(f"E_FIN_FAILED FIN {ID} failed ID not in flight")),
    "HEARTBEAT": ("nsq", "server", nsq.HEARTBEAT),
}
"""Name of the message -> (its protocol, who sends it, its bytes)."""
WEAK = {
    "a response of Kafka": kafka.response(kafka.HEARTBEAT, 4, 900),
    "a Produce of nobody": kafka.produce(900, b"value").replace(b"craft", bytes(5)),
    "a ControlledShutdown of Kafka, which names nobody": kafka.sized(struct.pack(">hhii", 7, 0, 1, 5)),
    "a short request of Kafka of nobody": kafka.request(kafka.API_VERSIONS, 0, 900, client_id=None),
    "a request of Kafka without its end": kafka.request(kafka.METADATA, 12, 900)[:-1],
    "a SEND of Pulsar without checksum": pulsar.send(b"value", checksum=False),
    "a SEND of Pulsar with a wrong checksum": pulsar.send(b"value")[:-1] + b"?",
    "SUB": nsq.line("SUB", "orders", "billing"),
    "RDY": nsq.line("RDY", "1"),
    "a PUB of NSQ without its end": nsq.pub("orders", b"value")[:-1],
    "a PUB of NATS": b"PUB orders 5\r\nvalue\r\n",
    "OK": nsq.OK,
    "an error that nsqd does not know": nsq.error("E_COFFEE there is none"),
}


def decoded(data, tmp_path):
    """(protocol of the connection, how it was found, who is its client, names of its messages) of one packet."""
    path = tmp_path / "lone.pcap"
    path.write_bytes(pcap([ip_tcp((45_678, 34_567), 7_000_000, 8_000_000, PSH | ACK, data)]))
    items = [
        item for item in Pipeline(FileSource([str(path)]), Settings(wanted=WITH_RECORDS)).items() if item is not None
    ]
    (closed,) = [item.connection for item in items if isinstance(item, ClosedItem)]
    assert not [item for item in items if isinstance(item, ProblemItem) and item.problem.severity == "error"]
    names = [item.message.name for item in items if isinstance(item, MessageItem)]
    return closed.protocol, closed.detected_by, "client" if closed.client_port == 45_678 else "server", names


@pytest.mark.parametrize("name", STRONG)
def test_one_strong_frame_is_decoded(name, tmp_path):
    protocol, side, data = STRONG[name]
    assert decoded(data, tmp_path) == (protocol, "content", side, [name])


def claimed(data):
    """Who takes one segment of a connection that was joined in the middle, on ports that nobody knows."""
    nothing = Sample(b"", (0,), from_start=False)
    sample = Sample(data, (0,), from_start=False)
    claims = [REGISTRY.claim(*sides, 34_567)[0] for sides in ((sample, nothing), (nothing, sample))]
    return [claim.dissector.names[0] for claim in claims if claim is not None]


@pytest.mark.parametrize("data", WEAK.values(), ids=WEAK)
def test_a_weak_frame_is_left_alone(data):
    assert claimed(data) == []


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_are_left_alone_with_the_right_size_in_front_too(seed):
    dice = random.Random(seed)
    for _ in range(500):
        data = bytes(dice.choice((0, 0, 0, 1, 2, 3, 8, dice.randrange(256))) for _ in range(dice.randrange(8, 80)))
        assert claimed(data) == []
        assert claimed(len(data).to_bytes(4, "big") + data) == []
