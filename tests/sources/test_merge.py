import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.model import PacketBatch
from mqsniff.sources.files import Lane, merge


def batch_of(times, mark):
    """A batch whose packets hold one byte, the mark of their lane."""
    count = len(times)
    zeros = np.zeros(count, np.int32)
    ones = np.ones(count, np.int64)
    start = np.arange(count, dtype=np.int64)
    return PacketBatch(bytes([mark]) * count, np.array(times, np.int64), start, ones, ones, zeros, ones, zeros, 0)


def lane_of(rank, batches, pending=None):
    """A lane over lists of times; notes its rank in ``pending`` each time it is asked for a batch."""
    left = iter(batches)

    def next_batch():
        if pending is not None:
            pending.append(rank)
        times = next(left, None)
        return None if times is None else batch_of(times, rank)

    return Lane(rank, batches[0][0], next_batch)


def read(lanes):
    """(rank, time) of all packets; checks the ordinals."""
    found = []
    for batch in merge(lanes):
        assert batch.ordinal == len(found)
        view = memoryview(batch.buffer)
        found += [(view[at], ts) for at, ts in zip(batch.start.tolist(), batch.ts_ns.tolist(), strict=True)]
    return found


BATCHES = st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=6), min_size=1, max_size=4)


@settings(max_examples=50)
@given(st.lists(BATCHES, min_size=1, max_size=4))
def test_packets_leave_by_the_largest_time_so_far_then_rank_then_place(lanes):
    keyed = []
    for rank, batches in enumerate(lanes):
        times = list(itertools.chain(*batches))
        highs = itertools.accumulate(times, max)
        keyed += [(high, rank, place, ts) for place, (high, ts) in enumerate(zip(highs, times, strict=True))]
    expected = [(rank, ts) for _, rank, _, ts in sorted(keyed)]
    assert read([lane_of(rank, batches) for rank, batches in reversed(list(enumerate(lanes)))]) == expected


def test_a_lane_is_asked_when_the_others_have_come_to_its_first_packet():
    pending = []
    lanes = [
        lane_of(0, [[1, 2], [3, 4]], pending),
        lane_of(1, [[5, 6], [9]], pending),
        lane_of(2, [[8]], pending),
        lane_of(3, [[20]], pending),
    ]
    assert [ts for _, ts in read(lanes)] == [1, 2, 3, 4, 5, 6, 8, 9, 20]
    assert pending == [0, 0, 0, 1, 1, 2, 2, 1, 3, 3]


def test_batches_that_do_not_overlap_pass_as_they_are():
    batches = [batch_of([1, 2], 0), batch_of([3], 1)]
    lanes = [Lane(rank, int(batch.ts_ns[0]), iter([batch, None]).__next__) for rank, batch in enumerate(batches)]
    assert all(out is given_in for out, given_in in zip(merge(lanes), batches, strict=True))


def test_no_lanes_have_no_packets():
    assert list(merge([])) == []


def test_a_step_looks_only_at_the_lanes_that_give_packets(monkeypatch):
    """All overlap: each packet is taken once, however many lanes wait."""
    counted = []
    take = Lane.take
    monkeypatch.setattr(Lane, "take", lambda lane, horizon: counted.append(lane) or take(lane, horizon))
    refill = Lane.refill
    monkeypatch.setattr(Lane, "refill", lambda lane: counted.append(lane) or refill(lane))
    lanes = [Lane(rank, rank, iter([batch_of([rank, 1000 + rank], 0), None]).__next__) for rank in range(300)]
    assert sum(map(len, merge(lanes))) == 600
    assert len(counted) <= 4 * 300  # 300 times 300 if each step asked all
