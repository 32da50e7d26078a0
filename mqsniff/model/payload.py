"""Types for record data inside bodies (keys, values of headers, checksums), which ``--redact payload`` hides.

They behave as dict, str, bytes and int; only sinks that redact check for these types. This module is not compiled:
subclasses of built-in classes gain nothing from it.
"""

from __future__ import annotations

from typing import Any


class PayloadMap(dict[str, Any]):
    """Headers of a record by name; their values are payload."""

    __slots__ = ()


class PayloadText(str):
    """A text that is payload."""

    __slots__ = ()


class PayloadBytes(bytes):
    """Bytes that are payload."""

    __slots__ = ()


class PayloadChecksum(int):
    """A checksum over payload: a hash without a key, by which short payload can be guessed."""

    __slots__ = ()


def payload(value: str | bytes) -> PayloadText | PayloadBytes:
    """Mark a value as payload."""
    return PayloadText(value) if isinstance(value, str) else PayloadBytes(value)
