"""Typed values in, JSON values out, redacted as the run asks: one encoding for all outputs.

1. Bytes are a string if they are valid UTF-8 without control characters (except tab, CR, LF), else {"base64": "…"}; a
   string that is not valid Unicode follows the rule for bytes.
2. A Secret is {"redacted": N}, Undecoded is {"undecoded": N, "hmac_sha256": "…"}, with N bytes, unless the user asks to
   see them. Hashes have a key, and without one there are none (``hashkey``).
3. NaN and infinities are text; integers stay integers, however long.
4. Every value from traffic can be serialised; nothing here raises on it.
5. Keys and values of records have an encoding: utf8, base64, redacted, or cut (the beginning of text). Binary that is
   cut stays base64: it is shorter than ``value_size``.
6. If the payload is redacted, values of headers, and keys and headers in bodies (``model.payload``), are
   {"redacted": N, "hmac_sha256": "…"}; the hashes of keys and values are columns. Checksums over payload are
   {"redacted": "checksum"}, as they are hashes without a key.
"""

from __future__ import annotations

import math
import re
from binascii import b2a_base64
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import orjson

from mqsniff.model import PayloadBytes, PayloadChecksum, PayloadMap, PayloadText, Secret, Undecoded, Value
from mqsniff.tables.hashkey import HashKey

Encoding: TypeAlias = Literal["utf8", "base64", "redacted", "cut"]

NESTING_MAX: Final = 200
"""Levels of nesting that are shown; orjson fails at 254."""

_CONTROL: Final = bytes((*range(9), 11, 12, *range(14, 32), 127))
"""C0 and DEL, but for tab, LF and CR."""
# In valid UTF-8 the byte C2 always leads, so this finds exactly the characters U+0080 to U+009F.
_CONTROL_HIGH: Final = re.compile(rb"\xc2[\x80-\x9f]")
_MAY_HOLD_FLOAT: Final = frozenset((float, dict, list, tuple))
_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Redaction:
    """How secrets, undecoded bytes and record data are shown."""

    secrets: bool = False
    raw: bool = False
    payload: bool = True
    max_bytes: int | None = None
    """Bytes of a record's key or value that are shown; None for all."""
    hash_key: HashKey | None = None
    """The key of hashes of what is not shown; None: no hashes."""

    def default(self, value: object) -> object:
        """The JSON value for a type that JSON does not have, by the rules; the ``default`` hook of orjson."""
        match value:
            case PayloadMap() | PayloadText() | PayloadBytes() | PayloadChecksum() if not self.payload:
                return self.redacted(value)
            case bytes():
                return text_or_base64(value)
            case Secret():
                return text_or_base64(value.data) if self.secrets else {"redacted": len(value)}
            case Undecoded():
                return text_or_base64(value.data) if self.raw else self.undecoded(value.data)
            case bytearray() | memoryview():
                return text_or_base64(bytes(value))
        raise TypeError(type(value).__name__)

    def json(self, value: Any) -> bytes:
        """A value as JSON."""
        return self.sure_json(value) or orjson.dumps(self.plain(value))

    def sure_json(self, value: Any, *, finite: bool = False) -> bytes | None:
        """A value as JSON if orjson follows the rules for it, else None; ``finite``: it holds no NaN or infinity."""
        encoded = self._fast_json(value)
        if encoded is None or finite or b"null" not in encoded:
            return encoded
        return None if _has_nonfinite(value) else encoded

    def row_json(self, row: dict[str, Any], objects: Collection[str]) -> bytes:
        """A row as JSON; columns of text stay text, whatever the traffic wrote."""
        encoded = self._fast_json(row)
        if encoded is None or (b"null" in encoded and any(_has_nonfinite(row.get(name)) for name in objects)):
            texts = {name: value if name in objects else escaped(value) for name, value in row.items()}
            return orjson.dumps({name: self.plain(value) for name, value in texts.items()})
        return encoded

    def _fast_json(self, value: Any) -> bytes | None:
        """The JSON that orjson makes, None if it fails; it writes null for NaN and infinities."""
        try:
            option = None if self.payload else orjson.OPT_PASSTHROUGH_SUBCLASS
            return orjson.dumps(value, default=self.default, option=option)
        except TypeError:
            return None

    def plain(self, value: Any, depth: int = 0) -> Any:
        """A copy of any value that JSON can hold."""
        match value:
            case PayloadMap() | PayloadText() | PayloadBytes() | PayloadChecksum() if not self.payload:
                return self.redacted(value)
            case None | bool():
                return value
            case int():
                return value if _INT_MIN <= value <= _INT_MAX else orjson.Fragment(_digits(value))
            case float():
                return value if math.isfinite(value) else _nonfinite(value)
            case str():
                return _valid(value)
            case dict() if depth < NESTING_MAX:
                return {escaped(str(key)): self.plain(inner, depth + 1) for key, inner in value.items()}
            case list() | tuple() if depth < NESTING_MAX:
                return [self.plain(inner, depth + 1) for inner in value]
            case dict() | list() | tuple():
                return {"nested_deeper_than": NESTING_MAX}
        try:
            return self.default(value)
        except TypeError:
            return {"no_value": type(value).__name__}

    def record_data(self, data: bytes, size: int) -> tuple[bytes | None, Encoding]:
        """(the shown key or value of a record, its encoding); ``data`` may be the start of its ``size`` bytes."""
        if not self.payload:
            return None, "redacted"
        if self.max_bytes is not None and len(data) > self.max_bytes:
            data = data[: self.max_bytes]
        if len(data) < size:
            start = _text_start(data)
            return (data, "base64") if start is None else (start, "cut")
        return data, "base64" if text_of(data) is None else "utf8"

    def record_text(self, data: bytes, size: int) -> tuple[str | None, Encoding]:
        """As ``record_data``, with base64 as text."""
        if self.payload and self.max_bytes is None and len(data) >= size and (text := text_of(data)) is not None:
            return text, "utf8"
        found, encoding = self.record_data(data, size)
        return None if found is None else base64(found) if encoding == "base64" else found.decode(), encoding

    def headers(self, headers: Iterable[tuple[str, bytes | None]]) -> list[dict[str, Any]]:
        """The headers of a record for the column ``headers``."""
        if self.payload:
            return [{"key": key, "value": value} for key, value in headers]
        return [{"key": key, "value": self.redacted(value)} for key, value in headers]

    def hash(self, data: bytes) -> str | None:
        """The hash of bytes that are not shown; None without a key."""
        return None if self.hash_key is None else self.hash_key.hash(data)

    def undecoded(self, data: bytes) -> dict[str, Any]:
        """Undecoded bytes: their size and hash."""
        return self._hashed("undecoded", data)

    def redacted(self, value: Any) -> Any:
        """Redacted payload: size and hash of text and bytes, the names of a map; null stays null."""
        match value:
            case str():
                return self._hashed("redacted", value.encode(errors="surrogatepass"))
            case bytes():
                return self._hashed("redacted", value)
            case dict():
                return {escaped(str(name)): self.redacted(inner) for name, inner in value.items()}
            case PayloadChecksum():
                return {"redacted": "checksum"}
        return None if value is None else {"redacted": type(value).__name__}

    def _hashed(self, what: str, data: bytes) -> dict[str, Any]:
        told: dict[str, Any] = {what: len(data)}
        if self.hash_key is not None:
            told["hmac_sha256"] = self.hash_key.hash(data)
        return told


