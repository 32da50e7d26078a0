"""MQTT keeps the laws of dissectors, and reads what the standard's examples say."""

from __future__ import annotations

import pytest
from mqsniff_mqtt import Mqtt, remaining_length

from mqsniff.plugin import NEED, NO_FRAME, Message, ProvenSize, Secret, Side
from mqsniff.testing import DissectorLaws, Driver, Say, chunks, client, server


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | 0x80 if value else low)
        if not value:
            return bytes(out)


def packet(first: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes([first]) + varint(len(body)) + body


def string(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return len(data).to_bytes(2, "big") + data


def number(value: int) -> bytes:
    return value.to_bytes(2, "big")


# What the figures of the standard spell out, byte by byte.
CONNECT_HEADER = bytes.fromhex("00044d515454 04 ce 000a")  # figure 3.6: all flags but will retain, will QoS 1, 10 s
PUBLISH_HEADER = bytes.fromhex("0003612f62 000a")  # figure 3.11: topic a/b, identifier 10
SUBSCRIBE_PAYLOAD = bytes.fromhex("0003612f62 01 0003632f64 02")  # figure 3.23: a/b with QoS 1, c/d with QoS 2
SUBACK_PAYLOAD = bytes.fromhex("00 02 80")  # figure 3.26: QoS 0, QoS 2, failure
UNSUBSCRIBE_PAYLOAD = bytes.fromhex("0003612f62 0003632f64")  # figure 3.30: a/b and c/d
LATIN_A_CJK = bytes.fromhex("0005 41 f0aa9b94")  # figure 1.2: A and U+2A6D4
TEN = number(10)

FULL_CONNECT = packet(
    0x10, CONNECT_HEADER, string("meter-7"), string("gone"), string(b"\xff\x00"), string("anna"), string("open sesame")
)
CONNECT = packet(0x10, bytes.fromhex("00044d515454 04 02 003c"), string("kitchen"))
CONNACK = bytes.fromhex("20020000")
PING, PONG, DISCONNECT = b"\xc0\x00", b"\xd0\x00", b"\xe0\x00"


def publish(qos: int, topic: str, payload: bytes, identifier: int = 0, *, dup: int = 0, retain: int = 0) -> bytes:
    return packet(0x30 | dup << 3 | qos << 1 | retain, string(topic), number(identifier) if qos else b"", payload)


def short(first: int, identifier: int) -> bytes:
    """PUBACK, PUBREC, PUBREL, PUBCOMP, UNSUBACK."""
    return packet(first, number(identifier))


class TestMqtt(DissectorLaws):
    dissector = Mqtt
    conversations = {
        "a producer": [
            client(FULL_CONNECT),
            server(CONNACK),
            client(publish(0, "a/b", b"17.5 C", retain=1)),
            client(
                publish(1, "a/b", b"x" * 200, 10) + publish(1, "a/b", b"", 10, dup=1) + publish(2, "c/d", b"two", 11)
            ),
            server(short(0x40, 10) + short(0x40, 10), short(0x50, 11)),
            client(short(0x62, 11)),
            server(short(0x70, 11)),
            client(PING),
            server(PONG),
            client(publish(1, "a/b", b"never acknowledged", 12), DISCONNECT),
        ],
        "a consumer": [
            client(CONNECT),
            server(CONNACK),
            client(packet(0x82, TEN, SUBSCRIBE_PAYLOAD)),
            server(packet(0x90, TEN, b"\x01\x02") + publish(0, "a/b", b"zero")),
            # Identifiers are per direction: both sides use 10 at the same time.
            server(publish(1, "a/b", b"one", 10), publish(2, "c/d", b"two" * 6000, 11)),
            client(publish(1, "a/b", b"mine", 10)),
            client(short(0x40, 10) + short(0x50, 11)),
            server(short(0x40, 10) + short(0x62, 11)),
            client(short(0x70, 11)),
            client(packet(0xA2, TEN, UNSUBSCRIBE_PAYLOAD)),
            server(short(0xB0, 10)),
            client(DISCONNECT),
        ],
        "a filter is refused": [
            client(CONNECT),
            server(b"\x20\x02\x01\x00"),
            client(packet(0x82, TEN, SUBSCRIBE_PAYLOAD, string("$SYS/#"), b"\x00")),
            server(packet(0x90, TEN, SUBACK_PAYLOAD)),
        ],
        "a client is refused": [client(FULL_CONNECT), server(b"\x20\x02\x00\x05")],
    }
    counts = {
        "a producer": (15, 0, {}),
        "a consumer": (16, 0, {}),
        "a filter is refused": (4, 0, {}),
        "a client is refused": (2, 0, {}),
    }


def told(*said: Say) -> list[Message]:
    """The messages of a conversation, decoded without detection."""
    return Driver(Mqtt).run(chunks(list(said))).messages


@pytest.mark.parametrize(  # table 2.4, and 321 of chapter 2.2.3
    ("value", "wire"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (321, "c102"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        (2_097_151, "ffff7f"),
        (2_097_152, "80808001"),
        (268_435_455, "ffffff7f"),
    ],
)
def test_the_remaining_length_takes_one_to_four_bytes(value, wire):
    head = b"\x30" + bytes.fromhex(wire)
    assert remaining_length(head) == (value, len(head))
    assert all(remaining_length(head[:cut]) is None for cut in range(len(head)))
    assert Mqtt.probe(Side.CLIENT, head + b"\x00\x01") in {value + len(head), NO_FRAME}


def test_the_connect_of_figure_3_6():
    (connect,) = told(client(FULL_CONNECT))
    password = connect.body.pop("password")
    assert isinstance(password, Secret)
    assert connect.body == {
        "flags": 0,
        "remaining_length": 48,
        "protocol_name": "MQTT",
        "protocol_level": 4,
        "user_name_flag": True,
        "password_flag": True,
        "will_retain": False,
        "will_qos": 1,
        "will_flag": True,
        "clean_session": True,
        "reserved": 0,
        "keep_alive": 10,
        "client_identifier": "meter-7",
        "will_topic": "gone",
        "will_message": b"\xff\x00",
        "user_name": "anna",
    }


def test_a_connect_tells_who_is_there():
    identity = Driver(Mqtt).run(chunks([client(FULL_CONNECT)])).dissector.identity
    assert (identity.client_id, identity.user) == ("meter-7", "anna")


def test_the_publish_of_figure_3_11():
    (message,) = told(client(packet(0x3B, PUBLISH_HEADER, b"payload")))
    assert (message.kind, message.topics, message.correlation) == ("request", ("a/b",), "10")
    assert [message.body[name] for name in ("dup", "qos", "retain", "payload_size")] == [True, 1, True, 7]
    (batch,) = message.records
    ((start,), (stop,)) = batch.values
    assert batch.data[start:stop] == b"payload"


def test_the_filters_and_codes_of_figures_3_23_and_3_26():
    subscribe, suback = told(
        client(packet(0x82, TEN, SUBSCRIBE_PAYLOAD, LATIN_A_CJK, b"\x01")), server(packet(0x90, TEN, SUBACK_PAYLOAD))
    )
    wanted = [("a/b", 1), ("c/d", 2), ("A\U0002a6d4", 1)]
    filters = [{"topic_filter": name, "requested_qos": qos} for name, qos in wanted]
    assert subscribe.body["topic_filters"] == filters
    assert suback.body["return_codes"] == [0, 2, 0x80]
    assert (suback.error_code, suback.error_name, suback.error_count) == (0x80, "FAILURE", 1)
    assert [pending.status for pending in suback.resolved] == ["partial"]
    assert [row["error_code"] for row in suback.partitions] == [0, 0, 0x80]


def test_the_filters_of_figure_3_30():
    (message,) = told(client(packet(0xA2, TEN, UNSUBSCRIBE_PAYLOAD)))
    assert message.topics == ("a/b", "c/d")


@pytest.mark.parametrize(
    ("code", "name"), [(0, "ACCEPTED"), (1, "UNACCEPTABLE_PROTOCOL_VERSION"), (5, "NOT_AUTHORIZED"), (77, None)]
)
def test_the_codes_of_connack(code, name):
    _, connack = told(client(CONNECT), server(bytes([0x20, 2, 0, code])))
    assert (connack.error_code, connack.error_name, connack.error_count) == (code, name, int(code > 0))


def test_what_answers_what():
    """Each answer, with the identifiers of the two directions in use at the same time."""
    messages = told(*TestMqtt.conversations["a consumer"])
    pairs = [(pending.frame.offset, pending.link, m.name) for m in messages for pending in m.resolved]
    names = {(m.frame.side, m.frame.offset): (m.name, m.frame.side.text) for m in messages}
    asked = {(p.frame.side, p.frame.offset): p.link for m in messages for p in m.pending}
    assert [names[place] + (link,) for place, link in asked.items()] == [
        ("CONNECT", "client", "answer"),
        ("SUBSCRIBE", "client", "answer"),
        ("PUBLISH", "server", "settlement"),
        ("PUBLISH", "server", "settlement"),
        ("PUBLISH", "client", "answer"),
        ("PUBREL", "server", "answer"),
        ("UNSUBSCRIBE", "client", "answer"),
    ]
    assert [(link, name) for _, link, name in pairs] == [
        ("answer", "CONNACK"),
        ("answer", "SUBACK"),
        ("settlement", "PUBACK"),
        ("settlement", "PUBREC"),
        ("answer", "PUBACK"),
        ("answer", "PUBCOMP"),
        ("answer", "UNSUBACK"),
    ]


@pytest.mark.parametrize(
    "wire",
    [
        "0000",  # type 0
        "f000",  # type 15
        "c100",  # PINGREQ with flags
        "c001",  # PINGREQ with a body
        "6002000a",  # PUBREL without its flags
        "3605000161000a",  # QoS 3
        "380400016178",  # DUP with QoS 0
        "3004000361",  # a topic longer than its packet
        "40020000",  # identifier 0
        "4082000001",  # a length that is not in its shortest form
        "30ffffffff7f",  # a length of five bytes
        "101000044d51545405020000",  # MQTT 5
        "101000044d51545404030000",  # the reserved bit of CONNECT
        "20020000",  # CONNACK of a client
    ],
)
def test_probe_refuses(wire):
    assert Mqtt.probe(Side.CLIENT, bytes.fromhex(wire)) is NO_FRAME


def test_a_connect_proves_itself():
    assert isinstance(Mqtt.probe(Side.CLIENT, FULL_CONNECT), ProvenSize)
    assert Mqtt.probe(Side.CLIENT, FULL_CONNECT[:9]) is NEED


def test_deliveries_say_what_settled_them_and_qos_0_is_never_acknowledged():
    messages = told(*TestMqtt.conversations["a consumer"], client(publish(0, "a/b", b"")))
    settled = [p.extra["settled_by"] for m in messages for p in m.resolved if p.link == "settlement"]
    assert settled == ["PUBACK", "PUBREC"]
    assert [b.constant.get("ack") for m in messages for b in m.records] == [None, None, None, None, "none"]


def test_a_publish_whose_payload_was_lost_is_kept_and_paired():
    said = [client(CONNECT), client(publish(1, "a/b", b"x" * 500, 10)), server(CONNACK, short(0x40, 10)), client(PING)]
    start = len(CONNECT) + 20
    driver = Driver(Mqtt).run(chunks(said, holes=([(start, start + 100)], [])))
    cut = next(message for message in driver.messages if message.name == "PUBLISH")
    assert (cut.frame.whole, cut.body["packet_identifier"], cut.body["payload_size"]) == (False, 10, 500)
    assert cut.records == ()
    assert [pending.frame.offset for m in driver.messages for pending in m.resolved] == [0, len(CONNECT)]


def test_what_a_newer_version_adds_stays_undecoded():
    connect = packet(0x10, bytes.fromhex("00044d515454 05 02 003c 00"), string("kitchen"))
    first, second = told(client(connect, packet(0x32, PUBLISH_HEADER, b"\x00payload")))
    assert [problem.kind for problem in first.problems] == ["unknown_version"]
    assert "rest" in first.body
    assert second.body["packet_identifier"] == 10
    assert second.records == ()
