"""What first bytes say of a protocol, under the toy protocol."""

from __future__ import annotations

import pytest
from toyframes import Toy

from mqsniff.dissector import Sample, Verdict
from mqsniff.framing.confirmation import RunEnd, confirm_frame, frame_starts, probe_size, verdict_at
from mqsniff.limits import Limits
from mqsniff.model import ProvenSize, Side


@pytest.mark.parametrize(
    ("client", "server", "verdict"),
    [
        (b"", b"", Verdict.MORE),
        (b"F", b"", Verdict.MORE),
        (b"F\x00", b"", Verdict.MAYBE),
        (b"F\x00F", b"", Verdict.MAYBE),
        (b"F\x00F\x00", b"", Verdict.YES),
        (b"F\x00z", b"", Verdict.NO),
        (b"F\x00F\x00", b"z", Verdict.NO),
        (b"", b"F\x00F\x00", Verdict.YES),
    ],
)
def test_detection_considers_both_sides(client, server, verdict):
    assert Toy.detect(Sample(client), Sample(server)) is verdict


def test_detection_in_the_middle_tries_segment_starts():
    assert Toy.detect(Sample(b"??F\x00F\x00", (0, 2), from_start=False), Sample()) is Verdict.YES


def test_detection_in_the_middle_never_refutes():
    assert Toy.detect(Sample(b"??", (0, 1), from_start=False), Sample()) is Verdict.MORE


# ---- frames that a search found


OPEN, PAUSED, ENDED = RunEnd.OPEN, RunEnd.PAUSED, RunEnd.ENDED
LONG = b"F\x09" + b"x" * 9
"""More than the limits below are sure of."""
SURE = Limits(search_sure=10, search_max=64 * 1024)


@pytest.mark.parametrize(
    ("data", "run", "beyond", "confirmed"),
    [
        # a frame that another one follows
        (b"F\0F\0", OPEN, -1, (True, 0)),
        (b"F\0F\x05", OPEN, -1, (True, 0)),
        (b"F\0F", OPEN, -1, (False, 4)),
        (b"F\0F", ENDED, -1, (False, 0)),
        (b"F\0z", OPEN, -1, (False, 0)),
        # one that nothing follows yet
        (b"F\0", OPEN, -1, (False, 3)),
        (b"F\0", PAUSED, -1, (True, 0)),
        (b"F\0", ENDED, -1, (True, 0)),
        (b"F", OPEN, -1, (False, 2)),
        (b"F", ENDED, -1, (False, 0)),
        (b"z", OPEN, -1, (False, 0)),
        # one whose end was lost
        (b"F\x05a", OPEN, -1, (False, 8)),
        (b"F\x05a", ENDED, -1, (False, 0)),
        (b"F\x05a", ENDED, 7, (True, 0)),
        (b"F\x05a", ENDED, 8, (False, 0)),
        (b"F\x05a", PAUSED, 7, (True, 0)),
        (b"F\x05a", OPEN, 7, (False, 8)),
        # a long one needs two that follow it
        (LONG + b"F\0", OPEN, -1, (False, 14)),
        (LONG + b"F\0F\0", OPEN, -1, (True, 0)),
        (LONG + b"F\0z", OPEN, -1, (False, 0)),
        (LONG + b"F\0", ENDED, -1, (True, 0)),
        (b"F\x08" + b"x" * 8 + b"F\0", OPEN, -1, (True, 0)),
    ],
)
def test_a_frame_is_confirmed_by_others_behind_it_or_by_the_exact_end_of_its_run(data, run, beyond, confirmed):
    for before in (b"", b"??"):
        at, whole = len(before), before + data
        found = confirm_frame(
            *(Toy, SURE, Side.CLIENT, whole, at),
            end=len(whole),
            run=run,
            beyond=beyond + at if beyond >= 0 else -1,
        )
        assert found == (confirmed[0], confirmed[1] + at if confirmed[1] else 0)


class Proving(Toy):
    """Its "W" frames prove their size; "R" frames say a size of 0, "U" frames one beyond any limit."""

    @classmethod
    def probe(cls, side, head):
        size = super().probe(side, head)
        if not isinstance(size, int):
            return size
        return {b"W": ProvenSize(size), b"R": 0, b"U": 1 << 40}.get(head[:1], size)


@pytest.mark.parametrize(
    ("data", "run", "confirmed"),
    [
        (b"W\x05a", ENDED, (True, 0)),
        (b"W\x05a", OPEN, (False, 8)),
        (b"W\x00z", ENDED, (False, 0)),
        (b"F\0W\x05a", ENDED, (True, 0)),
        (b"R\x00F\x00", OPEN, (False, 0)),
        (b"U\x00F\x00", OPEN, (False, 0)),
    ],
)
def test_a_size_that_proves_itself_needs_no_frame_behind_it_where_the_rest_was_lost(data, run, confirmed):
    assert confirm_frame(Proving, SURE, Side.CLIENT, data, 0, end=len(data), run=run, beyond=-1) == confirmed


def test_a_lone_frame_that_proves_its_size_is_sure():
    assert verdict_at(Proving, Side.CLIENT, b"W\x05a", 0) is Verdict.YES
    assert verdict_at(Proving, Side.CLIENT, b"??F\x05a", 2) is Verdict.MAYBE


def test_a_frame_starts_where_a_probe_finds_one_in_the_bytes_that_are_there():
    assert [frame_starts(Toy, Side.CLIENT, b"?F\0F", at, end) for at, end in ((1, 4), (1, 2), (3, 4), (0, 4))] == [
        *(True, False, False, False),
    ]


def test_a_probe_may_need_more_bytes_than_the_size_of_a_frame():
    class Longer(Toy):
        probe_max = 9

    assert (probe_size(Toy), probe_size(Longer)) == (2, 9)
