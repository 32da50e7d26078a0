"""Batches of few records in, rows of ``records`` and Arrow blocks of them out. Hot: small messages have such batches.

1. Columns for each batch, as in ``recordcolumns``, cost more than rows where a batch has fewer than ``FEW`` records.
2. Rows equal those of the slow twin ``tables.rows.record_rows``, which makes them of anything unusual: redacted
   payload, ordering keys, numbers beyond int64.
3. Waiting rows are bounded by their number and by the bytes that they may hold.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from mqsniff.model import ConnectionInfo, Message, RecordBatch, packet_capture, packet_number
from mqsniff.tables.cells import array_of
from mqsniff.tables.rows import Captures, listed, record_rows
from mqsniff.tables.rowvalues import SIDES, RowValues
from mqsniff.tables.schemas import TABLES, arrow_schema, names_of
from mqsniff.tables.values import Redaction

FEW: Final = 4
"""Records from which on a batch is cheaper as columns."""
ROWS: Final = 1 << 13
"""Rows that wait at most."""
BYTES: Final = 8 << 20
"""Bytes of record data and text in them at most."""

_AT: Final = {name: at for at, name in enumerate(names_of("records"))}
_NUMBERS: Final = frozenset(names_of("records", "int64", "timestamp"))
_OBJECTS: Final = tuple(_AT[name] for name in names_of("records", "json"))
_KEY: Final = _AT["key"]
_VALUE: Final = _AT["value"]
_VALUE_SIZE: Final = _AT["value_size"]
_HEADERS: Final = _AT["headers"]
_INDEX: Final = _AT["record_index"]
_TOPIC: Final = _AT["topic"]
_LONG: Final = _AT["client_id"], _AT["group"], _TOPIC
"""Text that a message need not say itself."""
_REST: Final = (None,) * (len(_AT) - _TOPIC)
_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 63) - 1


class FewRecords:
    """Rows that wait for their block."""

    def __init__(self, captures: Captures, shown: Redaction) -> None:
        self._captures = captures
        self._shown = shown
        self._forget()

    def _forget(self) -> None:
        self._rows: list[RowValues] = []
        self._size = 0
        self._message: Message | None = None
        """The message of the last batch, whose text counts once."""
        self._data = b""
        """The data of the last batch: others of its message often share them."""

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, connection: ConnectionInfo, message: Message, batch: RecordBatch) -> bool:
        """Add the records of a batch; whether enough wait for a block."""
        shown, rows = self._shown, self._rows
        made = record_values(connection, message, batch, self._captures, shown)
        if made is None:
            slow = record_rows(connection, message, batch, self._captures, shown)
            made = [list(row.values()) for row in slow]
        for row in made:
            self._size += sum([len(row[at]) for at in _LONG if isinstance(row[at], str)])
            for at in _OBJECTS:
                if row[at] is not None:
                    row[at] = text = shown.json(row[at])
                    self._size += len(text)
        rows += made
        if message is not self._message:
            self._message = message
            self._size += message.frame.size
        if batch.data is not self._data:
            self._data = batch.data
            self._size += len(batch.data)
        return len(rows) >= ROWS or self._size >= BYTES

    def block(self) -> pa.RecordBatch:
        """The waiting rows as a block."""
        columns = zip(*self._rows, strict=True)
        arrays = [array_of(values, column.type) for column, values in zip(TABLES["records"], columns, strict=True)]
        self._forget()
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema("records"))


def record_values(
    connection: ConnectionInfo, message: Message, batch: RecordBatch, captures: Captures, shown: Redaction
) -> list[RowValues] | None:
    """The values of rows of ``records``, objects as they are; None where the slow twin has to make them."""
    if not shown.payload or "ordering_key" in batch.columns:
        return None
    frame = message.frame
    packet, ts_ns = frame.first_packet, frame.first_ts_ns
    common: RowValues = [
        connection.connection_id,
        SIDES[frame.side],
        frame.offset,
        connection.client,
        connection.server,
        message.client_id or connection.identity.client_id,
        message.group,
        captures[packet_capture(packet)].name,
        packet_number(packet),
        ts_ns,
        ts_ns,
        None,
        message.protocol,
        *_REST,
    ]
    return _with_own(common, batch, shown) if _filled(common, batch.constant) else None


def _filled(row: RowValues, values: dict[str, Any]) -> bool:
    """Fill values into a row by their names; false if one is a number beyond int64."""
    for name, value in values.items():
        if (at := _AT.get(name)) is not None:
            if value.__class__ is int and not _INT_MIN <= value <= _INT_MAX and name in _NUMBERS:
                return False
            row[at] = value
    return True


def _with_own(common: RowValues, batch: RecordBatch, shown: Redaction) -> list[RowValues] | None:
    """A row for each record, with what differs; None as ``record_values``."""
    columns = {name: listed(column) for name, column in batch.columns.items()}
    rows: list[RowValues] = []
    for index in range(batch.count):
        row = common.copy()
        row[_INDEX] = index
        if not _filled(row, {name: column[index] for name, column in columns.items()}):
            return None
        if batch.keys is not None and (start := batch.keys[0][index]) >= 0:
            stop = batch.keys[1][index]
            row[_KEY], row[_KEY + 1] = shown.record_data(batch.data[start:stop], stop - start)
        if batch.values is not None and (start := batch.values[0][index]) >= 0:
            stop = batch.values[1][index]
            size = row[_VALUE_SIZE] = max(stop - start, row[_VALUE_SIZE] or 0)
            row[_VALUE], row[_VALUE + 1] = shown.record_data(batch.data[start:stop], size)
        if batch.headers is not None:
            row[_HEADERS] = shown.headers(batch.headers[index])
        rows.append(row)
    return rows
