"""Runs against segments one by one: the same events, wherever batches end."""

from __future__ import annotations

import pytest
from builds import python_only
from hypothesis import given, settings
from hypothesis import strategies as st
from tcpfaults import damaged
from tcpscript import FIN, ISN, START_NS, A, B, Packet, a, b, handshake, play, play_one, to_batch

from mqsniff.limits import Limits
from mqsniff.streams.connection import Connection
from mqsniff.streams.runs import FlowSortedBatch, SegmentRun

TIGHT = Limits(gap_grace_packets=3, gap_grace_ns=20_000_000, reorder_max=60, reorder_segments=6, overlap_history=30)
TINY = Limits(chunk_max=16, recent_segments=2, reach_max=1000, strays_sure=2)


@given(st.data(), damaged(), st.sampled_from((Limits(), TIGHT, TINY)))
@settings(max_examples=50, deadline=None)
def test_neither_runs_nor_the_ends_of_batches_change_what_is_told(
    data: st.DataObject, packets: list[Packet], limits: Limits
):
    whole = told(packets, limits)
    cuts = data.draw(st.lists(st.integers(0, len(packets)), max_size=8))
    assert told(packets, limits, cuts=tuple(cuts)) == whole
    assert told(packets, limits, cuts=tuple(range(len(packets)))) == whole


EDITS = {
    "lost": lambda p, n: [*p[:n], *p[n + 1 :]],
    "doubled": lambda p, n: [*p[: n + 1], *p[n:]],
    "swapped": lambda p, n: [*p[:n], *p[n : n + 2][::-1], *p[n + 2 :]],
    "late": lambda p, n: [*p[:n], *p[n + 1 : n + 40], *p[n : n + 1], *p[n + 40 :]],
    "cut": lambda p, n: [*p[:n], p[n].but(data=p[n].data[:4], size=len(p[n].data)), *p[n + 1 :]],
    "forged": lambda p, n: [*p[:n], p[n].but(ack=p[n].ack + 30), *p[n + 1 :]],
    "old": lambda p, n: [*p[:n], p[n].but(ack=p[n].ack - 30), *p[n + 1 :]],
    "answered": lambda p, n: [*p[:n], b(0, b"answer", p[n].seq), *p[n:]],
    "early": lambda p, n: [*p[:n], p[n].but(ms=n - 30.0), *p[n + 1 :]],
    "closed": lambda p, n: [*p[:n], b(0, b"", p[n].seq, FIN), *p[n:]],
}


@given(
    st.lists(st.tuples(st.sampled_from(sorted(EDITS)), st.integers(0, 100)), max_size=3),
    st.lists(st.integers(0, 180), max_size=4),
    st.booleans(),
    st.sampled_from((Limits(), TIGHT, TINY)),
)
@settings(max_examples=50, deadline=None)
def test_a_long_run_with_a_fault_or_two_is_told_as_its_segments_are(
    edits: list[tuple[str, int]], cuts: list[int], begins: bool, limits: Limits
):
    packets = bulk(100)
    for edit, place in edits:
        packets = EDITS[edit](packets, place)
    packets = [*(handshake() if begins else ()), *packets]
    assert told(packets, limits, cuts=tuple(cut for cut in cuts if cut < len(packets))) == told(packets, limits)


def told(packets: list[Packet], limits: Limits, **more: object) -> list[list[tuple]]:
    """What is told of each connection; ``play`` compares runs with single segments."""
    return [[tale.id, tale.client, *tale.told] for tale in play(packets, limits, **more)]


def bulk(count: int, acknowledged: int = 2) -> list[Packet]:
    """A direction that sends, and a peer that acknowledges every other segment."""
    packets = []
    for n in range(count):
        packets.append(a(10 * n, b"%010d" % n))
        if n % acknowledged == acknowledged - 1:
            packets.append(b(0, ack=10 * (n + 1)))
    return packets


def runs_of(
    packets: list[Packet], limits: Limits | None = None, turns: tuple[int, ...] = ()
) -> list[tuple[int, int, bool]]:
    """(first row, row after the last, fast) of each run of one flow."""
    sheet = FlowSortedBatch(to_batch(packets), turns, limits or Limits())
    (group,) = sheet.groups
    return [(run.first, run.stop, bool(run.fast)) for run in sheet.runs(group)]


def test_payload_with_acknowledgements_of_it_is_one_run():
    assert runs_of(bulk(20)) == [(0, 30, True)]
    sheet = FlowSortedBatch(to_batch(bulk(20)), (), Limits())
    (run,) = sheet.runs(sheet.groups[0])
    assert (run.replies, run.stop_payload - run.first_payload) == (10, 20)


