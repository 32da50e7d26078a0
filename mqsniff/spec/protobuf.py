"""Decodes protocol buffers by their descriptors into plain dicts, with byte spans and problems.

1. Descriptors are in a pool of their own, so that the process may have other messages of the same names.
2. A body has the fields on the wire under the names of the .proto file: enum values by name, bytes as bytes, fields
   with ``debug_redact`` as Secret. If a singular field occurs twice, the last one counts; messages are merged.
3. Unknown fields are kept in ``unknown_fields`` by their number: integers, bytes, or a list if repeated.
4. The protobuf runtime decodes clean messages. If it refuses bytes, or would show them differently from rule 2,
   ``protowire.interpret`` decodes them: it keeps as much as possible, with problems.
5. What the fast path returns, ``interpret`` returns too, without a problem.

Sources: the Protocol Buffers encoding guide and descriptor.proto. Measured on one core: a command of three fields
1.5 µs by the runtime, 3.9 µs by ``interpret``; ``benchmarks/pieces.py`` measures it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from mqsniff.limits import Limits
from mqsniff.model import Secret, Span
from mqsniff.spec import protowire
from mqsniff.spec.interpret import DEFAULT_LIMITS, DecodedBody
from mqsniff.spec.protowire import I32, I64, LEN, VARINT, add_unknown
from mqsniff.spec.wire import is_unclear

__all__ = ["DecodedBody", "Field", "MessageType", "MessageTypes"]

_Convert: TypeAlias = Callable[[Any], Any]


class _RuntimeMismatchError(Exception):
    """The runtime's result differs from rule 2."""


FALLBACK_ERRORS: Final = (_RuntimeMismatchError, DecodeError, KeyError)
"""Errors by which the fast path leaves the bytes to ``interpret``; KeyError: an unknown enum value."""

_TYPE_NAMES: Final[Mapping[int, str]] = {
    getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name
    for name in (
        *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group"),
        *("message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
    )
}
_FIXED_WIDTH: Final = {
    **dict.fromkeys(("fixed64", "sfixed64", "double"), I64),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), I32),
    **dict.fromkeys(("string", "bytes", "message"), LEN),
}


class Field:
    """One field of a message type."""

    __slots__ = (
        *(
            "beside_secret",
            "enum",
            "implicit",
            "message",
            "name",
            "number",
            "packable",
            "repeated",
            "required",
            "rivals",
            "secret",
        ),
        *("type", "wire_type"),
    )

    def __init__(self, descriptor: FieldDescriptor, types: MessageTypes) -> None:
        self.number: Final[int] = descriptor.number
        self.name: Final[str] = descriptor.name
        self.type: Final[str] = _TYPE_NAMES[descriptor.type]
        self.wire_type: Final[int] = _FIXED_WIDTH.get(self.type, VARINT)
        self.repeated: Final[bool] = descriptor.is_repeated
        self.required: Final[bool] = descriptor.is_required
        self.packable: Final[bool] = self.repeated and self.wire_type != LEN
        self.implicit: Final[bool] = not (self.repeated or descriptor.has_presence)
        """Whether zero means absent (proto3 without ``optional``)."""
        self.secret: Final[bool] = descriptor.GetOptions().debug_redact
        beside = descriptor.containing_type.fields
        self.beside_secret: Final[bool] = (
            self.type == "string" and not self.secret and any(other.GetOptions().debug_redact for other in beside)
        )
        """Whether its text may hold a secret where a length on the wire is wrong; then it holds control characters."""
        self.enum: Final = _names(descriptor.enum_type) if descriptor.enum_type is not None else None
        inner = descriptor.message_type
        self.message: Final = types.of(inner) if inner is not None and self.type == "message" else None
        oneof = descriptor.containing_oneof
        self.rivals: Final[tuple[str, ...]] = (
            tuple(other.name for other in oneof.fields if other is not descriptor) if oneof is not None else ()
        )
        """Other fields of its ``oneof``: the last one on the wire counts."""

    def converter(self, descriptor: FieldDescriptor) -> _Convert | None:
        """The conversion from a runtime value to a body value; None if none is needed."""
        if self.type == "group" or _is_map(descriptor):
            return _refuse
        one = self._converter_of_one()
        if not self.repeated:
            return one
        if one is None:
            return list
        return lambda values: [one(value) for value in values]

    def _converter_of_one(self) -> _Convert | None:
        if self.message is not None:
            return self.message.plain
        if self.enum is not None:
            return self.enum.__getitem__
        if self.type == "string":
            return _secret_text if self.secret else _text_beside_secret if self.beside_secret else _text
        return Secret if self.secret and self.type == "bytes" else None


