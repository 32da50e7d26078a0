import numpy as np
import pytest
from capturecraft import pcap

from mqsniff.limits import Limits
from mqsniff.model import CaptureInfo
from mqsniff.sources.batches import COLUMNS, join_batches, merge_batches, report, slice_batch
from mqsniff.sources.pcap import PcapParser


def batch_of(times, index=0, mark=b"x"):
    data = bytearray(pcap([(ts * 1000, mark + bytes([n])) for n, ts in enumerate(times)]))
    parser = PcapParser(CaptureInfo(index, "a"), Limits())
    head = parser.parse(data, 0, len(data), 0)
    return parser.parse(data, head.position, len(data), head.position).batch


def data_of(batch):
    view = memoryview(batch.buffer)
    return [bytes(view[a : a + n]) for a, n in zip(batch.start.tolist(), batch.caplen.tolist(), strict=True)]


def test_a_slice_shares_the_buffer_and_counts_ordinals_on():
    batch = batch_of(range(10))
    batch.ordinal = 100
    part = slice_batch(batch, 3, 7)
    assert part.buffer is batch.buffer
    assert (len(part), part.ordinal) == (4, 103)
    assert data_of(part) == data_of(batch)[3:7]
    for name in COLUMNS:
        column = getattr(part, name)
        assert np.shares_memory(column, getattr(batch, name))
        assert column.tolist() == getattr(batch, name).tolist()[3:7]


def test_joined_slices_are_the_batch():
    batch = batch_of(range(10))
    joined = join_batches([slice_batch(batch, 0, 4), slice_batch(batch, 4, 4), slice_batch(batch, 4, 10)])
    for name in COLUMNS:
        assert getattr(joined, name).tolist() == getattr(batch, name).tolist()


@pytest.mark.parametrize(
    ("first", "second", "order"),
    [
        ([1, 3, 5], [2, 4], [b"a\0", b"b\0", b"a\1", b"b\1", b"a\2"]),
        ([1, 2], [1, 2], [b"a\0", b"b\0", b"a\1", b"b\1"]),
        ([5, 6], [1, 2], [b"b\0", b"b\1", b"a\0", b"a\1"]),
    ],
)
def test_merged_batches_are_in_the_order_of_their_keys_ties_as_given(first, second, order):
    batches = [batch_of(first, 0, b"a"), batch_of(second, 1, b"b")]
    merged = merge_batches(batches, [batch.ts_ns for batch in batches])
    assert data_of(merged) == order
    assert merged.ts_ns.tolist() == sorted(ts * 1000 for ts in first + second)
    captured = dict(zip(data_of(merged), merged.packet.tolist(), strict=True))
    for batch in batches:
        assert dict(zip(data_of(batch), batch.packet.tolist(), strict=True)).items() <= captured.items()


def test_problems_of_a_capture_are_bounded_and_each_is_told_once():
    info = CaptureInfo(0, "a")
    for n in range(1000):
        report(info, "the same", n)
        report(info, f"another {n}", n)
    assert len(info.problems) == 64
    assert (info.problems[0].detail, info.problems[0].offset) == ("the same", 0)
