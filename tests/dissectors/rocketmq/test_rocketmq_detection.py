"""Which connections are remoting, which way round, and which are the replication stream."""

from __future__ import annotations

import struct

import pytest
from remotingcraft import (
    CONVERSATIONS,
    HA_CONVERSATIONS,
    answer,
    binary_frame,
    frame,
    ha_piece,
    ha_report,
    json_frame,
    pull_fields,
    send_fields,
    stored,
)

from mqsniff.dissector import Sample, Verdict
from mqsniff.model import Side
from mqsniff.testing.conversations import chunks, streams
from mqsniff.testing.driver import Driver
from mqsniff_rocketmq import RocketMQ, RocketMQHa

NOTHING = Sample(b"", (0,), True)


def middle(data: bytes, *starts: int) -> Sample:
    return Sample(data, starts or (0,), False)


@pytest.mark.parametrize("data", [json_frame(106, 1), binary_frame(904, 1, {"brokerName": "b"}, flag=2)])
def test_one_frame_of_either_side_is_proof(data):
    assert RocketMQ.detect(Sample(data), NOTHING) is Verdict.YES
    assert RocketMQ.detect(NOTHING, Sample(data)) is Verdict.YES


def test_a_part_of_a_head_wants_more():
    for size in range(1, 8):
        assert RocketMQ.detect(Sample(json_frame(106, 1)[:size]), NOTHING) is Verdict.MORE


def test_a_peer_that_speaks_something_else_refutes():
    assert RocketMQ.detect(Sample(json_frame(106, 1)), Sample(b"HTTP/1.1 400 Bad Request\r\n")) is Verdict.NO


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x03\x00\xdf", b"GET / HTTP/1.1\r\n", b"  V2", struct.pack(">IHHi", 40, 18, 3, 1)]
)
def test_other_protocols_are_refused_at_once(data):
    assert RocketMQ.detect(Sample(data), NOTHING) is Verdict.NO


ASK, TOLD = json_frame(11, 1, pull_fields()), answer(1)
PUSHED = json_frame(40, 2, {"consumerGroup": "g"}, flag=2)


@pytest.mark.parametrize(
    ("client", "server", "verdict"),
    [
        (ASK, TOLD, Verdict.YES),
        (TOLD, ASK, Verdict.NO),
        (ASK, b"", Verdict.YES),
        (TOLD, b"", Verdict.NO),
        (b"", TOLD, Verdict.YES),
        (b"", ASK, Verdict.NO),
        (ASK, PUSHED, Verdict.YES),
        (TOLD, PUSHED, Verdict.NO),
        (b"", PUSHED, Verdict.YES),
        (ASK + TOLD, TOLD, Verdict.YES),
        (binary_frame(0, 1, flag=1), binary_frame(310, 2, send_fields()), Verdict.NO),
    ],
)
def test_without_a_handshake_the_sides_are_told_by_who_asks(client, server, verdict):
    samples = [middle(data) if data else Sample(b"", (), False) for data in (client, server)]
    assert RocketMQ.detect(*samples) is verdict
    assert RocketMQ.detect(Sample(client), Sample(server)) in (Verdict.YES, Verdict.MORE)


def test_in_the_middle_a_frame_may_start_at_any_segment():
    data = b"x" * 50 + TOLD
    assert RocketMQ.detect(Sample(b"", (), False), middle(data, 0, 50)) is Verdict.YES
    assert RocketMQ.detect(Sample(b"", (), False), middle(data, 0, 20)) is Verdict.MORE


# ---- the replication stream

LOG = stored(b"one") + stored(b"two", offset=1)


def switching(*pieces: bytes) -> bytes:
    return b"".join(pieces)


SLAVE_HELLO = struct.pack(">ihhq", 1, 0, 0, 2)
MASTER_HELLO = struct.pack(">iiqi", 1, 12, 0, 1) + struct.pack(">iq", 1, 0)
SLAVE_REPORT = struct.pack(">iq", 2, 0)
TRANSFER = struct.pack(">iiqiqq", 2, len(LOG), 0, 1, 0, 0) + LOG

HA = {
    "a report and a piece": (ha_report(0), ha_piece(0, LOG)),
    "heartbeats": (ha_report(700) * 3, ha_piece(700) * 3),
    "pieces in a row": (ha_report(5), ha_piece(5, b"x" * 30) + ha_piece(35, b"y" * 30) + ha_piece(65)),
    "controller mode": (SLAVE_HELLO + SLAVE_REPORT, MASTER_HELLO + TRANSFER),
    "controller mode, transfers only": (SLAVE_REPORT * 2, TRANSFER),
}


