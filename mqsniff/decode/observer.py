"""What looks at a run beside its items: the contract of the observers of ``explain`` and ``extract``."""

from __future__ import annotations

from typing import Protocol

from mqsniff.model import ConnectionInfo, Frame, SegmentBatch
from mqsniff.streams.connection import Connection


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
