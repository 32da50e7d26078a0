"""Batches of a query's result in, cells and lines out: the same values in all output formats.

1. Column names are made unique (``a``, ``a_1``), since objects and files need that.
2. Times with a zone are RFC 3339 with nine digits and Z, as in every other output; those without have no Z. Times and
   dates outside the years 1 to 9999 are null; intervals are written "2 days 00:00:01.500000".
3. Bytes are a string if they are readable text, else {"base64": "…"}; decimals are numbers, or text if they are longer
   than 64 bits. Maps are objects.
4. The same holds inside lists, objects and maps.
5. In CSV and tables, lists and objects are JSON, and null is an empty cell.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, Final

import orjson

from mqsniff.tables.times import SECOND_NS, rfc3339
from mqsniff.tables.values import Redaction

if TYPE_CHECKING:
    import pyarrow as pa

_NS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
_DAY_NS: Final = 86_400 * SECOND_NS
_SHOWN: Final = Redaction()


def unique_names(names: Sequence[str]) -> list[str]:
    """Unique names for columns."""
    taken = set(names)
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        made, number = name, seen[name]
        while number and (made := f"{name}_{number}") in taken:
            number += 1
        seen[name] = number + 1
        taken.add(made)
        unique.append(made)
    return unique


def result_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Rows of values that JSON can hold."""
    for batch in batches:
        yield from zip(*(_values(column) for column in batch.columns), strict=True)


def json_text(value: Any) -> str:
    """A value of ``result_rows`` as JSON."""
    return orjson.dumps(value).decode()


def json_line(names: Sequence[str], row: Sequence[Any]) -> bytes:
    """A row as a JSON object."""
    return orjson.dumps(dict(zip(names, row, strict=True)))


def cell(value: Any) -> Any:
    """A value as a cell: None, a bool, a number or text."""
    return json_text(value) if isinstance(value, list | dict) else value


def _values(column: pa.Array) -> list[Any]:
    """The values of a column of any type."""
    import pyarrow as pa  # noqa: PLC0415  # heavy, and here it is loaded already

    kind, types = column.type, pa.types
    values: list[Any]
    if types.is_timestamp(kind):
        values = _times(column.cast(pa.int64()), _NS[kind.unit], "" if kind.tz is None else "Z")
    elif types.is_date32(kind):
        values = [None if time is None else time[:10] for time in _times(column.cast(pa.int32()), _DAY_NS, "Z")]
    elif types.is_fixed_size_list(kind):
        values = _values(column.cast(pa.list_(kind.value_type)))
    elif types.is_map(kind):
        pairs = zip(map(str, _values(column.keys)), _values(column.items), strict=True)
        values = [None if part is None else dict(part) for part in _parts(column, list(pairs))]
    elif types.is_list(kind) or types.is_large_list(kind):
        values = _parts(column, _values(column.values))
    elif types.is_struct(kind):
        fields = zip(*map(_values, column.flatten()), strict=True) if kind.num_fields else repeat(())
        there = zip(column.is_valid().to_pylist(), fields, strict=False)
        names = [field.name for field in kind]
        values = [dict(zip(names, members, strict=True)) if valid else None for valid, members in there]
    elif types.is_integer(kind) or types.is_string(kind) or types.is_boolean(kind):
        values = column.to_pylist()
    else:
        values = list(map(_single, column))
    return values


def _parts(column: pa.ListArray | pa.MapArray, members: list[Any]) -> list[Any]:
    """The members of a column of lists, a list per row; None for null."""
    bounds = pairwise(column.offsets.to_pylist())
    there = column.is_valid().to_pylist()
    return [members[start:stop] if valid else None for valid, (start, stop) in zip(there, bounds, strict=True)]


def _times(numbers: pa.Array, unit_ns: int, zone: str) -> list[str | None]:
    return [None if number is None else _time(number * unit_ns, zone) for number in numbers.to_pylist()]


def _time(ts_ns: int, zone: str) -> str | None:
    text = rfc3339(ts_ns)
    return None if text is None else text[:-1] + zone


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """A calendar interval as DuckDB writes it."""
    minutes, rest = divmod(abs(nanoseconds) // 1000, 60_000_000)
    clock = f"{'-' if nanoseconds < 0 else ''}{minutes // 60:02d}:{minutes % 60:02d}:{rest / 1e6:09.6f}"
    parts = ((months, "month"), (days, "day"))
    words = [f"{number} {unit}{'' if abs(number) == 1 else 's'}" for number, unit in parts if number]
    return " ".join((*words, clock) if nanoseconds or not words else words)


def _number(value: Decimal) -> int | float | str:
    """A decimal as a number, or as text if JSON readers could not read it exactly."""
    if value != value.to_integral_value():
        return float(value)
    whole = int(value)
    return whole if -(1 << 63) <= whole < 1 << 64 else str(whole)


def _single(scalar: pa.Scalar) -> Any:
    """A scalar as a JSON value; None if Python has no such value."""
    try:
        value = scalar.as_py()
    except (OverflowError, ValueError):
        return None
    match value:
        case None | bool() | int() | str():
            return value
        case Decimal():
            return _number(value)
        case dt.time():
            return value.isoformat()
        case (int(months), int(days), int(nanoseconds)):
            return _interval(months, days, nanoseconds)
        case float() | bytes():
            return _SHOWN.plain(value)
    return str(value)
