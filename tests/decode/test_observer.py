"""What an observer is shown of the layers of a connection: places as they are above these layers."""

from __future__ import annotations

from mqsniff.decode.observer import LayersView
from mqsniff.model import ConnectionInfo, Mark, Side
from mqsniff.tls.output import SeenRecord


class Noting:
    """Keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[object, ...]] = []

    def see_record(self, *seen: object) -> None:
        self.shown.append(seen)

    def see_opened(self, *seen: object) -> None:
        self.shown.append(seen)


def test_plain_bytes_of_a_record_count_from_where_its_tls_begins():
    noting, info = Noting(), ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 2, 0, 1)
    first, last = Mark(100, 1, 1, 1), Mark(150, 2, 2, 2)
    record = SeenRecord(Side.SERVER, 23, 5, 100, 160, first, last, (30, 70), opened=True)
    view = LayersView(noting, info)
    view.record(record)
    view.record(record, 8)
    view.opened(Side.CLIENT, (3, 9), (4, 20))
    moved = SeenRecord(Side.SERVER, 23, 5, 100, 160, first, last, (38, 78), opened=True)
    assert noting.shown == [(info, record), (info, moved), (info, Side.CLIENT, (3, 9), (4, 20))]
