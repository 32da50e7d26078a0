"""Segments of one window in, bundles out; bundles of a flow in, their segments in merge order out.

A bundle is one row of the shuffle: the segments of one flow from one window, as packed rows and the bytes of their
payloads.

1. Scan numbers packets inside a piece. ``PiecePlaces`` gives the position of each piece in the run, and computes packet
   ids and the merge order from it.
2. The merge order is that of ``sources.files``: t* (the largest time so far in the packet's file), then the rank of the
   file, then the packet's number. Every segment carries its t* inside the piece, so that overlapping captures are
   merged segment by segment.
3. A bundle holds at most ``PAYLOAD_MAX`` bytes of payload (or one segment) and ``ROWS_MAX`` segments.
4. Problems of packets are shuffled too, in bundles without a key: there may be one per packet.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from mqsniff.limits import MIB
from mqsniff.model import FlowKey, Int64s, PacketProblem, Problem, SegmentBatch, packet_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEGMENT: Final = np.dtype(
    [
        ("ts_ns", "<i8"),
        ("lag_ns", "<u8"),  # t* minus the packet's time
        ("seq", "<u4"),
        ("ack", "<u4"),
        ("captured", "<u4"),
        ("size", "<u4"),
        ("number", "<u4"),  # of the packet in its piece, less the bundle's ``position``
        ("ip_id", "<i4"),
        ("interface", "<i4"),
        ("flags", "u1"),
        ("direction", "u1"),
    ]
)
"""One segment: 46 bytes. Rows, not columns, so that the segments of many bundles are read as one array."""
PAYLOAD_MAX: Final = MIB
ROWS_MAX: Final = 16_384
PROBLEMS_MAX: Final = 4_096
"""Problems of packets in one bundle."""
DIGEST: Final = 16
TIME_MIN: Final = -(1 << 63)
"""t* before the first packet of a file."""
KEY_HEAD: Final = struct.Struct("<4I2H")
"""Lengths of domain, tunnel and the two addresses; the two ports."""


class Bundle(NamedTuple):
    """One row of the shuffle; the names and types of its fields are those of the columns (``BUNDLE_DDL``)."""

    flow: bytes
    """Hash of domain and flow: what the shuffle sorts by."""
    piece: int
    position: int
    """Number in the piece of the first segment's packet."""
    first_ns: int
    """t* of that segment, inside the piece."""
    segments: int
    key: bytes
    """Domain and FlowKey (``read_key``); empty for a bundle of problems."""
    columns: bytes
    """``segments`` rows of ``SEGMENT``, or as many problems."""
    payload: bytes | memoryview
    """Captured payload bytes of the segments, concatenated."""


BUNDLE_DDL: Final = (
    "flow binary, piece int, position bigint, first_ns bigint, segments int, key binary, columns binary, payload binary"
)
"""The columns as a Spark schema."""


class PiecePlace(NamedTuple):
    """The position of a piece in the run."""

    floor_ns: int
    """The largest time of its file before the piece."""
    order: int
    """Second part of the merge order of its first packet, minus one: rank of the file, and packets before the piece."""
    packet: int
    """``packet_id`` of its first packet, minus one."""


@dataclass(frozen=True, slots=True)
class PiecePlaces:
    """The positions of all pieces that count; bundles of other pieces come from scans that were repeated."""

    places: dict[int, PiecePlace]

    def key(self, bundle: Bundle) -> tuple[int, int]:
        """The merge order of a bundle's first segment."""
        place = self.places[bundle.piece]
        return max(place.floor_ns, bundle.first_ns), place.order + bundle.position


def pack(segments: SegmentBatch, t_star: Int64s, piece: int, domain: str) -> Iterator[Bundle]:
    """The bundles of one window, flow by flow.

    ``segments.packet`` holds numbers inside the piece; ``t_star`` is the largest time of the piece so far at each
    segment.
    """
    if not len(segments):
        return
    order = np.argsort(segments.flow, kind="stable")
    flow = segments.flow[order]
    rows = _rows(segments, t_star, order)
    number, first_ns = segments.packet[order], t_star[order]
    starts, stops = segments.start[order], segments.stop[order]
    bounds = _bounds(flow, rows["captured"].astype(np.int64))
    rows["number"] = number - np.repeat(number[bounds[:-1]], np.diff(bounds))
    columns = memoryview(rows.tobytes())
    view = memoryview(segments.buffer)
    slices = list(map(slice, starts.tolist(), stops.tolist()))
    heads = zip(flow[bounds[:-1]].tolist(), number[bounds[:-1]].tolist(), first_ns[bounds[:-1]].tolist(), strict=True)
    edges = bounds.tolist()
    for (index, position, ns), low, high in zip(heads, edges[:-1], edges[1:], strict=True):
        digest, key = flow_name(domain, segments.flows[index])
        packed = bytes(columns[low * SEGMENT.itemsize : high * SEGMENT.itemsize])
        payload = b"".join(map(view.__getitem__, slices[low:high]))
        yield Bundle(digest, piece, position, ns, high - low, key, packed, payload)


