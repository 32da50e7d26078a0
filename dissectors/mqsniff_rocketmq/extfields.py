"""Types the extFields of a header by its class.

1. Text is converted to the type in the class; if it cannot be, it stays text, with a problem. Other SDKs write numbers
   instead of text: they stay numbers.
2. Fields that the class does not have are kept under ``unknown_fields`` by their wire names.
3. ``note_missing`` reports required fields that are missing, null or empty.

Source: RemotingCommand.decodeCommandCustomHeader of apache/rocketmq.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mqsniff.model import Secret, Value, payload
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.tables import BOOL, INT32, SECRET, TEXT, HeaderClass, HeaderField
from mqsniff_rocketmq.texts import FORMATS, holds_secret, is_secret_name

PATH: Final = "ext_fields"
_BOOLS: Final = {"true": True, "false": False}
PROPERTIES: Final = "properties"
"""Format of fields with properties of messages."""
_INT32_MAX: Final = 0x7FFF_FFFF
_INT64_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF


def read_ext(ext: Mapping[str, Any], header: HeaderClass, notes: ProblemNotes) -> dict[str, Any]:
    """The fields in the order of the wire. Hot: once a field."""
    found: dict[str, Any] = {}
    fields = header.fields
    for key, value in ext.items():
        field = fields.get(key)
        if field is None:
            found.setdefault("unknown_fields", {})[key] = _unknown(key, value)
            continue
        name, kind, _ = field
        if type(value) is not str:
            found[name] = _foreign(field, value)
        elif kind == TEXT:
            found[name] = value
        elif kind < BOOL:
            plain = len(value) < 10 and value.isdigit() and value.isascii()
            found[name] = int(value) if plain else _number(value, name, kind, notes)
        elif kind == BOOL:
            found[name] = _boolean(value, name, notes)
        elif kind == SECRET:
            found[name] = Secret(value.encode())
        else:
            found[name] = _formatted(field, value, notes)
    return found


def note_missing(found: Mapping[str, Any], header: HeaderClass, notes: ProblemNotes) -> None:
    """Note the required fields (@CFNotNull) that are missing."""
    if header.required <= found.keys() and None not in found.values():
        return
    for name in sorted(header.required):
        if found.get(name) is None:
            notes.note("missing_field", "warning", "a required field is not there", f"{PATH}.{name}")


def _number(text: str, name: str, kind: int, notes: ProblemNotes) -> int | str | None:
    """An int32 or int64, as Integer.parseInt and Long.parseLong read it."""
    plain = text.isdigit() and text.isascii()
    if not plain and not (text[:1] in ("-", "+") and text[1:].isdigit() and text.isascii()):
        if not text:
            return None
        notes.note("format", "warning", "text where a number should be", f"{PATH}.{name}")
        return text
    top = _INT32_MAX if kind == INT32 else _INT64_MAX
    number = int(text) if len(text) <= 20 else top + 1
    if not -top - 1 <= number <= top:
        notes.note("out_of_range", "warning", "a number too large for its type", f"{PATH}.{name}")
        return text
    return number


def _boolean(text: str, name: str, notes: ProblemNotes) -> bool | str | None:
    """A boolean; Boolean.parseBoolean reads any other text as false, so it is noted."""
    value = _BOOLS.get(text)
    if value is not None or not text:
        return value
    value = _BOOLS.get(text.lower())
    notes.note("format", "info", "a boolean in another form", f"{PATH}.{name}")
    return text if value is None else value


def _formatted(field: HeaderField, text: str, notes: ProblemNotes) -> Value:
    value = FORMATS[field.format](text)
    if value is None:
        notes.note("format", "warning", "text that is not in its format", f"{PATH}.{field.name}")
        return payload(text) if field.format == PROPERTIES else text
    return value


def _foreign(field: HeaderField, value: Any) -> Value:
    """A value that is no text; a secret stays wrapped."""
    if field.format == PROPERTIES and isinstance(value, bytes):
        return payload(value)
    if field.kind != SECRET or value is None:
        return value  # type: ignore[no-any-return]
    return Secret(value if isinstance(value, bytes) else str(value).encode())


def _unknown(key: str, value: Any) -> Value:
    if value is None or not (is_secret_name(key) or (isinstance(value, str) and holds_secret(value))):
        return value  # type: ignore[no-any-return]
    return Secret(value if isinstance(value, bytes) else str(value).encode())