class MessageType:
    """One message type: its fields, and how its bytes are decoded."""

    def __init__(self, descriptor: Descriptor) -> None:
        self.name: Final[str] = descriptor.full_name
        self.fields: dict[int, Field] = {}
        self.required: frozenset[str] = frozenset()
        self._descriptor = descriptor
        self._table: dict[FieldDescriptor, tuple[str, _Convert | None]] = {}
        self._parse = cast("Callable[[bytes], Message]", GetMessageClass(descriptor).FromString)

    def __repr__(self) -> str:
        return f"<MessageType {self.name}>"

    def fill(self, types: MessageTypes) -> None:
        """Add the fields; not done in the constructor, since types may be recursive."""
        for descriptor in self._descriptor.fields:
            field = Field(descriptor, types)
            self.fields[field.number] = field
            self._table[descriptor] = field.name, field.converter(descriptor)
        self.required = frozenset(field.name for field in self.fields.values() if field.required)

    def decode(self, data: bytes, pos: int = 0, end: int | None = None, limits: Limits = DEFAULT_LIMITS) -> DecodedBody:
        """Decode ``data[pos:end]``; never raises on traffic."""
        end = len(data) if end is None else end
        if protowire.COST_PER_BYTE * (end - pos) <= limits.elements_max:  # so the runtime cannot make more
            try:
                return DecodedBody(self.plain(self._parse(data[pos:end])), end)
            except FALLBACK_ERRORS:
                pass
        return protowire.interpret(self, data, pos, end, limits=limits)

    def spans(
        self, data: bytes, pos: int = 0, end: int | None = None, limits: Limits = DEFAULT_LIMITS, prefix: str = ""
    ) -> list[Span]:
        """Every field of ``data[pos:end]`` beside its bytes; paths begin with ``prefix``."""
        found: list[Span] = []
        protowire.interpret(self, data, pos, end, spans=found, limits=limits, prefix=prefix)
        return found

    def plain(self, message: Message) -> dict[str, Any]:
        """A runtime message as a body; raises one of FALLBACK_ERRORS if it would differ from rule 2."""
        body: dict[str, Any] = {}
        table = self._table
        for descriptor, value in message.ListFields():
            name, convert = table[descriptor]
            body[name] = value if convert is None else convert(value)
        if not self.required <= body.keys():
            raise _RuntimeMismatchError
        unknown = UnknownFieldSet(message)
        if len(unknown):
            self._keep_unknown(unknown, body)
        return body

    def _keep_unknown(self, unknown: Any, body: dict[str, Any]) -> None:
        for item in unknown:
            known = item.field_number == 0 or item.field_number in self.fields  # the runtime accepts some zeros
            if known or item.wire_type not in (VARINT, I64, LEN, I32):
                raise _RuntimeMismatchError
            add_unknown(body, item.field_number, item.data)


class MessageTypes:
    """The message types and enums of one serialized FileDescriptorSet, made on demand."""

    def __init__(self, descriptor_set: bytes) -> None:
        self._pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(descriptor_set).file:
            self._pool.Add(file)
        self._types: dict[str, MessageType] = {}

    def __getitem__(self, name: str) -> MessageType:
        """The type of this full name; KeyError if there is none."""
        return self.of(self._pool.FindMessageTypeByName(name))

    def of(self, descriptor: Descriptor) -> MessageType:
        """The type of a descriptor of this pool."""
        known = self._types.get(descriptor.full_name)
        if known is None:
            known = self._types[descriptor.full_name] = MessageType(descriptor)
            known.fill(self)
        return known

    def enum(self, name: str) -> Mapping[int, str]:
        """Number -> name of the enum of this full name; KeyError if there is none."""
        return _names(self._pool.FindEnumTypeByName(name))


def _names(enum: EnumDescriptor) -> dict[int, str]:
    """Number -> its first name."""
    return {value.number: value.name for value in reversed(enum.values)}


def _is_map(descriptor: FieldDescriptor) -> bool:
    message = descriptor.message_type
    return message is not None and message.GetOptions().map_entry


def _refuse(_: object) -> None:
    """Raise for groups and maps: the runtime loses their order, duplicates or wire form."""
    raise _RuntimeMismatchError


def _text(value: str | bytes) -> str:
    """A string; raises if it is no UTF-8, which the runtime gives as bytes."""
    if isinstance(value, bytes):
        raise _RuntimeMismatchError
    return value


def _text_beside_secret(value: str | bytes) -> str | Secret:
    text = _text(value)
    return Secret(text.encode()) if is_unclear(text) else text


def _secret_text(value: str | bytes) -> Secret:
    return Secret(_text(value).encode())