def _rows(segments: SegmentBatch, t_star: Int64s, order: Int64s) -> NDArray[np.void]:
    rows = np.empty(len(order), SEGMENT)
    for name in ("ts_ns", "seq", "ack", "size", "ip_id", "interface", "flags", "direction"):
        rows[name] = getattr(segments, name)[order]
    rows["captured"] = (segments.stop - segments.start)[order]
    rows["lag_ns"] = (t_star - segments.ts_ns)[order]
    return rows


def _bounds(flow: NDArray[np.int32], captured: Int64s) -> Int64s:
    """Indexes at which bundles begin among segments sorted by flow, and the end."""
    heads = np.ones(len(flow), np.bool_)
    heads[1:] = flow[1:] != flow[:-1]
    first = np.flatnonzero(heads)
    stop = np.append(first[1:], len(flow))
    ends = np.cumsum(captured)
    size = ends[stop - 1] - ends[first] + captured[first]
    large = np.flatnonzero((size > PAYLOAD_MAX) | (stop - first > ROWS_MAX))
    more = [cut for index in large.tolist() for cut in _cuts(ends, captured, int(first[index]), int(stop[index]))]
    return np.sort(np.concatenate([first, np.array([*more, len(flow)], np.int64)]))


def _cuts(ends: Int64s, captured: Int64s, first: int, stop: int) -> Iterator[int]:
    """Indexes at which segments ``first`` to ``stop`` of one flow are split, by count or size."""
    while True:
        before = int(ends[first] - captured[first])
        fitting = int(np.searchsorted(ends, before + PAYLOAD_MAX, side="right"))
        first = min(max(fitting, first + 1), first + ROWS_MAX)
        if first >= stop:
            return
        yield first


@lru_cache(maxsize=65_536)
def flow_name(domain: str, key: FlowKey) -> tuple[bytes, bytes]:
    """(hash, key) of a flow in a capture domain, as bundles carry them."""
    parts = domain.encode(errors="surrogatepass"), key.tunnel.encode(), key.low_ip, key.high_ip
    packed = b"".join((KEY_HEAD.pack(*map(len, parts), key.low_port, key.high_port), *parts))
    return blake2b(packed, digest_size=DIGEST).digest(), packed


@lru_cache(maxsize=65_536)
def read_key(key: bytes) -> tuple[str, FlowKey]:
    """(domain, flow) of a bundle's key."""
    *sizes, low_port, high_port = KEY_HEAD.unpack_from(key)
    stops = list(accumulate(sizes, initial=KEY_HEAD.size))
    domain, tunnel, low_ip, high_ip = (key[start:stop] for start, stop in pairwise(stops))
    return domain.decode(errors="surrogatepass"), FlowKey(tunnel.decode(), low_ip, low_port, high_ip, high_port)


# ---- bundles to segments


def segments_of(bundles: Sequence[Bundle], placing: PiecePlaces, ordinal: int = 0) -> SegmentBatch:
    """All segments of some bundles (at least one bundle, all of one domain), in merge order.

    ``ordinal`` is the ordinal of the first segment.
    """
    rows = np.frombuffer(b"".join([bundle.columns for bundle in bundles]), SEGMENT)
    t_star, place, packet = _placed(bundles, rows, placing)
    numbers: dict[bytes, int] = {}
    flow = np.array([numbers.setdefault(bundle.key, len(numbers)) for bundle in bundles], np.int32)
    stop = np.cumsum(rows["captured"], dtype=np.int64)
    order: Any = slice(None)
    if ((t_star[1:] < t_star[:-1]) | ((t_star[1:] == t_star[:-1]) & (place[1:] < place[:-1]))).any():
        order = np.lexsort((place, t_star))
    return SegmentBatch(
        buffer=b"".join([bundle.payload for bundle in bundles]),
        flows=[read_key(key)[1] for key in numbers],
        flow=np.repeat(flow, [bundle.segments for bundle in bundles])[order],
        direction=rows["direction"][order].astype(np.int32),
        seq=rows["seq"][order].astype(np.int64),
        ack=rows["ack"][order].astype(np.int64),
        flags=rows["flags"][order].astype(np.int32),
        start=(stop - rows["captured"])[order],
        stop=stop[order],
        size=rows["size"][order].astype(np.int64),
        ip_id=rows["ip_id"][order].astype(np.int64),
        ts_ns=rows["ts_ns"][order].astype(np.int64),
        packet=packet[order],
        ordinal=np.arange(ordinal, ordinal + len(rows), dtype=np.int64),
        interface=rows["interface"][order].astype(np.int32),
    )


