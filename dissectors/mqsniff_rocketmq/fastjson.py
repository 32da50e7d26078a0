"""Reads JSON as RocketMQ's peers write it; orjson reads what is standard JSON.

1. fastjson's extensions are read too: keys without quotes, objects as keys, control characters in strings. A map with a
   key that is no string or number becomes a list of {"key": …, "value": …}; {"$ref": "$.a[0]"} stays as it is.
2. If a key occurs twice, the last one counts, as in Java, with a problem.
3. More than DEPTH_MAX levels, or more values than the message's budget, are Malformed.
4. With ``cut`` the text may end anywhere: the values before the end are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from mqsniff.model import Value
from mqsniff.spec.wire import Malformed
from mqsniff_rocketmq.notes import ProblemNotes

DEPTH_MAX: Final = 64
"""Most levels: no class of the protocol has more than eight, and sinks can recurse so deep."""

TOKEN: Final = re.compile(
    rb"""[ \t\r\n]*+(?:
        ([{}\[\]:,])
        |"([^"\\]*+(?:\\.[^"\\]*+)*+)"
        |'([^'\\]*+(?:\\.[^'\\]*+)*+)'
        |([^\ \t\r\n{}\[\]:,"']++))""",
    re.DOTALL | re.VERBOSE,
)
"""A punctuation mark, a string in either quotes, or a bare word, with the space before it. Linear on any input."""

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_REAL: Final = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,4})?")
_WORDS: Final[dict[str, Value]] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}


class Token(NamedTuple):
    """A punctuation mark or a scalar; ``start`` and ``stop`` exclude the space before it."""

    mark: bytes
    value: Value
    start: int
    stop: int


def read_json(data: bytes, notes: ProblemNotes, path: str) -> Value:
    """The JSON value of ``data``; Malformed if it is none, too large or too deep."""
    if len(data) > notes.room:
        notes.take(data.count(b",") + data.count(b"[") + data.count(b"{"))
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return read_tolerant(data, notes, path)
    if _keys(value) != data.count(b'":') - data.count(b'\\":'):
        return read_tolerant(data, notes, path)
    return value  # type: ignore[no-any-return]


def _keys(value: Any) -> int:
    """Number of keys in a value. Text with more of ``":`` may have a key twice: it takes the slow path."""
    count = 0
    level: list[Any] = [value]
    for _ in range(DEPTH_MAX):
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                count += len(item)
                below += [inner for inner in item.values() if type(inner) in (dict, list)]
            elif type(item) is list:
                below += [inner for inner in item if type(inner) in (dict, list)]
        if not below:
            return count
        level = below
    raise Malformed("nested too deep")


def read_tolerant(data: bytes, notes: ProblemNotes, path: str, *, cut: bool = False) -> Value:
    """As ``read_json``, by our own parser: the slow path, for JSON that is not standard."""
    builder = _Builder(notes)
    stop = 0
    for token in tokens(data):
        stop = token.stop
        if not token.mark:
            if cut and stop == len(data):
                break
            if builder.empty and data[token.start] not in b"\"'" and isinstance(token.value, str):
                raise Malformed("no JSON")
            builder.scalar(token.value)
        elif token.mark in b"{[":
            builder.open(token.mark)
        elif token.mark in b"}]":
            builder.close(token.mark)
        else:
            builder.between(token.mark)
        if builder.done:
            break
    if not builder.done and not cut:
        raise Malformed("JSON ends too early")
    if builder.done and data[stop:].strip(b" \t\r\n\x00"):
        notes.note("trailing_bytes", "warning", "bytes after the end of JSON", path)
    if builder.twice:
        notes.note("format", "info", "a key stands twice in one object", path)
    return builder.result()


def tokens(data: bytes) -> Iterator[Token]:
    """The tokens up to the end, or to bytes that are none (an unterminated string)."""
    at = 0
    while found := TOKEN.match(data, at):
        at = found.end()
        kind = found.lastindex
        if kind == 1:
            yield Token(found[1], None, at - 1, at)
        elif kind == 4:
            yield Token(b"", _word(found[4].decode(errors="backslashreplace")), found.start(4), at)
        else:
            assert kind is not None
            yield Token(b"", _string(found[kind]), found.start(kind) - 1, at)


def _string(raw: bytes) -> Value:
    """The text between quotes; bytes if it is no UTF-8."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return raw
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2]), text)
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return text.encode(errors="surrogatepass")


def _word(text: str) -> Value:
    """The value of a bare word: a number, a constant, or its text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text


class _Open:
    """An object or array that is being read."""

    __slots__ = ("closing", "colon", "items", "key", "keys", "waits_for_key")

    def __init__(self, mark: bytes) -> None:
        self.closing = b"}" if mark == b"{" else b"]"
        self.items: list[Value] = []
        self.keys: list[Value] = []
        self.key: Value = None
        self.waits_for_key = mark == b"{"
        self.colon = False


class _Builder:
    """Builds values from tokens, without recursion."""

    def __init__(self, notes: ProblemNotes) -> None:
        self._notes = notes
        self._stack: list[_Open] = []
        self._value: Value = None
        self.done = False
        self.twice = False

    @property
    def empty(self) -> bool:
        """Whether there was no token yet."""
        return not self._stack

    def open(self, mark: bytes) -> None:
        if len(self._stack) >= DEPTH_MAX:
            raise Malformed("nested too deep")
        self._stack.append(_Open(mark))

    def close(self, mark: bytes) -> None:
        if not self._stack or self._stack[-1].closing != mark or self._stack[-1].colon:
            raise Malformed("brackets of JSON do not match")
        self.scalar(self._closed(self._stack.pop()))

    def between(self, mark: bytes) -> None:
        top = self._stack[-1] if self._stack else None
        if mark == b",":
            if top is None or top.colon:
                raise Malformed("a comma where JSON has none")
            return
        if top is None or not top.colon or top.waits_for_key:
            raise Malformed("a colon where JSON has none")
        top.colon = False

    def scalar(self, value: Value) -> None:
        """Add a complete value: the whole, an element, a key or a member."""
        self._notes.take(1)
        if not self._stack:
            self._value, self.done = value, True
            return
        top = self._stack[-1]
        if top.colon:
            raise Malformed("no colon between key and value")
        if top.waits_for_key:
            top.key, top.colon, top.waits_for_key = value, True, False
        elif top.closing == b"}":
            top.keys.append(top.key)
            top.items.append(value)
            top.waits_for_key = True
        else:
            top.items.append(value)

    def _closed(self, part: _Open) -> Value:
        if part.closing == b"]":
            return part.items
        names = [_key_text(key) for key in part.keys]
        if None in names:
            return [{"key": key, "value": value} for key, value in zip(part.keys, part.items, strict=True)]
        found: dict[str, Value] = dict(zip(names, part.items, strict=True))  # type: ignore[arg-type]
        self.twice = self.twice or len(found) < len(names)
        return found

    def result(self) -> Value:
        """The value; objects and arrays that are still open are closed."""
        while self._stack:
            value = self._closed(self._stack.pop())
            if not self._stack:
                return value
            top = self._stack[-1]
            if top.closing == b"]":
                top.items.append(value)
            elif not top.colon and not top.waits_for_key:
                top.keys.append(top.key)
                top.items.append(value)
        return self._value


def _key_text(key: Value) -> str | None:
    """A key as text; None if it is an object or array."""
    match key:
        case str():
            return key
        case bytes():
            return key.decode(errors="backslashreplace")
        case None | bool():
            return {None: "null", True: "true", False: "false"}[key]
        case int() | float():
            return str(key)
    return None
