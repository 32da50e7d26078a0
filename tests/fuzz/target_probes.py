"""Any bytes of either side, asked of every dissector: probe, scan, frame_size, detect."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import lawsamples

from mqsniff.dissector import (
    NEED,
    NO_FRAME,
    WAIT_PEER,
    Dissector,
    IncrementalSize,
    LayerChange,
    Sample,
    Settings,
    Verdict,
)
from mqsniff.framing import FramedDissector
from mqsniff.model import Side
from mqsniff.testing.conversations import streams

from .judging import Target


def probe(data: bytes) -> None:
    """Answers of ``probe`` are final, and ``scan`` passes over no place where it finds a frame."""
    if not data:
        return
    side, data = Side(data[0] & 1), data[1:]
    classes = set(lawsamples.dissectors().values())
    for cls in sorted(classes, key=lambda one: one.names):
        if issubclass_of_framed(cls):
            _probe_one(cls, side, data)
        _detect(cls, side, data)


def issubclass_of_framed(cls: type[Dissector]) -> bool:
    """Not by ``issubclass``, whose caches compiled abstract classes share."""
    return FramedDissector in cls.__mro__


def _probe_one(cls: type[FramedDissector], side: Side, data: bytes) -> None:
    most = cls.probe_max or cls.head_max
    assert cls.probe(side, b"") is NEED
    final = cls.probe(side, data)
    assert final in (NEED, NO_FRAME) or (isinstance(final, int) and final > 0)
    assert final is not NEED or len(data) < most, f"{cls.__name__}.probe wants more than {most} bytes"
    for stop in (*range(min(len(data), 24)), len(data) // 2, len(data) - 1):
        early = cls.probe(side, data[: max(stop, 0)])
        assert early is NEED or early == final, f"{cls.__name__}.probe is not final at {stop}"
    fresh = cls(Settings())
    for each in Side:
        fresh.start(each, in_step=True)
    sized = fresh.frame_size(side, data[: cls.head_max])
    right = isinstance(sized, IncrementalSize | LayerChange) or sized in (NEED, NO_FRAME, WAIT_PEER)
    assert right or (isinstance(sized, int) and sized > 0), f"{cls.__name__}.frame_size gives {sized!r}"
    _scan(cls, side, data)


def _scan(cls: type[FramedDissector], side: Side, data: bytes) -> None:
    at, found = 0, set()
    while at < len(data):
        at = cls.scan(side, data, at)
        found.add(at)
        at += 1
    for start in range(min(len(data), 512)):
        if start not in found and isinstance(cls.probe(side, data[start:]), int):
            raise AssertionError(f"{cls.__name__}.scan passes over a frame at {start}")


def _detect(cls: type[Dissector], side: Side, data: bytes) -> None:
    half = len(data) // 2
    for from_start in (True, False):
        starts = (0,) if from_start else (0, half)
        one, other = Sample(data, starts, from_start), Sample(b"", (0,), from_start)
        both = (one, other) if side is Side.CLIENT else (other, one)
        assert isinstance(cls.detect(*both), Verdict)
        assert isinstance(
            cls.detect(Sample(data[:half], (0,), from_start), Sample(data[half:], (0,), from_start)), Verdict
        )


def seeds() -> Iterator[bytes]:
    """The streams of the laws' conversations, from their start and from the middle."""
    for conversation in chain.from_iterable(each.values() for each in lawsamples.CONVERSATIONS.values()):
        for side, stream in zip(Side, streams(conversation), strict=True):
            yield bytes([side]) + stream[:600]
            if len(stream) > 700:
                yield bytes([side]) + stream[len(stream) // 2 :][:600]


def targets() -> Iterator[Target]:
    """One target."""
    rooms = ("mqsniff/framing/*", "dissectors/*/heads.py", "dissectors/*/frames.py", "dissectors/*/detection.py")
    yield Target("probe", "probe, scan, frame_size and detect of every dissector", probe, seeds, rooms, size_max=1024)
