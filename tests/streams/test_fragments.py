"""Fragments by hand: any order makes the datagram, no overlap does, and what waits is bounded."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.limits import Limits
from mqsniff.streams.fragments import DATAGRAM_MAX, Datagram, Fragment, FragmentPacket, Fragments

SECOND = 1_000_000_000
WHOLE = bytes(range(40))


def piece(start: int, stop: int, total: int = 40, key: object = "k", captured: int | None = None) -> Fragment:
    data = WHOLE[start:stop] if captured is None else WHOLE[start : start + captured]
    return Fragment(key, b"head" if start == 0 else b"", start, stop - start, stop < total, data)


def at(number: int, ts_ns: int = 0) -> FragmentPacket:
    return FragmentPacket(number, ts_ns, number + 1)


def feed(fragments: Fragments, *pieces: Fragment) -> list[Datagram]:
    found = [fragments.add(fragment, at(number)) for number, fragment in enumerate(pieces)]
    return [datagram for datagram in found if datagram is not None]


def told(fragments: Fragments) -> list[tuple[str, int, int]]:
    return [(problem.problem.kind, problem.ordinal, problem.size) for problem in fragments.take_problems()]


@settings(max_examples=50, deadline=None)
@given(st.sets(st.integers(1, 4)), st.randoms(use_true_random=False), st.integers(0, 3))
def test_a_datagram_comes_out_once_whatever_the_order_and_however_often_its_pieces_come(cuts, random, copies):
    bounds = [0, *(8 * cut for cut in sorted(cuts)), 40]
    pieces = [piece(start, stop) for start, stop in itertools.pairwise(bounds)]
    pieces += random.choices(pieces, k=copies)
    random.shuffle(pieces)
    fragments = Fragments(Limits())
    assert feed(fragments, *pieces) == [Datagram(b"head", 40, WHOLE)]
    assert fragments.close() == []


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([piece(0, 16), piece(8, 24), piece(24, 40)], id="starts inside"),
        pytest.param([piece(8, 24), piece(0, 16), piece(24, 40)], id="ends inside"),
        pytest.param([piece(8, 16), piece(0, 24), piece(24, 40)], id="covers"),
        pytest.param([piece(0, 24), piece(8, 16), piece(24, 40)], id="is covered"),
        pytest.param([piece(0, 16), piece(0, 24), piece(24, 40)], id="same start, longer"),
        pytest.param([piece(0, 16), piece(0, 16)._replace(data=bytes(16)), piece(16, 40)], id="other bytes"),
        pytest.param([piece(24, 40), piece(24, 40)._replace(more=True), piece(0, 24)], id="last and not last"),
    ],
)
def test_overlapping_fragments_are_one_problem_and_no_datagram(pieces):
    fragments = Fragments(Limits())
    assert feed(fragments, *pieces) == []
    assert [(kind, number) for kind, number, _ in told(fragments)] == [("overlap", 1)]
    assert fragments.close() == [], "fragments of a refused datagram do not wait"


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([piece(0, 12)], id="no multiple of 8, and more to come"),
        pytest.param([piece(8, 8)], id="empty"),
        pytest.param([Fragment("k", b"", 65_528, 8, False, bytes(8))], id="beyond the largest packet"),
        pytest.param([Fragment("k", b"", 0, 70_000, True, b"")], id="larger than the largest packet"),
        pytest.param([piece(8, 16, total=16), piece(16, 24)], id="after the last"),
        pytest.param([piece(16, 24), piece(8, 16, total=16)], id="the last before another"),
        pytest.param([piece(8, 16, total=16), piece(16, 24, total=24)], id="two ends"),
    ],
)
def test_fragments_that_cannot_be_are_malformed(pieces):
    fragments = Fragments(Limits())
    assert feed(fragments, *pieces) == []
    assert [kind for kind, *_ in told(fragments)] == ["malformed"]


def test_the_largest_datagram_is_possible():
    fragments = Fragments(Limits())
    first = Fragment("k", b"head", 0, 65_512, True, bytes(65_512))
    (found,) = feed(fragments, first, Fragment("k", b"", 65_512, 23, False, bytes(22) + b"z"))
    assert (found.size, found.data[-2:]) == (DATAGRAM_MAX, b"\0z")


def test_a_datagram_ends_where_the_capture_cut_one_of_its_fragments_but_keeps_its_size():
    fragments = Fragments(Limits())
    (found,) = feed(fragments, piece(16, 40), piece(8, 16, captured=3), piece(0, 8))
    assert found == Datagram(b"head", 40, WHOLE[:11])


def test_a_copy_of_which_less_was_captured_is_still_a_copy():
    fragments = Fragments(Limits())
    assert feed(fragments, piece(0, 16), piece(0, 16, captured=4), piece(16, 40)) == [Datagram(b"head", 40, WHOLE)]


def test_datagrams_do_not_mix():
    fragments = Fragments(Limits())
    found = feed(fragments, piece(0, 16, key=1), piece(0, 16, key=2), piece(16, 40, key=2), piece(16, 40, key=1))
    assert len(found) == 2


def test_a_late_copy_of_a_complete_datagram_is_dropped_and_a_later_one_is_a_datagram_of_its_own():
    limits = Limits()
    fragments = Fragments(limits)
    for ts_ns, complete in ((0, True), (limits.doubled_ns, False), (limits.doubled_ns + 1, True)):
        fragments.add(piece(0, 16), at(0, ts_ns))
        assert (fragments.add(piece(16, 40), at(1, ts_ns)) is not None) == complete
    assert fragments.close() == []


def test_times_before_1970_are_times():
    fragments = Fragments(Limits())
    assert fragments.add(piece(0, 16), at(0, -5 * SECOND)) is None
    assert fragments.add(piece(16, 40), at(1, -5 * SECOND)) is not None


def test_what_waits_too_long_is_given_up_when_another_fragment_comes():
    limits = Limits()
    fragments = Fragments(limits)
    fragments.add(piece(0, 16, key="old"), at(1))
    fragments.add(piece(16, 24, key="old"), at(2, SECOND))
    fragments.add(piece(0, 16, key="new"), at(3, limits.fragments_ns))
    assert told(fragments) == []
    fragments.add(piece(16, 40, key="other"), at(4, limits.fragments_ns + 1))
    assert told(fragments) == [("truncated", 2, 24)]
    assert fragments.add(piece(16, 40, key="new"), at(5, limits.fragments_ns + 2)) is not None


@pytest.mark.parametrize(("name", "cap"), [("fragments_max", 3), ("fragments_size", 3 * 16)])
def test_when_too_many_wait_the_oldest_datagram_is_dropped(name, cap):
    fragments = Fragments(Limits(**{name: cap}))
    for number in range(5):
        fragments.add(piece(0, 16, key=number), at(number))
    assert told(fragments) == [("limit", 0, 16), ("limit", 1, 16)]
    assert fragments.add(piece(16, 40, key=4), at(5)) is not None
    assert [(problem.problem.kind, problem.ordinal) for problem in fragments.close()] == [
        ("truncated", 2),
        ("truncated", 3),
    ]


def test_a_flood_of_datagrams_that_are_refused_or_complete_leaves_nothing_behind():
    fragments = Fragments(Limits(fragments_max=10))
    for number in range(1000):
        fragments.add(piece(0, 40, key=number), at(number))
        fragments.add(piece(0, 12, key=-number - 1), at(number))
    assert len(fragments._closed) <= 10
    assert (len(fragments._trains), fragments._count, fragments._captured) == (0, 0, 0)
