"""Which packet is a copy of another."""

from __future__ import annotations

import pytest

from mqsniff.limits import Limits
from mqsniff.streams.segment import ACK, FIN, SYN, Segment, has_copy, has_same, remember, remember_packed

SEEN = Segment(7, 100, ACK, 5, 900, 10**9, 0, 0, 0, 100, 1, 0)
MS = 1_000_000
PSH = 8

CASES = {
    # name: (what differs, a copy?)
    "nothing": ({}, True),
    "the place in the buffer": ({"start": 300, "stop": 400, "packet": 9, "ordinal": 8}, True),
    "PSH": ({"flags": ACK | PSH}, True),
    "ten milliseconds": ({"ts_ns": 10**9 + 10 * MS}, True),
    "ten milliseconds back": ({"ts_ns": 10**9 - 10 * MS}, True),
    "more than ten milliseconds": ({"ts_ns": 10**9 + 10 * MS + 1}, False),
    "an hour and the interface": ({"ts_ns": 3600 * 10**9, "interface": 1}, True),
    "the identification": ({"ip_id": 6}, False),
    "the identification and the interface": ({"ip_id": 6, "interface": 1}, False),
    "the acknowledgement": ({"ack": 901}, True),
    "the size": ({"size": 99}, False),
    "the sequence number": ({"seq": 8}, False),
    "FIN": ({"flags": ACK | FIN}, False),
    "SYN": ({"flags": ACK | SYN}, False),
    "no identification": ({"ip_id": -1}, True),
    "no identification, and the acknowledgement": ({"ip_id": -1, "ack": 901}, False),
    "identification 0, and the acknowledgement": ({"ip_id": 0, "ack": 901}, False),
}


@pytest.mark.parametrize(("differs", "copy"), CASES.values(), ids=CASES)
def test_a_packet_that_differs_from_one_seen_by(differs: dict[str, int], copy: bool):
    recent = bytearray()
    recent = remember(recent, SEEN, Limits())
    segment = SEEN._replace(**differs)
    assert has_copy(recent, segment, Limits()) is copy
    same_numbers = not differs.keys() & {"size", "seq"} and segment.flags & (SYN | FIN) == 0
    assert has_same(recent, segment) is same_numbers


def test_the_last_ones_are_remembered():
    limits, recent = Limits(recent_segments=3), bytearray()
    segments = [SEEN._replace(seq=n) for n in range(5)]
    for segment in segments:
        recent = remember(recent, segment, limits)
    assert [has_copy(recent, segment, limits) for segment in segments] == [False, False, True, True, True]
    again = bytearray()
    again = remember_packed(again, bytes(recent), limits)
    again = remember_packed(again, bytes(recent[:56]), limits)
    assert again == recent[56:] + recent[:56]
