"""Formats inside bytes of Kafka's messages and records, by the mark of the field or by the topic.

1. The specification marks fields of bytes, and some of text, that hold a format; ``decode_marked`` reads them.
2. Bytes that do not have the format of their mark raise Malformed; ``EXPECTED`` names the format, for the problem.
   Bytes whose format cannot be known are returned as they are.
3. ``decode_record`` decodes a record of a topic whose format is known.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from mqsniff.model import Value
from mqsniff.spec.wire import Malformed
from mqsniff_kafka.formats import connect, groups, internaltopics, mirrormaker
from mqsniff_kafka.formats.control import decode_control
from mqsniff_kafka.formats.streams import decode_commit_metadata
from mqsniff_kafka.formats.structs import read_versioned

__all__ = [
    "EXPECTED",
    "NO_CONTEXT",
    "TEXTS",
    "FormatContext",
    "decode_control",
    "decode_marked",
    "decode_record",
    "internal_topic",
]


class FormatContext(NamedTuple):
    """What the message or its group says about a field of bytes."""

    protocol_type: object = None
    """Type of the group: "consumer", "connect", …"""
    protocol: object = None
    """The group's assignor, or that of a member's metadata."""
    codec: int | None = None
    """Codec by the message; None: detect it by the first bytes."""


NO_CONTEXT: Final = FormatContext()


def _principal(raw: bytes, _: FormatContext) -> Value:
    return read_versioned("DefaultPrincipalData", raw)


def _address(raw: bytes, _: FormatContext) -> Value:
    if len(raw) not in (4, 16):
        raise Malformed("no address")
    return str(ipaddress.ip_address(raw))


def _metrics(raw: bytes, context: FormatContext) -> Value:
    from mqsniff_kafka.formats.telemetry import decode_metrics  # noqa: PLC0415  # protobuf only where it is met

    return decode_metrics(raw, context.codec)


_DECODERS: Final[Mapping[str, Callable[[bytes, FormatContext], Value]]] = MappingProxyType(
    {
        "member_metadata": lambda raw, context: groups.decode_member_metadata(
            raw, context.protocol_type, context.protocol
        ),
        "member_assignment": lambda raw, context: groups.decode_member_assignment(
            raw, context.protocol_type, context.protocol
        ),
        "principal": _principal,
        "ip_address": _address,
        "otlp_metrics": _metrics,
    }
)

EXPECTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "member_metadata": "expected metadata of a group member",
        "member_assignment": "expected an assignment of a group member",
        "principal": "expected a principal",
        "ip_address": "expected an IP address",
        "otlp_metrics": "expected OTLP metrics",
    }
)
"""Mark -> text of the problem if its bytes do not have the format."""

TEXTS: Final[Mapping[str, Callable[[str], dict[str, Any] | None]]] = MappingProxyType(
    {"commit_metadata": decode_commit_metadata}
)
"""Mark of a text -> its decoder, which returns None for text without the format: that is no problem."""


def decode_marked(mark: str, data: bytes, context: FormatContext = NO_CONTEXT) -> Value:
    """Decode the bytes of a field with this mark; Malformed if they do not have its format.

    KeyError for a mark that is not in ``EXPECTED``.
    """
    return _DECODERS[mark](data, context)


def internal_topic(topic: str) -> bool:
    """Whether ``decode_record`` can decode records of a topic."""
    return internaltopics.page_of(topic) is not None or _decoder_of(topic) is not None


def _decoder_of(topic: str) -> mirrormaker.Decode | None:
    """The decoder for a topic that is recognised by a part of its name."""
    return mirrormaker.decoder_of(topic) or connect.decoder_of(topic)


def decode_record(topic: str, key: bytes | None, value: bytes | None) -> Value:
    """The content of a record; None for a topic without a known format, and for bytes that do not fit."""
    try:
        return _record(topic, key, value)
    except Malformed:
        return None


def _record(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    page = internaltopics.page_of(topic)
    if page is not None:
        layout, name = page
        if layout == "framed":
            return internaltopics.decode_framed(name, value) if value is not None else None
        return internaltopics.decode_coordinated(name, key, value) if key is not None else None
    decode = _decoder_of(topic)
    return decode(key, value) if decode is not None and key is not None else None
