"""The handshake, segment by segment."""

from __future__ import annotations

import pytest

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


def after(*segments: Segment, copies: tuple[int, ...] = ()) -> Handshake:
    """A handshake that took these segments, those at ``copies`` as duplicates by the tap."""
    handshake = Handshake()
    for at, each in enumerate(segments):
        handshake.take(each, copy=at in copies)
    return handshake


def told(handshake: Handshake) -> tuple[object, ...]:
    return (
        *(handshake.client, handshake.seen, handshake.syn_ns, handshake.outcome),
        *(handshake.client_rtt_ns, handshake.server_rtt_ns),
    )


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([segment(0, SYN, 10)], (0, False, 10, "no answer", None, None)),
        ([segment(1, SYN, 10)], (1, False, 10, "no answer", None, None)),
        ([segment(1, SYN | ACK, 30)], (0, False, None, "no answer", None, None)),
        ([segment(0, SYN | ACK, 30)], (1, False, None, "no answer", None, None)),
        ([segment(0, SYN, 10), segment(1, SYN | ACK, 30)], (0, True, 10, "no answer", None, 20)),
        (
            [segment(0, SYN, 10), segment(1, SYN | ACK, 30), segment(0, ACK, 35)],
            (0, True, 10, "established", 5, 20),
        ),
        (
            [segment(0, SYN, 10), segment(1, SYN | ACK, 30), segment(1, ACK, 35, size=1)],
            (0, True, 10, "established", None, 20),
        ),
        ([segment(0, SYN, 10), segment(0, SYN, 15), segment(1, SYN | ACK, 30)], (0, True, 15, "no answer", None, 15)),
        (  # the answer is sent again: the time to the first one counts
            [segment(0, SYN, 10), segment(1, SYN | ACK, 30), segment(1, SYN | ACK, 50), segment(0, ACK, 55)],
            (0, True, 10, "established", 5, 20),
        ),
        (  # captured in the wrong order
            [segment(1, SYN | ACK, 30), segment(0, SYN, 31), segment(0, ACK, 32)],
            (0, True, 31, "established", 2, None),
        ),
        (  # a SYN after the answer changes nothing any more
            [segment(0, SYN, 10), segment(1, SYN | ACK, 30), segment(0, SYN, 40), segment(0, ACK, 41)],
            (0, True, 10, "established", 11, 20),
        ),
        ([segment(0, SYN, 10), segment(1, RST | ACK, 11)], (0, False, 10, "refused", None, None)),
        (
            [segment(0, SYN, 10), segment(1, SYN | ACK, 10), segment(0, ACK, 10)],
            (0, True, 10, "established", 0, 0),
        ),
    ],
)
def test_times_run_from_the_last_syn_to_the_first_answer_and_from_the_last_answer_to_the_client(segments, expected):
    assert told(after(*segments)) == expected


def test_a_copy_by_the_tap_changes_no_time():
    segments = segment(0, SYN, 10), segment(0, SYN, 15), segment(1, SYN | ACK, 30), segment(1, SYN | ACK, 40)
    assert told(after(*segments, copies=(1, 3))) == (0, True, 10, "no answer", None, 20)


def test_what_a_handshake_knows_is_known_again():
    known = after(segment(0, SYN, 10), segment(1, SYN | ACK, 30), segment(0, ACK, 35))
    again = Handshake()
    again.restore(known.fields)
    assert (told(again), again.pending, again.fields) == (told(known), False, (0, 10, 30, 35, 20, 1, 0))
