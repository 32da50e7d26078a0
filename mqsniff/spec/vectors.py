"""``vec[i64]``: many 64-bit integers, as mypyc's vectors in compiled modules, as lists in Python.

1. A compiled module that imports ``vec``, ``extend`` and ``i64`` from here gets native code for them: the type checker
   knows them by their right names. This module is never compiled, and gives Python a list for a vector.
2. Code must be right for both: a vector is made with its length (``vec[i64]([0] * count)``), and read and written by
   index. ``extend`` returns the longer one. A number has to fit in 64 bits, as has every result on the way to it.

Written by index, seven numbers take 5 ns in native code, and 90 in Python, as much as a tuple that extends a list.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from librt.vecs import extend, vec
    from mypy_extensions import i64
else:

    class vec:  # noqa: N801  # the name in librt
        """Makes the lists."""

        def __class_getitem__(cls, kind: type) -> type:
            return list

    def extend(vector: list[int], more: list[int]) -> list[int]:
        """Both, one after the other."""
        return vector + more

    i64 = int

__all__ = ["compact", "extend", "i64", "is_native", "packed", "vec"]


def packed(vector: Any, count: int) -> array[int]:
    """The first ``count`` numbers of a ``vec[i64]`` as an array."""
    if isinstance(vector, list):
        return array("q", vector if len(vector) == count else vector[:count])
    return array("q", memoryview(vector)[:count].tobytes())


def compact(vector: Any) -> Any:
    """A ``vec[i64]`` that is only read from now on, in 8 bytes a number; a list takes 40."""
    return array("q", vector) if isinstance(vector, list) else vector


def is_native(vector: Any) -> bool:
    """Whether a ``vec[i64]`` is one of mypyc's."""
    return not isinstance(vector, list)
