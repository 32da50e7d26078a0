"""A batch of segments and a mask in, the segments that it chooses out, over the same buffer: no payload is copied."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from mqsniff.model import SegmentBatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_COLUMNS: Final = tuple(
    each.name for each in fields(SegmentBatch) if each.name not in {"buffer", "flows", "problems", "skipped_packets"}
)


def select_segments(batch: SegmentBatch, rows: NDArray[np.bool_]) -> SegmentBatch:
    """The segments in these rows, over the same buffer; the same batch if these are all."""
    if rows.all():
        return batch
    columns: dict[str, Any] = {name: getattr(batch, name)[rows] for name in _COLUMNS}
    return replace(batch, **columns)
