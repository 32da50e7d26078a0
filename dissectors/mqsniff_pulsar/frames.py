"""The layout of Pulsar frames: their sizes, and the places of their parts.

Simple:        total u32 | command size u32 | BaseCommand
With payload:  total u32 | command size u32 | BaseCommand | [0x0e02 u16 | size u32 | BrokerEntryMetadata]
               | [0x0e01 u16 | CRC-32C u32] | metadata size u32 | MessageMetadata | payload to the end

1. All integers are big endian and unsigned; ``total`` does not count its own four bytes.
2. ``probe`` accepts a frame if the command's number, the tag of its field and the length of that field agree with both
   sizes. Those of Kafka frames (where API key 0 looks like a command size) and RocketMQ frames do not.
3. ``follow`` checks the two sizes; only above the size that brokers allow it also checks the command.
4. Both need at most HEAD_MAX bytes, and bytes after those that they needed never change their answer.

Sources: ``Commands`` and ``PulsarDecoder`` of Apache Pulsar; protobuf encoding guide.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mqsniff.dissector import NEED, NO_FRAME, Probed
from mqsniff.framing.lengthprefix import LengthPrefix
from mqsniff.limits import MIB
from mqsniff.model import Side
from mqsniff.spec.wire import Malformed
from mqsniff_pulsar.commands import COMMANDS, PAYLOAD

HEAD: Final = 8
"""Bytes of the two sizes."""
HEAD_MAX: Final = 160
COMMAND_SIZE_MAX: Final = 4
"""Bytes of the length of a command's content: 256 MiB."""

MAGIC_CHECKSUM: Final = 0x0E01
MAGIC_ENTRY: Final = 0x0E02

FRAME_ROOM: Final = 10_240
"""Bytes of a frame besides the largest message that the broker allows."""
MESSAGE_MAX: Final = 5_242_880
"""Largest message by default; CONNECTED may have another."""
PROBE_MAX: Final = 128 * MIB
"""Largest frame that ``probe`` accepts; brokers can be configured for more than 5 MiB."""
SIZE_MAX: Final = (1 << 31) - 1
"""Largest message size that can be configured: a Java int."""

PROBED: Final = LengthPrefix(4, 8, PROBE_MAX)
FOLLOWED: Final = LengthPrefix(4, 6, SIZE_MAX)

_FIELD_TAGS: Final = tuple(
    (COMMANDS[number].tag[2], (*COMMANDS[number].tag, 0)[3]) if number in COMMANDS else (0, 0) for number in range(256)
)
"""Number of a command -> the one or two bytes of its field's tag; zeros if there is none."""


def _tags() -> re.Pattern[bytes]:
    tags = sorted((command.tag for command in COMMANDS.values()), key=lambda tag: (len(tag), tag))
    return re.compile(b"|".join(re.escape(tag) for tag in tags))


_COMMAND_HEAD: Final = _tags()


def find_head(data: bytes, start: int) -> int:
    """First offset >= ``start`` where a frame may begin, by its command's number and tag."""
    found = _COMMAND_HEAD.search(data, start + HEAD)
    # The end of the data may have cut a head: at most three bytes of number and tag decide.
    return found.start() - HEAD if found else max(start, len(data) - HEAD - 3)


def probe(side: Side, head: bytes) -> Probed:
    """Size of the frame that must start here, sent by ``side``; see rule 2."""
    total = PROBED.size(head)
    if not isinstance(total, int):
        return total
    if len(head) < HEAD:
        return NEED
    stop = HEAD + int.from_bytes(head[4:HEAD], "big")
    if stop > total:
        return NO_FRAME
    content = _content(head, HEAD, stop)
    if not isinstance(content, tuple):
        return content
    command = COMMANDS[content[0]]
    if command.side not in (None, side):
        return NO_FRAME
    if command.name not in PAYLOAD:
        return total if total == stop else NO_FRAME
    return _probe_payload(head, stop, total)


def is_proof(side: Side, head: bytes) -> bool:
    """Whether a frame without payload starts here whose command fits both sizes exactly."""
    return (
        isinstance(probe(side, head), int) and int.from_bytes(head[:4], "big") == int.from_bytes(head[4:8], "big") + 4
    )


