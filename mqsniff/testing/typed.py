"""Whether what a dissector tells has the types that model and tables declare: compiled code and sinks rely on them.

mypyc checks the types of attributes and of what is unpacked at run time; pure Python does not, and would let bytes pass
where text belongs until some sink stumbles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from types import UnionType
from typing import IO, Any, Final, Literal, get_args, get_origin, get_type_hints

from mqsniff import model
from mqsniff.model import Identity, Message, Problem, RecordBatch, messages
from mqsniff.tables.schemas import TABLES, ColumnType, TableName

COMPILED: Final = not str(messages.__file__).endswith(".py")
"""Whether the model is compiled: it looks at its types itself then, and its annotations say less."""


def _hints(noun: type) -> dict[str, Any]:
    return {} if COMPILED else get_type_hints(noun, localns={**vars(model), "Value": Any})


_MESSAGE: Final = _hints(Message)
_IDENTITY: Final = _hints(Identity)
_PROBLEM: Final = _hints(Problem)
_COLUMNS: Final[dict[ColumnType, tuple[type, ...]]] = {
    "text": (str,),
    "int64": (int,),
    "bool": (bool,),
    "timestamp": (int,),
}
_UNLOOKED: Final = {"frame", "body", "notes", "records", "partitions", "pending", "resolved", "answered", "problems"}


def wrong_types(event: object) -> list[str]:
    """What of an event has another type than is declared, in words; empty where all is well."""
    match event:
        case Message():
            return [*_fields(event, _MESSAGE, _UNLOOKED), *_inside(event)]
        case Problem():
            return [*_fields(event, _PROBLEM, set())]
    return []


def wrong_identity(identity: Identity) -> list[str]:
    """The same of what a connection said of its ends."""
    return [*_fields(identity, _IDENTITY, set())]


def _inside(message: Message) -> Iterator[str]:
    for label, _ in message.notes:
        if type(label) is not str:
            yield f"notes: {label!r}"
    for problem in message.problems:
        yield from _fields(problem, _PROBLEM, set())
    for row in message.partitions:
        yield from _row("partitions", row)
    for batch in message.records:
        yield from _batch(batch)
    for pending in message.pending:
        yield from _row("exchanges", pending.extra)


def _fields(thing: object, hints: dict[str, Any], but: set[str]) -> Iterator[str]:
    for field in fields(thing):  # type: ignore[arg-type]
        value = getattr(thing, field.name)
        if field.name in hints.keys() - but and not fits(value, hints[field.name]):
            yield f"{type(thing).__name__}.{field.name}: {value!r}"


def fits(value: object, hint: Any) -> bool:
    """Whether a value has a type, as far as mypyc looks: not at members of lists and dicts."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is UnionType or str(origin) == "typing.Union":
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        if inner[-1:] == (Ellipsis,):
            return isinstance(value, tuple) and all(fits(member, inner[0]) for member in value)
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(fits, value, inner))
    if hint is float:
        return isinstance(value, float | int)
    kind = origin or hint
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False) or issubclass(kind, IO):
        return True
    return isinstance(value, kind)


def _row(table: TableName, row: dict[str, Any]) -> Iterator[str]:
    """Columns of a row, or what is the same for all rows."""
    for column in TABLES[table]:
        value = row.get(column.name)
        if value is not None and not _is(value, column.type):
            yield f"{table}.{column.name}: {value!r}"


def _is(value: object, kind: ColumnType) -> bool:
    types = _COLUMNS.get(kind)
    if types is None:
        return True
    return isinstance(value, types) and (kind == "bool" or not isinstance(value, bool))


def _batch(batch: RecordBatch) -> Iterator[str]:
    yield from _row("records", batch.constant)
    for column in TABLES["records"]:
        values = batch.columns.get(column.name, ())
        odd = [value for value in values if value is not None and not _is(value, column.type)]
        if odd and not hasattr(values, "dtype"):
            yield f"records.{column.name}: {odd[0]!r}"
