"""When connections are swept."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tcpscript import a, to_batch

import mqsniff.streams.flows
from mqsniff.streams.flows import SURE_PACKETS, ExpiryClock

STEP_MS = 10_000


def sweeps(times_ms: list[float], cuts: tuple[int, ...] = ()) -> list[tuple[int, int]]:
    """(ordinal, time) of each sweep."""
    clock, told = ExpiryClock(), []
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


def test_a_long_silence_is_one_sweep_once_many_packets_agree_on_it():
    assert sweeps([0.0] * 20 + [1e9] * 1038) == []
    assert [ordinal for ordinal, _ in sweeps([0.0] * 20 + [1e9] * 1100)] == [20 + 15 + SURE_PACKETS]


def test_a_long_silence_is_one_sweep_once_another_minute_has_passed():
    later = [1e9 + 1000.0 * n for n in range(100)]
    assert [ordinal for ordinal, _ in sweeps([0.0] * 20 + later)] == [20 + 15 + 60, 20 + 15 + 70, 20 + 15 + 80]


def test_a_clock_that_is_set_and_set_back_moves_nothing():
    steady = [100.0 * n for n in range(400)]
    ahead = [3_600_000 + ms for ms in steady[50:300]]
    told = [now_ns for _, now_ns in sweeps([*steady[:50], *ahead, *steady[300:]])]
    assert told == [now_ns for _, now_ns in sweeps([*steady[:50], *[4_999.0] * 250, *steady[300:]])]


STEPS = (0, 1, 700, 4_000, 25_000, -3_000, 70_000, 4_000_000, -4_000_000)


@pytest.mark.parametrize("sure", [3, 40])
@given(
    st.lists(st.sampled_from(STEPS), max_size=120),
    st.lists(st.integers(0, 120), max_size=6),
)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sweeps_do_not_depend_on_where_batches_end(
    monkeypatch: pytest.MonkeyPatch, sure: int, steps: list[int], cuts: list[int]
):
    monkeypatch.setattr(mqsniff.streams.flows, "SURE_PACKETS", sure)
    times = [sum(steps[: place + 1]) + 5e8 for place in range(len(steps))]
    whole = sweeps(times)
    assert sweeps(times, tuple(cut for cut in cuts if cut <= len(times))) == whole
    assert sweeps(times, tuple(range(len(times)))) == whole
    assert all(
        later[1] // (STEP_MS * 10**6) > earlier[1] // (STEP_MS * 10**6) for earlier, later in itertools.pairwise(whole)
    )
