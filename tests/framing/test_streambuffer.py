"""The buffer of a side: bytes in with their packets, frames out with theirs, wherever chunks and packets are cut."""

from __future__ import annotations

import pytest
from toyframes import chunk, gap

from mqsniff.framing.streambuffer import Mode, StreamBuffer
from mqsniff.model import Chunk, Frame, Mark, Side

BYTES = bytes(range(10, 22))
CLIENT = Side.CLIENT


def mark(offset: int, packet: int) -> Mark:
    return Mark(offset, 1000 + packet, packet, 50 + packet)


MARKS = [mark(0, 1), mark(3, 2), mark(7, 3)]
"""Packets of three, four and five bytes."""


def filled(*cuts: int) -> StreamBuffer:
    """``BYTES`` at offset 100, in chunks that end at these places."""
    stream = StreamBuffer(CLIENT)
    for start, stop in zip((0, *cuts), (*cuts, len(BYTES)), strict=True):
        inside = [each for each in MARKS if start < each.offset < stop]
        first = [each for each in MARKS if each.offset <= start][-1]._replace(offset=start)
        marks = [each._replace(offset=100 + each.offset) for each in (first, *inside)]
        stream.add(Chunk(CLIENT, 100 + start, BYTES[start:stop], marks))
    return stream


CUTS = [(), (3,), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), (5, 9)]


def frame(start: int, size: int, first: int, last: int, release: int) -> Frame:
    data = BYTES[start : start + size]
    return Frame(CLIENT, 100 + start, size, data, 1000 + first, 1000 + last, first, last, release)


@pytest.mark.parametrize("cuts", CUTS)
def test_frames_have_their_bytes_and_the_packets_of_their_first_and_last(cuts):
    stream = filled(*cuts)
    assert [stream.take(size, 0) for size in (3, 1, 4, 4)] == [
        frame(0, 3, 1, 1, 51),
        frame(3, 1, 2, 2, 52),
        frame(4, 4, 2, 3, 53),
        frame(8, 4, 3, 3, 53),
    ]
    assert (stream.position, stream.end, stream.available, stream.idle) == (112, 112, 0, True)


@pytest.mark.parametrize("cuts", CUTS)
def test_a_frame_that_is_not_all_there_is_none(cuts):
    stream = filled(*cuts)
    assert stream.take(13, 0) is None
    assert (stream.position, stream.take(12, 99)) == (100, frame(0, 12, 1, 3, 99))


@pytest.mark.parametrize("cuts", CUTS)
def test_the_head_is_what_is_there_of_so_many_bytes_behind_some(cuts):
    stream = filled(*cuts)
    for skipped in (0, 2):
        if skipped:
            stream.take(skipped, 0)
        rest = BYTES[skipped:]
        for size, skip in ((1, 0), (3, 0), (4, 2), (99, 0), (2, 9), (5, 99), (0, 0)):
            assert stream.head(size, skip) == rest[skip : skip + size]
    assert stream.data()[stream.position - stream.base :] == BYTES[2:]


def test_a_chunk_that_is_one_frame_of_one_packet_is_as_if_it_was_added_and_taken():
    one, other = StreamBuffer(CLIENT), StreamBuffer(CLIENT)
    whole = Chunk(CLIENT, 100, b"frame", [mark(100, 4)])
    other.add(whole)
    assert one.whole(whole, 77) == other.take(5, 77) == Frame(CLIENT, 100, 5, b"frame", 1004, 1004, 4, 4, 77)
    assert (one.position, one.end, one.idle, one.mark_of(104)) == (105, 105, True, mark(100, 4))


