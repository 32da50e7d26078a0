"""Every field of a frame beside its bytes, for ``mqsniff explain``.

1. Spans tile the frame: each starts where the one before it stopped, the last one covers the undecoded bytes.
2. The payload is one span; if it is an uncompressed batch, its messages have spans too.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqsniff.limits import Limits
from mqsniff.model import Frame, Span, Undecoded
from mqsniff.spec.wire import Malformed
from mqsniff_pulsar.commands import PAYLOAD
from mqsniff_pulsar.frames import HEAD, split_payload
from mqsniff_pulsar.messages import message_type, read_command
from mqsniff_pulsar.payload import is_plain


def frame_spans(frame: Frame, limits: Limits) -> Iterator[Span]:
    """Every field of a frame."""
    at = 0
    for span in _fields(frame, limits):
        yield span
        at = span.stop
    if at < len(frame.data):
        yield Span("undecoded", at, len(frame.data), Undecoded(frame.data[at:]), "undecoded")


def _fields(frame: Frame, limits: Limits) -> Iterator[Span]:
    data = frame.data
    if len(data) <= HEAD:
        return
    yield _number(data, "total_size", 0, 4, "uint32")
    yield _number(data, "command_size", 4, 8, "uint32")
    stop = HEAD + int.from_bytes(data[4:8], "big")
    yield from message_type("BaseCommand").spans(data, HEAD, min(stop, len(data)), limits)
    if stop < len(data) and read_command(data, HEAD, stop, limits).name in PAYLOAD:
        yield from _behind(frame, stop, limits)


def _behind(frame: Frame, at: int, limits: Limits) -> Iterator[Span]:
    """Fields behind the command of SEND and MESSAGE."""
    data = frame.data
    try:
        parts = split_payload(data, at, frame.size)
    except Malformed:
        return
    if parts.entry[1]:
        yield _number(data, "broker_entry_metadata", at, at + 2, "magic")
        yield from _sized(data, "BrokerEntryMetadata", "broker_entry_metadata", parts.entry, limits)
        at = parts.entry[1]
    if parts.checksum:
        yield _number(data, "checksum", at, at + 2, "magic")
        yield _number(data, "checksum", at + 2, at + 6, "CRC-32C of all that follows")
    if not parts.metadata[1]:
        return
    yield from _sized(data, "MessageMetadata", "metadata", parts.metadata, limits)
    yield from _payload(frame, parts.metadata, limits)


def _sized(data: bytes, name: str, path: str, place: tuple[int, int], limits: Limits) -> Iterator[Span]:
    start, stop = place
    yield _number(data, path, start - 4, start, "size")
    yield from message_type(name).spans(data, start, min(stop, len(data)), limits, path + ".")


def _payload(frame: Frame, metadata_place: tuple[int, int], limits: Limits) -> Iterator[Span]:
    data, (start, at) = frame.data, metadata_place
    metadata = message_type("MessageMetadata").decode(data, start, min(at, len(data)), limits).body
    batch = metadata.get("num_messages_in_batch", 0) if is_plain(metadata) and frame.whole else 0
    for index in range(min(batch, limits.elements_max)):
        path = f"payload[{index}]"
        single, stop = at + 4, at + 4 + int.from_bytes(data[at : at + 4], "big")
        if stop > len(data) or single > len(data):
            break
        size = message_type("SingleMessageMetadata").decode(data, single, stop, limits).body.get("payload_size", -1)
        yield from _sized(data, "SingleMessageMetadata", path, (single, stop), limits)
        at = stop
        if not 0 <= size <= len(data) - at:
            break
        if size:
            yield Span(f"{path}.payload", at, at + size, data[at : at + size], "payload")
        at += size
    if at < len(data):
        yield Span("payload", at, len(data), data[at:], "payload")


def _number(data: bytes, path: str, start: int, stop: int, meaning: str) -> Span:
    return Span(path, start, min(stop, len(data)), int.from_bytes(data[start:stop], "big"), meaning)
