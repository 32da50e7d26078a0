"""Chosen connections whose TLS was opened in, the places of the records that an extract of them holds out.

1. A record is wanted if the plain bytes of a wanted message are in it, and if it has no data: handshakes, alerts and
   changes of keys, without which later records do not open.
2. Only places are kept, two numbers a wanted record.
"""

from __future__ import annotations

from collections.abc import Iterable

from mqsniff.answers.extractchoice import ChosenConnection
from mqsniff.answers.extractpackets import Ranges
from mqsniff.model import ConnectionInfo, Frame, SegmentBatch, Side
from mqsniff.streams.connection import Connection
from mqsniff.tls.output import SeenRecord


class TlsRecordFinder:
    """Watches a run over chosen connections for their records (a ``RunObserver``)."""

    def __init__(self, chosen: Iterable[ChosenConnection]) -> None:
        self._chosen = {each.info.connection_id: each for each in chosen}
        self._plain: dict[str, tuple[Ranges, ...]] = {}
        for name, each in self._chosen.items():
            frames = each.frames.values()
            self._plain[name] = tuple(Ranges((f.start, f.stop) for f in frames if f.side is side) for side in Side)
            each.records = {side: [] for side in Side}

    def see_segments(self, batch: SegmentBatch) -> None:
        """Places of packets are known already."""

    def see_connection(self, connection: Connection, info: ConnectionInfo) -> None:
        """Which connections are chosen is known already."""

    def wants_spans(self, info: ConnectionInfo, frame: Frame) -> bool:  # noqa: ARG002  # part of the contract
        """None."""
        return False

    def see_record(self, info: ConnectionInfo, record: SeenRecord) -> None:
        """Keep the place of a record that is wanted."""
        chosen = self._chosen.get(info.connection_id)
        if chosen is None or chosen.records is None:
            return
        start, stop = record.plain
        wanted = self._plain[info.connection_id][record.side].meet(start, stop) if start < stop else record.opened
        if wanted:
            chosen.records[record.side].append((record.start, record.stop))

    def see_opened(self, info: ConnectionInfo, side: Side, below: tuple[int, int], above: tuple[int, int]) -> None:
        """Connections with compression are wanted whole."""
