"""Runs a capture and wants the spans of every message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.model import ConnectionInfo, Frame, MessageItem, SegmentBatch
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.streams.connection import Connection


class WantsAllSpans:
    """An observer that looks at nothing and wants all spans."""

    def see_segments(self, batch: SegmentBatch) -> None:
        """Nothing."""

    def see_connection(self, connection: Connection, info: ConnectionInfo) -> None:
        """Nothing."""

    def wants_spans(self, info: ConnectionInfo, frame: Frame) -> bool:
        """All of them."""
        return True


def explained_messages(*paths: Path) -> Iterator[MessageItem]:
    """Every message of a capture, with its spans."""
    settings = Settings(wanted=WITH_RECORDS | {"spans"})
    pipeline = Pipeline(FileSource([str(path) for path in paths]), settings, observer=WantsAllSpans())
    yield from (item for item in pipeline.items() if isinstance(item, MessageItem))
