"""Streams without packets."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import mqsniff
from mqsniff.model import Side
from mqsniff.testing.captures import read_pcap


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">II", 4 + len(data), kind) + data


def test_messages_of_both_sides_are_paired():
    capture = mqsniff.decode_bytes("nsq", client=b"  V2PUB orders\n\x00\x00\x00\x05hello", server=frame(0, b"OK"))
    assert [row.name for row in capture.messages()] == ["MAGIC", "PUB", "RESPONSE"]
    assert [(row.name, row.status) for row in capture.exchanges()] == [("MAGIC", "oneway"), ("PUB", "ok")]
    assert [row.value for row in capture.records()] == [b"hello"]
    assert not list(capture.problems())
    (connection,) = capture.connections()
    assert (connection.protocol, connection.detected_by, connection.close_reason) == ("nsq", "user", "fin")


def test_lists_are_said_in_turns():
    client = [b"  V2PUB a\n\x00\x00\x00\x01x", b"PUB b\n\x00\x00\x00\x01y"]
    capture = mqsniff.decode_bytes("nsq", client=client, server=[frame(0, b"OK"), frame(1, b"E_BAD_TOPIC b")])
    assert [(row.topics, row.status) for row in capture.exchanges() if row.name == "PUB"] == [
        (("a",), "ok"),
        (("b",), "error"),
    ]


def test_the_streams_of_a_capture_give_its_messages():
    file = "pcaps/kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
    want, names = [row.name for row in mqsniff.read(file).messages()], []
    for conversation in read_pcap(Path(file)):
        parts = {side: b"".join(say.data for say in conversation.says if say.side is side) for side in Side}
        said = mqsniff.decode_bytes("kafka", client=parts[Side.CLIENT], server=parts[Side.SERVER])
        assert not list(said.problems())
        names += [row.name for row in said.messages()]
    assert sorted(names) == sorted(want)


def test_long_streams_are_cut_into_packets():
    capture = mqsniff.decode_bytes("nsq", client=b"  V2PUB a\n" + struct.pack(">I", 200_000) + bytes(200_000))
    assert [row.value_size for row in capture.records()] == [200_000]


def test_nothing_said_gives_no_messages():
    assert not list(mqsniff.decode_bytes("kafka").messages())


def test_damage_is_a_row_and_no_error():
    assert list(mqsniff.decode_bytes("kafka", client=b"\xff" * 50).problems())


def test_an_unknown_protocol_is_an_option_error():
    with pytest.raises(mqsniff.OptionError, match="did you mean kafka"):
        mqsniff.decode_bytes("kafak", client=b"")
