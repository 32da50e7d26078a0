"""What looks at a run beside its items: the contract of the observers of ``explain`` and ``extract``."""

from __future__ import annotations

from typing import Protocol

from mqsniff.model import ConnectionInfo, Frame, SegmentBatch, Side
from mqsniff.streams.connection import Connection
from mqsniff.tls.output import SeenRecord


class RunObserver(Protocol):
    """Looks at what a run reads, beside its items: what ``explain`` and ``extract`` need to know of packets."""

    def see_segments(self, batch: SegmentBatch) -> None:
        """Look at the segments of the next packets, before their items come."""
        ...

    def see_connection(self, connection: Connection, info: ConnectionInfo) -> None:
        """Take note of a connection that has begun."""
        ...

    def wants_spans(self, info: ConnectionInfo, frame: Frame) -> bool:
        """Whether the item of a message of this frame shall have its spans."""
        ...

    def see_record(self, info: ConnectionInfo, record: SeenRecord) -> None:
        """Take note of a record of TLS, before the messages of its data; its ``plain`` are stream offsets above TLS."""
        ...

    def see_opened(self, info: ConnectionInfo, side: Side, below: tuple[int, int], above: tuple[int, int]) -> None:
        """Take note that bytes of a decompressed layer came out of those of the layer below it."""
        ...


class LayersView:
    """What an observer is shown of the layers of one connection."""

    def __init__(self, observer: RunObserver, info: ConnectionInfo) -> None:
        self._observer = observer
        self._info = info

    def record(self, record: SeenRecord, at: int = 0) -> None:
        """Show a record of the TLS that begins at this stream offset of its side."""
        start, stop = record.plain
        self._observer.see_record(self._info, record._replace(plain=(start + at, stop + at)))

    def opened(self, side: Side, below: tuple[int, int], above: tuple[int, int]) -> None:
        """Show what came out of a transform."""
        self._observer.see_opened(self._info, side, below, above)
