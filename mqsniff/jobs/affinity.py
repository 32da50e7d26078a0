"""The beginning of a run's packets in, flows that belong together and how much each carries out.

1. What a producer sends, consumers and followers fetch: the same compressed batch passes on several connections, and a
   process opens it once. Flows that carry the same bytes are to go to one worker.
2. Bytes are compared by samples: places are chosen by their content, so that the same bytes give the same samples
   wherever they stand. Samples that many flows have (heads, names of fields) tell nothing.
3. A compressed byte costs more than a plain one, since it becomes several: entropy tells them apart. By the bit, bytes
   of the codecs cost 1 (plain text, 5 bits a byte), 1.7 (snappy, lz4: 6.5 bits), 2.5 (gzip, zstd: 8 bits).
4. Only the first ``LOOKED_AT`` bytes are looked at; the result changes which worker does what, and no row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from mqsniff.limits import MIB, Limits
from mqsniff.model import FlowKey, PacketBatch, SegmentBatch
from mqsniff.streams.packets import PacketDecoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOOKED_AT: Final = 16 * MIB
_SHIFT: Final = np.uint64(54)
"""One place in 1,024 is a sample."""
_FACTORS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))
_WORD: Final = 8
_SAMPLE: Final = _WORD * len(_FACTORS)
"""Bytes of a sample."""
_BLOCK: Final = MIB
_SHARED_BY: Final = 4
"""Flows that may have a sample that counts."""
_ALIKE: Final = 4
"""One sample in so many of a flow is also another's: they belong together."""
_LOOKED_OF_SEGMENT: Final = 512
"""Bytes of a segment that are counted for its entropy."""
_FLOWS_MAX: Final = 4_096
"""Flows that are looked at."""


class FlowAffinity:
    """What the first packets say of flows."""

    def __init__(self) -> None:
        self.sizes: Counter[FlowKey] = Counter()
        self._bytes: dict[FlowKey, NDArray[np.int64]] = {}
        """How often each byte was seen."""
        self._holders: dict[int, set[FlowKey]] = defaultdict(set)

    @classmethod
    def of(cls, batches: Iterator[PacketBatch], limits: Limits) -> FlowAffinity:
        """Look at the first packets of a run."""
        made, decoder, seen = cls(), PacketDecoder(limits), 0
        for batch in batches:
            made.look(decoder.decode(batch))
            seen += int(batch.caplen.sum())
            if seen >= LOOKED_AT:
                break
        return made

    def look(self, segments: SegmentBatch) -> None:
        """Look at some segments."""
        if not len(segments):
            return
        count = len(segments.flows)
        sizes = np.bincount(segments.flow, segments.size, count).astype(np.int64).tolist()
        for key, size in zip(segments.flows, sizes, strict=True):
            if key in self.sizes or len(self.sizes) < _FLOWS_MAX:
                self.sizes[key] += size
        raw = np.frombuffer(segments.buffer, np.uint8)
        self._count_bytes(segments, raw)
        for at, hashes in _samples(raw):
            rows = np.searchsorted(segments.start, at, "right") - 1
            inside = (rows >= 0) & (at + _SAMPLE <= segments.stop[rows])
            flows = segments.flow[rows[inside]].tolist()
            for flow, value in zip(flows, hashes[inside].tolist(), strict=True):
                self._holders[value].add(segments.flows[flow])

    def _count_bytes(self, segments: SegmentBatch, raw: NDArray[np.uint8]) -> None:
        rows = np.flatnonzero(segments.stop - segments.start >= _SAMPLE)
        for flow, start, stop in zip(*(part[rows].tolist() for part in _spans(segments)), strict=True):
            key = segments.flows[flow]
            seen = np.bincount(raw[start : min(stop, start + _LOOKED_OF_SEGMENT)], minlength=256)
            self._bytes[key] = self._bytes[key] + seen if key in self._bytes else seen

    def cost(self, key: FlowKey) -> int:
        """What decoding a flow costs, as bytes of plain text (rule 3)."""
        seen = self._bytes.get(key)
        if seen is None:
            return self.sizes[key]
        parts = seen[seen > 0] / seen.sum()
        bits = -float((parts * np.log2(parts)).sum())
        return int(self.sizes[key] * max(bits - 3, 1) / 2)

    def groups(self) -> list[list[FlowKey]]:
        """Pairs of flows that carry the same bytes as one group, then the others alone; the largest first."""
        own: Counter[FlowKey] = Counter()
        both: Counter[tuple[FlowKey, FlowKey]] = Counter()
        for holders in self._holders.values():
            known = sorted(key for key in holders if key in self.sizes)
            own.update(known)
            if 1 < len(known) <= _SHARED_BY:
                both.update(combinations(known, 2))
        group = {key: [key] for key in self.sizes}
        for (one, other), count in both.most_common():
            if count * _ALIKE >= min(own[one], own[other]) and group[one] is not group[other]:
                group[one] += group[other]
                for key in group[other]:
                    group[key] = group[one]
        found = {id(each): each for each in group.values()}
        return sorted(found.values(), key=lambda keys: (-self.cost_of(keys), keys))

    def cost_of(self, keys: list[FlowKey]) -> int:
        """What some flows cost."""
        return sum(map(self.cost, keys))


def _spans(segments: SegmentBatch) -> tuple[NDArray[np.integer], ...]:
    return segments.flow, segments.start, segments.stop


def _samples(raw: NDArray[np.uint8]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
    """(places, what stands there) of samples in some bytes, block by block."""
    for first in range(0, len(raw) - _SAMPLE, _BLOCK):
        part = raw[first : first + _BLOCK + _SAMPLE]
        places = len(part) - _SAMPLE
        mixed = np.zeros(places, np.uint64)
        for index, factor in enumerate(_FACTORS):
            words: NDArray[np.uint64] = np.ndarray((places,), np.uint64, part, index * _WORD, strides=(1,))
            mixed += words * factor
            mixed ^= mixed >> np.uint64(29)
        found = np.flatnonzero(mixed >> _SHIFT == 0)
        yield found + first, mixed[found]
