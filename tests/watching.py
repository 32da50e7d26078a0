"""Runs a capture and wants the spans of every message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mqsniff.answers.captures import key_logs_beside
from mqsniff.answers.recordplaces import OpenedRange, RecordPlaces
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.model import ConnectionInfo, Frame, MessageItem, SegmentBatch, Side
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.streams.connection import Connection
from mqsniff.tls.output import SeenRecord


class WantsAllSpans:
    """An observer that wants all spans, and remembers records of TLS."""

    def __init__(self) -> None:
        self.places: dict[str, RecordPlaces] = {}

    def see_segments(self, batch: SegmentBatch) -> None:
        """Nothing."""

    def see_connection(self, connection: Connection, info: ConnectionInfo) -> None:
        """Nothing."""

    def wants_spans(self, info: ConnectionInfo, frame: Frame) -> bool:
        """All of them."""
        return True

    def see_record(self, info: ConnectionInfo, record: SeenRecord) -> None:
        """Remember it."""
        self.places.setdefault(info.connection_id, RecordPlaces()).add_record(record)

    def see_opened(self, info: ConnectionInfo, side: Side, below: tuple[int, int], above: tuple[int, int]) -> None:
        """Remember it."""
        self.places.setdefault(info.connection_id, RecordPlaces()).add_opened(side, OpenedRange(below, above))


def explained_with_records(path: Path) -> Iterator[tuple[MessageItem, list[SeenRecord]]]:
    """Every message of a capture, with its spans and its records of TLS; a key log beside the capture is used."""
    settings = Settings(wanted=WITH_RECORDS | {"spans"})
    watcher = WantsAllSpans()
    pipeline = Pipeline(FileSource([str(path)]), settings, observer=watcher, keys=key_logs_beside(path))
    for item in pipeline.items():
        if isinstance(item, MessageItem):
            places = watcher.places.get(item.connection.connection_id)
            yield item, [] if places is None else places.records_of(item.message.frame)


def explained_messages(path: Path) -> Iterator[MessageItem]:
    """Every message of a capture, with its spans."""
    yield from (item for item, _ in explained_with_records(path))
