"""Decodes a structure by the layout that consumes all bytes; Malformed if none does.

1. If a version has several layouts, today's is taken if it fits exactly, else the first one that does.
2. After an int16 version: a newer version than known is read as the newest, as Kafka's clients do; the bytes after
   that are kept under ``unread``.
3. Bytes that do not fit their version may fit an older one: kafka-go writes subscriptions of version 1 with the fields
   of version 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import Malformed, read_int16
from mqsniff_kafka import specs


def read_whole(layouts: Iterable[Layout], raw: bytes, pos: int = 0) -> dict[str, Any]:
    """The body of ``raw[pos:]`` (rule 1)."""
    for layout in layouts:
        decoded = layout.decode(raw, pos)
        if decoded.broken is None and decoded.stop == len(raw):
            return decoded.body
    raise Malformed("no known layout fits")


def read_versioned(name: str, raw: bytes) -> dict[str, Any]:
    """A structure of ``proto/kafka/records`` with an int16 version, the first field of the result (rules 2 and 3)."""
    version, pos = read_int16(raw, 0, len(raw))
    if version < 0:
        raise Malformed("negative version")
    newest = specs.newest_data_version(name)
    if version <= newest:
        older = (layout for number in range(version, -1, -1) for layout in specs.data(name, number))
        return {"version": version, **read_whole(older, raw, pos)}
    decoded = specs.data(name, newest)[0].decode(raw, pos)
    if decoded.broken is not None:
        raise Malformed(decoded.broken.why)
    body: dict[str, Any] = {"version": version, **decoded.body}
    if decoded.stop < len(raw):
        body["unread"] = raw[decoded.stop :]
    return body