@pytest.mark.parametrize(("slave", "master"), HA.values(), ids=HA)
def test_the_replication_stream_is_named_and_is_no_remoting(slave, master):
    assert RocketMQHa.detect(Sample(slave), Sample(master)) is Verdict.YES
    assert RocketMQ.detect(Sample(slave), Sample(master)) is Verdict.NO
    for size in range(len(master)):
        assert RocketMQHa.detect(Sample(slave), Sample(master[:size])) in (Verdict.MORE, Verdict.MAYBE, Verdict.YES)


NO_HA = {
    "reports that fall": (ha_report(9) + ha_report(3), ha_piece(0, LOG)),
    "negative reports": (ha_report(-9), ha_piece(0, LOG)),
    "pieces that do not follow each other": (ha_report(0), ha_piece(0, b"x" * 30) + ha_piece(99, b"y" * 30)),
    "a piece of a lying length": (ha_report(0), struct.pack(">qi", 0, 1 << 30) + LOG),
    "remoting": (json_frame(106, 1), answer(1)),
    "a handshake of nobody": (struct.pack(">ihhq", 1, 7, 0, 2), MASTER_HELLO + TRANSFER),
    "a master of nobody": (SLAVE_HELLO, struct.pack(">iiqi", 1, 13, 0, 1) + bytes(40)),
    "transfers of nobody": (SLAVE_REPORT, struct.pack(">iiqiqq", 2, -1, 0, 1, 0, 0)),
    "other states": (SLAVE_HELLO + struct.pack(">iq", 3, 0), MASTER_HELLO + TRANSFER),
}


@pytest.mark.parametrize(("slave", "master"), NO_HA.values(), ids=NO_HA)
def test_what_is_no_replication_is_refused(slave, master):
    assert RocketMQHa.detect(Sample(slave), Sample(master)) is Verdict.NO


def test_zeros_prove_nothing():
    assert RocketMQHa.detect(Sample(bytes(64)), Sample(bytes(120))) is Verdict.MORE


def test_half_of_it_waits_and_the_middle_is_left_alone():
    assert RocketMQHa.detect(Sample(ha_report(5) * 3), NOTHING) is Verdict.MAYBE
    assert RocketMQHa.detect(middle(ha_report(5) * 3), middle(ha_piece(0, LOG))) is Verdict.NO
    assert RocketMQHa.detect(NOTHING, NOTHING) is Verdict.MORE


def test_its_bytes_are_counted_in_runs():
    (dialogue,) = HA_CONVERSATIONS.values()
    sizes = [len(stream) for stream in streams(dialogue)]
    driver = Driver(RocketMQHa).run(chunks(dialogue))
    assert [(s.side, s.offset, s.length) for s in driver.skipped] == [
        (Side.CLIENT, 0, sizes[0]),
        (Side.SERVER, 0, sizes[1]),
    ]
    holed = Driver(RocketMQHa).run(chunks(dialogue, holes=([], [(20, 30)])))
    assert [(s.side, s.offset, s.length) for s in holed.skipped] == [
        (Side.SERVER, 0, 20),
        (Side.CLIENT, 0, sizes[0]),
        (Side.SERVER, 30, sizes[1] - 30),
    ]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversations_are_no_replication(name):
    first, second = (Sample(stream) for stream in streams(CONVERSATIONS[name]))
    assert RocketMQHa.detect(first, second) is Verdict.NO


# ---- lone frames in the middle


JSON_LONE = json_frame(10, 7, send_fields(), b"value")
BINARY_LONE = binary_frame(11, 7, pull_fields(), remark="why")
KAFKA_RECORDS = bytes.fromhex("01000000 01a00176 322d 00 012a 00010000 00000001 000001ba 0100 0000") + bytes(400)
"""Inside record data, where the sizes of a header and of a remark can be read that are too long to be seen."""


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (JSON_LONE, Verdict.YES),
        (BINARY_LONE, Verdict.YES),
        (JSON_LONE[:60], Verdict.YES),
        (BINARY_LONE[:60], Verdict.YES),
        (BINARY_LONE[: 8 + 17], Verdict.MORE),
        (frame(b'{"code":1}'), Verdict.MAYBE),
        (JSON_LONE.replace(b'"opaque"', b'"opague"'), Verdict.MAYBE),
        (BINARY_LONE.replace(b"\x00\x0dconsumerGroup", b"\x00\x0fconsumerGroup"), Verdict.MAYBE),
        (KAFKA_RECORDS, Verdict.MAYBE),
    ],
)
def test_a_lone_frame_in_the_middle_is_proven_by_its_whole_header(data, verdict):
    assert RocketMQ.detect(Sample(data, (0,), from_start=False), Sample(b"", (0,), from_start=False)) is verdict
