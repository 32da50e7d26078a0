"""What is Kafka and what only looks like it, from the first bytes of a connection or from its middle."""

from __future__ import annotations

import struct

import kafkacraft as craft
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafkacraft import produce, raw_request, record_batch, request, response, sized

from mqsniff.dissector import NEED, NO_FRAME, Sample, Verdict
from mqsniff_kafka import Kafka, heads

NOTHING = Sample()
ZOOKEEPER_CONNECT = bytes.fromhex("0000002d 00000000 0000000000000000 00007530 0000000000000000 00000010") + bytes(17)
ZOOKEEPER_CONNECTED = bytes.fromhex("00000025 00000000 00007530 0123456789abcdef 00000010") + bytes(17)


def seen(data: bytes, *, from_start: bool = True, starts: tuple[int, ...] = (0,)) -> Sample:
    return Sample(data, starts, from_start)


def verdict(client: bytes, server: bytes = b"", *, from_start: bool = True) -> Verdict:
    return Kafka.detect(seen(client, from_start=from_start), seen(server, from_start=from_start))


@pytest.mark.parametrize(
    "first",
    [
        request(craft.API_VERSIONS, 0, 0),
        request(craft.API_VERSIONS, 4, 2_147_483_640, {"client_software_name": "x"}),
        request(craft.METADATA, 0, 1, client_id=None),
        request(craft.SASL_HANDSHAKE, 1, 5, {"mechanism": "PLAIN"}),
        produce(3, b"value", acks=0),
        sized(struct.pack(">hhii", 7, 0, 1, 5)),
    ],
)
def test_one_first_request_that_decodes_to_its_end_is_enough(first):
    assert verdict(first) is Verdict.YES
    assert verdict(first[:-1]) is Verdict.MORE


def test_bytes_behind_a_first_request_want_the_server_to_echo_it():
    first = raw_request(craft.API_VERSIONS, 0, 77, bytes(4))
    assert verdict(first) is Verdict.MAYBE
    assert verdict(first, response(craft.API_VERSIONS, 0, 77)) is Verdict.YES
    assert verdict(first, response(craft.API_VERSIONS, 0, 78)) is Verdict.MAYBE


def test_a_client_of_tomorrow_is_known_by_the_brokers_answer():
    first = raw_request(craft.API_VERSIONS, 9, 4, b"\x00tomorrow", flexible=True)
    assert verdict(first) is Verdict.MORE
    assert verdict(first, sized(struct.pack(">ihihhh", 4, 35, 1, 18, 0, 5))) is Verdict.YES
    assert verdict(first, sized(struct.pack(">ihihhh", 5, 35, 1, 18, 0, 5))) is Verdict.NO


@pytest.mark.parametrize(
    ("client", "server"),
    [
        (ZOOKEEPER_CONNECT, b""),
        (ZOOKEEPER_CONNECT, ZOOKEEPER_CONNECTED),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), b""),
        (b"GET / HTTP/1.1\r\n\r\n", b""),
        (b"  V2" + b"\x00\x00\x00\x02{}", b""),
        (sized(b"\x00\x00\x00\x20" + b'{"code":105,"extFields":{}}' + bytes(20)), b""),
        (sized(b"\x00\x00\x00\x12\x08\x02\x12\x0e\x0a\x05pulsar"), b""),
        (b"\x07\x02\x03\x04", b""),
    ],
)
def test_other_protocols_are_refused(client, server):
    assert verdict(client, server) is Verdict.NO


@pytest.mark.parametrize("size", range(len(ZOOKEEPER_CONNECT)))
def test_zeros_that_are_echoed_are_no_proof_however_few_of_them_were_captured(size):
    assert verdict(ZOOKEEPER_CONNECT[:size], ZOOKEEPER_CONNECTED) is not Verdict.YES


def test_responses_read_as_requests_are_not_sure():
    answer = response(22, 4, 4, {"producer_id": 5})
    for from_start in (True, False):
        assert verdict(answer, from_start=from_start) is not Verdict.YES


