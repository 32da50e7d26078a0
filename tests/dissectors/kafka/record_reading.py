"""How tests look at what was read of a field of record data."""

from __future__ import annotations

from typing import Any

from record_craft import SOME, Plain

from mqsniff_kafka.records.batches import RecordDataReading, read_batches

MS = 1_000_000


def read(
    data: bytes, *, start: int = 0, opened: bool = True, lost: bool = False, cap: int = 1 << 24
) -> RecordDataReading:
    return read_batches(data, start, len(data), decompress_max=cap, open_records=opened, lost=lost)


def rows(reading: RecordDataReading) -> list[tuple[Any, ...]]:
    """(offset, time in ms, key, value, headers) of every record."""
    found = []
    for batch_ in reading.records:
        assert batch_.keys is not None
        assert batch_.values is not None
        for index in range(batch_.count):
            stamp = batch_.constant.get("record_ts") or batch_.columns.get("record_ts", [None] * batch_.count)[index]
            spans = ((one[0][index], one[1][index]) for one in (batch_.keys, batch_.values))
            key, value = (None if start < 0 else batch_.data[start:stop] for start, stop in spans)
            headers = batch_.headers[index] if batch_.headers is not None else []
            found.append((batch_.columns["offset"][index], stamp and stamp // MS, key, value, headers))
    return found


def expected(records: tuple[Plain, ...] = SOME, base: int = 0) -> list[tuple[Any, ...]]:
    return [(base + at, one.timestamp, one.key, one.value, list(one.headers)) for at, one in enumerate(records)]


def kinds(reading: RecordDataReading) -> list[tuple[str, str]]:
    return [(problem.kind, problem.path) for problem in reading.problems]