def _placed(bundles: Sequence[Bundle], rows: NDArray[np.void], placing: PiecePlaces) -> tuple[Int64s, Int64s, Int64s]:
    """(t*, second part of the merge order, packet id) of each row."""
    counts = [bundle.segments for bundle in bundles]
    heads = [
        (place.floor_ns, place.order + bundle.position, place.packet + bundle.position)
        for bundle in bundles
        for place in (placing.places[bundle.piece],)
    ]
    floor_ns, order, packet = np.repeat(np.array(heads, np.int64), counts, axis=0).T
    t_star = np.maximum(floor_ns, rows["ts_ns"] + rows["lag_ns"].astype(np.int64))
    return t_star, order + rows["number"], packet + rows["number"]


def merged(
    bundles: Iterable[Bundle], placing: PiecePlaces, size_max: int = 4 * MIB, *, ordinal: int = 0
) -> Iterator[SegmentBatch]:
    """The segments of one flow, whose bundles come in the order of ``PiecePlaces.key``; numbered from ``ordinal``.

    No batch is much larger than ``size_max``; for captures that overlap in time, only the overlap is held.
    """
    held: list[Bundle] = []
    size = 0
    for bundle in bundles:
        if size >= size_max:
            ready, held = parted(held, placing.key(bundle), placing)
            size = sum(map(bundle_size, held))
            batch = segments_of(ready, placing, ordinal)
            ordinal += len(batch)
            yield batch
        held.append(bundle)
        size += bundle_size(bundle)
    if held:
        yield segments_of(held, placing, ordinal)


def bundle_size(bundle: Bundle) -> int:
    """Bytes of a bundle in the shuffle."""
    return len(bundle.columns) + len(bundle.payload)


def parted(
    bundles: Sequence[Bundle], horizon: tuple[int, int], placing: PiecePlaces
) -> tuple[list[Bundle], list[Bundle]]:
    """The parts of bundles before and after a position in the merge order; at least one begins before it."""
    before, behind = [], []
    for bundle in bundles:
        rows = np.frombuffer(bundle.columns, SEGMENT)
        t_star, place, _ = _placed([bundle], rows, placing)
        count = int(((t_star < horizon[0]) | ((t_star == horizon[0]) & (place < horizon[1]))).sum())
        edge, payload_edge = count * SEGMENT.itemsize, int(rows["captured"][:count].sum())
        if count:
            head = bundle.columns[:edge], bundle.payload[:payload_edge]
            before.append(bundle._replace(segments=count, columns=head[0], payload=head[1]))
        if count < bundle.segments:
            tail = bundle.columns[edge:], bundle.payload[payload_edge:]
            behind.append(bundle._replace(segments=bundle.segments - count, columns=tail[0], payload=tail[1]))
    return before, behind


def begun_at_first(bundle: Bundle) -> Bundle:
    """A tail that ``parted`` cut off, with the position and time of its own first segment."""
    rows = np.frombuffer(bundle.columns, SEGMENT).copy()
    first = rows[0]
    position, first_ns = bundle.position + int(first["number"]), int(first["ts_ns"]) + int(first["lag_ns"])
    rows["number"] -= first["number"]
    return bundle._replace(position=position, first_ns=first_ns, columns=rows.tobytes())


# ---- problems of packets


def pack_problems(problems: Sequence[PacketProblem], piece: int) -> Iterator[Bundle]:
    """Bundles of problems; ``packet`` of each is the number inside the piece."""
    flow = blake2b(piece.to_bytes(8, "little"), digest_size=DIGEST).digest()
    for first in range(0, len(problems), PROBLEMS_MAX):
        part = problems[first : first + PROBLEMS_MAX]
        rows = [
            [packet_number(p.packet), p.ts_ns, p.size, p.problem.kind, p.problem.severity, p.problem.detail]
            for p in part
        ]
        position = packet_number(part[0].packet)
        yield Bundle(flow, piece, position, part[0].ts_ns, len(part), b"", json.dumps(rows).encode(), b"")


def problems_of(bundle: Bundle, placing: PiecePlaces) -> list[PacketProblem]:
    """The problems in a bundle without a key, with packet ids; ordinals are not set."""
    first = placing.places[bundle.piece].packet
    return [
        PacketProblem(0, ts_ns, first + number, size, Problem(kind, severity, detail))
        for number, ts_ns, size, kind, severity, detail in json.loads(bundle.columns)
    ]
