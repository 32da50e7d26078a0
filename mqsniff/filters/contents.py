"""Text or a regular expression in, whether keys, values, headers and bodies hold it out.

1. TEXT is found as it is written, with its case. ``/RE/`` is a regular expression of RE2, which takes linear time
   whatever the traffic says; ``/RE/i`` ignores case. One of several is enough.
2. At most ``SEARCHED`` bytes of one value are looked at, from its start.
3. Of a body, text and bytes at any depth are searched, not numbers, nor names of fields; secrets never are, so that a
   search cannot tell what they are.
4. Headers are searched by their values; ``HeaderFilter`` asks for one by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from mqsniff.filters.patterns import Patterns
from mqsniff.model import RecordBatch

SEARCHED: Final = 1 << 20
"""Bytes of a value that are searched."""
_EXPRESSION: Final = re.compile(r"/(.+)/(i?)\Z", re.DOTALL)
_DEPTH_MAX: Final = 64


class ContentSearch:
    """What somebody looks for."""

    def __init__(self, wanted: Sequence[str]) -> None:
        """Raises ValueError for what is not a regular expression."""
        found = [(text, _EXPRESSION.match(text)) for text in wanted]
        self._texts = tuple(text.encode(errors="surrogateescape") for text, expression in found if expression is None)
        self._expressions = tuple((match[1], bool(match[2])) for _, match in found if match is not None)
        self._many([b""])

    def __bool__(self) -> bool:
        return bool(self._texts or self._expressions)

    def in_body(self, body: dict[str, Any]) -> bool:
        """Whether a message's body holds it."""
        return any(self._many(list(_parts_of(body, 0))))

    def in_records(self, batch: RecordBatch, indexes: Sequence[int]) -> list[int]:
        """Those of some records of a batch that hold it."""
        parts: list[bytes] = []
        owners: list[int] = []
        for index in indexes:
            for part in _parts_of_record(batch, index):
                parts.append(part)
                owners.append(index)
        found = {index for index, holds in zip(owners, self._many(parts), strict=True) if holds}
        return [index for index in indexes if index in found]

    def _many(self, parts: list[bytes]) -> list[bool]:
        """Whether each of many parts holds it."""
        found = [any(text in part for text in self._texts) for part in parts] if self._texts else [False] * len(parts)
        if not self._expressions:
            return found
        import pyarrow as pa  # noqa: PLC0415  # only regular expressions need Arrow, which has RE2
        from pyarrow.compute import match_substring_regex  # noqa: PLC0415  # as above

        column = pa.array(parts, pa.large_binary())
        for expression, ignore_case in self._expressions:
            try:
                met = match_substring_regex(column, expression, ignore_case=ignore_case).to_pylist()
            except pa.ArrowInvalid as error:
                raise ValueError(f"/{expression}/: {str(error).removeprefix('Invalid regular expression: ')}") from None
            found = [before or now for before, now in zip(found, met, strict=True)]
        return found


class HeaderFilter:
    """Asks records for a header: ``NAME`` alone, or ``NAME=VALUE``; patterns may hold ``*``."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self._wanted = tuple(_named(text) for text in wanted)

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def in_records(self, batch: RecordBatch, indexes: Iterable[int]) -> list[int]:
        """Those of some records of a batch that have one."""
        headers = batch.headers
        return [] if headers is None else [index for index in indexes if self._is_met(headers[index])]

    def _is_met(self, headers: list[tuple[str, bytes | None]]) -> bool:
        for key, value in headers:
            text = None if value is None else value[:SEARCHED].decode(errors="surrogateescape")
            for name, wanted in self._wanted:
                if name.fit(key) and (wanted is None or wanted.fit(text)):
                    return True
        return False


def _named(text: str) -> tuple[Patterns, Patterns | None]:
    name, equals, value = text.partition("=")
    return Patterns((name,)), Patterns((value,)) if equals else None


def _parts_of(value: Any, depth: int) -> Iterator[bytes]:
    """Everything in a body that can be searched."""
    match value:
        case str():
            yield value[:SEARCHED].encode(errors="surrogatepass")
        case bytes() | bytearray() | memoryview():
            yield bytes(value[:SEARCHED])
        case dict() if depth < _DEPTH_MAX:
            for member in value.values():
                yield from _parts_of(member, depth + 1)
        case list() | tuple() if depth < _DEPTH_MAX:
            for member in value:
                yield from _parts_of(member, depth + 1)


def _parts_of_record(batch: RecordBatch, index: int) -> Iterator[bytes]:
    for spans in (batch.keys, batch.values):
        if spans is not None and (start := spans[0][index]) >= 0:
            yield bytes(batch.data[start : min(spans[1][index], start + SEARCHED)])
    if batch.headers is not None:
        for _, value in batch.headers[index]:
            if value is not None:
                yield bytes(value[:SEARCHED])
