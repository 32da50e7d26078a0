"""The laws on every dissector: its scripted conversations, those of the others, and connections of captures."""

from __future__ import annotations

from dataclasses import replace

import kafkacraft
import nsqcraft
import pulsarcraft
import pytest
import remotingcraft
from lawsamples import CONVERSATIONS, PCAPS, captured, connections_in, dissectors

from mqsniff.dissector import Sample, Verdict
from mqsniff.model import Side
from mqsniff.testing import DissectorLaws
from mqsniff.testing.captures import CapturedConversation
from mqsniff.testing.conversations import streams
from mqsniff.testing.driver import Driver
from mqsniff.testing.laws import bytewise, claimed_twice_or_never, samples, starts_of, told

DISSECTORS = dissectors()
CAPTURED = captured()
FOREIGN = connections_in(PCAPS / "foreign")


class TestKafka(DissectorLaws):
    dissector = DISSECTORS["kafka"]
    conversations = kafkacraft.CONVERSATIONS
    peer_gives_meaning = "a response is read by its request"
    counts = {
        "consumer": (20, 0, {}),
        "producer": (15, 0, {"trailing_bytes": 1}),
        "fallback": (8, 0, {"unknown_version": 1, "unknown_code": 1}),
        "login by SaslAuthenticate": (10, 0, {}),
        "login by raw tokens": (8, 0, {}),
    }


class TestNsq(DissectorLaws):
    dissector = DISSECTORS["nsq"]
    conversations = nsqcraft.CONVERSATIONS
    counts = {
        "producer": (17, 0, {}),
        "consumer": (32, 0, {}),
        "without IDENTIFY": (44, 0, {}),
        "authorized": (19, 0, {}),
        "crossing": (26, 0, {}),
        "refused": (5, 0, {"format": 1}),
        "a lying MPUB": (22, 0, {"format": 2}),
        "snappy": (47, 0, {}),
        "deflate": (47, 0, {}),
    }


class TestNsqlookupd(DissectorLaws):
    dissector = DISSECTORS["nsqlookupd"]
    conversations = nsqcraft.LOOKUPD_CONVERSATIONS
    counts = {"registering": (15, 0, {"format": 1})}


class TestPulsar(DissectorLaws):
    dissector = DISSECTORS["pulsar"]
    conversations = pulsarcraft.CONVERSATIONS
    counts = {
        "producer": (24, 0, {}),
        "consumer": (21, 0, {}),
        "crossing": (16, 0, {}),
        "watches and transactions": (15, 0, {}),
    }


class TestRocketMQ(DissectorLaws):
    dissector = DISSECTORS["rocketmq"]
    conversations = remotingcraft.CONVERSATIONS
    peer_gives_meaning = "only the code of its request gives a response its name"
    counts = {
        "producer": (13, 0, {"missing_field": 7}),
        "consumer": (12, 0, {}),
        "binary headers": (6, 0, {"out_of_range": 1}),
        "pop": (10, 0, {}),
        "transaction": (7, 0, {}),
        "name server": (7, 0, {}),
        "controllers": (4, 0, {}),
        "odd": (7, 0, {"unknown_code": 2, "format": 5, "out_of_range": 1, "malformed": 1}),
    }


class TestRocketMQHa(DissectorLaws):
    dissector = DISSECTORS["rocketmq-ha"]
    conversations = remotingcraft.HA_CONVERSATIONS
    decodes = False
    counts = {"a slave catches up": (0, 260, {})}


def test_every_dissector_is_tried_here():
    tried = {laws.dissector for laws in DissectorLaws.__subclasses__()}
    assert tried == set(DISSECTORS.values())


# ---- what others say

CASES = {
    f"{protocol}-{name}": (DISSECTORS[protocol], dialogue)
    for protocol, named in CONVERSATIONS.items()
    for name, dialogue in named.items()
}


@pytest.mark.parametrize(("dissector", "dialogue"), CASES.values(), ids=CASES)
def test_nobody_else_claims_a_conversation(dissector, dialogue):
    for other in set(DISSECTORS.values()) - {dissector}:
        for from_start in (True, False):
            client, server = samples(dialogue, from_start=from_start)
            assert other.detect(client, server) is not Verdict.YES
            assert other.detect(server, client) is not Verdict.YES


@pytest.mark.parametrize("dissector", DISSECTORS.values(), ids=DISSECTORS)
@pytest.mark.parametrize("conversation", FOREIGN.values(), ids=FOREIGN)
def test_nobody_claims_what_other_protocols_say(conversation: CapturedConversation, dissector):
    for from_start in (True, False):
        seen = replace(conversation, in_step=(from_start, from_start))
        for flipped in (False, True):
            assert _verdict(dissector, seen, flipped=flipped) is not Verdict.YES


# ---- captures


@pytest.mark.parametrize("conversation", CAPTURED.values(), ids=CAPTURED)
def test_the_laws_hold_on_captures(conversation: CapturedConversation):
    dissector = next((cls for cls in DISSECTORS.values() if _verdict(cls, conversation) is Verdict.YES), None)
    if dissector is None:
        return
    in_step = all(conversation.in_step)
    whole = Driver(dissector, in_step=in_step).run(conversation.events)
    assert told(whole) == told(Driver(dissector, in_step=in_step).run(bytewise(conversation.events)))
    assert [problem.detail for problem in whole.problems if problem.kind == "internal"] == []
    for side in Side:
        assert claimed_twice_or_never(whole, side) == {}


def _verdict(dissector, conversation: CapturedConversation, *, flipped: bool = False) -> Verdict:
    says = conversation.says
    seen = [
        Sample(data, tuple(starts_of(says, side)), conversation.in_step[side])
        for side, data in zip(Side, streams(says), strict=True)
    ]
    return dissector.detect(*(reversed(seen) if flipped else seen))
