"""Compressed records: the codec's name, and the header checksum of LZ4 frames against the library's own."""

from __future__ import annotations

import itertools
import struct

import cramjam
import lz4.frame
import pytest
from record_craft import PACKINGS, XERIAL

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


def block(plain: bytes) -> bytes:
    """A block of xerial's format."""
    packed = bytes(cramjam.snappy.compress_raw(plain))
    return struct.pack(">i", len(packed)) + packed


@pytest.mark.parametrize(
    ("packed", "cap", "plain", "why"),
    [
        (XERIAL, 9, b"", None),
        (XERIAL + block(b"one") + block(b"two"), 9, b"onetwo", None),
        (XERIAL + block(b"one") + XERIAL + block(b"two"), 6, b"onetwo", None),
        (XERIAL + block(b"one") + block(b"two"), 5, b"one", TOO_LARGE),
        (XERIAL + block(b"one") + block(b"two")[:-1], 9, b"onetw", CUT),
        (XERIAL + block(b"one") + block(b"two")[:2], 9, b"one", CUT),
        (XERIAL[:12], 9, b"", CUT),
        (XERIAL + block(b"one"), 0, b"", TOO_LARGE),
        (XERIAL + block(b"one"), -1, b"", TOO_LARGE),
    ],
)
def test_a_xerial_frame_is_its_blocks_up_to_the_cap(packed: bytes, cap: int, plain: bytes, why: str | None) -> None:
    found, reason = plain_records(2, packed, cap)
    assert reason == why
    assert found[: len(plain)] == plain
    assert len(found) <= max(0, cap)
    assert found == plain or why == TOO_LARGE


@pytest.mark.parametrize("attributes", [0, 5, 6, 7])
def test_a_codec_that_nobody_knows_opens_nothing(attributes: int) -> None:
    assert plain_records(attributes, b"anything", 9) == (b"", "compressed by an unknown codec")


@pytest.mark.parametrize("content", [True, False])
@pytest.mark.parametrize("size", [True, False])
def test_only_a_checksum_with_the_mistake_of_old_clients_is_corrected(content: bool, size: bool) -> None:
    frame = bytearray(lz4.frame.compress(b"x" * 77, store_size=size, content_checksum=content))
    at = 14 if size else 6
    for checksum in range(256):
        frame[at] = checksum
        opens = checksum in (header_checksum(bytes(frame[4:at])), header_checksum(bytes(frame[:at])))
        assert (plain_records(3, bytes(frame), 100).why is None) is opens


@pytest.mark.parametrize("kept", range(8))
def test_a_frame_of_lz4_that_is_hardly_there_is_cut(kept: int) -> None:
    frame = lz4.frame.compress(b"x" * 77)
    assert plain_records(3, frame[:kept], 100).plain == b""
    assert plain_records(3, frame[:kept], 100).why is not None
