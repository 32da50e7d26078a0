"""The first bytes of an input in (uncompressed); the parser of its format, or what else the input is, out."""

from __future__ import annotations

from typing import Final

from mqsniff.limits import Limits
from mqsniff.model import CaptureInfo
from mqsniff.sources.parsers import Parser
from mqsniff.sources.pcap import MAGICS, PcapParser
from mqsniff.sources.pcapng import SECTION_MAGIC, PcapngParser

HEAD_SIZE: Final = 512
"""Enough for the magic of a tar archive at byte 257."""
HEAD_MIN: Final = 4

OTHERS: Final = (
    (0, b"snoop\0\0\0", "a snoop capture"),
    (0, b"GMBU", "a Network Monitor capture"),
    (0, b"RTSS", "a Network Monitor capture"),
    (0, b"XCP\0", "a NetXRay capture"),
    (0, b"TRSNIFF data", "a Sniffer capture"),
    (0, b"\xac\x01\x00\x1c", "an Ixia capture"),
    (0, b"\xab\x01\x00\x1c", "an Ixia capture"),
    (0, b"\x02\x21\x4c\x18", "data in lz4's legacy format"),
    (0, b"\x5d\x00\x00", "data in the lzma format that came before xz"),
    (0, b"\x1f\x9d", "data compressed by compress"),
    (0, b"\x1f\x8b", "compressed a second time"),
    (0, b"\x28\xb5\x2f\xfd", "compressed a second time"),
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (0, b"Rar!", "a RAR archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"%PDF", "a PDF"),
    (0, b"PAR1", "a Parquet file"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"\x7fELF", "a program"),
    (0, b"MZ", "a program"),
    (0, b"<?xml", "XML"),
    (0, b"{", "JSON"),
)
"""Files that are given by mistake: (offset of the magic, magic, what the file is)."""


def parser_for(head: bytes, info: CaptureInfo, limits: Limits) -> Parser | None:
    """A parser for the capture with these first bytes, or None with ``info.unreadable`` set."""
    if head[:4] in MAGICS:
        return PcapParser(info, limits)
    if head.startswith(SECTION_MAGIC):
        return PcapngParser(info, limits)
    inside = f" inside {info.compression}" if info.compression else ""
    info.unreadable = f"not a capture ({_kind_of(head)}{inside}); expected pcap or pcapng"
    return None


def _kind_of(head: bytes) -> str:
    """What a file that is no capture is, in words."""
    if not head:
        return "empty"
    for at, magic, kind in OTHERS:
        if head[at : at + len(magic)] == magic:
            return kind
    if head.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "HTML"
    if not head.strip(b"\0"):
        return "zeros"
    return "text" if _is_text(head) else f"it begins with the bytes {head[:4].hex(' ')}"


def _is_text(head: bytes) -> bool:
    """Whether the bytes, which may end inside a character, are text."""
    text = head.decode("utf-8", "ignore")
    return len(text.encode()) > len(head) - 4 and all(letter.isprintable() or letter in "\t\r\n\f" for letter in text)
