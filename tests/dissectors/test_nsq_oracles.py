"""Commands that public client libraries encode: pynsq's own encoder at work, and bytes that gnsq's encoder wrote."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nsq import protocol as pynsq
from nsqcraft import MAGIC, line

from mqsniff.model import Message, Secret
from mqsniff.testing.conversations import chunks, client
from mqsniff.testing.driver import Driver
from mqsniff_nsq import Nsq

ID = "18a2f48040acf000"
NAMES = st.from_regex(r"[.a-zA-Z0-9_-]{1,54}(#ephemeral)?", fullmatch=True)
BODIES = st.binary(min_size=1, max_size=200)
MILLISECONDS = st.integers(0, 3_600_000)


def decoded(data: bytes) -> Message:
    """The one message that an encoder's bytes are, after a subscription so that no state is bent."""
    driver = Driver(Nsq).run(chunks([client(MAGIC, line("SUB", "t", "c")), client(data)]))
    assert driver.skipped == []
    (message,) = driver.messages[2:]
    assert message.frame.size == len(data)
    return message


def values(message: Message) -> list[bytes]:
    return [b.data[start:stop] for b in message.records for start, stop in zip(*(b.values or ((), ())), strict=True)]


@given(topic=NAMES, body=BODIES)
def test_pub_of_pynsq(topic, body):
    message = decoded(pynsq.pub(topic, body))
    assert (message.body, values(message)) == ({"topic": topic, "body": {"size": len(body)}}, [body])
    assert message.problems == []


@given(topic=NAMES, bodies=st.lists(BODIES, min_size=1, max_size=20))
def test_mpub_of_pynsq(topic, bodies):
    message = decoded(pynsq.mpub(topic, bodies))
    assert (message.body["num_messages"], values(message)) == (len(bodies), bodies)
    assert message.problems == []


@given(topic=NAMES, defer_ms=MILLISECONDS, body=BODIES)
def test_dpub_of_pynsq(topic, defer_ms, body):
    message = decoded(pynsq.dpub(topic, defer_ms, body))
    assert (message.body["defer_ms"], values(message)) == (defer_ms, [body])
    assert message.problems == []


@given(topic=NAMES, channel=NAMES)
def test_sub_of_pynsq(topic, channel):
    message = decoded(pynsq.subscribe(topic, channel))
    assert message.body == {"topic": topic, "channel": channel}


@given(fields=st.dictionaries(st.text(max_size=8), st.none() | st.booleans() | st.integers() | st.text(), max_size=6))
def test_identify_of_pynsq(fields):
    assert decoded(pynsq.identify(fields)).body == json.loads(json.dumps(fields))


@given(secret=BODIES)
def test_auth_of_pynsq(secret):
    assert decoded(pynsq.auth(secret)).body == {"secret": Secret(secret)}


@given(count=st.integers(0, 2500), timeout_ms=MILLISECONDS)
def test_commands_of_a_line_of_pynsq(count, timeout_ms):
    assert decoded(pynsq.ready(count)).body == {"count": count}
    assert decoded(pynsq.finish(ID)).body == {"message_id": ID}
    assert decoded(pynsq.requeue(ID, timeout_ms)).body == {"message_id": ID, "timeout_ms": timeout_ms}
    assert decoded(pynsq.touch(ID)).body == {"message_id": ID}
    assert decoded(pynsq.nop()).body == {}


@given(timestamp=st.integers(-(2**63), 2**63 - 1), attempts=st.integers(0, 65535), body=st.binary(max_size=60))
def test_pynsq_reads_a_message_as_the_dissector_does(timestamp, attempts, body):
    from nsqcraft import message as delivered

    from mqsniff.testing.conversations import server

    data = delivered(ID, body, attempts, timestamp)
    frame_type, payload = pynsq.unpack_response(data[4:])
    theirs = pynsq.decode_message(payload)
    (ours,) = Driver(Nsq).run(chunks([server(data)])).messages
    assert frame_type == 2
    assert ours.body["timestamp"] == theirs.timestamp
    assert ours.body["message_id"].encode() == theirs.id
    assert values(ours) == [theirs.body]
    if attempts < 32768:  # pynsq reads the count as signed
        assert ours.body["attempts"] == theirs.attempts


GNSQ = [
    (
        b'IDENTIFY\n\x00\x00\x00/{"client_id": "c", "feature_negotiation": true}',
        {"client_id": "c", "feature_negotiation": True},
    ),
    (b"AUTH\n\x00\x00\x00\x0bopen sesame", {"secret": Secret(b"open sesame")}),
    (b"SUB orders billing#ephemeral\n", {"topic": "orders", "channel": "billing#ephemeral"}),
    (b"PUB orders\n\x00\x00\x00\x05first", {"topic": "orders", "body": {"size": 5}}),
    (
        b"MPUB orders\n\x00\x00\x00\x0f\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x02bb",
        {"topic": "orders", "body_size": 15, "num_messages": 2, "messages": [{"size": 1}, {"size": 2}]},
    ),
    (b"DPUB orders 1500\n\x00\x00\x00\x05later", {"topic": "orders", "defer_ms": 1500, "body": {"size": 5}}),
    (b"RDY 5\n", {"count": 5}),
    (b"FIN 18a2f48040acf000\n", {"message_id": ID}),
    (b"REQ 18a2f48040acf000 250\n", {"message_id": ID, "timeout_ms": 250}),
    (b"TOUCH 18a2f48040acf000\n", {"message_id": ID}),
    (b"CLS\n", {}),
    (b"NOP\n", {}),
]
"""What gnsq 1.0.2's ``protocol`` module returned for each command."""


@pytest.mark.parametrize(("data", "body"), GNSQ, ids=[row[0].split()[0].decode() for row in GNSQ])
def test_commands_of_gnsq(data, body):
    message = decoded(data)
    assert (message.name, message.body) == (data.split()[0].decode(), body)
