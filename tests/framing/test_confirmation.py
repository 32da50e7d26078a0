"""What first bytes say of a protocol, under the toy protocol."""

from __future__ import annotations

import pytest
from toyframes import Toy

from mqsniff.dissector import Sample, Verdict


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
