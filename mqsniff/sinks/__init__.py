"""Outputs: items of the pipeline in, text, rows or files out."""

from __future__ import annotations

from typing import Protocol

from mqsniff.model import Item


class Sink(Protocol):
    """Writes the items of a run to a stream; the caller opens and closes the stream."""

    def write(self, item: Item) -> None:
        """Write the next item."""

    def tick(self) -> None:
        """Flush: the input pauses or has ended."""
