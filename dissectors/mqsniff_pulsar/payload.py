"""What stands behind a SEND or MESSAGE command in: entry metadata, metadata, checksum and the payload's place out.

1. The CRC-32C covers the size of the metadata, the metadata and the payload: not the command, not the entry metadata.
   It is checked where every byte of the frame is there.
2. A frame that was cut gives what its bytes tell; of parts that cannot be, the message is emitted all the same.
3. ``plain_payload`` opens a payload. An encrypted one stays sealed, and so does a chunk of something compressed, which
   opens only together with the others. Java's ZLIB streams are flushed and never finished.

Sources: ``Commands.serializeMetadataAndPayload``, ``CompressionCodecProvider``, ``ConsumerImpl`` of Apache Pulsar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from crc32c import crc32c

from mqsniff import model
from mqsniff.codecs.blocks import CUT, decompress_partly
from mqsniff.limits import Limits
from mqsniff.model import Frame, Problem, Undecoded
from mqsniff.spec.wire import Malformed
from mqsniff_pulsar import messages
from mqsniff_pulsar.frames import HEAD, Parts, split_payload

CODECS: Final[Mapping[str, str]] = {"LZ4": "lz4-block", "ZLIB": "zlib", "ZSTD": "zstd", "SNAPPY": "snappy"}
"""CompressionType -> the codec's name in ``mqsniff.codecs.blocks``; NONE stands for itself."""


@dataclass(slots=True)
class Payload:
    """The parts behind a command."""

    entry: dict[str, Any] | None = None
    """BrokerEntryMetadata."""
    metadata: dict[str, Any] | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    """The numbers of the frame's layout as far as they were captured: sizes of the command and of both metadata, and
    the CRC-32C (``checksum``)."""
    checksum_ok: bool | None = None
    """None for a frame without checksum, and for one that is not whole."""
    start: int = 0
    """Where the payload starts in the frame; it goes to the end."""
    size: int = 0
    problems: list[Problem] = field(default_factory=list)

    def put_into(self, body: dict[str, Any]) -> None:
        """Give the parts their places in the body of the command."""
        if self.entry is not None:
            body["broker_entry_metadata"] = self.entry
        if self.metadata is not None:
            body["metadata"] = self.metadata
        told: dict[str, Any] = {} if self.metadata is None else {"size": self.size}
        if self.checksum_ok is not None:
            told["checksum_ok"] = self.checksum_ok
        body["payload"] = told | self.sizes


def read_payload(frame: Frame, at: int, limits: Limits) -> tuple[Payload, Undecoded | None]:
    """(the parts that stand from ``at`` on, what stands there instead where they cannot be)."""
    data, payload = frame.data, Payload(sizes={"command_size": at - HEAD})
    try:
        parts = split_payload(data, at, frame.size)
    except Malformed as error:
        payload.problems.append(Problem("malformed", "error", str(error), "metadata"))
        return payload, Undecoded(data[at:])
    _tell_sizes(payload.sizes, data, parts)
    if parts.entry[1]:
        payload.entry = _read(payload, "BrokerEntryMetadata", data, parts.entry, limits)
    if parts.checksum and frame.whole:
        _check(payload, data, parts.checksum)
    if parts.metadata[1]:
        payload.metadata = _read(payload, "MessageMetadata", data, parts.metadata, limits)
        payload.start, payload.size = parts.metadata[1], frame.size - parts.metadata[1]
    elif frame.whole:
        payload.problems.append(Problem("missing_field", "error", "no metadata behind the command", "metadata"))
        return payload, Undecoded(data[at:])
    return payload, None


OTHER_SIZE: Final = "the plain payload is not of uncompressed_size"

_PATHS: Final = {"BrokerEntryMetadata": "broker_entry_metadata", "MessageMetadata": "metadata"}


def _read(payload: Payload, name: str, data: bytes, place: tuple[int, int], limits: Limits) -> dict[str, Any]:
    start, stop = place
    decoded = messages.message_type(name).decode(data, start, min(stop, len(data)), limits)
    for problem in messages.problems_of(decoded, cut=stop > len(data)):
        problem.path = f"{_PATHS[name]}.{problem.path}".rstrip(".")
        payload.problems.append(problem)
    return with_payload(decoded.body)


def with_payload(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata of messages, its keys and the values of its properties marked as what goes with the payload."""
    for name in ("partition_key", "ordering_key"):
        if isinstance(metadata.get(name), str | bytes):
            metadata[name] = model.payload(metadata[name])
    for pair in metadata.get("properties", ()):
        if isinstance(pair, dict) and isinstance(pair.get("value"), str | bytes):
            pair["value"] = model.payload(pair["value"])
    return metadata


def _tell_sizes(sizes: dict[str, int], data: bytes, parts: Parts) -> None:
    """What stands in front of the parts."""
    for name, (start, stop) in (("broker_entry_metadata_size", parts.entry), ("metadata_size", parts.metadata)):
        if stop:
            sizes[name] = stop - start
    at = parts.checksum
    if at and at + 4 <= len(data):
        sizes["checksum"] = int.from_bytes(data[at : at + 4], "big")


def _check(payload: Payload, data: bytes, at: int) -> None:
    payload.checksum_ok = crc32c(memoryview(data)[at + 4 :]) == payload.sizes.get("checksum")
    if not payload.checksum_ok:
        payload.problems.append(Problem("checksum", "error", "the CRC-32C does not fit", "payload"))


def is_sealed(metadata: Mapping[str, Any]) -> bool:
    """Whether the payload cannot be opened: encrypted, or a chunk of something compressed."""
    if metadata.get("encryption_keys"):
        return True
    return "chunk_id" in metadata and metadata.get("compression", "NONE") != "NONE"


def is_plain(metadata: Mapping[str, Any]) -> bool:
    """Whether the payload is as its sender had it."""
    return metadata.get("compression", "NONE") == "NONE" and not is_sealed(metadata)


def plain_payload(metadata: Mapping[str, Any], packed: bytes, limits: Limits) -> tuple[bytes | None, Problem | None]:
    """(the payload as its sender had it, None where it cannot be had; what is odd about that).

    A damaged batch gives what stands before the damage.
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
    if size > limits.decompress_max:
        return None, Problem("limit", "error", "uncompressed_size is over decompress_max", "payload")
    plain, why = decompress_partly(CODECS[codec], packed, size)
    unfinished = codec == "ZLIB" and why == CUT
    if len(plain) == size and (why is None or unfinished):
        return plain, None
    why = why if why and not unfinished else OTHER_SIZE
    return plain if "num_messages_in_batch" in metadata else None, Problem("codec", "error", why, "payload")
