"""What is a Pulsar frame, what is not, where one starts, and how long it is."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pulsarcraft import command, connect, connected, encoded, frame, framed, message, payload, send

from mqsniff.dissector import NEED, NO_FRAME, Sample, Verdict
from mqsniff.model import Side
from mqsniff.spec.wire import Malformed
from mqsniff_pulsar import Pulsar
from mqsniff_pulsar.commands import COMMANDS, PAYLOAD
from mqsniff_pulsar.frames import HEAD_MAX, MESSAGE_MAX, find_head, follow, is_proof, probe, split_payload

PING = bytes.fromhex("00000009 00000005 08 12 92 01 00")
PONG = bytes.fromhex("00000009 00000005 08 13 9a 01 00")

SEND = command("SEND", producer_id=1, sequence_id=1)

KAFKA_PRODUCE = bytes.fromhex("00000045 0000 0009 08060806 0008") + b"producer" + bytes(50)
KAFKA_ANSWER = bytes.fromhex("00000014 00000008 0802120400000000 0000000000000000")
ROCKETMQ = struct.pack(">II", 0x60, 0x58) + b'{"code":310,"extFields":{"a":"q"},"flag":0}'.ljust(0x58) + bytes(4)
ROCKETMQ_BINARY = struct.pack(">II", 0x20, 0x01000018) + struct.pack(">HBHIII", 0x0802, 0, 373, 1, 0, 0) + bytes(16)
NOT_PULSAR = [
    ("kafka, a Produce request whose correlation id looks like a command", KAFKA_PRODUCE),
    ("kafka, an answer", KAFKA_ANSWER),
    ("rocketmq in JSON", ROCKETMQ),
    ("rocketmq in its own serialization", ROCKETMQ_BINARY),
    ("a command size beyond the frame", struct.pack(">II", 9, 6) + PING[8:]),
    ("bytes after a command without payload", struct.pack(">II", 10, 5) + PING[8:] + b"x"),
    ("another field than the command's", struct.pack(">II", 9, 5) + b"\x08\x12\x9a\x01\x00"),
    ("a number that no command has", struct.pack(">II", 9, 5) + b"\x08\x29\xca\x02\x00"),
    ("a length that does not fit", struct.pack(">II", 9, 5) + b"\x08\x12\x92\x01\x01"),
    ("a frame larger than any", struct.pack(">II", 1 << 30, 5) + PING[8:]),
    (
        "a SEND with other bytes after it",
        framed(command("SEND", producer_id=1, sequence_id=1), b"\x01\x02\x03\x04\x05"),
    ),
    ("a SEND with nothing after it", framed(command("SEND", producer_id=1, sequence_id=1))),
    ("text", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
]


def own_frame(number: int) -> bytes:
    name = COMMANDS[number].name
    fields = {"client_version": "x" * 200} if name == "CONNECT" else {}
    return framed(command(name, **fields), payload(b"v") if name in PAYLOAD else b"")


@pytest.mark.parametrize("number", COMMANDS)
def test_every_command_is_found_on_its_side_and_on_no_other(number):
    data, sides = own_frame(number), [side for side in Side if COMMANDS[number].side in (None, side)]
    assert [side for side in Side if probe(side, data[:HEAD_MAX]) == len(data)] == sides
    assert [side for side in Side if probe(side, data[:HEAD_MAX]) is NO_FRAME] == [s for s in Side if s not in sides]


@pytest.mark.parametrize("data", [data for _, data in NOT_PULSAR], ids=[why for why, _ in NOT_PULSAR])
def test_what_is_none_is_no_frame(data):
    assert {probe(side, data[:HEAD_MAX]) for side in Side} == {NO_FRAME}


@pytest.mark.parametrize("data", [PING, connect(), send(b"value"), send(b"value", checksum=False), message(b"value")])
def test_an_answer_waits_for_its_bytes_and_then_never_changes(data):
    side = Side.SERVER if data == message(b"value") else Side.CLIENT
    answers = [probe(side, data[:size]) for size in range(min(len(data), HEAD_MAX) + 1)]
    first = next(at for at, answer in enumerate(answers) if answer is not NEED)
    assert answers[first:] == [len(data)] * (len(answers) - first)
    assert first > 8


@settings(max_examples=100, deadline=None)
@given(
    head=st.one_of(
        st.binary(max_size=40),
        st.builds(lambda at, byte: PING[:at] + bytes([byte]) + PING[at + 1 :], st.integers(0, 12), st.integers(0, 255)),
        st.builds(
            lambda total, size, rest: struct.pack(">II", total, size) + rest, *[st.integers(0, 70)] * 2, st.binary()
        ),
    ),
    side=st.sampled_from(Side),
)
def test_answers_are_final(head, side):
    for answer_of in (lambda data: probe(side, data), lambda data: follow(data, MESSAGE_MAX)):
        answers = [answer_of(head[:size]) for size in range(len(head) + 1)]
        decided = [answer for answer in answers if answer is not NEED]
        assert len(set(decided)) <= 1
        assert answers == [NEED] * (len(answers) - len(decided)) + decided


# ---- in step


FOLLOWED = [
    ("an unknown command", struct.pack(">II", 8, 4) + b"\x08\x7f\xfa\x07", 12),
    ("a command in an unusual form", struct.pack(">II", 6, 2) + b"\x10\x00", 10),
    ("a command size beyond the frame", struct.pack(">II", 9, 6) + PING[8:], NO_FRAME),
    ("a command of one byte", struct.pack(">II", 9, 1) + PING[8:], NO_FRAME),
    (
        "a frame above the limit that is one",
        struct.pack(">II", 6_000_000, 13) + command("SEND", producer_id=1),
        NO_FRAME,
    ),
    ("a frame above the limit of unknown form", struct.pack(">II", 6_000_000, 5) + b"\x08\x63\x00\x00\x00", NO_FRAME),
    ("more than a Java int", struct.pack(">II", 1 << 31, 5) + PING[8:], NO_FRAME),
    ("half a head", PING[:7], NEED),
]


@pytest.mark.parametrize(("data", "answer"), [case[1:] for case in FOLLOWED], ids=[case[0] for case in FOLLOWED])
def test_in_step_sizes_that_can_be_are_followed(data, answer):
    assert follow(data, MESSAGE_MAX) == answer


def test_a_broker_that_takes_larger_messages_is_followed_further():
    data = framed(command("SEND", producer_id=1, sequence_id=1), bytes(100))
    large = struct.pack(">I", 50_000_000) + data[4:]
    assert follow(large, 60_000_000) == 50_000_004


def test_a_larger_frame_than_the_broker_takes_is_followed_where_it_is_a_command():
    data = framed(command("SEND", producer_id=1, sequence_id=1), bytes(100))
    assert follow(struct.pack(">I", 6_000_000) + data[4:], MESSAGE_MAX) == 6_000_004


# ---- the parts of a payload

METADATA = encoded("MessageMetadata", producer_name="p", sequence_id=1, publish_time=1)
SIZED = struct.pack(">I", len(METADATA)) + METADATA


@pytest.mark.parametrize("entry", [b"", b"\x0e\x02" + struct.pack(">I", 4) + b"\x08\x01\x10\x02"])
@pytest.mark.parametrize("checksum", [b"", b"\x0e\x01abcd"])
def test_parts_stand_where_they_stand(entry, checksum):
    data = b"12345" + entry + checksum + SIZED + b"value"
    parts = split_payload(data, 5, len(data))
    assert data[slice(*parts.entry)] == entry[6:]
    assert data[parts.checksum : parts.checksum + 4] == (checksum[2:] if checksum else data[:4])
    assert data[slice(*parts.metadata)] == METADATA


def test_a_part_longer_than_the_frame_is_malformed():
    with pytest.raises(Malformed):
        split_payload(SIZED[:-1], 0, len(SIZED) - 1)


def test_a_cut_frame_gives_the_parts_whose_sizes_are_there():
    data = b"\x0e\x02" + struct.pack(">I", 4) + b"\x08\x01\x10\x02" + b"\x0e\x01abcd"
    assert split_payload(data, 0, 500) == ((6, 10), 12, (0, 0))
    assert split_payload(data + SIZED[:6], 0, 500).metadata == (20, 20 + len(METADATA))


# ---- searching and detection


@settings(max_examples=50, deadline=None)
@given(before=st.binary(max_size=60), number=st.sampled_from(sorted(COMMANDS)), cut=st.integers(0, 20))
def test_searching_passes_over_no_frame(before, number, cut):
    data = before + own_frame(number)
    seen = data[: len(data) - cut] if cut < 12 else data
    at, offered = 0, []
    while (at := find_head(seen, at)) < len(seen):
        offered.append(at)
        at += 1
    assert len(before) in offered


def test_searching_offers_few_offsets_of_other_data():
    data = bytes(range(256)) * 400
    at = offered = 0
    while (at := find_head(data, at)) < len(data):
        offered += 1
        at += 1
    assert offered < 20


def sample(*frames: bytes, from_start: bool = True, starts: tuple[int, ...] = (0,)) -> Sample:
    return Sample(b"".join(frames), starts, from_start)


DETECTED = [
    ("a CONNECT alone", sample(connect()), Sample(), Verdict.YES),
    ("half a CONNECT", sample(connect()[:20]), Sample(), Verdict.YES),
    ("the head of one", sample(connect()[:7]), Sample(), Verdict.MORE),
    ("only the server seen", Sample(), sample(connected()), Verdict.YES),
    ("both", sample(connect()), sample(connected()), Verdict.YES),
    ("the sides in the wrong order", sample(connected()), sample(connect()), Verdict.NO),
    ("one SEND in the middle", sample(send(b"v"), from_start=False), Sample(), Verdict.YES),
    ("one that is not whole", sample(send(b"v")[:-1], from_start=False), Sample(), Verdict.MAYBE),
    ("one with a wrong checksum", sample(send(b"v")[:-1] + b"w", from_start=False), Sample(), Verdict.MAYBE),
    ("one without checksum", sample(send(b"v", checksum=False), from_start=False), Sample(), Verdict.MAYBE),
    (
        "a MESSAGE with an entry",
        Sample(),
        sample(message(b"v", entry=b"\x08\x01\x10\x02"), from_start=False),
        Verdict.YES,
    ),
    ("two SENDs in the middle", sample(send(b"v"), send(b"w"), from_start=False), Sample(), Verdict.YES),
    ("a MESSAGE and half of one", Sample(), sample(message(b"v"), message(b"w")[:-1], from_start=False), Verdict.YES),
    (
        "a start in the middle of a frame",
        sample(bytes(100), PING, from_start=False, starts=(0, 100)),
        Sample(),
        Verdict.YES,
    ),
    ("kafka", sample(KAFKA_PRODUCE), Sample(), Verdict.NO),
    ("rocketmq", sample(ROCKETMQ), Sample(), Verdict.NO),
    ("nothing", Sample(), Sample(), Verdict.MORE),
    ("a client that greets, a server that is something else", sample(connect()), sample(b"-ERR what?\r\n"), Verdict.NO),
]


@pytest.mark.parametrize(
    ("of_client", "of_server", "verdict"), [case[1:] for case in DETECTED], ids=[case[0] for case in DETECTED]
)
def test_connections_are_told_by_their_frames(of_client, of_server, verdict):
    assert Pulsar.detect(of_client, of_server) is verdict


@pytest.mark.parametrize("data", [PING, PONG, connect(), frame("FLOW", consumer_id=1, message_permits=1000)])
def test_one_command_is_proof_enough(data):
    assert is_proof(Side.CLIENT, data)


def test_a_payload_alone_is_not():
    assert not is_proof(Side.CLIENT, send(b"v"))
