"""Sinks around other sinks: one that writes nothing, and one that hands each item to two."""

from __future__ import annotations

from mqsniff.model import Item
from mqsniff.sinks import Sink


class SilentSink:
    """Writes nothing: items are only counted."""

    def write(self, item: Item) -> None:
        """Leave an item."""

    def tick(self) -> None:
        """Nothing waits to be flushed."""


class PairedSink:
    """Hands each item to two sinks."""

    def __init__(self, first: Sink, second: Sink) -> None:
        self._first = first
        self._second = second

    def write(self, item: Item) -> None:
        """Write the next item to both. Hot."""
        self._first.write(item)
        self._second.write(item)

    def tick(self) -> None:
        """Flush both."""
        self._first.tick()
        self._second.tick()
