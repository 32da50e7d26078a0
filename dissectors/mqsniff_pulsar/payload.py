"""The parts after a SEND or MESSAGE command: entry metadata, metadata, checksum and payload.

1. The CRC-32C covers the size of the metadata, the metadata and the payload, but not the command and entry metadata. It
   is checked if the frame is whole.
2. A cut frame gives its captured parts. If a part is damaged, the message is given without it.
3. ``plain_payload`` decompresses a payload, unless it is encrypted or a chunk of a compressed message, which can only
   be decompressed as a whole. Java's ZLIB streams are flushed and never finished.

Sources: ``Commands.serializeMetadataAndPayload``, ``CompressionCodecProvider``, ``ConsumerImpl`` of Apache Pulsar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from crc32c import crc32c

from mqsniff import model
from mqsniff.codecs.blocks import CUT, decompress_partly
from mqsniff.codecs.inflation import PLAIN_SPENT, InflationBudget
from mqsniff.limits import Limits
from mqsniff.model import Frame, PayloadChecksum, Problem, Undecoded
from mqsniff.spec.wire import Malformed
from mqsniff_pulsar import messages
from mqsniff_pulsar.frames import HEAD, Parts, split_payload

CODECS: Final[Mapping[str, str]] = {"LZ4": "lz4-block", "ZLIB": "zlib", "ZSTD": "zstd", "SNAPPY": "snappy"}
"""CompressionType -> codec of ``mqsniff.codecs.blocks``."""
SNAPPY_FRAMES: Final = b"\xff\x06\x00\x00sNaPpY"
"""Begins the framing format, which the Rust client writes; others write one raw block."""


@dataclass(slots=True)
class Payload:
    """The parts after a command."""

    entry: dict[str, Any] | None = None
    """BrokerEntryMetadata."""
    metadata: dict[str, Any] | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    """The captured sizes of the command and of both metadata, and the CRC-32C (``checksum``)."""
    checksum_ok: bool | None = None
    """None if the frame has no checksum or is not whole."""
    start: int = 0
    """Offset of the payload in the frame; it reaches to the end."""
    size: int = 0
    problems: list[Problem] = field(default_factory=list)

    def put_into(self, body: dict[str, Any]) -> None:
        """Add the parts to the body of the command."""
        if self.entry is not None:
            body["broker_entry_metadata"] = self.entry
        if self.metadata is not None:
            body["metadata"] = self.metadata
        shown: dict[str, Any] = {} if self.metadata is None else {"size": self.size}
        if self.checksum_ok is not None:
            shown["checksum_ok"] = self.checksum_ok
        body["payload"] = shown | self.sizes


def read_payload(frame: Frame, at: int, limits: Limits) -> tuple[Payload, Undecoded | None]:
    """(the parts from ``at`` on, bytes that could not be decoded)."""
    data, payload = frame.data, Payload(sizes={"command_size": at - HEAD})
    try:
        parts = split_payload(data, at, frame.size)
    except Malformed as error:
        payload.problems.append(Problem("malformed", "error", str(error), "metadata"))
        return payload, Undecoded(data[at:])
    _add_sizes(payload.sizes, data, parts)
    if parts.entry[1]:
        payload.entry = _read(payload, "BrokerEntryMetadata", data, parts.entry, limits)
    if parts.checksum and frame.whole:
        _check(payload, data, parts.checksum)
    if parts.metadata[1]:
        payload.metadata = _read(payload, "MessageMetadata", data, parts.metadata, limits)
        payload.start, payload.size = parts.metadata[1], frame.size - parts.metadata[1]
    elif frame.whole:
        payload.problems.append(Problem("missing_field", "error", "no metadata after the command", "metadata"))
        return payload, Undecoded(data[at:])
    return payload, None


OTHER_SIZE: Final = "the uncompressed payload does not have uncompressed_size bytes"

_PATHS: Final = {"BrokerEntryMetadata": "broker_entry_metadata", "MessageMetadata": "metadata"}


def _read(payload: Payload, name: str, data: bytes, place: tuple[int, int], limits: Limits) -> dict[str, Any]:
    start, stop = place
    decoded = messages.message_type(name).decode(data, start, min(stop, len(data)), limits)
    for problem in messages.problems_of(decoded, cut=stop > len(data)):
        problem.path = f"{_PATHS[name]}.{problem.path}".rstrip(".")
        payload.problems.append(problem)
    return with_payload(decoded.body)


def with_payload(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata whose keys and values of properties are marked as payload, for ``--redact payload``."""
    for name in ("partition_key", "ordering_key"):
        if isinstance(metadata.get(name), str | bytes):
            metadata[name] = model.payload(metadata[name])
    for pair in metadata.get("properties", ()):
        if isinstance(pair, dict) and isinstance(pair.get("value"), str | bytes):
            pair["value"] = model.payload(pair["value"])
    return metadata


