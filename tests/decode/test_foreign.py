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


# ---- bounds of signatures: what just is one of them, and what just is none


def amqp(body: bytes, behind: bytes = b"", channel: int = 0) -> bytes:
    return b"\x01" + channel.to_bytes(2, "big") + len(body).to_bytes(4, "big") + body + b"\xce" + behind


def method(number: int, kind: int) -> bytes:
    return number.to_bytes(2, "big") + kind.to_bytes(2, "big")


HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


@pytest.mark.parametrize(
    ("data", "named"),
    [
        *((amqp(method(number, 10)), number in (10, 20, 40, 50, 60, 85, 90)) for number in range(0, 101, 5)),
        *((amqp(method(10, kind)), 10 <= kind <= 120) for kind in (9, 10, 120, 121)),
        (amqp(method(10, 10)[:3]), False),
        (amqp(method(10, 10))[:-1], False),
        (amqp(method(10, 10))[:-1] + b"\xcf", False),
        *((amqp(method(10, 10), bytes([kind]) + b"\x00\x07", 7), kind in (1, 2, 8)) for kind in range(10)),
        (amqp(method(10, 10), b"\x01\x00\x08", 7), False),  # a frame of another channel
        (amqp(method(10, 10), b"\x01\x00", 7), False),
        (b"\x02" + amqp(method(10, 10))[1:], False),
        *((HEARTBEAT + bytes([kind]), kind in (1, 8)) for kind in range(10)),
    ],
)
def test_a_frame_of_amqp_is_a_method_of_a_known_class_or_a_heartbeat(data, named):
    assert name_foreign(data, from_start=False) == (("amqp-0-9-1", None) if named else None)


@pytest.mark.parametrize("at", [0, 1, 2, 7, 8, 9, 10, 11, 12])
def test_a_start_of_amqp_is_a_start_of_its_version_on_channel_0(at):
    start = bytearray(next(data for _, from_client, data in FIRST if from_client is False))
    start[at] ^= 4
    assert name_foreign(bytes(start), from_start=True) in (None, ("amqp-0-9-1", None)), "it may still be a frame"


@pytest.mark.parametrize(
    ("length", "named"),
    [(b"\x10", True), (b"\xff\x01", True), (b"\xff\xff\xff\x01", True), (b"\xff\xff\xff\xff\x01", False)],
)
@pytest.mark.parametrize(("name", "levels"), [(b"\x00\x04MQTT", (4, 5, 0x84, 0x85)), (b"\x00\x06MQIsdp", (3, 0x83))])
def test_a_connect_of_mqtt_has_a_length_of_four_bytes_a_level_and_a_flag_of_0(length, named, name, levels):
    for level in range(256):
        found = name_foreign(b"\x10" + length + name + bytes([level, 0xFE]), from_start=True)
        assert found == (("mqtt", True) if named and level in levels else None)
    assert name_foreign(b"\x10" + length + name + bytes([levels[0], 0x03]), from_start=True) is None


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"PUB a 0\r\n\r\n", True),
        (b"PUB a reply 2\r\nhi\r\n", True),
        (b"PUB a 3\r\nhi\r\n", False),
        (b"PUB a 1\r\nhi\r\n", False),
        (b"PUB a 2\r\nhi\r", False),
        (b"PUB a 123456789\r\n", False),
        (b"MSG a 9 2\r\nhi\r\n", True),
        (b"MSG a 9 reply 2\r\nhi\r\n", True),
        (b"MSG a 2\r\nhi\r\n", False),
    ],
)
def test_a_delivery_of_nats_ends_where_its_size_says(data, named):
    assert name_foreign(data, from_start=False) == (("nats", None) if named else None)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"*1\r\n$4\r\nPING\r\n", True),
        (b"*1\r\n$4\r\nPING\r\n*1\r\n", True),
        (b"*2\r\n$4\r\nPING\r\n*1\r\n", False),
        (b"*2\r\n$4\r\nPING\r\n$1", True),
        (b"*1\r\n$4\r\nPING\r\n$1", False),
        (b"*2\r\n$4\r\nPING\r\n", True),
        (b"*2\r\n$5\r\nPING\r\n", False),
        (b"*2\r\n$12\r\nFT._AGGREGAT\r\n", True),
        (b"*0\r\n$4\r\nPING\r\n", False),
        (b"*2\r\n$4\r\n1ING\r\n", False),
    ],
)
def test_a_command_of_redis_is_an_array_of_strings_with_a_word_first(data, named):
    assert name_foreign(data, from_start=False) == (("redis", True) if named else None)


