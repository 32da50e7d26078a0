"""Idle connections packed into bytes: what comes back is what went in, and what holds anything is not packed."""

from __future__ import annotations

import pytest

from mqsniff.limits import Limits
from mqsniff.streams.handshake import Handshake
from mqsniff.streams.ordering import Ordering, Troubles
from mqsniff.streams.parking import pack, unpack
from mqsniff.streams.reassembly import AckedBeyond, Direction, Stray
from mqsniff.streams.segment import Segment
from mqsniff.streams.waiting import StreamPiece

FIRST = Segment(100, 0, 2, -1, 0, 5_000, 0, 0, 0, 0, 77, 8)
COUNTERS = (
    *("origin", "next", "packets", "gap_bytes", "retransmitted"),
    *("out_of_order", "duplicates", "ignored", "oddities"),
)


def idle() -> Ordering:
    """Of an open connection that said nothing; all its numbers are different."""
    ordering = Ordering(Limits(), FIRST)
    ordering.packets, ordering.last_ns = 11, 9_000
    ordering.look_at(6_000, 78, 9)
    for me in ordering.directions:
        me.started, me.anchored = me.index == 0, me.index == 1
        for number, name in enumerate(COUNTERS, 100 * (me.index + 1)):
            setattr(me, name, number)
        me.recent = bytearray(b"recent %d" % me.index) * me.index
    return ordering


def shown(ordering: Ordering) -> tuple[object, ...]:
    """All that an idle connection knows."""
    return (
        *(ordering.packets, ordering.last_ns, ordering.current),
        *(
            (me.started, me.anchored, bytes(me.recent), *(getattr(me, name) for name in COUNTERS))
            for me in ordering.directions
        ),
    )


@pytest.mark.parametrize(
    "fields",
    [(None, None, None, None, None, 0, 0), (1, 5, 6, 7, 8, 1, 0), (0, -5, None, 0, -1, 0, 1)],
)
def test_what_is_packed_comes_back_whole(fields: tuple[int | None, ...]) -> None:
    handshake = Handshake()
    handshake.restore(fields)
    packed = pack(idle(), handshake)
    assert packed is not None
    assert len(packed) < 200
    ordering, restored = unpack(packed, Limits())
    assert shown(ordering) == shown(idle())
    assert restored.fields == fields


def test_what_was_packed_goes_on_with_its_own_lists() -> None:
    packed = pack(idle(), Handshake())
    assert packed is not None
    one, other = (unpack(packed, Limits())[0] for _ in range(2))
    one.directions[1].recent += b"more"
    assert shown(other) == shown(idle())


PIECE = StreamPiece(0, 1, b"x", 0, 0, 0, 0)


def ended_at(me: Direction) -> None:
    me.end = 0


def ended_by(me: Direction) -> None:
    me.end_by = "fin"


def was_reset(me: Direction) -> None:
    me.reset = True


def is_ended(me: Direction) -> None:
    me.ended = True


def is_unseen(me: Direction) -> None:
    me.unseen_from = 0


def waits(me: Direction) -> None:
    me.wait(PIECE)


def is_acknowledged(me: Direction) -> None:
    me.acked_beyond = [AckedBeyond(1, None, 0, 0)]


def strays(me: Direction) -> None:
    me.strays = [Stray(FIRST, b"", 0)]


def goes_beyond(me: Direction) -> None:
    me.beyond = (1, 2)


def delivered(me: Direction) -> None:
    me.remember(b"x")


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(
    "holds",
    [
        *(ended_at, ended_by, was_reset, is_ended, is_unseen, waits),
        *(is_acknowledged, strays, goes_beyond, delivered),
    ],
)
def test_a_side_that_holds_anything_or_is_over_is_not_packed(holds: object, index: int) -> None:
    ordering = idle()
    assert callable(holds)
    holds(ordering.directions[index])
    assert pack(ordering, Handshake()) is None


def test_a_connection_with_troubles_or_delivered_bytes_is_not_packed() -> None:
    troubled, delivering = idle(), idle()
    troubled.troubles = Troubles()
    delivering.has_output = True
    assert [pack(each, Handshake()) for each in (troubled, delivering)] == [None, None]
