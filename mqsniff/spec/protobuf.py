"""Protocol buffers as a wire form: descriptors and bytes in; plain dicts, byte spans and what is odd out.

1. Descriptors live in a pool of their own, so that the process may hold other messages of the same names.
2. A body has the fields that were on the wire under the names of the .proto file: enum values by name, bytes as bytes,
   fields marked ``debug_redact`` as Secret. Of a field that may stand once the last counts, messages are merged.
3. What no field claims is kept in ``unknown_fields`` by its number: integers, bytes, or a list where it came again.
4. The protobuf runtime decodes clean messages. Whatever it would show in another way than rule 2 says, or refuse, makes
   it stumble; then ``protowire.interpret`` decodes, which keeps what can be kept and notes what is odd.
5. What the fast path returns equals what ``interpret`` returns, and then ``interpret`` has nothing to note.

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

__all__ = ["DecodedBody", "Field", "MessageType", "MessageTypes"]

_Convert: TypeAlias = Callable[[Any], Any]


class _RuntimeMismatchError(Exception):
    """The runtime's result is not what rule 2 asks for."""


STUMBLES: Final = (_RuntimeMismatchError, DecodeError, KeyError)
"""What the fast path raises where it leaves the bytes to ``interpret``; KeyError: an enum value without a name."""

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
        *("enum", "implicit", "message", "name", "number", "packable", "repeated", "required", "rivals", "secret"),
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
        """A value of zero is the same as none (proto3 without ``optional``)."""
        self.secret: Final[bool] = descriptor.GetOptions().debug_redact
        self.enum: Final = _names(descriptor.enum_type) if descriptor.enum_type is not None else None
        inner = descriptor.message_type
        self.message: Final = types.of(inner) if inner is not None and self.type == "message" else None
        oneof = descriptor.containing_oneof
        self.rivals: Final[tuple[str, ...]] = (
            tuple(other.name for other in oneof.fields if other is not descriptor) if oneof is not None else ()
        )
        """Fields of the same ``oneof``: the last one on the wire counts."""

    def converter(self, descriptor: FieldDescriptor) -> _Convert | None:
        """What makes a value of the runtime one of a body; None where it is one already."""
        if self.type == "group" or _is_map(descriptor):
            return _stumble
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
            return _secret_text if self.secret else _text
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
        """Make the fields; apart from construction, since messages may hold messages of their own type."""
        for descriptor in self._descriptor.fields:
            field = Field(descriptor, types)
            self.fields[field.number] = field
            self._table[descriptor] = field.name, field.converter(descriptor)
        self.required = frozenset(field.name for field in self.fields.values() if field.required)

    def decode(self, data: bytes, pos: int = 0, end: int | None = None, limits: Limits = DEFAULT_LIMITS) -> DecodedBody:
        """Decode ``data[pos:end]``; never raises on traffic."""
        end = len(data) if end is None else end
        if end - pos <= limits.elements_max:  # an element takes a byte at least, so the runtime cannot make more
            try:
                return DecodedBody(self.plain(self._parse(data[pos:end])), end)
            except STUMBLES:
                pass
        return protowire.interpret(self, data, pos, end, limits=limits)

    def spans(
        self, data: bytes, pos: int = 0, end: int | None = None, limits: Limits = DEFAULT_LIMITS, prefix: str = ""
    ) -> list[Span]:
        """Every field of ``data[pos:end]`` beside its bytes, its path led by ``prefix``."""
        found: list[Span] = []
        protowire.interpret(self, data, pos, end, spans=found, limits=limits, prefix=prefix)
        return found

    def plain(self, message: Message) -> dict[str, Any]:
        """A message of the runtime as a body; raises one of STUMBLES where that is not rule 2."""
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
            known = item.field_number == 0 or item.field_number in self.fields  # the runtime lets some zeros pass
            if known or item.wire_type not in (VARINT, I64, LEN, I32):
                raise _RuntimeMismatchError
            add_unknown(body, item.field_number, item.data)


class MessageTypes:
    """The message types and enums of one serialized FileDescriptorSet, each made when it is asked for."""

    def __init__(self, descriptor_set: bytes) -> None:
        self._pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(descriptor_set).file:
            self._pool.Add(file)
        self._types: dict[str, MessageType] = {}

    def __getitem__(self, name: str) -> MessageType:
        """The type of this full name; KeyError where there is none."""
        return self.of(self._pool.FindMessageTypeByName(name))

    def of(self, descriptor: Descriptor) -> MessageType:
        """The type of a descriptor of this pool."""
        known = self._types.get(descriptor.full_name)
        if known is None:
            known = self._types[descriptor.full_name] = MessageType(descriptor)
            known.fill(self)
        return known

    def enum(self, name: str) -> Mapping[int, str]:
        """Number -> name of the enum of this full name; KeyError where there is none."""
        return _names(self._pool.FindEnumTypeByName(name))


def _names(enum: EnumDescriptor) -> dict[int, str]:
    """Number -> name; of two names for one number the first."""
    return {value.number: value.name for value in reversed(enum.values)}


def _is_map(descriptor: FieldDescriptor) -> bool:
    message = descriptor.message_type
    return message is not None and message.GetOptions().map_entry


def _stumble(_: object) -> None:
    """Groups and maps: the runtime loses their order, doubles or wire form."""
    raise _RuntimeMismatchError


def _text(value: str | bytes) -> str:
    """A string; the runtime hands out bytes where they are no UTF-8."""
    if isinstance(value, bytes):
        raise _RuntimeMismatchError
    return value


def _secret_text(value: str | bytes) -> Secret:
    return Secret(_text(value).encode())
