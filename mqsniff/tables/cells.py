"""Python values of a column in, an Arrow array of the column's type out, whatever traffic put into them.

1. Times are nanoseconds here and microseconds in Arrow, rounded down.
2. Text that is no Unicode stands with escapes; bytes in a column of text too.
3. A number that no int64 can hold becomes null, as does a value of another type than its column's.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqsniff.model import Int64s
from mqsniff.tables.schemas import ColumnType, arrow_type

_MICROSECOND_NS: Final = 1_000
_UNFIT: Final = (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError)
"""What pyarrow raises at values that do not fit."""


def array_of(values: Sequence[Any], kind: ColumnType) -> pa.Array:
    """An array of a column's type."""
    if kind == "timestamp":
        return micros(array_of(values, "int64"))
    try:
        if kind == "int64" and values and values[0] is not None:
            return _numbers(values)
        return pa.array(values, arrow_type(kind))
    except _UNFIT:
        return pa.array([_fitting(value, kind) for value in values], arrow_type(kind))


def numbers_of(parts: Iterable[Iterable[int]]) -> Int64s:
    """The integers of many parts one after the other."""
    return np.fromiter(chain.from_iterable(parts), np.int64)


def _numbers(values: Sequence[Any]) -> pa.Array:
    """Integers; by way of an array of C where none is null: 13 ns each, pyarrow takes 38."""
    try:
        return pa.array(np.frombuffer(array("q", values), np.int64))
    except TypeError:
        return pa.array(values, pa.int64())


def micros(nanoseconds: pa.Array) -> pa.Array:
    """Times in nanoseconds as the timestamps of Arrow."""
    whole = nanoseconds.fill_null(0).to_numpy() // _MICROSECOND_NS
    mask = nanoseconds.is_null().to_numpy(zero_copy_only=False) if nanoseconds.null_count else None
    return pa.array(whole.astype(np.int64, copy=False), mask=mask).view(arrow_type("timestamp"))


def _fitting(value: Any, kind: ColumnType) -> Any:
    match kind, value:
        case "text" | "json", str():
            return value.encode(errors="backslashreplace").decode()
        case "text" | "json", bytes():
            return value.decode(errors="backslashreplace")
        case "texts", list() | tuple():
            return [_fitting(one, "text") for one in value]
        case "int64", int() if -(1 << 63) <= value < 1 << 63:
            return int(value)
        case ("bool", bool()) | ("payload", bytes()) | ("headers", list()):
            return value
    return None