def text_of(data: bytes) -> str | None:
    """Bytes as a string where they are readable text, else None."""
    if _has_control(data):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _has_control(data: bytes) -> bool:
    """Whether valid UTF-8 holds control characters; eight times as fast as one regular expression for all."""
    if len(data.translate(None, _CONTROL)) < len(data):
        return True
    return b"\xc2" in data and _CONTROL_HIGH.search(data) is not None


def base64(data: bytes) -> str:
    """Bytes in base64, on one line."""
    return b2a_base64(data, newline=False).decode()


def text_or_base64(data: bytes) -> Value:
    """The rule for bytes."""
    text = text_of(data)
    return {"base64": base64(data)} if text is None else text


def _text_start(data: bytes) -> bytes | None:
    """Bytes without a character that the cut at their end divides; None if they are no text."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return None
        data = data[: error.start]
    return None if _has_control(data) else data


def _has_nonfinite(value: object) -> bool:
    """Whether a value holds NaN or an infinity, which orjson writes as null."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return True
        elif isinstance(item, dict | list | tuple):
            inner = item.values() if isinstance(item, dict) else item
            if not _MAY_HOLD_FLOAT.isdisjoint(map(type, inner)):
                stack += [member for member in inner if type(member) in _MAY_HOLD_FLOAT]
    return False


def _nonfinite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def _digits(number: int) -> bytes:
    """An integer of any length as JSON; one beyond Python's limit for decimal text as a string of hex digits."""
    try:
        return str(number).encode()
    except ValueError:
        return f'"{number:#x}"'.encode()


def _valid(text: str) -> Value:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text_or_base64(text.encode(errors="surrogatepass"))
    return text


def escaped(value: Any) -> Any:
    r"""Text, or lists and objects of it, with lone surrogates as escapes.

    A byte of a file's name that is no UTF-8 is one of them: 0xE9 stands as ``\udce9``.
    """
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case list() | tuple():
            return [escaped(item) for item in value]
        case dict():
            return {escaped(key): escaped(item) for key, item in value.items()}
    return value
