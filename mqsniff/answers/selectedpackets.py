"""Captures and the packets that are wanted of them in, a source of these packets alone out, with their own numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mqsniff.limits import Limits
from mqsniff.model import CaptureInfo, Int64s, PacketBatch
from mqsniff.sources.batches import COLUMNS
from mqsniff.sources.files import FileSource, ReadProgress


class SelectedPackets:
    """A source (``pipeline.Source``) of some packets of captures."""

    def __init__(
        self, names: Sequence[str], packets: Int64s, limits: Limits, on_progress: ReadProgress | None = None
    ) -> None:
        """``packets``: their ids, sorted."""
        self._source = FileSource(names, limits, on_progress)
        self._packets = packets
        self.captures: list[CaptureInfo] = self._source.captures

    def batches(self) -> Iterator[PacketBatch]:
        """The wanted packets, in the order of the captures."""
        ordinal = 0
        for batch in self._source.batches():
            rows = np.flatnonzero(np.isin(batch.packet, self._packets))
            if len(rows):
                columns: dict[str, Any] = {name: getattr(batch, name)[rows] for name in COLUMNS}
                yield replace(batch, **columns, ordinal=ordinal)
                ordinal += len(rows)
