"""The wire that tests are written on: packets that TCP would send, and what is read back after a capture's faults."""

from __future__ import annotations

import dpkt
import nsqcraft
import pytest

from mqsniff.dissector import Settings
from mqsniff.model import Chunk, Gap, MessageItem, Side
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.testing.captures import read_pcap
from mqsniff.testing.conversations import (
    ACK,
    FIN,
    SYN,
    Say,
    acknowledged,
    chunks,
    client,
    doubled,
    known,
    lost,
    segments,
    server,
    streams,
    swapped,
    write_pcap,
)
from mqsniff.testing.driver import Driver
from mqsniff_nsq import Nsq

DIALOGUE = [client(b"hello"), server(b"hi " * 1000), client(b"bye"), client(b"."), server(b"!")]


def packets_of(path):
    with path.open("rb") as file:
        for _, raw in dpkt.pcap.Reader(file):
            yield dpkt.ethernet.Ethernet(raw).data.data


def test_sequence_numbers_and_acknowledgements_are_those_of_tcp(tmp_path):
    path = tmp_path / "x.pcap"
    write_pcap(path, segments(DIALOGUE, mss=1000))
    following: dict[int, int] = {}
    for tcp in packets_of(path):
        peer = tcp.dport
        assert following.get(tcp.sport, tcp.seq) == tcp.seq
        if tcp.flags & ACK:
            assert tcp.ack <= following[peer]
        following[tcp.sport] = tcp.seq + len(tcp.data) + bool(tcp.flags & (SYN | FIN))
    sizes = [len(tcp.data) for tcp in packets_of(path)]
    assert sizes == [0, 0, 0, 5, 1000, 1000, 1000, 3, 1, 1, 0, 0, 0]


def test_what_a_side_knew_is_what_it_acknowledges():
    crossed = acknowledged((client(b"aa"), 0), (server(b"1"), 0), (client(b"b"), 0), (server(b"2"), 2))
    assert [say.knows for say in known(crossed)] == [0, 0, 0, 3]
    isn = 1000
    data = [packet for packet in segments(crossed, isn=isn) if packet.data]
    assert [packet.ack - (isn * 5 if packet.side is Side.CLIENT else isn) - 1 for packet in data] == [0, 0, 0, 3]


@pytest.mark.parametrize("addresses", [("10.0.0.1", "10.0.0.2"), ("fe80::1", "fe80::2")])
@pytest.mark.parametrize(
    "spoil",
    [list, lambda p: swapped(p, 4, 5), lambda p: doubled(p, 5), lambda p: doubled(swapped(p, 4, 6), 3)],
    ids=["whole", "swapped", "doubled", "both"],
)
def test_what_was_said_is_read_back_whatever_the_capture_did_to_its_order(tmp_path, spoil, addresses):
    path = tmp_path / "x.pcap"
    write_pcap(path, spoil(segments(DIALOGUE, mss=700)), addresses=addresses)
    (conversation,) = read_pcap(path)
    assert streams(conversation.says) == streams(DIALOGUE)
    assert (conversation.whole, conversation.client_port, conversation.server_port) == (True, 40_000, 4150)
    assert conversation.closed == [Side.CLIENT, Side.SERVER]


def test_a_lost_packet_is_a_gap_of_its_size(tmp_path):
    path = tmp_path / "x.pcap"
    write_pcap(path, lost(segments(DIALOGUE, mss=1000), 5))
    (conversation,) = read_pcap(path)
    assert [(g.side, g.offset, g.length) for g in conversation.events if isinstance(g, Gap)] == [
        (Side.SERVER, 1000, 1000)
    ]


def test_a_snap_length_cuts_every_packet(tmp_path):
    path = tmp_path / "x.pcap"
    write_pcap(path, segments(DIALOGUE, mss=1000), snaplen=14 + 20 + 20 + 100)
    (conversation,) = read_pcap(path)
    server_bytes = b"".join(e.data for e in conversation.events if isinstance(e, Chunk) and e.side is Side.SERVER)
    assert len(server_bytes) == 301
    assert sum(g.length for g in conversation.events if isinstance(g, Gap)) == 2700


def test_a_capture_without_a_handshake_begins_in_the_middle(tmp_path):
    path = tmp_path / "x.pcap"
    write_pcap(path, segments(DIALOGUE, handshake=False, fin=None))
    (conversation,) = read_pcap(path)
    assert conversation.in_step == (False, False)
    assert streams(conversation.says) == streams(DIALOGUE)


def test_chunks_are_cut_and_holed_as_asked():
    cut = chunks([client(b"abcdef"), server(b"xy")], cuts=([2, 4], [1]), holes=([(1, 3)], []))
    assert [(e.side, e.offset, e.data if isinstance(e, Chunk) else e.length) for e in cut] == [
        (Side.CLIENT, 0, b"a"),
        (Side.CLIENT, 1, 2),
        (Side.CLIENT, 3, b"d"),
        (Side.CLIENT, 4, b"ef"),
        (Side.SERVER, 0, b"x"),
        (Side.SERVER, 1, b"y"),
    ]


@pytest.mark.parametrize("name", nsqcraft.CONVERSATIONS)
def test_the_engine_makes_of_the_packets_what_a_driver_makes_of_the_conversation(tmp_path, name):
    dialogue: list[Say] = nsqcraft.CONVERSATIONS[name]
    path = tmp_path / "x.pcap"
    write_pcap(path, segments(dialogue, mss=100), ports=(40_000, 9))
    items = Pipeline(FileSource([str(path)]), Settings()).items()
    decoded = [item.message for item in items if isinstance(item, MessageItem)]
    driven = Driver(Nsq).run(chunks(dialogue)).messages
    assert [(m.name, m.body, m.frame.offset) for m in decoded] == [(m.name, m.body, m.frame.offset) for m in driven]
