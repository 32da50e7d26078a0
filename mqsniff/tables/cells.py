"""Python values of a column in, an Arrow array of the column's type out, whatever traffic put into them.

1. Times are nanoseconds here and microseconds in Arrow, rounded down.
2. Text that is not valid Unicode is escaped, and so are bytes in a column of text.
3. The redacted value of a header is bytes too: JSON with size and hash.
4. A number beyond int64 becomes null (rows hold it in ``beyond_int64``), as does a value of a wrong type.
5. A text that all rows share is encoded once. Text that many share is encoded once and repeated by its index, if it is
   long or not ASCII: else it costs half to join all and encode once.

Hot: per value of a block some 40 ns for text, 20 ns for numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import length_hint
from typing import Any, Final, assert_never

import numpy as np
import orjson
import pyarrow as pa

from mqsniff.model import Int64s
from mqsniff.tables.buffers import Bools, bool_array, bytes_array, number_array, offsets_of, repeated_bytes, sized_array
from mqsniff.tables.schemas import ColumnType, arrow_type

_MICROSECOND_NS: Final = 1_000
_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 63) - 1
_SHARED_MIN: Final = 64
"""Values that a column has at least where shared text is looked for."""
_SAMPLE: Final = 256
"""Values that tell whether it is worth it."""
_LONG: Final = 256
"""Characters from which on a text that repeats is not joined with others."""
_LISTS: Final = (list, tuple)
"""Looked up once: ``list | tuple`` would be made for each value."""
_SHORT: Final = 8
"""Numbers of a part: an array for each of them costs as much as eight numbers."""


def array_of(values: Sequence[Any], kind: ColumnType) -> pa.Array:
    """An array of a column's type."""
    if values and values[0] is None and values.count(None) == len(values):
        return pa.nulls(len(values), arrow_type(kind))
    if kind == "text" and len(values) >= _SHARED_MIN and values.count(values[0]) == len(values):
        return repeated(values[0], kind, len(values))
    if kind == "text" and (shared := _shared(values)) is not None:
        codes = {value: code for code, value in enumerate(shared)}
        indexes = np.fromiter(map(codes.__getitem__, values), np.int32, len(values))
        return _array_of(shared, kind).take(number_array(indexes))
    return _array_of(values, kind)


def _array_of(values: Sequence[Any], kind: ColumnType) -> pa.Array:
    """As ``array_of``, value by value."""
    match kind:
        case "int64" | "timestamp":
            return numbers_array((values,), kind)
        case "bool":
            flags = [value if isinstance(value, bool) else None for value in values]
            return bool_array(np.array(flags, np.bool_), _nulls(flags))
        case "text":
            return _texts(values)
        case "json":
            return bytes_array([None if value is None else _utf8(value) for value in values], arrow_type(kind))
        case "payload":
            return bytes_array([_payload(value) for value in values], arrow_type(kind))
        case "texts" | "headers":
            return _lists([value if isinstance(value, _LISTS) else None for value in values], kind)
    assert_never(kind)


def _shared(values: Sequence[Any]) -> list[Any] | None:
    """The distinct values of a column, if there are few (rule 5)."""
    count = len(values)
    if count < _SHARED_MIN:
        return None
    sample = values[:_SAMPLE]
    try:
        if _is_short(sample) or 2 * len(set(sample)) > len(sample):
            return None
        distinct = list(dict.fromkeys(values))
    except TypeError:  # a list is no key
        return None
    return distinct if 2 * len(distinct) <= count else None


def _is_short(sample: Sequence[Any]) -> bool:
    """Whether values are short ASCII text, and none of them is null."""
    try:
        joined = "".join(sample)
    except TypeError:
        return False
    return joined.isascii() and len(joined) <= _LONG * len(sample)


def _texts(values: Sequence[Any]) -> pa.Array:
    """A column of text."""
    null = None
    texts = values
    try:
        try:
            joined = "".join(texts)
        except TypeError:
            null = _nulls(values)
            texts = ["" if value is None else value for value in values]
            joined = "".join(texts)
    except TypeError:  # something else than text
        joined = "\x80"
    if not joined.isascii():
        return bytes_array([None if value is None else _utf8(value) for value in values], arrow_type("text"))
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    return sized_array(joined.encode(), sizes, arrow_type("text"), null)


