"""A source and the packets that are wanted of it in, a source of these packets alone out, with their own numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mqsniff.model import CaptureInfo, Int64s, PacketBatch
from mqsniff.pipeline import Source
from mqsniff.sources.batches import COLUMNS


class SelectedPackets:
    """A source of some packets of another source."""

    def __init__(self, source: Source, packets: Int64s) -> None:
        """``packets``: their ids, sorted."""
        self._source = source
        self._packets = packets
        self.captures: list[CaptureInfo] = source.captures

    def batches(self) -> Iterator[PacketBatch]:
        """The wanted packets, in the order of the captures."""
        ordinal = 0
        for batch in self._source.batches():
            rows = np.flatnonzero(np.isin(batch.packet, self._packets))
            if len(rows):
                columns: dict[str, Any] = {name: getattr(batch, name)[rows] for name in COLUMNS}
                yield replace(batch, **columns, ordinal=ordinal)
                ordinal += len(rows)
