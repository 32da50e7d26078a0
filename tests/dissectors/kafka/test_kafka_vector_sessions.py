"""Every request of a release of Kafka, answered by its response, on one connection: all is paired and read."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import kafkacraft as craft
import pytest
from kafka_vectors import WHOLE, Vector, vectors

from mqsniff.testing.conversations import Say, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka, heads

LOGINS = {craft.SASL_HANDSHAKE, craft.SASL_AUTHENTICATE}
"""What changes the meaning of what follows."""
MAY_HOLD_ANYTHING = {("Envelope", "format"), ("PushTelemetry", "format")}
"""Bytes that were filled with anything are no format; that is a problem only where a format must be."""


def pairs(release: str) -> Iterator[tuple[Vector, Vector]]:
    requests = {(one.key, one.version, one.case): one for one in vectors(release) if one.kind == "request"}
    for response in vectors(release):
        if response.kind == "response" and response.key not in LOGINS:
            pending = requests[response.key, response.version, response.case]
            if not (pending.key == craft.PRODUCE and pending.value["acks"] == 0):  # which nobody answers
                yield pending, response


def dialogue(release: str) -> Iterator[Say]:
    yield client(craft.request(craft.API_VERSIONS, 0, 1))
    yield server(craft.response(craft.API_VERSIONS, 0, 1))
    for correlation, (pending, answered) in enumerate(pairs(release), 2):
        oldest = (pending.key, pending.version) == (heads.CONTROLLED_SHUTDOWN, 0)
        version = pending.header if pending.header is not None else 0 if oldest else 1
        name = {0: b"", 1: b"\x00\x03cli", 2: b"\x00\x03cli\x00"}[version]
        head = struct.pack(">hhi", pending.key, pending.version, correlation)
        yield client(craft.sized(head + name + pending.data))
        yield server(craft.sized(struct.pack(">i", correlation) + b"\x00" * bool(answered.header) + answered.data))


@pytest.mark.parametrize("release", WHOLE)
def test_every_exchange_of_a_release_is_paired_and_read(release: str) -> None:
    said = list(dialogue(release))
    messages = Driver(Kafka).run(chunks(said)).messages
    assert len(messages) == len(said)
    for pending, answered in zip(messages[::2], messages[1::2], strict=True):
        assert (pending.name, pending.version) == (answered.name, answered.version)
    found = {(message.name, problem.kind) for message in messages for problem in message.problems}
    assert found <= MAY_HOLD_ANYTHING
