"""Compressed blocks that are whole, cut, damaged or too large: what can be had of each, and why there is no more."""

from __future__ import annotations

import gzip
import random
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.codecs.blocks import CODECS, CORRUPT, CUT, TOO_LARGE, BlockError, decompress, decompress_partly

PLAIN = random.Random(1).randbytes(300_000) + b"x" * 300_000
PACKED = {
    "gzip": gzip.compress(PLAIN),
    "zlib": zlib.compress(PLAIN),
    "lz4": lz4.frame.compress(PLAIN),
    "zstd": zstandard.ZstdCompressor(write_content_size=False).compress(PLAIN),
    "snappy": bytes(cramjam.snappy.compress_raw(PLAIN)),
    "snappy-frames": bytes(cramjam.snappy.compress(PLAIN)),
}
CAP = 1 << 20
QUICK = settings(max_examples=50, deadline=None)


@pytest.mark.parametrize("codec", PACKED)
def test_a_whole_block_is_had_whole(codec: str) -> None:
    assert decompress_partly(codec, PACKED[codec], CAP) == (PLAIN, None)


@pytest.mark.parametrize("codec", ["gzip", "zlib", "lz4", "zstd", "snappy-frames"])
def test_a_cut_block_gives_what_stands_before_the_cut(codec: str) -> None:
    plain, why = decompress_partly(codec, PACKED[codec][:200_000], CAP)
    assert why == CUT
    assert PLAIN.startswith(plain)
    assert len(plain) > 60_000


@pytest.mark.parametrize("codec", ["lz4", "snappy"])
@pytest.mark.parametrize("kept", [1, 7, 30, 1_000, 70_000, 299_000, 310_000])
def test_snappy_and_lz4_give_all_up_to_the_last_byte_that_is_there(codec: str, kept: int) -> None:
    text = b"".join(b"line %d of some text, line %d\n" % (at, at // 3) for at in range(40_000))
    for plain in (PLAIN, text):
        packed = bytes(cramjam.snappy.compress_raw(plain)) if codec == "snappy" else lz4.frame.compress(plain)
        found, why = decompress_partly(codec, packed[:kept], 1 << 24)
        assert plain.startswith(found)
        assert len(found) > kept - 400
        assert why == CUT or kept >= len(packed)


@pytest.mark.parametrize("linked", [True, False])
def test_a_cut_lz4_block_reads_on_from_the_blocks_before_it(linked: bool) -> None:
    text = b"".join(b"line %d of some text, line %d\n" % (at, at // 3) for at in range(10_000))
    packed = lz4.frame.compress(text, block_linked=linked, block_checksum=True, block_size=4)
    for kept in range(0, len(packed) - 8, 997):
        found, _ = decompress_partly("lz4", packed[:kept], 1 << 24)
        assert text.startswith(found)
        assert len(found) >= kept - 40


def test_a_second_lz4_frame_that_is_cut_adds_no_wrong_bytes() -> None:
    packed = lz4.frame.compress(b"abc" * 5_000)
    for kept in range(len(packed), 2 * len(packed), 7):
        found, _ = decompress_partly("lz4", (packed * 2)[:kept], 1 << 24)
        assert (b"abc" * 10_000).startswith(found)


@given(st.sampled_from(["lz4", "snappy"]), st.integers(0, 4_000), st.binary(max_size=8), st.integers(1, 5_000))
@QUICK
def test_damaged_starts_stay_under_the_cap(codec: str, at: int, patch: bytes, cap: int) -> None:
    text = b"abcabcabd" * 2_000
    packed = bytes(cramjam.snappy.compress_raw(text)) if codec == "snappy" else lz4.frame.compress(text)
    at %= len(packed)
    plain, _ = decompress_partly(codec, packed[:at] + patch, cap)
    assert len(plain) <= cap


@pytest.mark.parametrize("codec", PACKED)
def test_a_block_that_becomes_too_large_gives_no_more_than_the_cap(codec: str) -> None:
    plain, why = decompress_partly(codec, PACKED[codec], 400_000)
    assert why == TOO_LARGE
    assert PLAIN.startswith(plain)
    assert len(plain) <= 400_000


@pytest.mark.parametrize("codec", PACKED)
def test_what_is_no_block_is_damaged(codec: str) -> None:
    plain, why = decompress_partly(codec, b"\xff" * 40, CAP)
    assert plain == b""
    assert why in (CORRUPT, CUT, TOO_LARGE)


@given(st.sampled_from(sorted(PACKED)), st.integers(0, 700_000), st.binary(min_size=1, max_size=4))
@QUICK
def test_damage_never_raises_and_agrees_with_the_strict_reader(codec: str, at: int, patch: bytes) -> None:
    packed = PACKED[codec]
    at %= len(packed)
    damaged = packed[:at] + patch + packed[at + len(patch) :]
    plain, why = decompress_partly(codec, damaged, CAP)
    assert len(plain) <= CAP
    if why is None:
        assert decompress(codec, damaged, CAP) == plain
    else:
        with pytest.raises(BlockError, match=why):
            decompress(codec, damaged, CAP)


def test_every_codec_can_be_had_partly() -> None:
    assert decompress_partly("lz4-block", b"\x10a", 1) == (b"a", None)
    assert set(PACKED) | {"lz4-block"} == set(CODECS)