def asked_of_zookeeper(path: bytes, *, xid: int = 3, operation: int = 3, length: int | None = None) -> bytes:
    head = xid.to_bytes(4, "big") + operation.to_bytes(4, "big")
    rest = head + (len(path) if length is None else length).to_bytes(4, "big") + path
    return len(rest).to_bytes(4, "big") + rest


KNOWN = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 19, 20, 21, 104, 106)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (asked_of_zookeeper(b"/"), True),
        (asked_of_zookeeper(b""), False),
        *((asked_of_zookeeper(b"/a", operation=number), number in KNOWN) for number in range(110)),
        (asked_of_zookeeper(b"/a\x01", length=2), True),
        (asked_of_zookeeper(b"/a\x01"), False),
        (asked_of_zookeeper(b"a/"), False),
        (asked_of_zookeeper(b"/a", length=3), False),
        (asked_of_zookeeper(b"/a", xid=(1 << 31) - 1), True),
        (asked_of_zookeeper(b"/a", xid=1 << 31), False),
        (asked_of_zookeeper(b"/" * 8_179)[: 4 + 8_191], False),
        (asked_of_zookeeper(b"/" * (8_188 - 12)), True),
    ],
)
def test_a_request_of_zookeeper_is_a_known_operation_on_a_path(data, named):
    assert name_foreign(data, from_start=False) == (("zookeeper", True) if named else None)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"\0\0\0\x10\xff\xff\xff\xfe" + bytes(12), True),
        (b"\0\0\0\x10\xff\xff\xff\xfe" + bytes(11), False),
        (b"\0\0\0\x10\xff\xff\xff\xfe" + bytes(8) + b"\0\0\0\1", False),  # an error
        (b"\0\0\0\x11" + b"\xff" * 12 + bytes(4), True),
        (b"\0\0\0\x10" + b"\xff" * 12 + bytes(4), False),  # without the event
        (b"\0\0\x20\0" + b"\xff" * 12 + bytes(4), True),
        (b"\0\0\x20\1" + b"\xff" * 12 + bytes(4), False),
        (b"\0\0\0\x11" + b"\xff" * 12 + b"\0\0\0\1", False),
    ],
)
def test_a_reply_of_zookeeper_is_that_to_a_ping_or_an_event(data, named):
    assert name_foreign(data, from_start=False) == (("zookeeper", False) if named else None)


@pytest.mark.parametrize(("size", "from_client", "timeout_at", "password_at"), [(44, True, 16, 28), (36, False, 8, 20)])
def test_a_hello_of_zookeeper_has_version_0_a_password_of_16_bytes_and_since_3_4_a_boolean(
    size, from_client, timeout_at, password_at
):
    def hello(more: bytes, **numbers: int) -> bytes:
        data = bytearray(size.to_bytes(4, "big") + bytes(size) + more)
        data[3] += len(more)
        for at, number in ((4, 0), (timeout_at, 1), (password_at, 16)):
            data[at : at + 4] = numbers.get(f"at_{at}", number).to_bytes(4, "big")
        return bytes(data)

    named = ("zookeeper", from_client)
    good = [hello(b""), hello(b"\0"), hello(b"\1")]
    assert [name_foreign(data, from_start=True) for data in good] == [named] * 3
    bad = [hello(b"\2"), hello(b"\0\0"), hello(b"", at_4=1), hello(b"", **{f"at_{password_at}": 15}), hello(b"\0")[:-1]]
    assert [name_foreign(data, from_start=True) for data in bad] == [None] * 5


