"""Runs against segments one by one: the same events, wherever batches end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tcpfaults import damaged
from tcpscript import FIN, A, B, Packet, a, b, handshake, play, play_one, to_batch

from mqsniff.limits import Limits
from mqsniff.streams.runs import Sheet

TIGHT = Limits(gap_grace_packets=3, gap_grace_ns=20_000_000, reorder_max=60, reorder_segments=6, overlap_history=30)
TINY = Limits(chunk_max=16, recent_segments=2, reach_max=1000, strays_sure=2)


def tales(packets: list[Packet], **more: object) -> list[list[tuple]]:
    return [[tale.id, tale.client, *tale.told] for tale in play(packets, **more)]


@given(st.data(), damaged(), st.sampled_from((Limits(), TIGHT, TINY)))
@settings(max_examples=50, deadline=None)
def test_neither_runs_nor_the_ends_of_batches_change_what_is_told(
    data: st.DataObject, packets: list[Packet], limits: Limits
):
    whole = tales(packets, limits=limits)
    assert tales(packets, limits=limits, find_runs=False) == whole
    cuts = data.draw(st.lists(st.integers(0, len(packets)), max_size=8))
    assert tales(packets, limits=limits, cuts=tuple(cuts)) == whole
    assert tales(packets, limits=limits, cuts=tuple(range(len(packets)))) == whole


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
    """(first row, row behind the last, fast) of each run of one flow."""
    sheet = Sheet(to_batch(packets), turns, limits or Limits())
    (group,) = sheet.groups
    return [(run.first, run.stop, bool(run.fast)) for run in sheet.runs(group)]


def test_payload_with_acknowledgements_of_it_is_one_run():
    assert runs_of(bulk(20)) == [(0, 30, True)]
    sheet = Sheet(to_batch(bulk(20)), (), Limits())
    (run,) = sheet.runs(sheet.groups[0])
    assert (run.replies, run.stop_payload - run.first_payload) == (10, 20)


BREAKS = {
    "a missing segment": lambda p: p[:6] + p[7:],
    "a swap": lambda p: [*p[:6], p[7], p[6], *p[8:]],
    "payload of the peer": lambda p: [*p[:6], b(0, b"x", 40), *p[6:]],
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
    assert len(runs) > 1
    assert runs[0][0] == 0
    assert [stop for _, stop, _ in runs[:-1]] == [first for first, _, _ in runs[1:]]
    assert 4 <= runs[0][1] <= 8


def test_a_sweep_breaks_a_run():
    assert runs_of(bulk(20), turns=(9,))[0] == (0, 9, True)


def test_a_run_that_its_connection_cannot_take_is_taken_up_again_where_it_can():
    packets = [*handshake(), *bulk(200)]
    held = [*packets[:3], b(5, b"later", 0), *packets[3:], b(0, b"first", 0)]
    for limits in (Limits(), Limits(gap_grace_packets=30, gap_grace_ns=1)):
        fast, slow = play_one(held, limits), play_one(held, limits, find_runs=False)
        assert fast.told == slow.told
        assert fast.data(A) == b"".join(b"%010d" % n for n in range(200))


def test_a_run_longer_than_a_chunk_is_cut_at_its_segments():
    tale = play_one([*handshake(), *bulk(50)], Limits(chunk_max=64))
    assert {len(chunk.data) for chunk in tale.chunks[:-1]} == {60}
    assert all(chunk.marks[0].offset == chunk.offset and len(chunk.marks) == 6 for chunk in tale.chunks[:-1])


def test_runs_of_many_flows_stay_apart():
    flows = [packet.but(flow=flow) for packet in bulk(12, 3) for flow in range(5)]
    told = play(flows)
    assert [tale.data(A) for tale in told] == [b"".join(b"%010d" % n for n in range(12))] * 5
    assert [tale.data(B) for tale in told] == [b""] * 5
    assert all(tale.facts.packets == (12, 4) for tale in told)
