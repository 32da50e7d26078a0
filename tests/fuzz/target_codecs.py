"""Decompressors: blocks of records and bodies, and the layers of connections."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator

import cramjam
import lz4.block
import lz4.frame
import nsqcraft
import zstandard

from mqsniff.codecs.blocks import CODECS, BlockError, decompress, decompress_partly
from mqsniff.codecs.transforms import TRANSFORMS, LayerLoss, LayerStop
from mqsniff.limits import KIB, Limits
from mqsniff.model import Side

from .judging import Target

CAP = 256 * KIB
NAMES = tuple(sorted(CODECS))
LIMITS = Limits(inflate_start=256 * KIB, inflate_free=256 * KIB, layer_piece=4 * KIB)


def open_block(data: bytes) -> None:
    """A block of any codec: no more than the cap, and its start the same where only that is wanted."""
    if not data:
        return
    codec, block = NAMES[data[0] % len(NAMES)], data[1:]
    cap = CAP if data[0] < 128 else 1000
    partly = decompress_partly(codec, block, cap)
    assert len(partly.plain) <= cap
    try:
        plain = decompress(codec, block, cap)
    except BlockError:
        plain = None
    assert (plain is None) is (partly.why is not None), f"{codec}: its start is whole, or its whole is none"
    assert plain is None or partly.plain == plain, f"{codec}: its start differs from the whole"


def blocks() -> Iterator[bytes]:
    """Blocks of each codec."""
    texts = (b"", b"a", b"orders " * 40, bytes(3000), random.Random(1).randbytes(500))
    for number, name in enumerate(NAMES):
        for text in texts:
            for made in _packed(name, text):
                yield bytes([number]) + made
                yield bytes([128 - 128 % len(NAMES) + len(NAMES) + number & 0xFF]) + made


def _packed(name: str, text: bytes) -> Iterator[bytes]:
    match name:
        case "zlib":
            yield zlib.compress(text)
        case "gzip":
            squeeze = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
            member = squeeze.compress(text) + squeeze.flush()
            yield from (member, member + member)
        case "lz4":
            yield lz4.frame.compress(text)
            yield lz4.frame.compress(text, block_linked=False, content_checksum=True, store_size=False)
        case "lz4-block":
            yield lz4.block.compress(text, store_size=False)
        case "zstd":
            yield zstandard.compress(text)
            yield zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(text)
        case "snappy":
            yield bytes(cramjam.snappy.compress_raw(text))


def pass_layer(data: bytes) -> None:
    """A stream through a layer, with losses: any cuts give the same, and every byte is used or told as lost."""
    if len(data) < 2:
        return
    name = ("deflate", "snappy")[data[0] & 1]
    lost = [(data[1] * 8, 1 + data[0] % 50)] if data[0] & 2 else []
    whole, again = _through(name, data[2:], lost, 1 << 20), _through(name, data[2:], lost, 1 + data[0] % 11)
    assert whole == again, f"{name}: other cuts give other bytes"


def _through(name: str, stream: bytes, lost: list[tuple[int, int]], step: int) -> list[object]:
    """What came out, neighbouring bytes joined."""
    layer = TRANSFORMS[name](LIMITS)[Side.CLIENT]
    out: list[object] = []
    useless = at = 0
    holes = sorted((start, size) for start, size in lost if start < len(stream))
    while at < len(stream):
        if holes and at >= holes[0][0]:
            size = holes.pop(0)[1]
            made, at = layer.gap(size), at + size
        else:
            stop = min(at + step, holes[0][0] if holes else len(stream))
            made, at = layer.feed(stream[at:stop]), stop
        useless += _collect(made, out)
    useless += _collect(layer.close(), out)
    assert useless <= len(stream), f"{name}: more bytes are told as useless than there are"
    return out


def _collect(made: Iterator[object], out: list[object]) -> int:
    useless = 0
    for one in made:
        assert not (out and isinstance(out[-1], LayerStop)), "something comes after the end"
        if isinstance(one, bytes):
            assert len(one) <= LIMITS.layer_piece
        if isinstance(one, bytes) and out and isinstance(out[-1], bytes):
            out[-1] += one
        elif one != b"":
            out.append(one)
        if isinstance(one, LayerLoss):
            useless += one.size
    return useless


def layers() -> Iterator[bytes]:
    """Streams of both layers."""
    for number, maker in enumerate((nsqcraft.deflate, nsqcraft.snappy)):
        for options in (0, 2, 8, 14):
            encode = maker()
            yield bytes([number + options, 3]) + b"".join(encode(text) for text in (b"OK", b"x" * 90, b"orders" * 30))


def targets() -> Iterator[Target]:
    """Two targets."""
    rooms = ("mqsniff/codecs/blocks.py", "mqsniff/codecs/starts.py")
    yield Target("blocks", "compressed blocks of all codecs", open_block, blocks, rooms)
    rooms = ("mqsniff/codecs/deflate.py", "mqsniff/codecs/snappy*.py", "mqsniff/codecs/transforms.py")
    yield Target("layers", "DEFLATE and Snappy as layers of connections", pass_layer, layers, rooms)
