"""No filler makes a search ask ``probe`` at most of its offsets: ``scan`` passes bytes over that cannot be a head."""

from __future__ import annotations

import random

import pytest

from mqsniff.model import Side
from mqsniff_kafka import Kafka
from mqsniff_nsq.lookupd import Nsqlookupd
from mqsniff_nsq.nsqd import Nsq
from mqsniff_pulsar import Pulsar
from mqsniff_rocketmq import RocketMQ

SIZE = 4_000
FILLERS = {
    "zeros": bytes(SIZE),
    "0xff": b"\xff" * SIZE,
    "text": b"a" * SIZE,
    "lines": b"XYZ\n" * (SIZE // 4),
    "random": random.Random(1).randbytes(SIZE),
}


@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("dissector", [Kafka, Nsq, Nsqlookupd, Pulsar, RocketMQ])
def test_few_offsets_are_worth_a_probe(dissector, side, filler):
    data, at, asked = FILLERS[filler], 0, 0
    while (at := dissector.scan(side, data, at)) < SIZE:
        at, asked = at + 1, asked + 1
    assert asked <= 16 + SIZE // 64