def has_right_checksum(side: Side, data: bytes, start: int) -> bool:
    """Whether a whole frame with payload and a right checksum starts at ``start``."""
    size = probe(side, data[start : start + HEAD_MAX])
    if not isinstance(size, int) or len(data) - start < size:
        return False
    frame = data[start : start + size]
    try:
        checksum = split_payload(frame, HEAD + int.from_bytes(frame[4:HEAD], "big"), size).checksum
    except Malformed:
        return False
    if not checksum:
        return False
    from crc32c import crc32c  # noqa: PLC0415  # this is loaded for every capture, whatever it holds

    stored = int.from_bytes(frame[checksum : checksum + 4], "big")
    return int(crc32c(memoryview(frame)[checksum + 4 :])) == stored


def content_of(data: bytes, start: int, stop: int) -> tuple[int, int] | None:
    """(number, offset of the content) of the command in ``data[start:stop]``, if it has the usual form.

    None if it has another form; IndexError if ``data`` is too short to decide. Hot: once a frame.
    """
    if data[start] != 0x08:
        return None
    number = data[start + 1]
    first, second = _FIELD_TAGS[number]
    at = start + 3
    if not first or data[start + 2] != first:
        return None
    if second:
        if data[at] != second:
            return None
        at += 1
    size = data[at]
    at += 1
    if size > 0x7F:
        size, at = _long_size(data, at, size & 0x7F)
    return (number, at) if at + size == stop else None


def _long_size(data: bytes, at: int, size: int) -> tuple[int, int]:
    """(length of several bytes, offset after it), whose first byte was read; -1 if it has too many bytes."""
    for shift in range(7, 7 * COMMAND_SIZE_MAX, 7):
        byte = data[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, at
    return -1, at


def _content(data: bytes, start: int, stop: int) -> tuple[int, int] | Probed:
    """As ``content_of``, for bytes that may be no command."""
    if stop - start < 4:
        return NO_FRAME
    try:
        return content_of(data, start, stop) or NO_FRAME
    except IndexError:
        return NEED


def _probe_payload(head: bytes, at: int, size: int) -> Probed:
    """Size of a frame with payload, by the two bytes after its command: a magic, or zeros of a metadata size."""
    if size - at < 4:
        return NO_FRAME
    if at + 2 > HEAD_MAX:
        return size
    mark = head[at : at + 2]
    if mark in (b"\x0e\x01", b"\x0e\x02", b"\x00\x00"):
        return size
    return NEED if len(mark) < 2 and mark in (b"", b"\x0e", b"\x00") else NO_FRAME


def follow(head: bytes, message_max: int) -> Probed:
    """Size of the frame that starts here in step, if the broker allows messages of ``message_max`` bytes."""
    total = FOLLOWED.size(head)
    if not isinstance(total, int):
        return total
    if len(head) < HEAD:
        return NEED
    stop = HEAD + int.from_bytes(head[4:HEAD], "big")
    if not HEAD + 2 <= stop <= total:
        return NO_FRAME
    if total > 4 + message_max + FRAME_ROOM:
        content = _content(head, HEAD, stop)
        if not isinstance(content, tuple):
            return content
    return total


class Parts(NamedTuple):
    """Spans of the parts of a frame with payload, as offsets in the frame; (0, 0) if missing.

    They lie inside the frame's size; their bytes may not all be captured.
    """

    entry: tuple[int, int]
    """BrokerEntryMetadata."""
    checksum: int
    """Offset of the CRC-32C, which covers all bytes after it; 0: none."""
    metadata: tuple[int, int]
    """MessageMetadata; the payload follows."""


def split_payload(data: bytes, at: int, size: int) -> Parts:
    """The parts from ``at`` on in a frame of ``size`` bytes; Malformed if one is longer than the frame.

    If a cut frame ends before the size of the metadata, their span is (0, 0).
    """
    entry, checksum = (0, 0), 0
    try:
        if _u16(data, at) == MAGIC_ENTRY:
            entry = _sized(data, at + 2, size)
            at = entry[1]
        if _u16(data, at) == MAGIC_CHECKSUM:
            checksum = at + 2
            at += 6
        return Parts(entry, checksum, _sized(data, at, size))
    except IndexError:
        return Parts(entry, checksum, (0, 0))


def _u16(data: bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _sized(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Span of the bytes after a size of four bytes."""
    size = _u16(data, at) << 16 | _u16(data, at + 2)
    start = at + 4
    if start + size > end:
        raise Malformed("length past the end")
    return start, start + size
