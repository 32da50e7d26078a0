"""Foreign protocols are named by what their peers must send, and nothing else is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mqsniff.decode.foreign import SIGNATURES, TITLES, may_be_foreign, name_foreign
from mqsniff.dissector import Settings
from mqsniff.limits import Limits
from mqsniff.model import ClosedItem, ProblemItem
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.streams.packets import PacketDecoder
from mqsniff.testing.conversations import client, segments, server, write_pcap

PCAPS = Path(__file__).parents[2] / "pcaps"

FIRST: list[tuple[str, bool | None, bytes]] = [
    ("amqp-0-9-1", True, b"AMQP\x00\x00\x09\x01"),
    ("amqp-0-9-1", False, bytes.fromhex("01000000000024000a000a00090000001001610000000178") + bytes(19) + b"\xce"),
    ("amqp-1.0", None, b"AMQP\x00\x01\x00\x00"),
    ("amqp-1.0", None, b"AMQP\x03\x01\x00\x00"),
    ("mqtt", True, bytes.fromhex("101000044d5154540402000500046c616231")),
    ("mqtt", True, bytes.fromhex("101000044d5154540502000500046c616231")),
    ("mqtt", True, b"\x10\x12\x00\x06MQIsdp\x03\x02\x00\x05\x00\x04lab1"),
    ("nats", False, b'INFO {"server_id":"NBLQ","version":"2.10.22","proto":1}\r\n'),
    ("nats", True, b'CONNECT {"echo": true, "lang": "python3", "verbose": false}\r\n'),
    ("stomp", True, b"STOMP\naccept-version:1.2\nhost:127.0.0.1\n\n\0"),
    ("stomp", True, b"CONNECT\r\nlogin:a\r\npasscode:b\r\n\r\n\0"),
    ("stomp", False, b"CONNECTED\nserver:ActiveMQ/5.18.4\nversion:1.2\n\n\0\n"),
    ("redis", True, b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"),
    ("redis", True, b"*1\r\n$4\r\nPING\r\n"),
    ("redis", False, b"%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n"),
    ("zookeeper", True, bytes.fromhex("0000002d00000000000000000000000000000bb8000000000000000000000010") + bytes(17)),
    ("zookeeper", True, bytes.fromhex("0000002c00000000000000000000000000000bb8000000000000000000000010") + bytes(16)),
    ("zookeeper", False, bytes.fromhex("0000002500000000000017700100002c3e2d000000000010") + bytes(17)),
    ("postgresql", True, bytes.fromhex("0000000804d2162f")),
    ("postgresql", True, b"\x00\x00\x00\x24\x00\x03\x00\x00user\0postgres\0database\0app\0\0"),
    (
        "mysql",
        False,
        bytes.fromhex(
            "4a0000000a382e302e3239000000875c637475504f737577004987ff000038091500000000000000000000436c714351594f41"
            "34334873006d7973716c5f6e61746976655f70617373776f726400"
        ),
    ),
    ("mysql", True, bytes.fromhex("2000000105aa3a00ffffff002d") + bytes(23)),
]
LATER: list[tuple[str, bool | None, bytes]] = [
    ("amqp-0-9-1", None, b"\x08\x00\x00\x00\x00\x00\x00\xce"),
    ("amqp-0-9-1", None, b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50" + bytes(9) + b"\xce"),
    ("nats", None, b"PUB orders.new 5\r\nhello\r\n"),
    ("nats", None, b"MSG orders.new 1 _INBOX.x 5\r\nhello\r\nPING\r\n"),
    ("stomp", None, b"MESSAGE\nsubscription:1\ndestination:/queue/a\nmessage-id:7\n\nbody\0"),
    ("redis", True, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"),
    ("zookeeper", True, bytes.fromhex("00000008fffffffe0000000b")),
    ("zookeeper", False, bytes.fromhex("00000010fffffffe000000000000000700000000")),
    ("zookeeper", True, b"\x00\x00\x00\x13\x00\x00\x00\x03\x00\x00\x00\x03\x00\x00\x00\x06/admin\x01"),
    ("postgresql", False, b"C\x00\x00\x00\x0dSELECT 1\0Z\x00\x00\x00\x05I"),
    ("postgresql", True, b"Q\x00\x00\x00\x0dselect 1\0"),
]


@pytest.mark.parametrize(("protocol", "from_client", "data"), FIRST)
def test_a_connection_is_named_by_its_first_bytes_and_not_before_they_are_there(protocol, from_client, data):
    assert name_foreign(data, from_start=True) == (protocol, from_client)
    named = [name_foreign(data[:size], from_start=True) for size in range(len(data))]
    assert {each for each in named if each} <= {(protocol, from_client)}
    assert all(may_be_foreign(data[:size]) for size in range(len(data)) if named[size] is None)


@pytest.mark.parametrize(("protocol", "from_client", "data"), LATER)
def test_a_connection_is_named_by_a_whole_frame_in_its_middle(protocol, from_client, data):
    assert name_foreign(data, from_start=False) == (protocol, from_client)
    assert name_foreign(data[1:], from_start=False) is None


def test_what_only_begins_a_connection_is_not_believed_in_its_middle():
    later = {(protocol, data) for protocol, _, data in LATER}
    for protocol, _, data in FIRST:
        named = name_foreign(data, from_start=False)
        assert named is None or protocol in ("redis", "amqp-0-9-1"), (protocol, data, later)


@pytest.mark.parametrize(
    "data",
    [
        b"AMQP\x00\x00\x08\x01",  # another version
        b"AMQP is a protocol",
        bytes.fromhex("100c00044d5154540302003c0000"),  # MQTT with level 3
        bytes.fromhex("100c00044d5154540403003c0000"),  # the reserved flag
        b"\x10\xff\xff\xff\xff\x7f\x00\x04MQTT\x04\x02",  # a length of five bytes
        b'INFO {"name":"nobody"}\r\n',
        b"PUB orders\n\x00\x00\x00\x05hello",  # NSQ
        b"PUB orders 5\r\nhello world\r\n",
        b"CONNECT proxy:443 HTTP/1.1\r\nHost: proxy\r\n\r\n",
        b"STOMP\nno header\n\n\0",
        b"*2\r\n$5\r\nHEL\r\n$1\r\n3\r\n",
        b"*1\r\n$4\r\nPING\r\n$4\r\nPONG\r\n",
        bytes.fromhex("0000002d00000000000000000000000000000bb800000000000000000000000f") + bytes(17),
        bytes.fromhex("0000002d00000000000000000000000000000000000000000000000000000010") + bytes(17),
        bytes.fromhex("00000008fffffffe0000000b00"),
        b"\x00\x00\x00\x13\x00\x00\x00\x03\x00\x00\x00\x03\x00\x00\x00\x07admin/\x01",
        b"\x00\x00\x00\x24\x00\x03\x00\x00host\0postgres\0database\0app\0\0",  # no user
        b"\x00\x00\x00\x16\x00\x12\x00\x03\x00\x00\x00\x01\x00\x03abc\x00\x04java\x011\x00",  # Kafka's ApiVersions
        b"Z\x00\x00\x00\x05I",  # one message alone
        b"Q\x00\x00\x00\x0dselect \x01\0",
        bytes.fromhex("4a0000000a382e302e3239000000875c637475504f7375770149"),
        bytes.fromhex("2800000000382e302e3239000000875c637475504f7375770149") + bytes(30),
        bytes.fromhex("2000000105a03a00ffffff002d") + bytes(23),  # without the flag of protocol 4.1
    ],
)
@pytest.mark.parametrize("from_start", [True, False])
def test_what_is_almost_one_of_them_is_none(data, from_start):
    assert name_foreign(data, from_start=from_start) is None


def test_random_bytes_are_never_named():
    dice = random.Random(7)
    heads = [data[:4] for _, _, data in (*FIRST, *LATER)]
    for turn in range(20_000):
        data = dice.choice(heads) * (turn % 2) + dice.randbytes(dice.choice((8, 12, 40, 200)))
        assert name_foreign(data, from_start=bool(turn & 2)) is None


def test_a_greeting_of_any_length_is_read_without_falling():
    for size in range(40, 120):
        greeting = size.to_bytes(3, "little") + b"\x00\x0a8" + b"." * (size - 3) + b"\0"
        assert name_foreign(greeting, from_start=True) is None


@pytest.mark.parametrize("name", ["kafka", "nsq", "pulsar", "rocketmq"])
def test_no_segment_of_ours_is_taken_for_foreign(name):
    looked_at = 0
    for path in sorted((PCAPS / name).glob("*.pcap*")):
        if path.suffix not in (".pcap", ".pcapng"):
            continue
        decoder = PacketDecoder(Limits())
        for batch in FileSource([str(path)], Limits()).batches():
            found = decoder.decode(batch)
            view = memoryview(found.buffer)
            for start, stop in zip(found.start.tolist(), found.stop.tolist(), strict=True):
                looked_at += stop > start
                data = bytes(view[start:stop])
                assert [name_foreign(data, from_start=each) for each in (True, False)] == [None, None], path
    assert looked_at > 500


def test_every_name_has_a_title():
    assert {signature.protocol for signature in SIGNATURES} | {"http", "http2"} == set(TITLES)


# ---- whole connections


def told(tmp_path, dialogue, **how):
    """(protocol, how it was found, bytes not decoded, details of problems, messages) of one connection."""
    write_pcap(tmp_path / "a.pcap", segments(dialogue, **how))
    pipeline = Pipeline(FileSource([str(tmp_path / "a.pcap")]), Settings())
    items = list(pipeline.items())
    (info,) = [item.connection for item in items if isinstance(item, ClosedItem)]
    details = [item.problem.detail for item in items if isinstance(item, ProblemItem)]
    return info.protocol, info.detected_by, info.undecoded_bytes, details, pipeline.totals.messages


def test_a_foreign_connection_is_counted_and_gives_nothing_away(tmp_path):
    dialogue = [client(b"*2\r\n$4\r\nAUTH\r\n$4\r\nhush\r\n"), server(b"+OK\r\n")]
    assert told(tmp_path, dialogue) == ("redis", "content", 29, ["Redis: 29 bytes not decoded"], 0)


def test_first_bytes_in_pieces_are_waited_for(tmp_path):
    info = b'INFO {"server_name":"' + b"n" * 100 + b'","server_id":"x"}\r\n'
    dialogue = [server(info[:20]), server(info[20:90]), server(info[90:]), client(b"PING\r\n")]
    assert told(tmp_path, dialogue)[:2] == ("nats", "content")


def test_a_connection_joined_in_the_middle_gets_its_name_from_a_later_segment(tmp_path):
    dialogue = [client(b"\x07" * 50), server(b"\x08" * 50), client(bytes.fromhex("00000008fffffffe0000000b"))]
    assert told(tmp_path, dialogue, handshake=False) == (
        "zookeeper",
        "content",
        112,
        ["ZooKeeper: 112 bytes not decoded"],
        0,
    )


def test_what_a_dissector_is_sure_of_beats_a_name_that_stood_on_one_frame(tmp_path):
    nsq = b"".join(b"PUB orders\n\x00\x00\x00\x05hello" for _ in range(4))
    dialogue = [client(b"*1\r\n$4\r\nPING\r\n"), client(nsq), server(b"\x00\x00\x00\x06\x00\x00\x00\x00OK" * 4)]
    protocol, _, _, _, messages = told(tmp_path, dialogue, handshake=False)
    assert (protocol, messages > 0) == ("nsq", True)


@pytest.mark.parametrize(("timeout", "named"), [(0, False), (1, True), ((1 << 31) - 1, True), (1 << 31, False)])
def test_a_timeout_of_zookeeper_is_a_positive_number_of_32_bits(timeout, named):
    asked = bytes.fromhex("0000002c000000000000000000000000") + timeout.to_bytes(4, "big")
    asked += bytes(8) + bytes.fromhex("00000010") + bytes(16)
    assert name_foreign(asked, from_start=True) == (("zookeeper", True) if named else None)


def test_a_ping_of_zookeeper_is_one_alone_and_with_another_frame_behind_it():
    ping = bytes.fromhex("00000008fffffffe0000000b")
    assert name_foreign(ping, from_start=False) == name_foreign(ping * 2, from_start=False) == ("zookeeper", True)
    assert name_foreign(ping + b"\0", from_start=False) is None


@pytest.mark.parametrize("changed", [b"", b"x"])
def test_a_request_of_zookeeper_is_its_frame_and_no_byte_more(changed):
    asked = b"\x00\x00\x00\x13\x00\x00\x00\x03\x00\x00\x00\x03\x00\x00\x00\x06/admin\x01"
    found = name_foreign(asked + changed, from_start=False)
    assert found == (None if changed else ("zookeeper", True))
