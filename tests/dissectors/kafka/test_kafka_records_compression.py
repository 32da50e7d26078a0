"""Compressed records: the codec's name, and the header checksum of LZ4 frames against the library's own."""

from __future__ import annotations

import itertools

import lz4.frame
import pytest
from record_craft import PACKINGS

from mqsniff.codecs.blocks import CUT, TOO_LARGE
from mqsniff_kafka.records.compression import codec_name, header_checksum, plain_records


@pytest.mark.parametrize(
    ("linked", "size", "block", "content"),
    list(itertools.product((True, False), (True, False), (4, 5, 6, 7), (True, False))),
)
def test_the_header_checksum_is_the_librarys(linked: bool, size: bool, block: int, content: bool) -> None:
    frame = lz4.frame.compress(
        b"x" * 77, block_linked=linked, store_size=size, block_size=block, content_checksum=content
    )
    stop = 14 if size else 6
    assert header_checksum(frame[4:stop]) == frame[stop]


def test_a_frame_whose_checksum_counted_its_magic_and_told_its_size_is_read() -> None:
    frame = bytearray(lz4.frame.compress(b"x" * 77, store_size=True))
    frame[14] = header_checksum(bytes(frame[:14]))
    assert plain_records(3, bytes(frame), 100) == (b"x" * 77, None)


@pytest.mark.parametrize(("attributes", "name"), [(0, "none"), (0x1B, "lz4"), (4, "zstd"), (0x25, "unknown(5)")])
def test_the_codec_is_the_lowest_three_bits(attributes: int, name: str) -> None:
    assert codec_name(attributes) == name


@pytest.mark.parametrize("name", PACKINGS)
def test_no_packing_becomes_more_than_the_cap(name: str) -> None:
    codec, pack = PACKINGS[name]
    plain, why = plain_records(codec, pack(bytes(100_000)), 70_000)
    assert why == TOO_LARGE
    assert plain == bytes(len(plain))
    assert len(plain) <= 70_000


def test_a_xerial_frame_that_is_cut_gives_its_blocks() -> None:
    codec, pack = PACKINGS["snappy xerial"]
    text = bytes(range(256)) * 500
    packed = pack(text)
    for kept in range(17, len(packed), 100):
        plain, why = plain_records(codec, packed[:kept], 1 << 20)
        assert text.startswith(plain)
        assert why == CUT
