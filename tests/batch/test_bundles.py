"""Bundles: what goes into them comes out, whatever is joined, in merge order."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from segmentrows import COLUMNS, rows_of

from mqsniff.batch import bundles
from mqsniff.batch.bundles import (
    BUNDLE_DDL,
    Bundle,
    PiecePlace,
    PiecePlaces,
    merged,
    pack,
    pack_problems,
    problems_of,
    read_key,
    segments_of,
)
from mqsniff.model import FlowKey, PacketProblem, Problem, SegmentBatch, packet_id

KEYS = [FlowKey("", bytes(4), 1, b"\1" * 4, 65_535), FlowKey("vni 7", bytes(16), 0, b"\xff" * 16, 9)]
NUMBERS = {
    "seq": st.integers(0, 2**32 - 1),
    "ack": st.integers(0, 2**32 - 1),
    "flags": st.integers(0, 63),
    "size": st.integers(0, 2**32 - 1),
    "ip_id": st.integers(-1, 65_535),
    "interface": st.integers(-1, 70_000),
    "direction": st.integers(0, 1),
    "flow": st.integers(0, 1),
    "ts_ns": st.integers(-(2**62), 2**62),
}


@st.composite
def windows(draw):
    """Segments of a window, their numbers inside the piece, with their t*."""
    count = draw(st.integers(1, 12))
    columns = {name: np.array(draw(st.lists(kind, min_size=count, max_size=count))) for name, kind in NUMBERS.items()}
    payloads = draw(st.lists(st.binary(max_size=9), min_size=count, max_size=count))
    stop = np.cumsum([len(payload) for payload in payloads])
    steps = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    batch = SegmentBatch(
        buffer=b"".join(payloads),
        flows=KEYS,
        start=stop - [len(payload) for payload in payloads],
        stop=stop,
        packet=np.cumsum(steps),
        ordinal=np.arange(count),
        **columns,
    )
    return batch, np.maximum.accumulate(columns["ts_ns"])


def shown(rows):
    return [row[:8] + row[9:] for row in rows]


@settings(max_examples=50, deadline=None)
@given(window=windows(), floor=st.integers(-(2**62), 2**62), base=st.integers(0, 2**39), cut=st.integers(1, 30))
def test_what_was_packed_comes_out(window, floor, base, cut):
    batch, t_star = window
    large, bundles.PAYLOAD_MAX = bundles.PAYLOAD_MAX, cut
    try:
        packed = list(pack(batch, t_star, 3, "tap"))
    finally:
        bundles.PAYLOAD_MAX = large
    placing = PiecePlaces({3: PiecePlace(floor, 5 << 40 | base, packet_id(7, base))})
    expected = sorted(range(len(batch)), key=lambda row: (max(floor, int(t_star[row])), int(batch.packet[row])))
    rows = rows_of(batch)
    found = rows_of(segments_of(packed[::-1], placing))
    assert shown(found) == shown([rows[row] for row in expected])
    assert [row[8] for row in found] == [packet_id(7, base) + rows[row][8] for row in expected]
    assert all(len(bundle.payload) <= cut or bundle.segments == 1 for bundle in packed)
    assert {read_key(bundle.key) for bundle in packed} == {("tap", KEYS[flow]) for flow in batch.flow.tolist()}


@settings(max_examples=50, deadline=None)
@given(taps=st.lists(windows(), min_size=1, max_size=4), size_max=st.integers(1, 2000))
def test_a_flow_is_merged_as_a_stream_whatever_is_held(taps, size_max):
    packed = [bundle for piece, (batch, t_star) in enumerate(taps) for bundle in pack(batch, t_star, piece, "")]
    placing = PiecePlaces({piece: PiecePlace(-(2**63), piece << 40, piece << 40) for piece in range(len(taps))})
    for key in {bundle.key for bundle in packed}:
        own = sorted((bundle for bundle in packed if bundle.key == key), key=placing.key)
        batches = list(merged(iter(own), placing, size_max))
        assert [row for batch in batches for row in rows_of(batch)] == rows_of(segments_of(own, placing))
        assert [ordinal for batch in batches for ordinal in batch.ordinal.tolist()] == list(
            range(sum(map(len, batches)))
        )
        assert all(len(batch) for batch in batches)


def test_no_more_is_held_of_captures_that_overlap_than_overlaps():
    def tap(piece, number):
        count = 100
        zeros = {name: np.zeros(count, np.int64) for name in COLUMNS}
        ts = np.arange(number * count, (number + 1) * count)
        zeros |= {"ts_ns": ts, "packet": ts + 1}
        size = np.arange(count + 1) * 50
        batch = SegmentBatch(
            buffer=bytes(5000),
            flows=KEYS[:1],
            flow=np.zeros(count, np.int32),
            ordinal=ts,
            start=size[:-1],
            stop=size[1:],
            **zeros,
        )
        return next(pack(batch, ts, piece, ""))

    placing = PiecePlaces({piece: PiecePlace(0, piece << 40, piece << 40) for piece in range(3)})
    stream = sorted((tap(piece, number) for piece in range(3) for number in range(30)), key=placing.key)
    sizes = [len(batch) for batch in merged(iter(stream), placing, 20_000)]
    assert sum(sizes) == 9000
    assert max(sizes) < 900


def test_problems_travel_with_the_numbers_of_their_packets(monkeypatch):
    monkeypatch.setattr(bundles, "PROBLEMS_MAX", 3)
    problems = [PacketProblem(0, 10 * n, n, 60, Problem("malformed", "error", f"it is {n}")) for n in range(1, 9)]
    packed = list(pack_problems(problems, 2))
    assert [bundle.segments for bundle in packed] == [3, 3, 2]
    placing = PiecePlaces({2: PiecePlace(0, 0, packet_id(4, 1000))})
    found = [problem for bundle in packed for problem in problems_of(bundle, placing)]
    assert found == [each._replace(packet=packet_id(4, 1000 + each.packet)) for each in problems]


def test_the_columns_of_the_shuffle_are_the_fields_of_a_bundle():
    assert [column.split()[0] for column in BUNDLE_DDL.split(", ")] == list(Bundle._fields)


def test_keys_do_not_collide():
    keys = {FlowKey("", b"\1", 12, b"\2", 3), FlowKey("", b"\1", 1, b"\2", 23), FlowKey("\1", b"", 12, b"\2", 3)}
    names = {bundles.flow_name(domain, key) for key in keys for domain in ("", "a", 'a"')}
    assert len(names) == len({digest for digest, _ in names}) == 9
    assert {read_key(key) for _, key in names} == {(domain, key) for key in keys for domain in ("", "a", 'a"')}
