"""Decodes a protocol-buffer message field by field, with byte spans and problems.

1. This is the slow twin of ``protobuf.MessageType.plain``: its oracle, the source of spans, and the decoder of odd or
   damaged messages.
2. Unknown enum values, missing required fields, strings that are no UTF-8 and fields of another wire type are kept,
   with problems.
3. Damage ends its message: values before it stay, the rest of that message is ``undecoded``. The outer message
   continues, since it has the length. Traffic never raises.
4. Spans tile what was read: each starts where the one before it stopped.

Source: the Protocol Buffers encoding guide; where it is not specific, the C++ and upb runtimes (varints are cut to the
width of their type, tags have at most 32 bits, 100 levels of messages).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import copysign
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from mqsniff.limits import Limits
from mqsniff.model import Problem, ProblemKind, Secret, Severity, Span, Undecoded, Value
from mqsniff.spec.interpret import DEFAULT_LIMITS, DecodedBody, DecodeStop
from mqsniff.spec.wire import Malformed, is_unclear, is_utf8, text_or_bytes

if TYPE_CHECKING:
    from mqsniff.spec.protobuf import Field, MessageType

VARINT: Final = 0
I64: Final = 1
LEN: Final = 2
START_GROUP: Final = 3
END_GROUP: Final = 4
I32: Final = 5

UNKNOWN_FIELDS: Final = "unknown_fields"
UNDECODED: Final = "undecoded"

DEPTH_MAX: Final = 100
"""Most levels of messages and groups: two bytes may open one more."""

_FIXED: Final[Mapping[str, Struct]] = {
    "double": Struct("<d"),
    "float": Struct("<f"),
    "fixed64": Struct("<Q"),
    "sfixed64": Struct("<q"),
    "fixed32": Struct("<I"),
    "sfixed32": Struct("<i"),
}
_RAW: Final = {I64: Struct("<Q"), I32: Struct("<I")}


def _signed(bits: int) -> Callable[[int], int]:
    top, mask = 1 << bits - 1, (1 << bits) - 1
    return lambda raw: ((raw & mask) ^ top) - top


def _zigzag(bits: int) -> Callable[[int], int]:
    mask = (1 << bits) - 1
    return lambda raw: (raw & mask) >> 1 ^ -(raw & 1)


_VARINTS: Final[Mapping[str, Callable[[int], int]]] = {
    "int32": _signed(32),
    "enum": _signed(32),
    "int64": _signed(64),
    "uint32": lambda raw: raw & 0xFFFFFFFF,
    "uint64": lambda raw: raw,
    "sint32": _zigzag(32),
    "sint64": _zigzag(64),
    "bool": bool,
}


NESTED_COST: Final = 4
"""Elements that a repeated message counts as: it becomes a dictionary of values, not one value."""
COST_PER_BYTE: Final = NESTED_COST // 2
"""Elements that a byte can become at most: an empty message takes a tag and a length."""


def interpret(
    shape: MessageType,
    data: bytes,
    pos: int = 0,
    end: int | None = None,
    *,
    spans: list[Span] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    prefix: str = "",
) -> DecodedBody:
    """Decode ``data[pos:end]`` field by field; byte spans are appended to ``spans`` where a list is given.

    ``broken`` is the first damage; ``stop`` is ``end``, since undecoded bytes are in the body too.
    """
    end = len(data) if end is None else end
    reader = _ProtoReader(data, pos, end, spans, limits)
    body: dict[str, Any] = {}
    reader.read_contained(shape, body, prefix)
    reader.check(shape, body, prefix)
    return DecodedBody(body, end, tuple(reader.problems), reader.broken)


def add_unknown(body: dict[str, Any], number: int, value: int | bytes) -> None:
    """Keep an unknown field; a repeated one becomes a list."""
    unknown = body.setdefault(UNKNOWN_FIELDS, {})
    name = str(number)
    known = unknown.get(name)
    if known is None:
        unknown[name] = value
    elif isinstance(known, list):
        known.append(value)
    else:
        unknown[name] = [known, value]


class _ProtoReader:
    """State of one decoding: position, path and problems."""

    def __init__(self, data: bytes, pos: int, end: int, spans: list[Span] | None, limits: Limits) -> None:
        self.data = data
        self.pos = pos
        self.end = end
        self.spans = spans
        self.problems: list[Problem] = []
        self.broken: DecodeStop | None = None
        self.room = min(limits.elements_max, COST_PER_BYTE * (end - pos))
        self.notes_left = limits.message_problems_max
        self.depth = 0
        self.path = ""
        """Path of the field being read."""
        self.mark = pos
        """Start of the field or part being read."""

    # ---- bookkeeping

    def span(self, value: Value, meaning: str) -> None:
        """Add the span of the bytes read since the mark."""
        if self.spans is not None and self.pos > self.mark:
            self.spans.append(Span(self.path, self.mark, self.pos, value, meaning))
        self.mark = self.pos

    def note(self, kind: ProblemKind, severity: Severity, detail: str) -> None:
        self.notes_left -= 1
        if self.notes_left > 0:
            self.problems.append(Problem(kind, severity, detail, self.path))
        elif self.notes_left == 0:
            self.problems.append(Problem("limit", "warning", "more problems in this message than are noted"))

    def take_room(self, count: int = 1) -> None:
        self.room -= count
        if self.room < 0:
            raise Malformed("too many elements")

    # ---- primitives

    def read_varint(self, size_max: int = 10) -> int:
        """64 bits, lowest group first; Malformed if the last possible byte has the continuation bit."""
        data, pos, value = self.data, self.pos, 0
        for shift in range(0, 7 * size_max, 7):
            if pos >= self.end:
                raise Malformed("bytes end inside a varint")
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.pos = pos
                return value & 0xFFFFFFFFFFFFFFFF
        raise Malformed("varint too long")

    def read_tag(self) -> tuple[int, int]:
        """(field number, wire type)."""
        tag = self.read_varint(5)
        if tag > 0xFFFFFFFF or tag < 8 or tag & 7 > I32:
            raise Malformed("no tag of a field")
        return tag >> 3, tag & 7

    def read_size(self) -> int:
        """A length; Malformed if more than the bytes left."""
        size = self.read_varint()
        if size > self.end - self.pos:
            raise Malformed("length past the end")
        return size

    def take(self, size: int) -> bytes:
        if size > self.end - self.pos:
            raise Malformed("bytes end inside a field")
        self.pos += size
        return self.data[self.pos - size : self.pos]

    # ---- messages

    def read_contained(self, shape: MessageType, into: dict[str, Any], prefix: str) -> None:
        """Read the fields up to ``end``; notes damage and keeps its bytes."""
        self.depth += 1
        end = self.end
        try:
            while self.pos < end:
                self.read_field(shape, into, prefix)
        except Malformed as error:
            self.broken = self.broken or DecodeStop(self.path, self.mark, str(error))
            self.note("malformed", "error", str(error))
            self.pos = self.end = end
            rest = Undecoded(self.data[self.mark : end])
            into[UNDECODED] = rest
            self.span(rest, "undecoded")
        self.depth -= 1

    def read_field(self, shape: MessageType, into: dict[str, Any], prefix: str) -> None:
        self.mark = self.pos
        self.path = prefix.removesuffix(".")
        number, wire_type = self.read_tag()
        field = shape.fields.get(number)
        if field is not None and field.type != "group":
            self.path = prefix + field.name
            if wire_type == field.wire_type:
                self.read_known(field, into)
                return
            if wire_type == LEN and field.packable:
                self.read_packed(field, into)
                return
        self.path = f"{prefix}{UNKNOWN_FIELDS}.{number}"
        self.read_unknown(number, wire_type, into)

    def read_known(self, field: Field, into: dict[str, Any]) -> None:
        for rival in field.rivals:
            into.pop(rival, None)
        if field.message is not None:
            self.read_message(field, field.message, into)
            return
        if field.repeated:
            self.read_element(field, into.setdefault(field.name, []), field.type)
            return
        value = self.read_value(field)
        self.span(value, field.type)
        if field.implicit and not value and not (isinstance(value, float) and copysign(1, value) < 0):
            into.pop(field.name, None)
        else:
            into[field.name] = value

    def read_message(self, field: Field, shape: MessageType, into: dict[str, Any]) -> None:
        path = self.path
        size = self.read_size()
        if self.depth > DEPTH_MAX:
            raise Malformed("nested too deep")
        if field.repeated:
            self.take_room(NESTED_COST)
            inner: dict[str, Any] = {}
            elements = into.setdefault(field.name, [])
            path = f"{path}[{len(elements)}]"
            elements.append(inner)
        else:
            inner = into.setdefault(field.name, {})
        self.path = path
        self.span(size, "size of a message")
        outer, self.end = self.end, self.pos + size
        self.read_contained(shape, inner, path + ".")
        self.end = outer

    def read_packed(self, field: Field, into: dict[str, Any]) -> None:
        """Read packed numbers: without tags."""
        path = self.path
        size = self.read_size()
        values = into.setdefault(field.name, []) if size else []
        self.span(size, "size of packed values")
        outer, self.end = self.end, self.pos + size
        while self.pos < self.end:
            self.path = path
            self.read_element(field, values, field.type)
        self.end = outer

    def read_element(self, field: Field, values: list[Any], meaning: str) -> None:
        self.path = f"{self.path}[{len(values)}]"
        self.take_room()
        values.append(self.read_value(field))
        self.span(values[-1], meaning)

    def read_value(self, field: Field) -> Any:
        """A value that is no message, by the wire type of its field."""
        if field.wire_type == VARINT:
            number = _VARINTS[field.type](self.read_varint())
            return number if field.enum is None else field.enum.get(number, number)
        if field.wire_type != LEN:
            fixed = _FIXED[field.type]
            return fixed.unpack(self.take(fixed.size))[0]
        raw = self.take(self.read_size())
        if field.secret:
            return Secret(raw)
        if field.type == "bytes":
            return raw
        text = text_or_bytes(raw)
        return Secret(raw) if field.beside_secret and is_unclear(text) else text

    # ---- unknown fields

    def read_unknown(self, number: int, wire_type: int, into: dict[str, Any]) -> None:
        self.take_room()
        value: int | bytes
        match wire_type:
            case 0:
                value = self.read_varint()
            case 2:
                value = self.take(self.read_size())
            case 3:
                start = self.pos
                self.skip_group(number)
                value = self.data[start : self.pos]
            case 4:
                raise Malformed("the end of a group that was not opened")
            case _:
                value = int(_RAW[wire_type].unpack(self.take(_RAW[wire_type].size))[0])
        add_unknown(into, number, value)
        self.span(value, "unknown field")

    def skip_group(self, number: int) -> None:
        """Skip past the end of this group; inner groups must close in order."""
        open_groups = [number]
        while open_groups:
            inner, wire_type = self.read_tag()
            if wire_type == END_GROUP:
                if open_groups.pop() != inner:
                    raise Malformed("the end of another group")
            elif wire_type == START_GROUP:
                if self.depth + len(open_groups) > DEPTH_MAX:
                    raise Malformed("nested too deep")
                open_groups.append(inner)
            elif wire_type == VARINT:
                self.read_varint()
            else:
                self.take(self.read_size() if wire_type == LEN else _RAW[wire_type].size)

    # ---- checks of the whole message

    def check(self, shape: MessageType, body: dict[str, Any], prefix: str) -> None:
        """Note problems of the merged message and its inner ones; a damaged message may lack required fields."""
        for field in shape.fields.values():
            value = body.get(field.name)
            if value is None:
                if field.required and self.broken is None:
                    self.path = prefix + field.name
                    self.note("missing_field", "warning", "a required field is missing")
            elif field.message is not None or field.enum is not None or field.type == "string":
                for index, one in enumerate(value if field.repeated else (value,)):
                    self.path = f"{prefix}{field.name}[{index}]" if field.repeated else prefix + field.name
                    self.check_one(field, one)
        for number in body.get(UNKNOWN_FIELDS, ()):
            claimed = shape.fields.get(int(number))
            if claimed is not None and claimed.type != "group":
                self.path = f"{prefix}{UNKNOWN_FIELDS}.{number}"
                self.note("format", "warning", "a known field on another wire type")

    def check_one(self, field: Field, value: Any) -> None:
        if field.message is not None:
            self.check(field.message, value, self.path + ".")
        elif field.enum is not None and isinstance(value, int):
            self.note("unknown_code", "warning", "an enum value without a name")
        elif isinstance(value, bytes) or (
            isinstance(value, Secret) and field.beside_secret and not is_utf8(value.data)
        ):
            self.note("format", "info", "text that is no UTF-8")