def startup(settings: bytes, *, version: bytes = b"\0\3\0", more: int = 0) -> bytes:
    return (8 + len(settings) + more).to_bytes(4, "big") + version + b"\0" + settings


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (startup(b"user\0a\0\0"), True),
        (startup(b"user\0a\0\0") + b"more", True),
        (startup(b"user\0a\0\0", more=1), False),
        (startup(b"user\0a\0\0", version=b"\0\2\0"), False),
        (startup(b"user\0a\0"), False),
        (startup(b"User\0a\0\0"), False),
        (startup(b"database\0a\0user\0\0\0"), True),
        (startup(b"9user\0a\0\0"), False),
        (startup(b"a" * 8_170 + b"\0\0user\0b\0\0"), True),
        (startup(b"a" * 8_180 + b"\0\0user\0b\0\0"), False),
    ],
)
def test_a_startup_of_postgresql_names_a_user_in_pairs_of_texts(data, named):
    assert name_foreign(data, from_start=True) == (("postgresql", True) if named else None)


READY = b"Z\0\0\0\5I"


@pytest.mark.parametrize(
    ("data", "from_client", "named"),
    [
        (b"1\0\0\0\4" + READY, False, True),
        (b"1\0\0\0\3" + READY, False, False),
        (b"1\0\0\0\5" + READY, False, False),
        (b"?\0\0\0\4" + READY, False, False),
        (READY, False, False),
        (READY * 2, False, True),
        (b"1\0\0\0\4" + READY + b"1", False, False),
        *((b"1\0\0\0\4Z\0\0\0\5" + state, False, True) for state in (b"I", b"T", b"E")),
        (b"1\0\0\0\4Z\0\0\0\5X", False, False),
        (b"Q\0\0\0\x09abcd\0", True, True),
        (b"Q\0\0\0\x08abc\0", True, False),
        (b"Q\0\0\0\x0aabcd\0", True, False),
        (b"Q\0\0\0\x09abcd\1", True, False),
        (b"Q\0\0\0\x09ab\x08d\0", True, False),
        (b"P\0\0\0\x09abcd\0", True, False),
    ],
)
def test_messages_of_postgresql_fit_their_lengths_to_the_last_byte(data, from_client, named):
    assert name_foreign(data, from_start=False) == (("postgresql", from_client) if named else None)


def greeting(
    version: bytes = b"8.0", *, size: int | None = None, filler: bytes = b"\0", zeros: bytes = bytes(6)
) -> bytes:
    rest = b"\x0a" + version + b"\0" + bytes(4) + b"saltsalt" + filler + b"caps" + b"more" + zeros + bytes(4)
    rest = rest.ljust(40 if size is None else size, b"x")
    return len(rest).to_bytes(3, "little") + b"\0" + rest


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (greeting(), True),
        (greeting(size=512), True),
        (greeting(size=513), False),
        (greeting(b"5", size=40)[:4] + b"\x0a5.", False),
        (greeting(b"8."), False),
        (greeting(b"8" * 61, size=120), True),
        (greeting(b"8" * 62, size=120), False),
        (greeting(b"x.0"), False),
        (greeting(filler=b"\1"), False),
        *((greeting(zeros=bytes(at) + b"\1" + bytes(5 - at)), False) for at in range(6)),
        (greeting()[:3] + b"\1" + greeting()[4:], False),
        (greeting()[:4] + b"\x09" + greeting()[5:], False),
        (b"\x27" + greeting()[1:-1], False),
        (greeting()[:-1], False),
    ],
)
def test_a_greeting_of_mysql_has_a_version_a_filler_and_reserved_zeros(data, named):
    assert name_foreign(data, from_start=True) == (("mysql", False) if named else None)