BREAKS = {
    "a missing segment": lambda p: p[:6] + p[7:],
    "a swap": lambda p: [*p[:6], p[7], p[6], *p[8:]],
    "payload of the peer": lambda p: [*p[:6], b(0, b"x", 40), *p[6:]],
    "payload of the peer with the next number": lambda p: [*p[:6], b(0, b"x", 40, isn=ISN[A] + 40), *p[6:]],
    "a segment cut by the snap length": lambda p: [*p[:6], p[6].but(data=b"12", size=10), *p[7:]],
    "a flag": lambda p: [*p[:6], p[6].but(flags=FIN), *p[7:]],
    "no acknowledgement number": lambda p: [*p[:6], p[6].but(ack=None), *p[7:]],
    "an acknowledgement of what has not come": lambda p: [*p[:6], b(0, ack=100), *p[6:]],
    "an acknowledgement of what was never sent": lambda p: [*p[:6], b(0, raw_ack=3_000_000_000), *p[6:]],
    "silence for longer than the limit": lambda p: [each.but(ms=n if n < 6 else 4e6 + n) for n, each in enumerate(p)],
}


@pytest.mark.parametrize("change", BREAKS.values(), ids=BREAKS)
def test_a_run_is_broken_by(change):
    runs = runs_of(change(bulk(20)))
    assert runs[0] == (0, 6, True)
    assert [stop for _, stop, _ in runs[:-1]] == [first for first, _, _ in runs[1:]]


def test_a_sweep_breaks_a_run():
    assert runs_of(bulk(20), turns=(9,))[0] == (0, 9, True)


SENT = b"".join(b"%010d" % n for n in range(200))


def test_a_run_that_its_connection_cannot_take_is_taken_up_again_where_it_can():
    rows = bulk(200)
    for later in (50, 100, 260):
        packets = [*handshake(), b(5, b"later"), *rows[:later], b(0, b"first", rows[later].seq), *rows[later:]]
        tale = play_one(packets)
        assert (tale.data(A), tale.data(B)) == (SENT, b"firstlater")
        assert tale.facts.packets == (202, 103)


def test_what_a_run_acknowledges_behind_its_first_segment_is_looked_at():
    rows = bulk(200)
    for place in range(40, 60):
        if not rows[place].data:
            continue
        forged = [*rows[:place], rows[place].but(ack=500), *rows[place + 1 :]]
        packets = [*handshake(), b(5, b"later"), *forged[:8], b(0, b"first", forged[8].seq), *forged[8:]]
        assert play_one(packets).data(A) == SENT
        assert play_one([*handshake(), *forged]).data(A) == SENT


def test_a_peer_that_shows_up_inside_a_run_ends_its_darkness():
    limits = Limits(gap_grace_packets=4, gap_grace_ns=1)
    alone = [a(10 * n, b"0123456789", ack=7 * min(n, 9)) for n in range(10)]
    packets = [*alone, *[packet.but(seq=packet.seq + 100, ack=63) for packet in bulk(40)]]
    packets = [packet.but(seq=63, ack=packet.seq) if packet.direction == B else packet for packet in packets]
    tale = play_one(packets, limits, cuts=(10,))
    assert tale.gaps == [(B, 0, 63)]
    assert tale.facts.packets == (50, 20)


def test_a_run_longer_than_a_chunk_is_cut_at_its_segments():
    tale = play_one([*handshake(), *bulk(50)], Limits(chunk_max=64))
    assert {len(chunk.data) for chunk in tale.chunks[:-1]} == {60}
    assert all(chunk.marks[0].offset == chunk.offset and len(chunk.marks) == 6 for chunk in tale.chunks[:-1])


@python_only
def test_an_ordinary_run_is_taken_at_once(monkeypatch: pytest.MonkeyPatch):
    taken, take_run = [], Connection.take_run

    def noted(connection: Connection, run: SegmentRun, batch: FlowSortedBatch) -> None:
        taken.append(run.stop - run.first)
        take_run(connection, run, batch)

    monkeypatch.setattr(Connection, "take_run", noted)
    assert play_one([*handshake(), *bulk(20)]).data(A) == SENT[:200]
    assert taken == [30]


def test_a_segment_larger_than_a_chunk_is_cut_alone():
    tale = play_one([*handshake(), *bulk(20)], Limits(chunk_max=4))
    assert [len(chunk.data) for chunk in tale.chunks] == [4, 4, 2] * 20


def test_runs_of_many_flows_stay_apart_even_if_their_numbers_go_on():
    packets = [
        packet.but(flow=flow, seq=packet.seq + (120 * flow if packet.data else 0), ack=packet.ack + 120 * flow)
        for packet in bulk(12, 3)
        for flow in range(5)
    ]
    tales = play(packets)
    assert [tale.data(A) for tale in tales] == [SENT[:120]] * 5
    assert [tale.data(B) for tale in tales] == [b""] * 5
    assert all(tale.facts.packets == (12, 4) for tale in tales)


def test_the_times_of_a_run_may_go_back():
    late_start = play_one([*handshake(ms=500), *bulk(20)])
    assert late_start.facts.last_ts_ns == START_NS + 500_000_000
    rows = bulk(20)
    late_middle = play_one([*handshake(), *rows[:9], rows[9].but(ms=700), *rows[10:]])
    assert late_middle.facts.last_ts_ns == START_NS + 700_000_000
