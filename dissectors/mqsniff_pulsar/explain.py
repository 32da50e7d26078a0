"""Every field of a frame beside its bytes, for ``mqsniff explain``.

1. Spans tile the frame: each starts where the one before it stopped, the last one covers the undecoded bytes.
2. The slots of a batch have spans of their own, those of a compressed payload in its plain bytes.
3. Payloads, keys and values of properties are marked as payload.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mqsniff.codecs.inflation import InflationBudget
from mqsniff.limits import Limits
from mqsniff.model import Frame, OpenedBytes, Span, Undecoded, payload
from mqsniff.spec.wire import Malformed
from mqsniff_pulsar.commands import PAYLOAD
from mqsniff_pulsar.frames import HEAD, split_payload
from mqsniff_pulsar.messages import message_type, read_command
from mqsniff_pulsar.payload import is_plain, plain_payload

_PAYLOAD: Final = re.compile(r"\.(?:(?:partition|ordering)_key|properties\[\d+\]\.value)$")
"""Metadata of a message that go with its payload, as ``payload.with_payload`` has them."""


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
    """Fields after the command of SEND and MESSAGE."""
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
    for span in message_type(name).spans(data, start, min(stop, len(data)), limits, path + "."):
        if isinstance(span.value, str | bytes) and _PAYLOAD.search(span.path) is not None:
            yield span._replace(value=payload(span.value))
        else:
            yield span


def _payload(frame: Frame, metadata_place: tuple[int, int], limits: Limits) -> Iterator[Span]:
    data, (start, at) = frame.data, metadata_place
    metadata = message_type("MessageMetadata").decode(data, start, min(at, len(data)), limits).body
    if at >= len(data):
        return
    if is_plain(metadata) or not frame.whole:
        batch = metadata.get("num_messages_in_batch", 0) if frame.whole else 0
        yield from _slots(data, at, batch, limits)
        return
    codec = str(metadata.get("compression", "NONE")).lower()
    budget = InflationBudget(limits)  # of this frame alone: it was decoded within its connection's budget
    budget.earn(len(data))
    plain, problem = plain_payload(metadata, data[at:], budget)
    if plain is None:
        why = problem.detail if problem is not None else "encrypted, or a chunk of something compressed"
        yield Span("payload", at, len(data), payload(data[at:]), f"payload: {why}")
        return
    spans = tuple(_slots(plain, 0, metadata.get("num_messages_in_batch", 0), limits))
    meaning = f"payload in {codec}, {len(plain)} bytes when opened"
    yield Span("payload", at, len(data), len(data) - at, meaning, OpenedBytes(codec, plain, spans))


def _slots(data: bytes, at: int, batch: int, limits: Limits) -> Iterator[Span]:
    """The messages of a plain batch; what is none is one span."""
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
            yield Span(f"{path}.payload", at, at + size, payload(data[at : at + size]), "payload")
        at += size
    if at < len(data):
        yield Span("payload", at, len(data), payload(data[at:]), "payload")


def _number(data: bytes, path: str, start: int, stop: int, meaning: str) -> Span:
    return Span(path, start, min(stop, len(data)), int.from_bytes(data[start:stop], "big"), meaning)
