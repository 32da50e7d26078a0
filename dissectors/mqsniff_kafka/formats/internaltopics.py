"""Records of Kafka's internal topics.

1. ``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``: an int16 type before the key, an int16
   version before the value (shown as ``value_version`` if the value has a field ``version``); a null value is a
   deletion.
2. ``__cluster_metadata`` (``@metadata`` in the 2.8 preview) and ``__remote_log_metadata``: before the value are
   unsigned varints for the frame version, the type and the version; no key. Frame version 0 means the preview's
   layouts.
3. Metadata and assignments of classic groups are decoded by the group's protocol type and protocol.
4. Configuration values that may be secrets are hidden as in bodies.

Sources: Apache Kafka, ``CoordinatorRecordSerde``, ``MetadataRecordSerde``, ``RemoteLogMetadataSerde``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Malformed, read_int16
from mqsniff_kafka import specs
from mqsniff_kafka.configs import hide_secrets
from mqsniff_kafka.fieldpaths import field_paths_of
from mqsniff_kafka.formats import groups
from mqsniff_kafka.formats.cursor import Cursor
from mqsniff_kafka.formats.streams import decode_commit_metadata
from mqsniff_kafka.formats.structs import read_whole

COORDINATED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "__consumer_offsets": "consumer_offsets",
        "__transaction_state": "transaction_state",
        "__share_group_state": "share_group_state",
    }
)
"""Topic -> the page of its records in ``proto/kafka/records``."""
FRAMED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "__cluster_metadata": "cluster_metadata",
        "@metadata": "cluster_metadata",
        "__remote_log_metadata": "remote_log_metadata",
    }
)
METADATA_TOPICS: Final = frozenset(topic for topic, page in FRAMED.items() if page == "cluster_metadata")
PREVIEW: Final = "2.8"
_GROUP_METADATA: Final = 2
_MEMBER_METADATA: Final = 5
_LEGACY_OFFSET: Final = 0
_OFFSETS: Final = (_LEGACY_OFFSET, 1)


# ---- topics of the coordinators (rule 1)


def decode_coordinated(page: str, key: bytes, value: bytes | None) -> dict[str, Any]:
    """Key and value of a record of a coordinator's topic."""
    kind, pos = read_int16(key, 0, len(key))
    layouts = specs.record(page, "key", kind, 0)
    if not layouts:
        raise Malformed("unknown type of record")
    body: dict[str, Any] = {"key": {"type": kind, **read_whole(layouts, key, pos)}, "value": None}
    if value is not None:
        body["value"] = _value(page, kind, value)
    return body


def _value(page: str, kind: int, raw: bytes) -> dict[str, Any]:
    version, pos = read_int16(raw, 0, len(raw))
    layouts = specs.record(page, "value", kind, version)
    if page == "consumer_offsets" and kind == _LEGACY_OFFSET:
        layouts += specs.record(page, "value", kind + 1, version)
    if not layouts:
        raise Malformed("unknown version of a value")
    body = read_whole(layouts, raw, pos)
    body = {"value_version" if "version" in body else "version": version, **body}
    if page == "consumer_offsets":
        _open_members(kind, body)
        _open_metadata(kind, body)
    return body


def _open_metadata(kind: int, value: dict[str, Any]) -> None:
    """Decode the metadata that Kafka Streams commits with an offset."""
    metadata = value.get("metadata")
    if kind in _OFFSETS and isinstance(metadata, str) and (found := decode_commit_metadata(metadata)) is not None:
        value["metadata"] = found


def _open_members(kind: int, value: dict[str, Any]) -> None:
    """Decode metadata and assignments of a classic group's members, in place (rule 3)."""
    if kind == _GROUP_METADATA:
        protocol_type, protocol = value.get("protocol_type"), value.get("protocol")
        for member in value.get("members") or ():
            _replace(member, "subscription", groups.decode_member_metadata, protocol_type, protocol)
            _replace(member, "assignment", groups.decode_member_assignment, protocol_type, protocol)
    if kind == _MEMBER_METADATA:
        classic = value.get("classic_member_metadata") or {}
        for offered in classic.get("supported_protocols") or ():
            _replace(offered, "metadata", groups.decode_member_metadata, groups.CONSUMER, offered.get("name"))


def _replace(holder: dict[str, Any], field: str, decode: Any, protocol_type: object, protocol: object) -> None:
    """Replace bytes by their decoded content; bytes that do not fit stay."""
    try:
        holder[field] = decode(holder[field], protocol_type, protocol)
    except Malformed:
        return


# ---- topics of framed records (rule 2)


def decode_framed(page: str, raw: bytes) -> dict[str, Any]:
    """The value of a record of the metadata log or of the tiered-storage log."""
    cursor = Cursor(raw)
    frame_version, kind, version = cursor.uvarint(), cursor.uvarint(), cursor.uvarint()
    layouts = specs.record(page, "metadata", kind, version)
    fitting = _fitting(page, frame_version, layouts)
    for layout in fitting:
        try:
            body = read_whole((layout,), raw, cursor.pos)
        except Malformed:
            continue
        hide_secrets(field_paths_of(layout).configs, body)
        return {
            "frame_version": frame_version,
            "type": kind,
            "name": layout.name,
            "version": version,
            "value": body,
        }
    raise Malformed("no known layout fits" if fitting else "unknown type of record")


def _fitting(page: str, frame_version: int, layouts: tuple[Layout, ...]) -> tuple[Layout, ...]:
    """The preview's layouts, if any, for frame version 0; the others for other frames."""
    if page != "cluster_metadata":
        return layouts
    previews = tuple(layout for layout in layouts if layout.note == PREVIEW)
    if frame_version == 0 and previews:
        return previews
    return tuple(layout for layout in layouts if layout.note != PREVIEW)


# ---- all topics


def page_of(topic: str) -> tuple[Literal["coordinated", "framed"], str] | None:
    """(kind of layout, page) of a topic's records; None for other topics."""
    if topic in COORDINATED:
        return "coordinated", COORDINATED[topic]
    return ("framed", FRAMED[topic]) if topic in FRAMED else None
