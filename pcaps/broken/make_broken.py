"""Writes the captures of this folder: what disks, transfers, networks and people do, each done to a small sample.

``python pcaps/broken/make_broken.py`` writes them anew; a test holds them against this script. What is no capture at
all is made by that test alone (``unreadable``), since ``mqsniff check pcaps`` would stop at it.
"""

from __future__ import annotations

import gzip
import struct
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
PCAP = HERE.parent / "nsq" / "nsq-1.3.0-ipv6.pcap"
PCAPNG = HERE.parent / "nsq" / "nsq-1.3.0-go-backoff.pcapng"
KAFKA = HERE.parent / "kafka" / "kafka-4.4-sasl-raw-v0-java.pcap"
PACKED = HERE.parent / "kafka" / "kafka-0.10.2.2-mixed-magic-mix.c.pcap"
FILE_HEAD, RECORD_HEAD = 24, 16


def records(data: bytes) -> list[int]:
    """Where the packet records of a little-endian pcap begin."""
    starts, at = [], FILE_HEAD
    while at < len(data):
        starts.append(at)
        at += RECORD_HEAD + struct.unpack_from("<I", data, at + 8)[0]
    return starts


def with_size(data: bytes, at: int, size: int) -> bytes:
    """A pcap whose record at this offset says that so many bytes were captured."""
    return data[: at + 8] + struct.pack("<I", size) + data[at + 12 :]


def blocks(data: bytes) -> list[int]:
    """Where the blocks of a little-endian pcapng begin."""
    starts, at = [], 0
    while at < len(data):
        starts.append(at)
        at += struct.unpack_from("<I", data, at + 4)[0]
    return starts


def zipped(data: bytes) -> bytes:
    """Compressed, with nothing of today in it."""
    head, unix = 9, b"\x03"  # RFC 1952 section 2.3.1: what Python writes there depends on its version
    made = gzip.compress(data, mtime=0)
    return made[:head] + unix + made[head + 1 :]


def packets(path: Path, count: int) -> list[bytes]:
    """The file head of a pcap, then its first packets with their record heads: each at its number."""
    data = path.read_bytes()
    at = records(data)
    return [data[:FILE_HEAD], *(data[start:stop] for start, stop in pairwise(at[: count + 1]))]


def patched(data: bytes, at: int, new: bytes) -> bytes:
    """Bytes with others at an offset; a negative one counts from the end."""
    at %= len(data)
    return data[:at] + new + data[at + len(new) :]


def later(record: bytes, seconds: int) -> bytes:
    """A packet that was captured later."""
    return patched(record, 0, struct.pack("<I", struct.unpack_from("<I", record)[0] + seconds))


def tagged(record: bytes, tags: int) -> bytes:
    """An Ethernet packet with VLAN tags."""
    inside = record[RECORD_HEAD:]
    frame = inside[:12] + b"\x81\x00\x00\x01" * tags + inside[12:]
    return record[:8] + struct.pack("<II", len(frame), len(frame)) + frame


def version_99(record: bytes) -> bytes:
    """A request of Kafka in a packet, as a client of the future sends it: another version, and a head with tags.

    The head has the size (4 bytes), API key, version, correlation id (4 bytes) and the client's name behind its size;
    the last byte of the name becomes the number of tags, 0.
    """
    head = RECORD_HEAD + 14 + 20 + 32  # behind Ethernet, IPv4, and TCP with timestamps
    size = struct.unpack_from(">H", record, head + 12)[0]
    record = patched(record, head + 6, struct.pack(">H", 99))
    return patched(patched(record, head + 12, struct.pack(">H", size - 1)), head + 14 + size - 1, bytes(1))


def odd() -> dict[str, bytes]:
    """File name -> content, of networks and programs at fault."""
    head, *talk = packets(PCAP, 24)  # a connection of NSQ over IPv6; packet 16 is a PUB of the client, 18 an MPUB
    before, pub, answer, mpub, after = talk[:15], talk[15], talk[16], talk[17], talk[18:]
    window = RECORD_HEAD + 14 + 40 + 14  # behind Ethernet, IPv6 and the first 14 bytes of TCP
    kafka, produce = packets(KAFKA, 36), 34
    packed, batch = packets(PACKED, 24), 23
    return {
        "said-twice.pcap": b"".join([head, *before, mpub, patched(mpub, -1, b"?"), pub, answer, *after]),
        "late.pcap": b"".join([head, *before, mpub, *(later(each, 2) for each in (pub, answer, *after))]),
        "window-of-0.pcap": b"".join(
            [head, *before, pub, patched(answer, window, bytes(2)), *(later(each, 2) for each in (mpub, *after))]
        ),
        "tags.pcap": b"".join([head, *before, pub, answer, tagged(mpub, 9), *after]),
        "byte-flipped.pcap": b"".join([*kafka[:produce], patched(kafka[produce], -3, b"?"), *kafka[produce + 1 :]]),
        "version-99.pcap": b"".join([*kafka[:produce], version_99(kafka[produce]), *kafka[produce + 1 :]]),
        "packed-broken.pcap": b"".join([*packed[:batch], patched(packed[batch], -30, b"?" * 9), *packed[batch + 1 :]]),
    }


def broken() -> dict[str, bytes]:
    """File name -> content."""
    pcap, pcapng = PCAP.read_bytes(), PCAPNG.read_bytes()
    at, block = records(pcap), blocks(pcapng)
    middle = block[len(block) // 2]
    return {
        "head-only.pcap": pcap[:FILE_HEAD],
        "record-head-cut.pcap": pcap[: at[40] + 7],
        "record-cut.pcap": pcap[: at[40] + RECORD_HEAD + 60],
        "record-too-long.pcap": with_size(pcap, at[40], 0xFFFF_FFF0),
        "record-too-short.pcap": with_size(pcap, at[40], 20),
        "record-lost.pcap": pcap[: at[40]] + pcap[at[40] + 9 :],
        "block-cut.pcapng": pcapng[: middle + 30],
        "block-of-size-0.pcapng": pcapng[: middle + 4] + bytes(4) + pcapng[middle + 8 :],
        "block-too-long.pcapng": pcapng[: middle + 4] + b"\xff\xff\xff\x7f" + pcapng[middle + 8 :],
        "sizes-disagree.pcapng": pcapng[: block[20] - 4] + bytes(4) + pcapng[block[20] :],
        "interface-unknown.pcapng": pcapng[: middle + 8] + struct.pack("<I", 7) + pcapng[middle + 12 :],
        "cut.pcap.gz": zipped(pcap)[: len(zipped(pcap)) // 2],
        **odd(),
    }


def unreadable() -> dict[str, tuple[bytes, str]]:
    """File name -> content, and what is said of it."""
    wanted = "expected pcap or pcapng"
    return {
        "empty.pcap": (b"", f"not a capture (empty); {wanted}"),
        "head-cut.pcap": (PCAP.read_bytes()[: FILE_HEAD - 1], "cut inside its file head"),
        "text.pcap": (b"A text file that somebody called a capture.\n" * 20, f"not a capture (text); {wanted}"),
        "text.pcap.gz": (zipped(b"no capture inside\n" * 20), f"not a capture (text inside gzip); {wanted}"),
    }


def main() -> None:
    """Write them."""
    for name, content in broken().items():
        (HERE / name).write_bytes(content)


if __name__ == "__main__":
    main()
