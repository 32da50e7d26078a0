"""Doors out: items of the pipeline in, text or rows on a stream out."""

from __future__ import annotations

from typing import Protocol

from mqsniff.model import Item


class Sink(Protocol):
    """What takes the items of a run; it writes to a stream that somebody else opened and will close."""

    def write(self, item: Item) -> None:
        """Take the next item."""

    def tick(self) -> None:
        """Show what was taken so far: the input has nothing more at the moment, or has ended."""
