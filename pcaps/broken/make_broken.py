"""Writes the captures of this folder: what disks, transfers and people do to captures, each done to one small sample.

``python pcaps/broken/make_broken.py`` writes them anew; a test holds them against this script. What is no capture at
all is made by that test alone (``unreadable``), since ``mqsniff check pcaps`` would stop at it.
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

HERE = Path(__file__).parent
PCAP = HERE.parent / "nsq" / "nsq-1.3.0-ipv6.pcap"
PCAPNG = HERE.parent / "nsq" / "nsq-1.3.0-go-backoff.pcapng"
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