def test_packets_of_buffered_bytes_are_known_by_where_they_begin_and_end():
    stream = filled(5)
    assert [stream.mark_of(offset).packet for offset in range(100, 112)] == [1] * 3 + [2] * 4 + [3] * 5
    assert [offset for offset in range(99, 114) if stream.begins_packet(offset)] == [100, 103, 107]
    assert [offset for offset in range(99, 114) if stream.ends_packet(offset)] == [100, 103, 107, 112]
    assert list(stream.packet_ends()) == [(103, 51), (105, 52), (107, 52), (112, 53)]
    assert stream.packet_starts() == [100, 103, 105, 107]
    stream.take(4, 0)
    assert list(stream.packet_ends()) == [(103, 51), (105, 52), (107, 52), (112, 53)], (
        "marks are dropped when asked for"
    )
    assert stream.packet_starts() == [105, 107]
    assert stream.forget_marks(104) == mark(3, 2)._replace(offset=103)
    assert list(stream.packet_ends()) == [(105, 52), (107, 52), (112, 53)]
    assert not stream.begins_packet(105)


@pytest.mark.parametrize(("seen_at", "release"), [(-1, 51), (102, 51), (103, 52), (107, 53)])
def test_a_size_is_known_with_the_packet_that_showed_it(seen_at, release):
    stream = filled()
    taken = stream.take(3, 0)
    stream.size_seen_at = seen_at
    assert stream.size_release(taken) == release
    assert stream.size_seen_at == (seen_at if seen_at < 103 else -1)


# ---- states


def test_a_side_is_idle_where_nothing_of_it_waits():
    stream = StreamBuffer(CLIENT)
    assert (stream.idle, stream.side, stream.peer, stream.waiting_bytes) == (True, CLIENT, Side.SERVER, 0)
    stream.add(chunk(b"ab"))
    assert (stream.idle, stream.waiting_bytes) == (False, 2)
    stream.take(2, 0)
    assert stream.idle
    stream.want(1)
    assert not stream.idle
    stream.wants = 0
    stream.mode = Mode.SEARCH
    assert not stream.idle
    stream.mode = Mode.STEP
    stream.hold(gap(2, 3))
    assert not stream.idle


def test_so_many_bytes_are_wanted_from_the_next_frame_on():
    stream = filled()
    stream.take(3, 0)
    stream.want(20)
    assert stream.wants == 123


def test_a_jump_leaves_nothing_behind():
    stream = filled(5)
    stream.want(99)
    stream.jump(200)
    assert (stream.base, stream.position, stream.end, stream.wants, stream.data()) == (200, 200, 200, 0, b"")
    stream.add(chunk(b"xy", 200, packet=9))
    assert stream.take(2, 0) == Frame(CLIENT, 200, 2, b"xy", 1009, 1009, 9, 9, 9)


def test_held_events_come_back_in_order_and_their_bytes_are_counted():
    stream = filled()
    events = [chunk(b"abc", 112), gap(115, 5), chunk(b"d", 120)]
    for event in events:
        stream.hold(event)
    assert (stream.waiting_bytes, stream.available) == (16, 12)
    assert [stream.next_held() for _ in events] == events
    assert (stream.waiting_bytes, stream.held) == (12, type(stream.held)())


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize(
    ("taken", "offset", "start"), [(0, 100, 0), (0, 104, 4), (4, 100, 4), (4, 107, 7), (4, 111, 11)]
)
def test_bytes_are_handed_back_with_their_packets_and_what_was_held(cuts, taken, offset, start):
    stream = filled(*cuts)
    if taken:
        stream.take(taken, 0)
    held = chunk(b"held", 112)
    stream.hold(held)
    stream.want(50)
    back, rest = stream.hand_back(offset)
    assert (back.side, back.offset, back.data, rest) == (CLIENT, 100 + start, BYTES[start:], held)
    packets = {each.packet for each in back.marks}
    assert packets == {each.packet for at, each in zip((3, 7, 12), MARKS, strict=True) if at > start}
    assert back.marks[0].offset <= back.offset
    assert (stream.end, stream.held, stream.waiting_bytes, stream.wants) == (100 + start, None, start - taken, 0)
    if start > taken:
        assert stream.take(start - taken, 0).data == BYTES[taken:start]


def test_of_an_empty_buffer_nothing_is_handed_back():
    stream = filled()
    stream.take(12, 0)
    assert stream.hand_back(100) == []
