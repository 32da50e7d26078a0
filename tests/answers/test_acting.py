"""Dissectors are asked what messages do; one that raises is contained."""

from __future__ import annotations

from mqsniff.answers.trace.acting import Acts
from mqsniff.model import Frame, Message, Side
from mqsniff_kafka import Kafka
from mqsniff_nsq.nsqd import Nsq


class RaisingKafka(Kafka):
    """What a plugin may do."""

    @classmethod
    def acts(cls, message):
        yield from Kafka.acts(message)
        raise ValueError("secret bytes")

    @classmethod
    def origin(cls, headers):
        return headers["none"]


def message(protocol="kafka"):
    frame = Frame(Side.CLIENT, 0, 0, b"", 0, 0, 1, 1, 1)
    return Message(frame, protocol, "Heartbeat", "request")


def test_a_dissector_that_raises_is_told_once_and_says_nothing_of_the_traffic():
    acts = Acts([RaisingKafka])
    assert acts.of(message()) == acts.of(message()) == []
    assert acts.origin("kafka", {}) is None
    assert list(acts.faults) == [
        "ValueError in RaisingKafka.acts at a Heartbeat: it is left out",
        "KeyError in RaisingKafka.origin: it is left out",
    ]


def test_protocols_that_nobody_decodes_do_nothing():
    assert Acts([Kafka]).of(message("unknown")) == []


def test_only_dissectors_that_tell_origins_are_asked():
    acts = Acts([Kafka, Nsq])
    assert acts.tells_origins("kafka")
    assert not acts.tells_origins("nsq")
    assert not acts.tells_origins("unknown")
