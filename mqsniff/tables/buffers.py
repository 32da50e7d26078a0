"""NumPy arrays and bytes in, Arrow arrays out, and back: by the buffers that they consist of.

1. Nothing here goes through ``pa.array``, ``pa.scalar`` or ``to_numpy``: these import pandas wherever it is installed,
   which costs every run, and every worker of a batch job, 0.16 s and 54 MB.
2. Arrays of NumPy are not copied; who gives one away leaves it alone.
3. A null stands as 0, false or empty in the buffers, and comes back as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[Any]
"""Integers of 8, 32 or 64 bits."""
OFFSET_MAX: Final = (1 << 31) - 1
"""Bytes of all values of an array, at most; what stands further on in data goes through a large array."""

_ARROW: Final = {np.dtype(np.int8): pa.int8(), np.dtype(np.int32): pa.int32(), np.dtype(np.int64): pa.int64()}


def number_array(numbers: Numbers, null: Bools | None = None) -> pa.Array:
    """Integers of NumPy as Arrow's of the same width; ``null`` tells which of them are none."""
    buffers = [_validity(null), pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(_ARROW[numbers.dtype], len(numbers), buffers)


def bool_array(bools: Bools, null: Bools | None = None) -> pa.BooleanArray:
    """Truth values of NumPy as Arrow's."""
    return pa.Array.from_buffers(pa.bool_(), len(bools), [_validity(null), _bits(bools)])


def bytes_array(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Byte strings, or UTF-8, as an array of binary or text; together less than 2 GiB."""
    there = [value or b"" for value in values]
    offsets = offsets_of(np.fromiter(map(len, there), np.int64, len(there)))
    null = np.fromiter((value is None for value in values), np.bool_, len(there)) if None in values else None
    return pa.Array.from_buffers(
        kind, len(there), [_validity(null), pa.py_buffer(offsets), pa.py_buffer(b"".join(there))]
    )


def repeated_bytes(value: bytes, count: int, kind: pa.DataType) -> pa.Array:
    """The same byte string, or UTF-8, ``count`` times."""
    offsets = offsets_of(np.full(count, len(value), np.int64))
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets), pa.py_buffer(value * count)])


def offsets_of(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Where values of these sizes begin and end that stand one behind the other; OverflowError from 2 GiB on."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] > OFFSET_MAX:
        raise OverflowError(f"{offsets[-1]} bytes are too many for one array")
    return offsets.astype(np.int32)


def numbers_in(array: pa.Array) -> npt.NDArray[np.int64]:
    """The integers of an int64 array."""
    numbers = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array)]
    return np.where(bools_in(array.is_valid()), numbers, 0) if array.null_count else numbers


def bools_in(array: pa.BooleanArray) -> Bools:
    """The truth values of an array."""
    validity, bits = array.buffers()
    bools = _unpacked(bits, array)
    return bools & _unpacked(validity, array) if array.null_count else bools


def _bits(bools: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bools, bitorder="little"))


def _validity(null: Bools | None) -> pa.Buffer | None:
    return None if null is None or not null.any() else _bits(~null)


def _unpacked(bits: pa.Buffer, array: pa.Array) -> Bools:
    stop = array.offset + len(array)
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=stop, bitorder="little")[array.offset :].view(np.bool_)