def _add_sizes(sizes: dict[str, int], data: bytes, parts: Parts) -> None:
    """Add the sizes before the parts."""
    for name, (start, stop) in (("broker_entry_metadata_size", parts.entry), ("metadata_size", parts.metadata)):
        if stop:
            sizes[name] = stop - start
    at = parts.checksum
    if at and at + 4 <= len(data):
        sizes["checksum"] = PayloadChecksum(int.from_bytes(data[at : at + 4], "big"))


def _check(payload: Payload, data: bytes, at: int) -> None:
    payload.checksum_ok = crc32c(memoryview(data)[at + 4 :]) == payload.sizes.get("checksum")
    if not payload.checksum_ok:
        payload.problems.append(Problem("checksum", "error", "the CRC-32C does not match", "payload"))


def is_sealed(metadata: Mapping[str, Any]) -> bool:
    """Whether the payload cannot be decompressed: it is encrypted, or a chunk of a compressed message."""
    if metadata.get("encryption_keys"):
        return True
    return "chunk_id" in metadata and metadata.get("compression", "NONE") != "NONE"


def is_plain(metadata: Mapping[str, Any]) -> bool:
    """Whether the payload is neither compressed nor encrypted."""
    return metadata.get("compression", "NONE") == "NONE" and not is_sealed(metadata)


def _format(codec: str, packed: bytes) -> str:
    return "snappy-frames" if codec == "SNAPPY" and packed.startswith(SNAPPY_FRAMES) else CODECS[codec]


def plain_payload(
    metadata: Mapping[str, Any], packed: bytes, budget: InflationBudget
) -> tuple[bytes | None, Problem | None]:
    """(plain payload, None if it cannot be decompressed; problem).

    A damaged batch gives the bytes before the damage.
    """
    codec = metadata.get("compression", "NONE")
    size = metadata.get("uncompressed_size")
    if is_sealed(metadata):
        return None, None
    if codec == "NONE":
        odd = size not in (None, len(packed)) and "chunk_id" not in metadata
        return packed, Problem("codec", "warning", OTHER_SIZE, "metadata.uncompressed_size") if odd else None
    if codec not in CODECS:
        return None, Problem("codec", "error", "compressed by an unknown codec", "metadata.compression")
    if size is None:
        return None, Problem("codec", "error", "uncompressed_size is missing", "metadata.uncompressed_size")
    if size > budget.limits.decompress_max:
        return None, Problem("limit", "error", "uncompressed_size is over decompress_max", "payload")
    if size > budget.plain_left:
        return None, Problem("limit", "error", PLAIN_SPENT, "payload")
    if not packed and not size:
        return packed, None  # the Rust client writes no frame for no bytes
    plain, why = decompress_partly(_format(codec, packed), packed, size)
    budget.spend(len(plain))
    unfinished = codec == "ZLIB" and why == CUT
    if len(plain) == size and (why is None or unfinished):
        return plain, None
    why = why if why and not unfinished else OTHER_SIZE
    return plain if "num_messages_in_batch" in metadata else None, Problem("codec", "error", why, "payload")
