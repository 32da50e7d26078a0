"""A field beside its bytes in, the places of these bytes that must not be shown out: what ``Redaction`` is for values.

1. A Secret hides its own bytes in the field; where these are not found as they stand (text of JSON with escapes), the
   text that ends the field is hidden, else the whole field.
2. What was decompressed and holds anything to be hidden hides its compressed bytes as a whole.
3. Undecoded bytes may hold anything: they are hidden as a whole unless raw bytes are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from mqsniff.model import PayloadBytes, PayloadChecksum, PayloadMap, PayloadText, Secret, Span, Undecoded
from mqsniff.tables.values import Redaction

HiddenWhy: TypeAlias = Literal["secret", "payload", "undecoded", "compressed"]
_QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C


class HiddenRange(NamedTuple):
    """Bytes that are not shown, counted as the places of the spans are."""

    start: int
    stop: int
    why: HiddenWhy


def hidden_ranges(spans: Iterable[Span], data: bytes, shown: Redaction) -> Iterator[HiddenRange]:
    """The hidden places of a frame's ``data``, or of decompressed bytes, in the order of the spans."""
    for span in spans:
        yield from hidden_in(span, data, shown)


def hidden_in(span: Span, data: bytes, shown: Redaction) -> Iterator[HiddenRange]:
    """The hidden places of one field."""
    if span.inside is not None:
        if any(True for _ in hidden_ranges(span.inside.spans, span.inside.data, shown)):
            size = span.value if isinstance(span.value, int) else span.stop - span.start
            yield HiddenRange(span.stop - size, span.stop, "compressed")
        return
    if isinstance(span.value, PayloadChecksum) and not shown.payload:
        yield HiddenRange(span.start, span.stop, "payload")
        return
    at = span.start
    for raw, why in _leaves(span.value, shown):
        if why == "undecoded":
            yield HiddenRange(span.start, span.stop, why)
            return
        place = _found(raw, data, at, span.stop)
        if place is None:
            yield HiddenRange(*_ending_text(data, span.start, span.stop), why)
            return
        yield HiddenRange(*place, why)
        at = place[1]


def _leaves(value: Any, shown: Redaction) -> Iterator[tuple[bytes, HiddenWhy]]:
    """What is hidden in a value, in its order; empty bytes hide nothing."""
    match value:
        case Secret() if not shown.secrets and value.data:
            yield value.data, "secret"
        case Undecoded() if not shown.raw and value.data:
            yield value.data, "undecoded"
        case PayloadBytes() if not shown.payload and value:
            yield bytes(value), "payload"
        case PayloadText() if not shown.payload and value:
            yield str(value).encode(errors="surrogatepass"), "payload"
        case PayloadMap() if not shown.payload:
            for inner in value.values():
                if inner:
                    yield str(inner).encode(errors="surrogatepass"), "payload"
        case dict():
            for inner in value.values():
                yield from _leaves(inner, shown)
        case list() | tuple():
            for inner in value:
                yield from _leaves(inner, shown)


def _found(raw: bytes, data: bytes, start: int, stop: int) -> tuple[int, int] | None:
    """Where bytes stand in a field: at its end, as after a length, else the first place."""
    if stop - len(raw) >= start and data.endswith(raw, start, stop):
        return stop - len(raw), stop
    at = data.find(raw, start, stop)
    return None if at < 0 else (at, at + len(raw))


def _ending_text(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """The text in quotes that ends a field, without them; the whole field if none does."""
    if not data.endswith(b'"', start, stop):
        return start, stop
    at = stop - 2
    while at >= start:
        if data[at] == _QUOTE:
            before = at
            while before > start and data[before - 1] == _BACKSLASH:
                before -= 1
            if (at - before) % 2 == 0:
                return at + 1, stop - 1
        at -= 1
    return start, stop
