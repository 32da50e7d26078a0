"""Blocks of every codec: whole, cut, damaged, too large."""

from __future__ import annotations

import gzip
import os
import tracemalloc
import zlib

import cramjam
import lz4.block
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.codecs.blocks import CODECS, BlockError, decompress
from mqsniff.limits import KIB, MIB

quick = settings(max_examples=50, deadline=None)
PLAIN = b"The quick brown fox jumps over the lazy dog. " * 3000 + os.urandom(3000)

ENCODERS = {
    "zlib": zlib.compress,
    "gzip": gzip.compress,
    "lz4": lz4.frame.compress,
    "lz4-block": lambda data: lz4.block.compress(data, store_size=False),
    "zstd": zstandard.ZstdCompressor().compress,
    "zstd without its size": zstandard.ZstdCompressor(write_content_size=False).compress,
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "snappy-frames": lambda data: bytes(cramjam.snappy.compress(data)) or b"\xff\x06\x00\x00sNaPpY",
}
every_codec = pytest.mark.parametrize(
    ("codec", "encode"), [(name.split(" ")[0], encode) for name, encode in ENCODERS.items()], ids=ENCODERS
)


def test_every_codec_is_tried():
    assert {name.split(" ")[0] for name in ENCODERS} == set(CODECS)


@every_codec
@pytest.mark.parametrize("plain", [b"x", PLAIN, bytes(3 * MIB)], ids=["a byte", "text", "zeros"])
def test_a_block_becomes_its_plain_bytes(codec, encode, plain):
    assert decompress(codec, encode(plain), len(plain)) == plain


@every_codec
@quick
@given(plain=st.binary(max_size=400))
def test_what_an_encoder_makes_is_read_back(codec, encode, plain):
    assert decompress(codec, encode(plain), len(plain)) == plain


@every_codec
def test_a_block_that_was_cut_is_an_error(codec, encode):
    block = encode(PLAIN)
    for size in {0, 1, 3, len(block) // 2, len(block) - 1}:
        with pytest.raises(BlockError):
            decompress(codec, block[:size], len(PLAIN))


@every_codec
def test_bytes_behind_a_block_are_an_error(codec, encode):
    with pytest.raises(BlockError):
        decompress(codec, encode(PLAIN) + b"trailer", len(PLAIN))


@every_codec
def test_a_block_does_not_become_more_than_the_cap(codec, encode):
    with pytest.raises(BlockError):
        decompress(codec, encode(PLAIN), len(PLAIN) - 1)


@every_codec
@quick
@given(data=st.data())
def test_damage_is_an_error_or_other_bytes_but_nothing_else(codec, encode, data):
    block = bytearray(encode(PLAIN[:2000]))
    at = data.draw(st.integers(0, len(block) - 1))
    block[at] ^= data.draw(st.integers(1, 255))
    try:
        plain = decompress(codec, bytes(block), 2000)
    except BlockError:
        return
    assert len(plain) <= 2000


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_members_one_behind_the_other_are_one_block(codec):
    encode = ENCODERS[codec]
    assert decompress(codec, encode(b"one") + encode(PLAIN) + encode(b"three"), 1 << 20) == b"one" + PLAIN + b"three"


@pytest.mark.parametrize("codec", ["zlib", "gzip", "lz4", "zstd", "snappy"])
def test_a_bomb_costs_no_more_than_a_multiple_of_the_cap(codec):
    bomb = ENCODERS[codec](bytes(256 * MIB))
    tracemalloc.start()
    with pytest.raises(BlockError):
        decompress(codec, bomb, 64 * KIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * MIB


@pytest.mark.parametrize(
    ("codec", "block"),
    [
        ("snappy", b"\xff\xff\xff\xff\x0f" + b"x" * 50),
        ("snappy", b"\xff\xff\xff\xff\xff\xff"),
        ("lz4-block", b"\x10a"),
    ],
)
def test_a_lying_size_buys_no_memory(codec, block):
    tracemalloc.start()
    with pytest.raises(BlockError):
        decompress(codec, block, 1 << 31)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MIB


def test_a_codec_that_nobody_knows_is_a_mistake_of_the_caller():
    with pytest.raises(KeyError):
        decompress("brotli", b"", 1)
