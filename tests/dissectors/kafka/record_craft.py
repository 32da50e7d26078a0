"""Record data made by kafka-python's builders, and packed again in the ways that other clients pack it."""

from __future__ import annotations

import gzip
import struct
import warnings
from typing import NamedTuple

import cramjam
import lz4.frame
import zstandard

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords
    from kafka.record.util import calc_crc32, calc_crc32c

XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
HEAD = 61


class Plain(NamedTuple):
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


SOME = (
    Plain(1_600_000_000_000, b"key-0", b"value-0"),
    Plain(1_600_000_000_001, None, b"", (("trace", b"abc"), ("nul", None), ("", b""))),
    Plain(1_600_000_100_000, b"", None),
    Plain(1_599_999_999_990, b"k" * 100, b"v" * 70_000, (("ü", "ü".encode()),)),
)


def batch(
    records: tuple[Plain, ...] = SOME,
    *,
    base: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytes:
    """A batch of magic 2; its base offset is put in as a broker does, outside of the checksum."""
    builder = DefaultRecordBatchBuilder(2, 0, int(transactional), *producer, 1 << 24)
    for index, one in enumerate(records):
        appended = builder.append(
            index, timestamp=one.timestamp, key=one.key, value=one.value, headers=list(one.headers)
        )
        assert appended is not None
    return struct.pack(">q", base) + bytes(builder.build())[8:]


def patched(raw: bytes, packed: bytes | None = None, **fields: int) -> bytes:
    """A batch with other records or head fields, its length and checksum made right."""
    at = {
        "attributes": (21, ">h"),
        "last_offset_delta": (23, ">i"),
        "base_timestamp": (27, ">q"),
        "max_timestamp": (35, ">q"),
        "producer_id": (43, ">q"),
        "base_sequence": (53, ">i"),
        "count": (57, ">i"),
    }
    data = bytearray(raw if packed is None else raw[:HEAD] + packed)
    for name, value in fields.items():
        offset, letter = at[name]
        struct.pack_into(letter, data, offset, value)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    return bytes(data)


def message_set(records: tuple[Plain, ...], magic: int, codec: int = 0) -> bytes:
    """Messages of magic 0 or 1; with a codec, one wrapper."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 24)
    for index, one in enumerate(records):
        builder.append(index, one.timestamp if magic else None, one.key, one.value)
    return bytes(builder.build())


def wrapper(packed: bytes, magic: int, attributes: int, offset: int, timestamp: int = -1) -> bytes:
    """A compressed message around ``packed``."""
    stamp = struct.pack(">q", timestamp) if magic else b""
    rest = struct.pack(">bb", magic, attributes) + stamp + struct.pack(">ii", -1, len(packed)) + packed
    return struct.pack(">qiI", offset, len(rest) + 4, calc_crc32(rest)) + rest


def kafka_python_reads(
    data: bytes,
) -> list[tuple[int, int | None, bytes | None, bytes | None, list[tuple[str, bytes]]]]:
    """What kafka-python makes of a field: (offset, timestamp, key, value, headers)."""
    found = []
    field = MemoryRecords(data)
    while (one := field.next_batch()) is not None:
        found += [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in one]
    return found


# ---- how clients pack


def _xerial(plain: bytes, size: int, *, repeated: bool) -> bytes:
    packed = XERIAL
    for at in range(0, len(plain), size):
        block = bytes(cramjam.snappy.compress_raw(plain[at : at + size]))
        packed += struct.pack(">i", len(block)) + block
        if repeated:
            packed += XERIAL
    return packed


def _lz4_with_wrong_checksum(plain: bytes) -> bytes:
    """What old Java clients wrote for these flags; the byte is the one seen in their traffic (right is 82)."""
    packed = lz4.frame.compress(plain, block_linked=False, store_size=False)
    assert packed[4:7] == bytes.fromhex("604082")
    return packed[:6] + b"\x1a" + packed[7:]


def _two(packer: object, plain: bytes) -> bytes:
    assert callable(packer)
    half = len(plain) // 2
    return packer(plain[:half]) + packer(plain[half:])


def _zstd_without_size(plain: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(plain)


PACKINGS = {
    "gzip": (1, gzip.compress),
    "gzip of two members": (1, lambda plain: _two(gzip.compress, plain)),
    "snappy raw": (2, lambda plain: bytes(cramjam.snappy.compress_raw(plain))),
    "snappy xerial": (2, lambda plain: _xerial(plain, 32768, repeated=False)),
    "snappy xerial with repeated headers": (2, lambda plain: _xerial(plain, 1000, repeated=True)),
    "lz4": (3, lambda plain: lz4.frame.compress(plain, block_linked=False)),
    "lz4 with the old wrong checksum": (3, _lz4_with_wrong_checksum),
    "zstd": (4, zstandard.ZstdCompressor().compress),
    "zstd without size": (4, _zstd_without_size),
    "zstd of two frames": (4, lambda plain: _two(_zstd_without_size, plain)),
}
