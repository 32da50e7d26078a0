"""TLS in whole captures: what is inside is decoded as if it were plain, whatever the packets look like."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nsqcraft import opening, publishing
from tlscraft import contexts, talk

from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.model import ClosedItem, ConnectionInfo, MessageItem, Problem, ProblemItem, Side
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.tables.values import Redaction
from mqsniff.testing.conversations import Say, segments, write_pcap
from mqsniff.tls.keylog import KeyLog

PLAIN = [*opening(), *publishing(), *publishing(), *publishing()]


@cache
def sealed(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> tuple[tuple[Say, ...], str]:
    """The same conversation inside TLS, and its keys."""
    tape = talk(*contexts(version), [(say.side, say.data) for say in PLAIN])
    return tuple(Say(side, data) for side, data in tape.sent), tape.keys


class Run:
    """What decoding gave."""

    def __init__(self, path: Path, keys: str | None) -> None:
        logs = [] if keys is None else [KeyLog(keys.encode())]
        self.pipeline = Pipeline(FileSource([str(path)]), Settings(wanted=WITH_RECORDS), keys=logs)
        items = list(self.pipeline.items())
        self.problems: list[Problem] = [item.problem for item in items if isinstance(item, ProblemItem)]
        self.connections: list[ConnectionInfo] = [item.connection for item in items if isinstance(item, ClosedItem)]
        self.messages: list[Any] = [item.message for item in items if isinstance(item, MessageItem)]
        self.told = [(m.frame.side, m.name, m.frame.offset, Redaction().json(m.body)) for m in self.messages]

    @property
    def connection(self) -> ConnectionInfo:
        (only,) = self.connections
        return only


def run(
    path: Path, said: Sequence[Say], keys: str | None, *, lost: Sequence[int] = (), mss: int = 1448, **more: Any
) -> Run:
    packets = segments(said, mss=mss)
    write_pcap(path, [packet for number, packet in enumerate(packets) if number not in lost], **more)
    return Run(path, keys)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("mss", [1448, 100, 7])
def test_tls_gives_the_messages_of_the_plain_conversation(tmp_path, version, mss):
    plain = run(tmp_path / "plain.pcap", PLAIN, None)
    done = run(tmp_path / "tls.pcap", *sealed(version), mss=mss)
    assert done.told == plain.told
    assert len(done.told) > 20
    info = done.connection
    assert (info.protocol, info.tls_keys, info.undecoded_bytes) == ("nsq", "used", 0)
    sizes = [sum(len(say.data) for say in PLAIN if say.side is side) for side in Side]
    assert [info.client_plain_bytes, info.server_plain_bytes] == sizes
    assert done.problems == []


def test_any_port_will_do_and_either_order_of_addresses(tmp_path):
    for ports in ((40_000, 50_000), (50_000, 9_999)):
        done = run(tmp_path / "tls.pcap", *sealed(), ports=ports, addresses=("10.0.0.2", "10.0.0.1"))
        assert done.connection.protocol == "nsq"
        assert done.connection.server_port == ports[1]


def test_without_keys_a_connection_is_dark_and_says_so_once(tmp_path):
    said, _ = sealed(ssl.TLSVersion.TLSv1_2)
    done = run(tmp_path / "tls.pcap", said, None)
    total = sum(len(say.data) for say in said)
    assert [problem.detail for problem in done.problems] == [f"TLS: {total} bytes not decrypted"]
    info = done.connection
    assert (info.protocol, info.tls_keys, info.tls_resumed) == ("tls", "missing", False)
    assert (info.client_plain_bytes, info.server_plain_bytes, info.undecoded_bytes) == (None, None, total)
    assert info.tls_certificate_subject == r"CN=broker.example,O=Queues\, Inc.,C=DE"


def test_something_unknown_inside_is_unknown(tmp_path):
    tape = talk(*contexts(ssl.TLSVersion.TLSv1_3), [(Side.CLIENT, b"\xfe\xdc" * 200), (Side.SERVER, b"\xba" * 300)])
    said = [Say(side, data) for side, data in tape.sent]
    done = run(tmp_path / "tls.pcap", said, tape.keys, ports=(40_000, 50_000))
    assert (done.connection.protocol, done.connection.tls_keys) == ("unknown", "used")
    assert done.connection.undecoded_bytes == 700


def test_http_inside_is_named(tmp_path):
    words = [(Side.CLIENT, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), (Side.SERVER, b"HTTP/1.1 200 OK\r\n\r\nfine")]
    tape = talk(*contexts(ssl.TLSVersion.TLSv1_3), words)
    done = run(tmp_path / "tls.pcap", [Say(side, data) for side, data in tape.sent], tape.keys)
    assert (done.connection.protocol, done.connection.tls_keys) == ("http", "used")


def test_a_lost_packet_costs_only_what_it_touches(tmp_path):
    said, keys = sealed()
    whole = run(tmp_path / "whole.pcap", said, keys, mss=200)
    count = len(segments(said, mss=200))
    for number in range(count // 2, count // 2 + 6):
        done = run(tmp_path / "lost.pcap", said, keys, mss=200, lost=(number,))
        missing = [row for row in whole.told if row[1:2] + row[3:] not in [each[1:2] + each[3:] for each in done.told]]
        assert len(done.told) >= len(whole.told) - 6, missing
        assert done.connection.tls_keys == "used"


@settings(max_examples=25)
@given(data=st.data())
def test_damage_never_raises_and_no_byte_is_unaccounted_for(tmp_path_factory, data):
    said, keys = sealed(data.draw(st.sampled_from([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])))
    hurt = list(said)
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(hurt) - 1))
        say = hurt[index]
        at = data.draw(st.integers(0, len(say.data) - 1))
        hurt[index] = Say(say.side, say.data[:at] + data.draw(st.binary(min_size=1, max_size=1)) + say.data[at + 1 :])
    lost = data.draw(st.lists(st.integers(3, len(said)), max_size=2))
    folder = tmp_path_factory.mktemp("damage")
    done = run(folder / "tls.pcap", hurt, keys, lost=lost, mss=data.draw(st.sampled_from([100, 1448])))
    assert not [problem for problem in done.problems if problem.kind == "internal"]
    total = sum(info.client_bytes + info.server_bytes - info.gap_bytes for info in done.connections)
    assert 0 <= sum(info.undecoded_bytes for info in done.connections) <= total


def test_one_direction_that_was_not_captured(tmp_path):
    said, keys = sealed()
    packets = [packet for packet in segments(said) if packet.side is Side.CLIENT]
    write_pcap(tmp_path / "client.pcap", packets)
    done = Run(tmp_path / "client.pcap", keys)
    assert done.connection.protocol == "nsq"
    assert {message.frame.side for message in done.messages} == {Side.CLIENT}
    assert done.connection.undecoded_bytes == 0


def test_a_connection_that_was_joined_late(tmp_path):
    said, keys = sealed()
    packets = segments(said)
    write_pcap(tmp_path / "late.pcap", packets[len(packets) // 2 :])
    done = Run(tmp_path / "late.pcap", keys)
    assert (done.connection.protocol, done.connection.tls_keys) == ("nsq", "used")
    assert len(done.messages) >= 8


def test_a_few_bytes_inside_that_nobody_takes_are_unknown_at_the_end(tmp_path):
    tape = talk(*contexts(ssl.TLSVersion.TLSv1_3), [(Side.CLIENT, b"\x00\x00")])
    done = run(tmp_path / "tls.pcap", [Say(side, data) for side, data in tape.sent], tape.keys)
    assert (done.connection.protocol, done.connection.undecoded_bytes) == ("unknown", 2)
    assert [problem.detail for problem in done.problems] == [
        "unknown protocol: 2 bytes not decoded (client begins 00 00)"
    ]


def test_a_record_before_a_damaged_one_in_the_same_packet_is_read(tmp_path):
    tape = talk(*contexts(ssl.TLSVersion.TLSv1_3), [(Side.CLIENT, b"  V2NOP\n"), (Side.CLIENT, b"NOP\n")])
    *before, one, other, _, _ = tape.sent  # without the alerts of the end
    damaged = Say(Side.CLIENT, one[1] + other[1][:-1] + bytes([other[1][-1] ^ 1]))
    done = run(tmp_path / "tls.pcap", [*[Say(*each) for each in before], damaged], tape.keys)
    assert [row[1] for row in done.told] == ["MAGIC", "NOP"]
    assert [problem.kind for problem in done.problems] == ["tls"]


def test_an_alert_is_told_with_the_packet_that_brought_it(tmp_path):
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(193)
    done = run(tmp_path / "tls.pcap", [Say(Side.CLIENT, hello), Say(Side.SERVER, b"\x15\x03\x03\0\2\2\x28")], None)
    refused = [problem for problem in done.problems if "refused" in problem.detail]
    assert [(problem.detail, problem.side) for problem in refused] == [
        ("TLS: the server refused TLS with an alert: handshake failure", Side.SERVER)
    ]


def test_a_server_that_comes_behind_its_client_opens_what_both_said(tmp_path):
    words = [(Side.CLIENT, b"  V2"), (Side.SERVER, b"\0\0\0\x06\0\0\0\0OK")]
    tape = talk(*contexts(ssl.TLSVersion.TLSv1_3), words)
    of = {side: b"".join(data for sender, data in tape.sent if sender is side) for side in Side}
    done = run(tmp_path / "tls.pcap", [Say(side, of[side]) for side in Side], tape.keys, mss=20_000)
    assert sorted(row[:2] for row in done.told) == [(Side.CLIENT, "MAGIC"), (Side.SERVER, "RESPONSE")]
