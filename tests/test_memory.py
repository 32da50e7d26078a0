"""Memory is bounded by open connections and named limits, not by the length of the input (DESIGN, promise 4)."""

from __future__ import annotations

import gc
import struct

import pytest
from tinycapture import OK, conversation, pcap

from mqsniff.dissector import Settings
from mqsniff.limits import Limits
from mqsniff.model import Message
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource


def consumer(messages):
    """A consumer that is given messages and finishes each."""
    yield "c", b"  V2SUB orders billing\n"
    yield "s", OK
    for number in range(messages):
        message_id = b"%016x" % number
        body = struct.pack(">qH", number, 1) + message_id + b"body"
        yield "s", struct.pack(">ii", 4 + len(body), 2) + body
        yield "c", b"FIN %s\n" % message_id


def producer(messages):
    """A producer whose every message is acknowledged."""
    yield "c", b"  V2"
    for number in range(messages):
        yield "c", b"PUB orders\n" + struct.pack(">i", 8) + b"%08d" % number
        yield "s", OK


def messages_alive() -> int:
    """Messages that something still holds, those of other tests included."""
    gc.collect()
    return sum(isinstance(each, Message) for each in gc.get_objects())


@pytest.mark.parametrize("steps", [consumer, producer])
def test_the_messages_of_a_long_connection_are_let_go(tmp_path, steps):
    count = 2000
    path = tmp_path / "long.pcap"
    path.write_bytes(pcap(conversation(steps(count))))
    limits, before = Limits(unanswered_max=20), messages_alive()
    pipeline = Pipeline(FileSource([str(path)], limits), Settings(limits, records=True))
    for _ in pipeline.items():
        if pipeline.totals.messages == count // 2:
            break
    assert pipeline.totals.messages == count // 2
    assert messages_alive() - before < 200
