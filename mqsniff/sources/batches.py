"""Columns of packets in, PacketBatches out: made, cut, joined and merged.

1. A batch refers to the buffer with its packets; only merging copies bytes, each once.
2. Packets are numbered when a batch is made, so batches are made in file order, each packet once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from mqsniff.model import Buffer, CaptureInfo, Int32s, Int64s, PacketBatch, Problem, ProblemKind, Severity, packet_id

COLUMNS: Final = ("ts_ns", "start", "caplen", "wirelen", "linktype", "packet", "interface")
PROBLEMS_MAX: Final = 64


def report(
    info: CaptureInfo,
    detail: str,
    offset: int,
    severity: Severity = "error",
    kind: ProblemKind = "input",
    *,
    packet: int | None = None,
) -> None:
    """Add a problem of a capture at byte ``offset`` (uncompressed), unless there is one with the same text.

    ``packet`` is the packet number in ``detail``, if there is one.
    """
    if len(info.problems) < PROBLEMS_MAX and all(problem.detail != detail for problem in info.problems):
        info.problems.append(Problem(kind, severity, detail, offset=offset, packet=packet))


def new_batch(
    info: CaptureInfo,
    buffer: Buffer,
    *,
    ts_ns: Int64s,
    start: Int64s,
    caplen: Int64s,
    wirelen: Int64s,
    linktype: Int32s,
    interface: Int32s,
) -> PacketBatch:
    """The next packets of a capture (at least one); numbers them and updates ``info``."""
    first = packet_id(info.index, info.packets + 1)
    count = len(ts_ns)
    info.packets += count
    info.linktypes.update(np.unique(linktype).tolist())
    last = int(ts_ns.max())
    info.first_ts_ns = int(ts_ns[0]) if info.first_ts_ns is None else info.first_ts_ns
    info.last_ts_ns = last if info.last_ts_ns is None else max(info.last_ts_ns, last)
    packet = np.arange(first, first + count, dtype=np.int64)
    return PacketBatch(buffer, ts_ns, start, caplen, wirelen, linktype, packet, interface, ordinal=0)


def empty_batch() -> PacketBatch:
    """A batch without packets: nothing has arrived."""
    none, none32 = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return PacketBatch(b"", none, none, none, none, none32, none, none32, ordinal=0)


def slice_batch(batch: PacketBatch, first: int, stop: int) -> PacketBatch:
    """Packets ``first`` to ``stop`` (not included) of a batch, over the same buffer."""
    columns: dict[str, Any] = {name: getattr(batch, name)[first:stop] for name in COLUMNS}
    return replace(batch, **columns, ordinal=batch.ordinal + first)


def join_batches(batches: Sequence[PacketBatch]) -> PacketBatch:
    """The concatenation of batches over one buffer (at least one)."""
    if len(batches) == 1:
        return batches[0]
    columns: dict[str, Any] = {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in COLUMNS}
    return replace(batches[0], **columns)


def merge_batches(batches: Sequence[PacketBatch], keys: Sequence[Int64s]) -> PacketBatch:
    """Packets of several captures, sorted by their keys, ties in the order of the batches (none empty).

    The bytes are copied as one region per batch: the packets of a capture are contiguous.
    """
    buffer = bytearray()
    starts = []
    for batch in batches:
        low = int(batch.start[0])
        high = int(batch.start[-1] + batch.caplen[-1])
        starts.append(batch.start - low + len(buffer))
        buffer += memoryview(batch.buffer)[low:high]
    order = np.argsort(np.concatenate(keys), kind="stable")
    joined = join_batches([replace(batch, start=start) for batch, start in zip(batches, starts, strict=True)])
    columns: dict[str, Any] = {name: getattr(joined, name)[order] for name in COLUMNS}
    return replace(joined, **columns, buffer=buffer)
