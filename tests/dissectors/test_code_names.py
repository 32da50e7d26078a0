"""What numbers in bodies are called, as the dissectors know it."""

from __future__ import annotations

import pytest

from mqsniff.decode.registry import LoadedDissector, code_names, load_dissectors
from mqsniff.dissector import Dissector
from mqsniff.model import Frame, Message, MessageKind, Side

NAMES = code_names(load_dissectors())


def message(protocol: str, name: str, kind: MessageKind = "response", version: int | None = None) -> Message:
    side = Side.SERVER if kind in ("response", "push") else Side.CLIENT
    return Message(Frame(side, 0, 0, b"", 0, 0, 1, 1, 1), protocol, name, kind, version=version)


@pytest.mark.parametrize(
    ("about", "field", "code", "name"),
    [
        (message("kafka", "Produce", version=9), "error_code", 10, "MESSAGE_TOO_LARGE"),
        (message("kafka", "Produce", version=9), "base_offset", 10, None),
        (message("kafka", "Fetch", "request", 11), "isolation_level", 1, "read_committed"),
        (message("kafka", "Fetch", "request", 11), "max_wait_ms", 1, None),
        (message("kafka", "unknown(77)", "request", 0), "error_code", -9999, None),
        (message("rocketmq", "SEND_MESSAGE"), "code", 0, "SUCCESS"),
        (message("rocketmq", "SEND_MESSAGE"), "code", 17, "TOPIC_NOT_EXIST"),
        (message("rocketmq", "SEND_MESSAGE", "request"), "code", 10, "SEND_MESSAGE"),
        (message("rocketmq", "SEND_MESSAGE", "request"), "version", 513, "5.5.0"),
        (message("rocketmq", "SEND_MESSAGE", "request"), "opaque", 513, None),
        (message("nsq", "MESSAGE", "push"), "attempts", 1, None),  # NSQ and Pulsar name their codes on the wire
        (message("pulsar", "SEND_RECEIPT"), "request_id", 1, None),
        (message("mqtt", "CONNECT"), "error_code", 1, None),
    ],
)
def test_a_code_has_its_name(about, field, code, name):
    assert NAMES(about, field, code) == name


def test_a_dissector_that_raises_costs_the_name_alone():
    class Raising(Dissector):
        names = ("raising",)

        @classmethod
        def code_name(cls, message, field, code):
            raise ValueError(code)

    assert code_names([LoadedDissector("raising", Raising)])(message("raising", "X"), "error_code", 1) is None
