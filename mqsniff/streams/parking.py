"""Packs what an idle connection knows into bytes, and unpacks it again.

1. Only a connection that holds nothing is packed: no byte was delivered, and nothing waits, is missing, is implausible
   or has ended. That is a handshake with silence after it, of which a server may have a million.
2. What is unpacked goes on as if nothing had happened: tests pack every connection after every batch.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from mqsniff.limits import Limits
from mqsniff.streams.handshake import Handshake
from mqsniff.streams.ordering import Ordering
from mqsniff.streams.reassembly import Direction
from mqsniff.streams.segment import NO_BYTES, Segment

_NONE: Final = -(1 << 63)
_ORDERING: Final = struct.Struct("=5q")
_HANDSHAKE: Final = struct.Struct("=7q")
_DIRECTION: Final = struct.Struct("=13q")
"""The last one is the size of the identities that follow."""


def pack(ordering: Ordering, handshake: Handshake) -> bytes | None:
    """What a connection knows; None if it holds more than fits."""
    if ordering.troubles is not None or ordering.has_output:
        return None
    parts = [_ORDERING.pack(ordering.packets, ordering.last_ns, *ordering.current)]
    parts.append(_HANDSHAKE.pack(*(_NONE if field is None else field for field in handshake.fields)))
    for me in ordering.directions:
        if not _holds_nothing(me):
            return None
        parts += _packed(me)
    return zlib.compress(b"".join(parts), 1)


def unpack(packed: bytes, limits: Limits) -> tuple[Ordering, Handshake]:
    """What ``pack`` packed."""
    data = zlib.decompress(packed)
    packets, last_ns, ts_ns, packet, release = _ORDERING.unpack_from(data)
    at = _ORDERING.size
    ordering = Ordering(limits, Segment(0, 0, 0, 0, 0, ts_ns, 0, 0, 0, 0, packet, release))
    ordering.packets, ordering.last_ns = packets, last_ns
    fields = _HANDSHAKE.unpack_from(data, at)
    handshake = Handshake()
    handshake.restore([None if field == _NONE else field for field in fields])
    at += _HANDSHAKE.size
    for me in ordering.directions:
        at = _restore(me, data, at)
    return ordering, handshake


def _holds_nothing(me: Direction) -> bool:
    over = me.end is not None or me.reset or me.ended or me.end_by is not None or me.unseen_from is not None
    return not over and not (me.waiting.pieces or me.acked_beyond or me.strays or me.beyond or me.has_history)


def _packed(me: Direction) -> tuple[bytes, bytes]:
    fields = _DIRECTION.pack(
        me.started,
        me.anchored,
        me.origin,
        me.next,
        me.packets,
        me.gap_bytes,
        me.retransmitted,
        me.out_of_order,
        me.duplicates,
        me.ignored,
        me.oddities,
        me.index,
        len(me.recent),
    )
    return fields, bytes(me.recent)


def _restore(me: Direction, data: bytes, at: int) -> int:
    """Fill a direction from what stands at ``at``; the place after it."""
    fields: tuple[int, ...] = _DIRECTION.unpack_from(data, at)
    started, anchored, *counts, _, size = fields
    me.started, me.anchored = bool(started), bool(anchored)
    me.origin, me.next, me.packets, me.gap_bytes, me.retransmitted = counts[:5]
    me.out_of_order, me.duplicates, me.ignored, me.oddities = counts[5:]
    at += _DIRECTION.size
    if size:
        me.recent = NO_BYTES + data[at : at + size]
    return at + size