def repeated(value: Any, kind: ColumnType, count: int) -> pa.Array:
    """An array of a column's type that holds a value ``count`` times."""
    if kind == "text" and (encoded := _utf8(value)) is not None:
        return repeated_bytes(encoded, count, arrow_type(kind))
    return array_of((value,), kind).take(number_array(np.zeros(count, np.int32)))


def numbers_of(parts: Iterable[Iterable[int]]) -> Int64s:
    """The integers of many parts, concatenated."""
    parts = list(parts)
    if _are_short(parts):
        return np.frombuffer(array("q", chain.from_iterable(parts)), np.int64)
    return np.frombuffer(b"".join(map(_packed, parts)), np.int64)


def numbers_array(parts: Iterable[Sequence[Any]], kind: ColumnType) -> pa.Array:
    """An array of integers or times that come in parts."""
    numbers, null = _numbers_or_none(parts)
    if kind == "timestamp":
        return number_array(numbers // _MICROSECOND_NS, null).view(arrow_type(kind))
    return number_array(numbers, null)


def _numbers_or_none(parts: Iterable[Sequence[Any]]) -> tuple[Int64s, Bools | None]:
    """(integers of many parts, concatenated; which of them are null)."""
    parts = list(parts)
    if _are_short(parts):
        try:
            return np.frombuffer(array("q", chain.from_iterable(parts)), np.int64), None
        except (TypeError, OverflowError):  # one of them has something else, or none
            pass
    packed: list[memoryview] = []
    holes: list[tuple[int, Bools]] = []
    at = 0
    for part in parts:
        try:
            packed.append(_packed(part))
        except (TypeError, OverflowError):
            numbers, null = _fitting(part)
            packed.append(numbers.data)
            holes.append((at, null))
        at += len(part)
    joined = np.frombuffer(b"".join(packed), np.int64)
    if not holes:
        return joined, None
    where = np.zeros(at, np.bool_)
    for start, own in holes:
        where[start : start + len(own)] = own
    return joined, where


def _are_short(parts: Sequence[Iterable[Any]]) -> bool:
    """Whether it is cheaper to go through many parts number by number than part by part."""
    return len(parts) > 1 and sum(map(length_hint, parts)) < _SHORT * len(parts)


def _packed(numbers: Iterable[int]) -> memoryview:
    """Integers as int64; TypeError or OverflowError if one does not fit."""
    match numbers:
        case array(typecode="q"):
            return memoryview(numbers)
        case range():
            return np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64).data
    return memoryview(array("q", numbers))


def _fitting(values: Sequence[Any]) -> tuple[Int64s, Bools]:
    """(integers, which of them are null); numbers beyond int64 are null (rule 4)."""
    count = len(values)
    if list(values).count(None) == count:
        return np.zeros(count, np.int64), np.ones(count, np.bool_)
    try:
        return np.frombuffer(array("q", [0 if value is None else value for value in values]), np.int64), _nulls(values)
    except (TypeError, OverflowError):  # something else than numbers that fit
        pass
    there = [value if isinstance(value, int) and _INT_MIN <= value <= _INT_MAX else None for value in values]
    return np.array([value or 0 for value in there], np.int64), _nulls(there)


def _nulls(values: Sequence[Any]) -> Bools:
    return np.array([value is None for value in values], np.bool_)


def _utf8(value: Any) -> bytes | None:
    """Text as UTF-8, invalid characters escaped; None for other types."""
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            return value.encode(errors="backslashreplace")
    if isinstance(value, bytes):
        return value if value.isascii() else value.decode(errors="backslashreplace").encode()
    return None


def _payload(value: Any) -> bytes | None:
    """Bytes; for a redacted header value its size and hash, as JSON."""
    if isinstance(value, dict):
        return orjson.dumps(value)
    return value if isinstance(value, bytes) else None


def _lists(lists: Sequence[Any], kind: ColumnType) -> pa.Array:
    """Lists of text, or of headers."""
    own = [value or () for value in lists]
    members = list(chain.from_iterable(own))
    if kind == "texts":
        inner = array_of(members, "text")
    else:
        keys, values = ([member[name] for member in members] for name in ("key", "value"))
        fields = list(arrow_type(kind).value_type)
        inner = pa.StructArray.from_arrays([array_of(keys, "text"), array_of(values, "payload")], fields=fields)
    offsets = offsets_of(np.fromiter(map(len, own), np.int64, len(own)))
    mask = bool_array(_nulls(lists)) if None in lists else None
    return pa.ListArray.from_arrays(number_array(offsets), inner, type=arrow_type(kind), mask=mask)