def test_responses_alone_are_left_to_the_port():
    answers = response(craft.HEARTBEAT, 4, 8) + response(craft.HEARTBEAT, 4, 9)
    for from_start in (True, False):
        assert Kafka.detect(NOTHING, seen(answers, from_start=from_start)) is Verdict.MAYBE
    assert Kafka.detect(NOTHING, seen(b"\x15\x03\x03\x00\x02\x02\x50")) is Verdict.NO


def test_a_connection_joined_in_the_middle_is_known_at_a_segments_start():
    rest = record_batch(b"the end of a long request")
    data = rest + request(craft.HEARTBEAT, 4, 900)
    assert Kafka.detect(seen(data, from_start=False, starts=(0, len(rest))), NOTHING) is Verdict.YES
    assert Kafka.detect(seen(rest, from_start=False), NOTHING) is Verdict.MORE


@pytest.mark.parametrize("client_id", [None, ""])
def test_in_the_middle_a_produce_wants_a_client_id_of_text_or_the_servers_echo(client_id):
    partition = {"index": 0, "records": record_batch(b"x")}
    body = {"acks": 1, "topic_data": [{"name": "orders", "partition_data": [partition]}]}
    pending = request(craft.PRODUCE, 3, 900, body, client_id)
    assert verdict(pending, from_start=False) is Verdict.MAYBE
    assert verdict(pending, craft.produced(900, 4), from_start=False) is Verdict.YES
    assert verdict(produce(900, b"x"), from_start=False) is Verdict.YES


# ---- heads


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (b"", NEED),
        (b"\x00\x00\x00\x20", NEED),
        (b"\x07", NO_FRAME),
        (struct.pack(">ihhih", 32, 3, 1, 7, 2) + b"ab", 36),
        (struct.pack(">ihhih", 32, 3, 1, 7, 2) + b"a", 36),
        (struct.pack(">ihhih", 32, 3, 1, 7, 2) + b"a\x00", NO_FRAME),
        (struct.pack(">ihhih", 32, 3, 1, 7, 30) + b"ab", NO_FRAME),
        (struct.pack(">ihhih", 32, 3, 99, 7, 2) + b"ab", NO_FRAME),
        (struct.pack(">ihhih", 32, 300, 1, 7, 2) + b"ab", NO_FRAME),
        (struct.pack(">ihhih", 32, 3, 12, 7, -1), NEED),
        (struct.pack(">ihhih", 32, 3, 12, 7, -1) + b"\x00", 36),
        (struct.pack(">ihhih", 32, 3, 12, 7, -1) + b"\x01", NO_FRAME),
        (struct.pack(">ihhi", 12, 7, 0, 7), 16),
    ],
)
def test_a_request_is_believed_by_its_header(head, answer):
    expected = NEED if head.endswith(b"\x02a") else answer
    assert heads.probe_request(head) == expected


@settings(max_examples=50, deadline=None)
@given(data=st.binary(max_size=40), more=st.binary(max_size=40))
def test_answers_about_heads_are_final(data, more):
    for probe in (heads.probe_request, heads.probe_response):
        first = probe(data)
        assert first is NEED or probe(data + more) == first


@pytest.mark.parametrize("name", craft.CONVERSATIONS)
def test_a_search_passes_over_no_frame(name):
    for say in craft.CONVERSATIONS[name]:
        size = Kafka.probe(say.side, say.data[: Kafka.head_max])
        if isinstance(size, int):
            assert Kafka.scan(say.side, b"\xff\xff" + say.data, 0) <= 2


def test_the_length_of_a_record_batch_is_no_response() -> None:
    batch = record_batch(b"x" * 20, base=5)
    assert batch[16] == 2
    assert heads.probe_response(batch[8:]) is NO_FRAME
    assert heads.probe_response(batch[8:16]) is NEED
    assert heads.probe_response(batch[8:16] + b"\0") == len(batch) - 8
