"""A search passes over no place where a request may start, and asks at few of those that only look like one."""

from __future__ import annotations

import random

import pytest

from mqsniff.model import Side
from mqsniff_kafka import Kafka
from mqsniff_kafka.heads import HEAD_MAX, probe_request, scan_request

HEADS = (
    b"\0\0\0\x20\0\x12\0\0\0\0\0\1\0\3one",  # ApiVersions v0
    b"\0\0\0\x20\0\x03\0\0\0\0\0\1\xff\xff",  # no client id
    b"\0\0\1\0\0\x03\0\x01\0\0\0\1\0\0",  # an empty one
    b"\0\0\0\x0c\0\x07\0\0\0\0\0\1\0\0\0\5",  # ControlledShutdown v0 has none
    b"\0\0\0\x20\0\x12\0\x04\0\0\0\1\0\3one\0",  # tags
)


def scanned(data: bytes) -> set[int]:
    at, found = -1, set()
    while (at := scan_request(data, at + 1)) < len(data):
        found.add(at)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_scan_passes_over_no_start(seed):
    chance = random.Random(seed)
    data = b"".join(
        chance.choice([*HEADS, chance.randbytes(7), bytes(chance.choices((0, 0, 0, 1, 3, 18, 255, 97), k=40))])
        for _ in range(150)
    )
    whole = {at for at in range(len(data)) if isinstance(probe_request(data[at : at + HEAD_MAX]), int)}
    assert whole
    assert whole <= scanned(data)


@pytest.mark.parametrize("size", range(1, 18))
@pytest.mark.parametrize("head", HEADS)
def test_the_first_bytes_of_a_head_at_the_end_are_kept(head, size):
    data = b"x" * 20 + head[:size]
    assert 20 in scanned(data)


def test_lures_are_asked_at_a_quarter_of_their_places():
    lure = b"\0\0\x01\0\0\x03\0\0" * 500
    at, asked = 0, 0
    while (at := Kafka.scan(Side.CLIENT, lure, at)) < len(lure):
        at, asked = at + 1, asked + 1
    assert asked <= len(lure) // 4 + 16
