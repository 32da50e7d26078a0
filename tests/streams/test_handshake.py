"""The handshake, segment by segment."""

from __future__ import annotations

from mqsniff.streams.handshake import Handshake
from mqsniff.streams.segment import ACK, RST, SYN, Segment


def segment(direction: int, flags: int, ts_ns: int = 0, size: int = 0) -> Segment:
    return Segment(0, size, flags, -1, 0, ts_ns, 0, direction, 0, 0, 0, 0)


def test_it_is_pending_from_its_first_segment_until_the_client_or_payload_ends_it():
    handshake = Handshake()
    assert not handshake.pending
    handshake.take(segment(0, SYN), copy=False)
    assert handshake.pending
    handshake.take(segment(1, SYN | ACK), copy=False)
    handshake.take(segment(1, ACK), copy=False)
    assert handshake.pending, "the server alone ends nothing"
    handshake.take(segment(1, ACK, size=1), copy=False)
    assert not handshake.pending


def test_a_reset_refuses_only_while_it_is_pending_and_only_by_the_server():
    for resets, outcome in (((1,), "refused"), ((0,), "no answer"), ((0, 1), "refused")):
        handshake = Handshake()
        handshake.take(segment(0, SYN), copy=False)
        for direction in resets:
            handshake.take(segment(direction, RST), copy=False)
        assert handshake.outcome == outcome
    handshake.take(segment(0, ACK), copy=False)
    handshake.take(segment(1, RST), copy=False)
    assert handshake.outcome == "established"


def test_without_syn_nothing_is_known():
    handshake = Handshake()
    handshake.take(segment(0, ACK, size=5), copy=False)
    assert (handshake.client, handshake.seen, handshake.outcome) == (None, False, "mid-stream")
    assert (handshake.client_rtt_ns, handshake.server_rtt_ns) == (None, None)
