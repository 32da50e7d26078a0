"""Records as the decoder walks over them in, what observers are told of them out."""

from __future__ import annotations

from mqsniff.model import Side
from mqsniff.tls.output import SeenRecord, WatchRecord
from mqsniff.tls.recordside import HEAD_SIZE, RecordCursor, RecordSide, TlsRecord


class RecordWatch:
    """Tells somebody of the records of both sides, and counts what comes out of them."""

    def __init__(self, tell: WatchRecord) -> None:
        self._tell = tell
        self._plain = [0, 0]

    def add_plain(self, side: Side, size: int) -> None:
        """Count plain bytes that came out."""
        self._plain[side] += size

    def plain(self, side: Side) -> int:
        """Plain bytes of a side so far."""
        return self._plain[side]

    def pass_over(self, side: RecordSide, cursor: RecordCursor) -> None:
        """Tell of a record that nobody reads, which begins at the cursor; it is known with its head."""
        mark, plain = cursor.first_mark() or cursor.mark_at(cursor.at), self._plain[side.side]
        start, stop = cursor.offset, cursor.offset + cursor.size
        self._tell(SeenRecord(side.side, cursor.head[0], None, start, stop, mark, mark, (plain, plain), opened=False))

    def see(
        self, side: RecordSide, record: TlsRecord, kind: int, number: int | None, before: int | None = None
    ) -> None:
        """Tell of a record; ``before``: plain bytes of its side before it, None where it did not open."""
        after = self._plain[side.side]
        plain = (after if before is None else before), after
        stop, marks = record.offset + HEAD_SIZE + len(record.body), (record.first, record.mark)
        opened = before is not None
        self._tell(SeenRecord(side.side, kind, number, record.offset, stop, *marks, plain, opened=opened))
