"""Runs against segments one by one: the same events, wherever batches end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tcpfaults import conversations, damaged, garbage, timed
from tcpscript import A, B, Packet, a, b, chatter, handshake, play, play_one, to_batch

from mqsniff.limits import Limits
from mqsniff.streams.runs import Sheet

TIGHT = Limits(gap_grace_packets=3, gap_grace_ns=20_000_000, reorder_max=60, reorder_segments=6, overlap_history=30)
TINY_CHUNKS = Limits(chunk_max=16, recent_segments=2, reach_max=1000, strays_sure=2)


@st.composite
def cut_places(draw: st.DrawFn, packets: list[Packet]) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(0, len(packets)), max_size=8)))


def tales(packets: list[Packet], **more: object) -> list[list[tuple]]:
    return [[tale.id, tale.client, *tale.told] for tale in play(packets, **more)]


@given(st.data(), damaged(), st.sampled_from((Limits(), TIGHT, TINY_CHUNKS)))
@settings(max_examples=50, deadline=None)
def test_no_cut_into_batches_and_no_run_changes_what_is_told(data: st.DataObject, packets: list[Packet], limits: Limits):
    whole = tales(packets, limits=limits)
    assert tales(packets, limits=limits, find_runs=False) == whole
    assert tales(packets, limits=limits, cuts=data.draw(cut_places(packets))) == whole
    assert tales(packets, limits=limits, cuts=tuple(range(len(packets)))) == whole
