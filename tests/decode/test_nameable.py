"""The one list of protocols that are named and not decoded."""

from __future__ import annotations

import pytest

from mqsniff.decode.detection import name_undecoded
from mqsniff.decode.nameable import FOREIGN, UNKNOWN
from mqsniff.decode.registry import LoadedDissector, load_dissectors, message_names, protocols
from mqsniff.dissector import Dissector, Sample

HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(193)
OPENINGS = [HELLO, b"GET / HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]


@pytest.mark.parametrize("data", OPENINGS)
def test_what_is_named_stands_in_the_list(data):
    protocol, _ = name_undecoded(Sample(data))
    assert protocol in FOREIGN


def test_every_protocol_says_how_it_is_known_and_what_to_do():
    assert all(all(foreign) for foreign in FOREIGN.values())


def test_all_protocols_are_those_of_dissectors_then_the_foreign_ones_the_unknown_last():
    names = protocols(load_dissectors())
    assert names[:6] == ["kafka", "nsq", "nsqlookupd", "pulsar", "rocketmq", "rocketmq-ha"]
    assert set(names[6:]) == FOREIGN.keys()
    assert names[-1] == UNKNOWN


def test_names_of_messages_are_known_of_the_wanted_protocols():
    loaded = load_dissectors()
    assert {"Fetch", "MPUB", "SUBSCRIBE", "PULL_MESSAGE", "SaslToken"} <= message_names(loaded, lambda _: True)
    assert "Fetch" not in message_names(loaded, lambda name: name == "nsq")


def test_a_dissector_that_does_not_know_its_names_leaves_them_open():
    class Plugin(Dissector):
        names = ("amqp",)

    loaded = [
        *load_dissectors(),
        LoadedDissector("amqp", Plugin),
        LoadedDissector("broken", None, "cannot be imported"),
    ]
    assert message_names(loaded, lambda _: True) is None
    assert message_names(loaded, lambda name: name == "kafka") is not None
