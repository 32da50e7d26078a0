"""How many segments a second become streams, on one core: ``OPENBLAS_NUM_THREADS=1 python benchmarks/flows.py [NAME]``.

Batches are made by hand, of 8192 segments as the pipeline slices them; only ``FlowTable`` is measured, with all that it
tells. Each scenario runs with runs found and one segment at a time; the best of three passes is printed.

1. bulk: one connection, segments of 1448 bytes, every other one acknowledged.
2. short: 10,000 connections of 14 segments (handshake, four questions of 200 bytes and their answers, farewell), of
   which 2,000 are open at a time.
3. wide: 10,000 open connections that take turns, so that a batch has one segment of each.
4. lossy: bulk at a microsecond a packet, where the capture has lost every 500th segment.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np

from mqsniff.limits import Limits
from mqsniff.model import FlowKey, SegmentBatch
from mqsniff.streams.events import StreamChunk
from mqsniff.streams.flows import FlowTable
from mqsniff.streams.segment import ACK, FIN, SYN

SLICE = 8192
PASSES = 3
MSS = 1448
START_NS = 1_795_253_930_000_000_000
Row = tuple[int, int, int, int, int, int]
"""Flow, direction, sequence number, acknowledgement, flags, payload size."""
OPENING: list[tuple[int, int, int, int]] = [(0, 1000, 0, SYN), (1, 5000, 1001, SYN | ACK), (0, 1001, 5001, ACK)]


def opening(flow: int) -> list[Row]:
    """A handshake; the streams start at 1001 and 5001."""
    return [(flow, direction, seq, ack, flags, 0) for direction, seq, ack, flags in OPENING]


def bulk(count: int = 150_000, lost: int = 0) -> Iterator[Row]:
    """One direction sends; every ``lost``-th segment is not captured."""
    yield from opening(0)
    for place in range(1, count + 1):
        seq = 1001 + MSS * (place - 1)
        if not lost or place % lost:
            yield 0, 0, seq, 5001, ACK, MSS
        if place % 2 == 0:
            yield 0, 1, 5001, seq + MSS, ACK, 0


def short(flows: int = 10_000, together: int = 2_000, exchanges: int = 4, size: int = 200) -> Iterator[Row]:
    """Connections that come, ask and go."""
    told = [row[1:] for row in opening(0)]
    for n in range(exchanges):
        told.append((0, 1001 + n * size, 5001 + n * size, ACK, size))
        told.append((1, 5001 + n * size, 1001 + (n + 1) * size, ACK, size))
    a, b = 1001 + exchanges * size, 5001 + exchanges * size
    told += [(0, a, b, ACK | FIN, 0), (1, b, a + 1, ACK | FIN, 0), (0, a + 1, b + 1, ACK, 0)]
    for first in range(0, flows, together):
        for row in told:
            for flow in range(first, first + together):
                yield flow, *row


def wide(flows: int = 10_000, rounds: int = 8, size: int = 500) -> Iterator[Row]:
    """Connections that stay open and take turns."""
    for step in range(len(OPENING)):
        for flow in range(flows):
            yield opening(flow)[step]
    for n in range(rounds):
        for flow in range(flows):
            yield flow, 0, 1001 + n * size, 5001 + n * size, ACK, size
        for flow in range(flows):
            yield flow, 1, 5001 + n * size, 1001 + (n + 1) * size, ACK, size


SCENARIOS = {"bulk": bulk, "short": short, "wide": wide, "lossy": lambda: bulk(50_000, 500)}


def batches(rows: list[Row], step_ns: int = 1_000) -> list[SegmentBatch]:
    """Rows as batches; all payloads of a batch are the same bytes."""
    table = np.array(rows, np.int64)
    ordinal = np.arange(len(table))
    keys = [FlowKey("", b"\x0a\0\0\1", 1 + n % 60_000, (n // 60_000).to_bytes(4, "big"), 9092) for n in range(20_000)]
    whole = SegmentBatch(
        buffer=bytes(MSS),
        flows=keys,
        flow=table[:, 0].astype(np.int32),
        direction=table[:, 1].astype(np.int32),
        seq=table[:, 2] & 0xFFFF_FFFF,
        ack=table[:, 3] & 0xFFFF_FFFF,
        flags=table[:, 4].astype(np.int32),
        start=np.zeros(len(table), np.int64),
        stop=table[:, 5],
        size=table[:, 5],
        ip_id=np.full(len(table), -1),
        ts_ns=START_NS + ordinal * step_ns,
        packet=ordinal + 1,
        ordinal=ordinal,
        interface=np.zeros(len(table), np.int32),
    )
    columns = [field.name for field in fields(whole) if isinstance(getattr(whole, field.name), np.ndarray)]
    return [
        replace(whole, **{name: getattr(whole, name)[start : start + SLICE] for name in columns})
        for start in range(0, len(table), SLICE)
    ]


def measure(parts: list[SegmentBatch], *, find_runs: bool) -> tuple[float, int]:
    """(CPU seconds, bytes told) of one pass."""
    flows, size = FlowTable(Limits(), find_runs=find_runs), 0
    began = time.process_time()
    for part in parts:
        size += sum(
            len(event.data) for flow in flows.feed(part) for *_, event in flow if isinstance(event, StreamChunk)
        )
    for flow in flows.end():
        size += sum(len(event.data) for *_, event in flow if isinstance(event, StreamChunk))
    return time.process_time() - began, size


def main() -> None:
    """Print a line a scenario and way."""
    for name in sys.argv[1:] or SCENARIOS:
        parts = batches(list(SCENARIOS[name]()))
        segments = sum(map(len, parts))
        for find_runs in (True, False):
            seconds, size = min(measure(parts, find_runs=find_runs) for _ in range(PASSES))
            way = "runs" if find_runs else "one by one"
            rate, volume = segments / seconds / 1e6, size / seconds / 1e6
            print(f"{name:6} {way:10} {segments:7} segments {rate:6.3f} M/s {volume:7.1f} MB/s")


if __name__ == "__main__":
    main()
