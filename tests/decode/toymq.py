"""A toy protocol for tests of the decode room: b"F", a byte of length, so many bytes; "U" frames switch a layer on."""

from __future__ import annotations

from collections.abc import Iterator

from mqsniff.codecs.transforms import LayerLoss, LayerStop, TransformOutput
from mqsniff.dissector import NEED, NO_FRAME
from mqsniff.framing import FramedDissector
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Event, Frame, Gap, Mark, Message, Side, Upgrade


class Xor:
    """A toy transform: every byte is flipped; byte 0xFF is unreadable and ends it, a hole is known to its length."""

    def __init__(self) -> None:
        self._offset = 0

    def feed(self, data: bytes) -> Iterator[TransformOutput]:
        for index, byte in enumerate(data):
            if byte == 0xFF:
                yield LayerStop(self._offset + index, "codec", "0xFF")
                return
            yield bytes([byte ^ 0x55])
        self._offset += len(data)

    def gap(self, length: int) -> Iterator[TransformOutput]:
        self._offset += length
        yield LayerLoss(self._offset, 0, length, "gap", "lost inside the toy layer")

    def close(self) -> Iterator[TransformOutput]:
        return iter(())


def make_xor(_limits: Limits) -> tuple[Xor, Xor]:
    return Xor(), Xor()


def flip(data: bytes) -> bytes:
    return bytes(byte ^ 0x55 for byte in data)


class ToyMq(FramedDissector):
    names = ("toymq",)
    ports = frozenset({7777})
    head_max = 2

    @classmethod
    def probe(cls, side, head):
        if head[:1] not in (b"F", b"U", b"T", b"B"):
            return NO_FRAME
        return 2 + head[1] if len(head) == 2 else NEED

    def frame_size(self, side, head):
        return self.probe(side, head)

    def decode(self, frame: Frame) -> Iterator[Event]:
        kind = frame.data[:1]
        name = kind.decode()
        if kind == b"B":
            raise GeneratorExit
        if frame.side is Side.CLIENT:
            self.expect_reply("k")
        else:
            self.reply_to("k")
        yield Message(frame, "toymq", name, "response" if frame.side else "request", {"data": frame.data[2:]})
        if kind == b"U":
            yield Upgrade({frame.side: frame.offset + frame.size}, make_xor)
        elif kind == b"T":
            yield Upgrade({frame.side: frame.offset + frame.size}, "tls")


def chunk(data: bytes, at: int = 0, side: Side = Side.CLIENT, packet: int = 0) -> Chunk:
    return Chunk(side, at, data, [Mark(at, 1000 + packet, packet, packet)])


def gap(at: int, length: int, side: Side = Side.CLIENT, packet: int = 0) -> Gap:
    return Gap(side, at, length, Mark(at, 1000 + packet, packet, packet))