def answer(
    size: int = 32, *, number: int = 1, flags: int = 0x200, charset: int = 0x2D, zeros: bytes = bytes(19)
) -> bytes:
    head = size.to_bytes(3, "little") + bytes([number])
    return head + flags.to_bytes(4, "little") + bytes(4) + bytes([charset]) + zeros + b"user"


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({}, True),
        ({"size": 8192}, True),
        ({"size": 8193}, False),
        ({"size": 31}, False),
        ({"number": 0}, False),
        ({"number": 2}, False),
        ({"flags": 0xFFFFFDFF}, False),
        ({"charset": 0}, False),
        *(({"zeros": bytes(at) + b"\1" + bytes(18 - at)}, False) for at in range(19)),
    ],
)
def test_an_answer_to_mysql_is_of_protocol_41_and_has_reserved_zeros(more, named):
    data = answer(**more)
    assert name_foreign(data, from_start=True) == (("mysql", True) if named else None)
    assert name_foreign(data[:35], from_start=True) is None


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"SEND\ndestination:/q\n\n", True),
        (b"SUBSCRIBE\r\nid:0\r\ndestination:/q\r\nack:auto\r\n\r\n", True),
        (b"MESSAGE\nid:0\n\n", False),
        (b"SEND\ndestination:/q\n", False),
        (b"ACK\ndestination:/q\n\n", False),
    ],
)
def test_a_frame_of_stomp_names_its_destination(data, named):
    assert name_foreign(data, from_start=False) == (("stomp", None) if named else None)


def test_only_the_first_8_kib_are_looked_at():
    long = b"STOMP\nlogin:" + b"a" * 8_192 + b"\n\n\0"
    assert name_foreign(long, from_start=True) is None
    assert may_be_foreign(long[:8_191])
    assert not may_be_foreign(long[:8_192])


HOPELESS: list[tuple[str, list[bytes]]] = [
    (
        "amqp-0-9-1",
        [b"AMQP\0\0\x09\x02", b"AMQP\4", b"\1\1", b"\1\0\1", b"\2\0", b"\1\0\0\0\0\0\x24\0\x0a\0\x0a\0\x0a"],
    ),
    ("amqp-1.0", [b"AMQP\4", b"AMQP\0\2", b"AMQP\2\1\1", b"AMQP\3\1\0\1"]),
    ("mqtt", [b"\x11", b"\x10\x10\1", b"\x10\x10\0\5", b"\x10\x10\0\4MQTX", b"\x10\xff\xff\xff\xff\1"]),
    ("nats", [b"INFO [", b'INFO {"name"}\r\n\r\n', b"CONNECT [", b"PUBLISH"]),
    ("stomp", [b"STOMP\n\n\0", b"STOMP\nno header\nx", b"CONNECTED\n\n\0"]),
    ("redis", [b"*x\r\n?", b"*" + b"1" * 122, b"%7\r\n$5"]),
    ("zookeeper", [b"\0\0\0\x2b", b"\0\0\0\x2e\0\0\0\0", b"\0\0\0\x2c\0\0\0\1", b"\0\0\0\x26\0\0\0\0"]),
    ("postgresql", [b"\1\0\0\0", b"\0\1\0\0\0", b"\0\0\0\0\1", b"\0\0\0\0\0\4", b"\0\0\0\0\0\3\1"]),
    ("postgresql", [b"\0\0\0\x0d\0\3\0\0", b"\0\0\x20\1\0\3\0\0", b"\0\0\0\7\4\xd2"]),
    ("mysql", [b"\0\0\0\2", b"\x27\0\0\0\x0a", b"\1\2\0\0\x0a", b"\x28\0\0\0\x09"]),
    ("mysql", [b"\x1f\0\0\1\0", b"\1\x20\0\1\0", b"\x20\0\0\2\0"]),
]
"""Beginnings that no more bytes can make one of the protocol."""


@pytest.mark.parametrize(("protocol", "data"), [(name, data) for name, group in HOPELESS for data in group])
def test_what_nothing_can_complete_is_not_waited_for(protocol, data):
    found = [signature.find(data) for signature in SIGNATURES if signature.protocol == protocol]
    assert found == [False] * len(found)


@pytest.mark.parametrize("begun", [b"", b"\1", b"\0\0", b"AM", b"*", b"CONNECT", b"\0\0\0\x2c"])
def test_what_may_become_one_of_them_is_waited_for(begun):
    assert may_be_foreign(begun)


def test_a_connection_that_was_joined_late_keeps_the_first_name_that_it_got(tmp_path):
    ping, query = bytes.fromhex("00000008fffffffe0000000b"), b"Q\x00\x00\x00\x0dselect 1\0"
    dialogue = [client(b"\x07" * 50), server(b"\x08" * 50), client(ping), server(b"\x08" * 9), client(query)]
    assert told(tmp_path, dialogue, handshake=False)[0] == "zookeeper"
