"""The plain, slow decoder: decodes bytes by a layout, with the span of every field and all problems.

1. It is the oracle of ``compile.py``, gives byte spans for people, and decodes bytes that are odd.
2. Odd bytes are kept, with a problem: a null that is not allowed, text that is no UTF-8, tags out of order. Bytes that
   cannot be read end the decoding; values before them stay, and the problem names the field. It never raises on
   traffic.
3. Values are filled in as they are read, records as far as there are bytes, so that those before damage stay.
4. Spans tile what was read: each starts where the one before it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import unpack_from
from typing import Any, Final, NamedTuple

from mqsniff.limits import Limits
from mqsniff.model import Problem, ProblemKind, Secret, Severity, Span, Value
from mqsniff.spec import wire
from mqsniff.spec.schema import FIXED, INTEGERS, UNKNOWN_TAGS, FieldLayout, Struct
from mqsniff.spec.wire import CUT, Extent, Malformed

DEFAULT_LIMITS: Final = Limits()

_READERS: Final[Mapping[str, Any]] = {name: getattr(wire, f"read_{name}") for name in FIXED}


class DecodeStop(NamedTuple):
    """Where and why decoding ended early: path of the field, its start, reason."""

    path: str
    offset: int
    why: str


class DecodedBody(NamedTuple):
    """A body, and how far it was decoded."""

    body: dict[str, Any]
    """Values for sinks, except ``records`` fields: the caller replaces their Extents."""
    stop: int
    """The first offset that was not decoded."""
    problems: tuple[Problem, ...] = ()
    broken: DecodeStop | None = None
    unread: tuple[FieldLayout, ...] = ()
    """Fields that were not read, or only in part, because decoding ended early; a field includes all inside it."""


class DecodeWindow(NamedTuple):
    """The bytes to decode, ``data[pos:end]``; ``claimed``: end of the message by its size (> end: bytes were lost)."""

    pos: int
    end: int
    claimed: int


def interpret(
    struct: Struct,
    data: bytes,
    window: DecodeWindow,
    *,
    spans: list[Span] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> DecodedBody:
    """Decode field by field; byte spans are appended to ``spans`` where a list is given.

    ``broken`` says where damage ended it. Bytes after the last field are left to the caller.
    """
    reader = _StructReader(data, window, spans, limits)
    body: dict[str, Any] = {}
    try:
        reader.read_struct(struct, body, "")
    except Malformed as error:
        broken = DecodeStop(reader.path, reader.mark, str(error))
        return DecodedBody(body, reader.mark, tuple(reader.problems), broken, tuple(reader.unread))
    return DecodedBody(body, reader.pos, tuple(reader.problems))


class _StructReader:
    """State of one decoding: position, path and problems."""

    def __init__(self, data: bytes, window: DecodeWindow, spans: list[Span] | None, limits: Limits) -> None:
        self.data = data
        self.pos, self.end, self.claimed = window
        self.spans = spans
        self.problems: list[Problem] = []
        self.unread: list[FieldLayout] = []
        self.noted = False
        """Whether an inner struct has noted its unread fields already."""
        self.notes_left = limits.message_problems_max
        self.room = min(limits.elements_max, self.claimed - self.pos)
        """Budget of array elements and unknown tags."""
        self.path = ""
        """Path of the field being read."""
        self.mark = self.pos
        """Start of the field or part being read."""

    # ---- bookkeeping

    def begin(self, path: str) -> None:
        self.path, self.mark = path, self.pos

    def span(self, value: Value, meaning: str) -> None:
        """Add the span of the bytes read since the mark."""
        if self.spans is not None:
            self.spans.append(Span(self.path, self.mark, self.pos, value, meaning))
        self.mark = self.pos

    def note(self, kind: ProblemKind, severity: Severity, detail: str) -> None:
        """Note a problem of the field being read, up to the limit."""
        self.notes_left -= 1
        if self.notes_left > 0:
            self.problems.append(Problem(kind, severity, detail, self.path))
        elif self.notes_left == 0:
            self.problems.append(Problem("limit", "warning", "more problems in this message than are noted"))

    def note_null(self, length: int, *, nullable: bool) -> None:
        """Note a null in a field that must not be null, or one that is not written as -1."""
        if not nullable:
            self.note("missing_field", "warning", "null in a field that must not be null")
        if length < -1:
            self.note("out_of_range", "info", "null is written as -1")

    def take_room(self, count: int) -> None:
        self.room -= count
        if self.room < 0:
            raise Malformed("too many elements")

    # ---- structs

    def read_struct(self, struct: Struct, into: dict[str, Any], prefix: str) -> None:
        """Read field after field; at damage note the unread fields, unless an inner struct has."""
        at = 0
        try:
            for at, item in enumerate(struct.items):  # noqa: B007  # told to the handler
                self.read_item(item, into, prefix + item.name)
            at = len(struct.items)
            if struct.flexible:
                self.read_tags(struct, into, prefix)
        except Malformed:
            self.unread += (*struct.items[at + self.noted :], *struct.tagged)
            self.noted = True
            raise

    def read_item(self, item: FieldLayout, into: dict[str, Any], path: str) -> None:
        self.begin(path)
        if item.array:
            self.read_array(item, into)
        elif item.struct is not None:
            self.read_inner_struct(item, item.struct, into)
        elif item.type in FIXED:
            into[item.name] = self.read_fixed(item)
        else:
            self.read_sized(item, into, nullable=item.nullable)

    def read_inner_struct(self, item: FieldLayout, struct: Struct, into: dict[str, Any]) -> None:
        """Read a struct field; a nullable one is preceded by a presence byte or varint."""
        path = self.path
        if item.nullable:
            tagged = item.tag is not None
            presence, self.pos = wire.read_presence(self.data, self.pos, self.end, tagged=tagged)
            if presence not in ((0, 1) if tagged else (-1, 1)):
                self.note("out_of_range", "info", "presence of a struct is written as 1")
            missing = presence == 0 if tagged else presence < 0
            self.span(not missing, "present")
            if missing:
                into[item.name] = None
                return
        inner: dict[str, Any] = {}
        into[item.name] = inner
        self.read_struct(struct, inner, path + ".")

    # ---- arrays

    def read_array(self, item: FieldLayout, into: dict[str, Any]) -> None:
        path = self.path
        count, self.pos = wire.read_count(self.data, self.pos, self.end, compact=item.compact, claimed=self.claimed)
        if count < 0:
            self.note_null(count, nullable=item.nullable)
            into[item.name] = None
            self.span(None, "count")
            return
        if item.type not in INTEGERS:
            self.take_room(count)
        self.span(count, "count")
        values: list[Any] = []
        into[item.name] = values
        if item.type in INTEGERS and self.spans is None and self.read_integers(item.type, count, values):
            return
        for index in range(count):
            self.begin(f"{path}[{index}]")
            try:
                self.read_element(item, values)
            except Malformed:
                if index + 1 < count:
                    self.unread.append(item)
                raise

    def read_integers(self, kind: str, count: int, values: list[Any]) -> bool:
        """Read a whole array of integers at once; False, with nothing read, if it is cut."""
        letter, size = FIXED[kind]
        if count * size > self.end - self.pos:
            return False
        values += unpack_from(f">{count}{letter}", self.data, self.pos)
        self.pos += count * size
        return True

    def read_element(self, item: FieldLayout, values: list[Any]) -> None:
        element: dict[str, Any] = {}
        if item.struct is None:
            if item.type in FIXED:
                values.append(self.read_fixed(item))
            else:
                self.read_sized(item, element, nullable=False)
                values.append(element[item.name])
            return
        try:
            self.read_struct(item.struct, element, self.path + ".")
        finally:
            if element or not item.struct.items:
                values.append(element)

    # ---- values

    def read_fixed(self, item: FieldLayout) -> Any:
        """Read a value of fixed width."""
        value, self.pos = _READERS[item.type](self.data, self.pos, self.end)
        self.span(value, item.mark)
        return value

    def read_sized(self, item: FieldLayout, into: dict[str, Any], *, nullable: bool) -> None:
        """Read a string, bytes or records."""
        width = 2 if item.type == "string" else 4
        size, start = wire.read_length(self.data, self.pos, self.end, compact=item.compact, width=width)
        if size < 0:
            self.note_null(size, nullable=nullable)
            into[item.name] = None
            self.pos = start
            self.span(None, item.mark)
            return
        if item.type == "string" and size > wire.STRING_MAX:
            raise Malformed("string too long")
        stop = start + size
        if item.type == "records":
            into[item.name] = Extent(start, min(stop, self.end))
        if stop > self.end:
            raise Malformed(CUT)
        self.pos = stop
        if item.type == "records":
            self.span(size, "records")
            return
        into[item.name] = value = self.content(item, self.data[start:stop])
        self.span(value, item.mark)

    def content(self, item: FieldLayout, raw: bytes) -> Value:
        """The value of the bytes of a string or bytes field."""
        if item.secret:
            return Secret(raw)
        if item.type == "bytes":
            return raw
        value = wire.text_or_bytes(raw)
        if isinstance(value, bytes):
            self.note("format", "info", "text that is no UTF-8")
        return value

    # ---- tagged fields

    def read_tags(self, struct: Struct, into: dict[str, Any], prefix: str) -> None:
        self.begin(prefix + "tags")
        count, self.pos = wire.read_tag_count(self.data, self.pos, self.end, claimed=self.claimed)
        self.take_room(count)
        self.span(count, "count")
        if not count:
            return
        known = {item.tag: item for item in struct.tagged}
        last = -1
        for _ in range(count):
            last = self.read_tag(known, into, prefix, last)

    def read_tag(self, known: Mapping[int | None, FieldLayout], into: dict[str, Any], prefix: str, last: int) -> int:
        """Read one tagged field; returns its tag."""
        self.begin(prefix + "tags")
        tag, self.pos, stop = wire.read_tag(self.data, self.pos, self.end)
        if tag <= last:
            self.note("out_of_range", "info", "tags must ascend")
        self.span(tag, "tag and size")
        item = known.get(tag)
        if item is None:
            self.begin(f"{prefix}{UNKNOWN_TAGS}.{tag}")
            raw = self.data[self.pos : stop]
            into.setdefault(UNKNOWN_TAGS, {})[str(tag)] = raw
            self.pos = stop
            self.span(raw, "unknown tag")
            return tag
        outer = self.end, self.claimed
        self.end = self.claimed = stop
        self.read_item(item, into, prefix + item.name)
        self.end, self.claimed = outer
        if self.pos != stop:
            self.begin(prefix + item.name)
            raise Malformed("tagged field of another size")
        return tag
