"""Sizes of frames by their first bytes, strictly (probe) and leniently (frame_size)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remotingcraft import RESPONSE, answer, binary_frame, frame, json_frame, send_fields

from mqsniff.dissector import NEED, NO_FRAME
from mqsniff_rocketmq import heads

quick = settings(max_examples=50, deadline=None)

SEND = json_frame(310, 7, send_fields(), b"body")
BINARY = binary_frame(310, 7, send_fields(), b"body")
FRAMES = {
    "JSON": SEND,
    "binary": BINARY,
    "response": answer(7),
    "binary response with a remark": binary_frame(1, 7, None, flag=RESPONSE, remark="no"),
    "binary response with a remark longer than is looked at": binary_frame(1, 7, None, flag=RESPONSE, remark="x" * 400),
    "JSON with its keys in another order": frame(b'{ "opaque" : 3, "code":105}'),
    "the smallest binary header": binary_frame(106, 1),
}

every_frame = pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES)


@every_frame
def test_both_ways_give_the_size_of_the_whole_frame(data):
    assert heads.probe(data + b"trailer") == len(data)
    assert heads.frame_size(data + b"trailer") == len(data)


@every_frame
def test_a_strict_look_needs_no_more_than_it_says(data):
    assert heads.probe(data[: heads.PROBE_MAX]) == len(data)


@every_frame
def test_a_part_of_a_head_says_nothing_else_than_more_or_the_size(data):
    for size in range(len(data)):
        assert heads.probe(data[:size]) in (NEED, len(data))
        assert heads.frame_size(data[:size]) in (NEED, len(data))


@quick
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_an_answer_other_than_more_is_final(head, more):
    for look in (heads.probe, heads.frame_size):
        first = look(head)
        assert first is NEED or look(head + more) == first


NO_FRAMES = {
    "TLS": bytes.fromhex("16030300df010000db0303"),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\n",
    "a Kafka request of key 0": struct.pack(">ihhih", 60, 0, 9, 1, 8) + b"producer" * 6,
    "a Pulsar CONNECT": struct.pack(">II", 32, 28) + b"\x08\x02\x12\x18" + b"\x0a" * 24,
    "a serialisation that nobody has": struct.pack(">iI", 100, 2 << 24 | 40) + b'{"code":1}',
    "a header longer than its frame": struct.pack(">iI", 20, 40) + b'{"code":1}',
    "no header": struct.pack(">iI", 20, 0) + b'{"code":1}',
    "JSON that is no header": frame(b'{"topic":"x"}'),
    "a language that nobody has": binary_frame(310, 7, send_fields(), language=77),
    "flag bits that mean nothing": binary_frame(310, 7, send_fields(), flag=64),
    "lengths that do not add up": struct.pack(">iI", 40, 1 << 24 | 30)
    + struct.pack(">hBhiiii", 10, 0, 513, 1, 0, 0, 99),
    "a frame beyond every broker's limit": struct.pack(">iI", 17 << 20, 40) + b'{"code":1,',
}


@pytest.mark.parametrize("data", NO_FRAMES.values(), ids=NO_FRAMES)
def test_what_is_no_frame_is_refused_by_the_strict_look(data):
    assert heads.probe(data) is NO_FRAME


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (frame(b'{"topic":"x"}', b"y"), len(frame(b'{"topic":"x"}', b"y"))),
        (struct.pack(">iI", 17 << 20, 40), (17 << 20) + 4),
        (struct.pack(">iI", 0x16000000, 40), NO_FRAME),
        (struct.pack(">iI", 20, 40), NO_FRAME),
        (struct.pack(">iI", -1, 4), NO_FRAME),
        (struct.pack(">iI", 100, 2 << 24 | 4), NO_FRAME),
        (b"\0\0\0", NEED),
    ],
)
def test_in_step_the_two_lengths_are_enough(data, size):
    assert heads.frame_size(data) == size


@every_frame
@quick
@given(noise=st.binary(max_size=300))
def test_a_search_looks_at_every_offset_where_a_frame_starts(data, noise):
    at, offered = 0, set()
    stream = noise + data
    while at < len(stream):
        at = heads.scan(stream, at)
        offered.add(at)
        at += 1
    assert len(noise) in offered


def test_a_search_passes_text_over():
    text = b"The quick brown fox jumps over the lazy dog. " * 100
    assert heads.scan(text + SEND, 0) == len(text)
    assert heads.scan(text, 0) == len(text)
