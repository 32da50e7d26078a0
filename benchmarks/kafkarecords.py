"""Record batches of Kafka as producers make them, for the traffic of the benchmarks: the same on every run.

1. A batch (magic 2) is written from the protocol guide; its records are one after the other, compressed as a whole.
2. Values are JSON of 20 bytes to 4 KiB, log-uniform; half of the records have a key, a third two headers.
3. A producer closes a batch at 16 KiB as they will be on the wire; it guesses how well they compress from the batches
   before. Here the guess is a number for each codec.
"""

from __future__ import annotations

import gzip
import struct
from random import Random
from typing import NamedTuple

import cramjam
import lz4.frame
import zstandard
from crc32c import crc32c

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their numbers in a batch's attributes."""
BATCH = 16_384
GUESSED = {"none": 1, "gzip": 3, "snappy": 2, "lz4": 2, "zstd": 3}
VALUE_MIN, VALUE_MAX = 20, 4096
TEXT = 1 << 20
WORDS = 1500
XERIAL_BLOCK = 32_768
EPOCH = 5


class Batch(NamedTuple):
    """A batch as its producer sends it."""

    data: bytes
    records: int

    def stored(self, offset: int) -> bytes:
        """As the broker keeps it and gives it to consumers: the checksum does not cover what it fills in."""
        return struct.pack(">q", offset) + self.data[8:12] + struct.pack(">i", EPOCH) + self.data[16:]


def varint(number: int) -> bytes:
    """A number that is not negative, zigzag."""
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_VARINTS = [varint(number) for number in range(2 * VALUE_MAX)]
_NULL = b"\x01"


def record(time_delta: int, offset_delta: int, key: bytes | None, value: bytes, headers: bytes) -> bytes:
    """One record; ``headers`` are encoded already, their count included."""
    keyed = _NULL if key is None else _VARINTS[len(key)] + key
    body = b"".join((b"\0", _VARINTS[time_delta], _VARINTS[offset_delta], keyed, _VARINTS[len(value)], value, headers))
    return _VARINTS[len(body)] + body


def packed(codec: str, data: bytes) -> bytes:
    """Records as a client's library compresses them."""
    match codec:
        case "gzip":
            return gzip.compress(data, 6, mtime=0)
        case "snappy":
            blocks = (data[at : at + XERIAL_BLOCK] for at in range(0, len(data), XERIAL_BLOCK))
            made = (bytes(cramjam.snappy.compress_raw(block)) for block in blocks)
            return b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"".join(struct.pack(">i", len(m)) + m for m in made)
        case "lz4":
            return lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False)
        case "zstd":
            return zstandard.ZstdCompressor(3).compress(data)
    return data


class Records:
    """Makes the batches of one partition."""

    def __init__(self, random: Random, text: bytes, codec: str, producer_id: int) -> None:
        self._random = random
        self._text = text
        self._codec = codec
        self._producer_id = producer_id
        self._sequence = 0
        self._made = 0

    def batch(self, now_ms: int) -> Batch:
        """The next full batch."""
        room = BATCH * GUESSED[self._codec]
        records, size = [], 0
        while size < room:
            made = self._record(len(records))
            records.append(made)
            size += len(made)
        count = len(records)
        body = packed(self._codec, b"".join(records))
        times = (now_ms, now_ms + (count - 1) // 4)
        who = (self._producer_id, 0, self._sequence)
        checked = struct.pack(">hiqqqhii", CODECS.index(self._codec), count - 1, *times, *who, count) + body
        self._sequence += count
        return Batch(struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked)) + checked, count)

    def _record(self, index: int) -> bytes:
        random = self._random
        self._made += 1
        key = b"customer-%05d" % random.randrange(20_000) if random.random() < 1 / 2 else None
        size = int(VALUE_MIN * (VALUE_MAX / VALUE_MIN) ** random.random())
        at = random.randrange(TEXT - VALUE_MAX)
        value = b'{"n":%07d,"t":"%b"}' % (self._made, self._text[at : at + size - VALUE_MIN])
        headers = b"\x04\x0etraceid\x20%016x\x0csource\x10checkout" % random.getrandbits(64)
        return record(index // 4, index, key, value, headers if random.random() < 1 / 3 else b"\0")


def text(random: Random) -> bytes:
    """Words of which values are cut."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(random.choices(letters, k=random.randint(2, 11))) for _ in range(WORDS)]
    return " ".join(random.choices(words, k=TEXT // 4)).encode()[:TEXT]
