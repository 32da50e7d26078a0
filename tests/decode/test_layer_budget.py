"""A layer that decompresses gives no more than the budget of its connection allows; the rest is dark, and said so."""

from __future__ import annotations

import zlib

import pytest

from mqsniff.decode.layers import Layers
from mqsniff.limits import KIB, Limits
from mqsniff.model import Chunk, Mark, Side, Upgrade

PACKET = 100
LIMITS = Limits(inflate_ratio=10, inflate_start=64 * KIB, inflate_free=256 * KIB)


def deflated(plain: bytes) -> bytes:
    deflate = zlib.compressobj(9, wbits=-15)
    return deflate.compress(plain) + deflate.flush(zlib.Z_SYNC_FLUSH)


def passed(data: bytes, step: int) -> tuple[bytes, Layers]:
    """The plain bytes of packets of a hundred bytes, ``step`` of them in each chunk."""
    layers = Layers(LIMITS)
    layers.push(Upgrade({Side.CLIENT: 0}, "deflate"))
    plain = b""
    for start in range(0, len(data), PACKET * step):
        part = data[start : start + PACKET * step]
        marks = [Mark(at, at, at // PACKET, at // PACKET) for at in range(start, start + len(part), PACKET)]
        plain += b"".join(event.data for event in layers.through(Chunk(Side.CLIENT, start, part, marks)))
    layers.end()
    return plain, layers


@pytest.mark.parametrize("size", [4 << 20, 16 << 20])
def test_a_bomb_gives_what_its_bytes_and_the_free_ones_allow(size):
    data = deflated(bytes(size))
    plain, layers = passed(data, 1)
    assert 0 < len(plain) <= 256 * KIB + 10 * len(data)
    ((problem, _),) = layers.notices()
    assert problem.kind == "limit"
    assert "inflate_ratio" in problem.detail
    assert problem.size == layers.undecoded > 0


def test_where_a_bomb_ends_does_not_depend_on_the_cuts():
    data = deflated(bytes(4 << 20))
    assert len({len(passed(data, step)[0]) for step in (1, 3, 1000)}) == 1


def test_what_compresses_well_and_is_small_passes():
    data = deflated(b"the same words again and again, " * 4_000)
    plain, layers = passed(data, 1)
    assert len(plain) == 128_000
    assert not list(layers.notices())
