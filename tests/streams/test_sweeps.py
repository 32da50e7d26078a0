"""When connections are swept."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from tcpscript import a, to_batch

from mqsniff.streams.sweeps import SweepClock

STEP_MS = 10_000


def sweeps(times_ms: list[float], cuts: tuple[int, ...] = ()) -> list[tuple[int, int]]:
    """(ordinal, time) of each sweep."""
    clock, told = SweepClock(), []
    bounds = [0, *sorted(cuts), len(times_ms)]
    for start, stop in itertools.pairwise(bounds):
        batch = to_batch([a(0, ms=ms) for ms in times_ms[start:stop]], start)
        for turn in clock.advance(batch):
            assert batch.ordinal[turn.row] == turn.ordinal
            told.append((turn.ordinal, turn.now_ns))
    return told


def test_a_sweep_stands_where_sixteen_packets_have_passed_another_ten_seconds():
    steady = [1000.0 * n for n in range(60)]
    # Packet 25 is the last of sixteen that are at ten seconds or more.
    assert [ordinal for ordinal, _ in sweeps(steady)] == [25, 35, 45, 55]


def test_a_few_packets_with_damaged_times_move_nothing():
    steady = [100.0 * n for n in range(200)]
    damaged = [*steady[:50], 1e12, *steady[50:60], 9e11, *steady[60:]]
    assert len(sweeps(damaged)) == len(sweeps(steady)) == 1


def test_a_long_silence_is_one_sweep():
    assert len(sweeps([0.0] * 20 + [1e9] * 20)) == 1


@given(
    st.lists(st.sampled_from((0, 1, 700, 4_000, 25_000, -3_000)), max_size=120),
    st.lists(st.integers(0, 120), max_size=6),
)
@settings(max_examples=50, deadline=None)
def test_sweeps_do_not_depend_on_where_batches_end(steps: list[int], cuts: list[int]):
    times = [sum(steps[: place + 1]) + 500_000.0 for place in range(len(steps))]
    whole = sweeps(times)
    assert sweeps(times, tuple(cut for cut in cuts if cut <= len(times))) == whole
    assert sweeps(times, tuple(range(len(times)))) == whole
    assert all(
        later[1] // (STEP_MS * 10**6) > earlier[1] // (STEP_MS * 10**6) for earlier, later in itertools.pairwise(whole)
    )
