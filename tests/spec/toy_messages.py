"""A small descriptor set of both syntaxes, and protobuf's wire forms written by hand."""

from __future__ import annotations

from google.protobuf import descriptor_pb2

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = [
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32"),
    *("sfixed32", "sfixed64", "sint32", "sint64"),
]


def descriptor_set() -> bytes:
    """A file of each syntax: every scalar once and repeated, an enum, a message in itself, a oneof, a map, a group."""
    files = descriptor_pb2.FileDescriptorSet()
    for syntax in ("proto2", "proto3"):
        file = files.file.add(name=f"{syntax}.proto", package=syntax, syntax=syntax)
        enum = file.enum_type.add(name="Color")
        for number, name in enumerate(("NONE", "RED", "BLUE")):
            enum.value.add(name=name, number=number)
        message = file.message_type.add(name="All")
        for number, kind in enumerate(SCALARS, 1):
            _field(message, number, f"one_{kind}", kind)
            _field(message, 20 + number, f"many_{kind}", kind, repeated=True)
        _field(message, 40, "color", "enum", f".{syntax}.Color")
        _field(message, 41, "colors", "enum", f".{syntax}.Color", repeated=True)
        _field(message, 42, "inner", "message", f".{syntax}.All")
        _field(message, 43, "inners", "message", f".{syntax}.All", repeated=True)
        secret = _field(message, 44, "token", "bytes")
        secret.options.debug_redact = True
        password = _field(message, 45, "password", "string")
        password.options.debug_redact = True
        message.oneof_decl.add(name="either")
        _field(message, 46, "left", "uint32").oneof_index = 0
        _field(message, 47, "right", "message", f".{syntax}.All").oneof_index = 0
    strict = files.file[0].message_type.add(name="Strict")
    _field(strict, 1, "name", "string").label = Field.LABEL_REQUIRED
    _field(strict, 2, "inner", "message", ".proto2.Strict")
    _field(strict, 3, "inners", "message", ".proto2.Strict", repeated=True)
    grouped = files.file[0].message_type.add(name="Grouped")
    group = grouped.nested_type.add(name="Pair")
    _field(group, 1, "x", "int32")
    _field(grouped, 1, "pair", "group", ".proto2.Grouped.Pair")
    mapped = files.file[1].message_type.add(name="Mapped")
    entry = mapped.nested_type.add(name="PlacesEntry")
    entry.options.map_entry = True
    _field(entry, 1, "key", "string")
    _field(entry, 2, "value", "int32")
    _field(mapped, 1, "places", "message", ".proto3.Mapped.PlacesEntry", repeated=True)
    return files.SerializeToString()


def _field(message, number, name, kind, type_name="", *, repeated=False):
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    kind = getattr(Field, f"TYPE_{kind.upper()}")
    return message.field.add(name=name, number=number, type=kind, label=label, type_name=type_name or None)


def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def sized(number: int, content: bytes) -> bytes:
    return tag(number, 2) + varint(len(content)) + content
