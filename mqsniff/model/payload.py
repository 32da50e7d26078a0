"""Record data that stands in bodies: names of keys, values of headers; shown, unless the payload is redacted.

They are what they look like, a dict, text or bytes, to whoever reads them: only sinks that redact tell them apart.
This module stays Python: classes made of built-in ones gain nothing from being compiled.
"""

from __future__ import annotations

from typing import Any


class PayloadMap(dict[str, Any]):
    """Headers of a record by their names: the values go with the payload."""

    __slots__ = ()


class PayloadText(str):
    """A text that goes with the payload."""

    __slots__ = ()


class PayloadBytes(bytes):
    """Bytes that go with the payload."""

    __slots__ = ()


def payload(value: str | bytes) -> PayloadText | PayloadBytes:
    """A value as one that goes with the payload."""
    return PayloadText(value) if isinstance(value, str) else PayloadBytes(value)
