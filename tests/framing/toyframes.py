"""Toy protocols for the framing machine: b"F", a byte of length, so many bytes; b"W" frames wait for the peer."""

from __future__ import annotations

from collections.abc import Iterator

from mqsniff.dissector import NEED, NO_FRAME, WAIT_PEER, IncrementalSize, LayerChange, Settings, WalkAborted
from mqsniff.framing import FramedDissector
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Event, Frame, Gap, Mark, Message, Problem, Side, Skipped, Upgrade
from mqsniff.spec.wire import Malformed


class Toy(FramedDissector):
    names = ("toy",)
    ports = frozenset({7})
    head_max = 2

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.may_go = 0

    @classmethod
    def probe(cls, side, head):
        if head[:1] not in (b"F", b"W", b"R", b"U"):
            return NO_FRAME
        return 2 + head[1] if len(head) == 2 else NEED

    def frame_size(self, side, head):
        if head[:1] == b"W" and not self.may_go and self.may_wait(side):
            return WAIT_PEER
        if len(head) < 2:
            return NEED
        if head[:1] in b"FWRUXE":
            return 2 + head[1]
        return NO_FRAME

    def decode(self, frame: Frame) -> Iterator[Event]:
        kind = frame.data[:1]
        if kind == b"X":
            raise Malformed("no such thing")
        if kind == b"E":
            raise ZeroDivisionError
        if kind == b"R":
            self.may_go += 1
        yield Message(frame, "toy", kind.decode(), "request", {"data": frame.data[2:]})
        if kind == b"U":
            yield Upgrade({frame.side: frame.offset + frame.size}, "toy")


def chunk(data: bytes, at: int = 0, side: Side = Side.CLIENT, packet: int = 0) -> Chunk:
    return Chunk(side, at, data, [Mark(at, 1000 + packet, packet, packet)])


def gap(at: int, length: int, side: Side = Side.CLIENT, packet: int = 0, *, known: bool = True) -> Gap:
    return Gap(side, at, length, Mark(at, 1000 + packet, packet, packet), known=known)


def toy(limits: Limits | None = None, *, in_step: bool = True) -> Toy:
    dissector = Toy(Settings(limits or Limits()))
    for side in Side:
        dissector.start(side, in_step=in_step)
    return dissector


def told(events) -> list:
    """Events as short tuples."""
    out = []
    for event in events:
        match event:
            case Message():
                problems = tuple(problem.kind for problem in event.problems)
                out.append((event.name, event.frame.offset, event.body["data"], event.frame.size, *problems))
            case Skipped():
                out.append(("skipped", event.offset, event.length))
            case Problem():
                out.append(("problem", event.kind, event.offset, event.size))
            case Upgrade():
                out.append(("upgrade",))
    return out


def run(dissector: Toy, *events: Chunk | Gap, close: bool = True) -> list:
    out = []
    for event in events:
        out += told(dissector.gap(event) if isinstance(event, Gap) else dissector.feed(event))
    for side in Side if close else ():
        out += told(dissector.close(side))
    return out


class Beads(Toy):
    """Toy with strings of beads: b"S", the size promised, the count of beads; a bead is a size and as many bytes.

    A bead of size 0 breaks the string. b"L" means that the side goes on in another layer.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.lost: list[int | None] = []

    head_max = 3

    @classmethod
    def probe(cls, side, head):
        return super().probe(side, head[:2])

    def frame_size(self, side, head):
        if head[:1] == b"L":
            return LayerChange("toy", 1)
        if head[:1] == b"S":
            return IncrementalSize(3, 3 + head[1], head[2]) if len(head) >= 3 else NEED
        return super().frame_size(side, head)

    def walk(self, side, walk, data):
        if not walk.state:
            return walk.size
        if data[0] == 0:
            return WalkAborted(1)
        return IncrementalSize(walk.size + 1 + data[0], walk.promised, walk.state - 1)

    def missed(self, side, length):
        self.lost.append(length)


def beads(limits: Limits | None = None) -> Beads:
    return Beads(Settings(limits or Limits()))
