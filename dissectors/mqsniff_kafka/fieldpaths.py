"""Paths to values of one meaning (topics, errors, …) in the bodies of a layout, found once per layout.

1. A layout is searched at its first body; later bodies follow the paths. A body without such values costs a test for
   None, one with a single outer field one look-up.
2. Bodies of damaged messages lack fields, and arrays may be null: both are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from mqsniff.spec.layout import Layout
from mqsniff.spec.schema import FieldLayout, Struct
from mqsniff.spec.wire import as_name

BodyFields = dict[str, Any]

NO_ID: Final = "A" * 22
"""The topic id that means none: all zeros."""
METADATA_LOG: Final = ("A" * 21 + "Q", "__cluster_metadata")
"""Topic id and name of KRaft's log: the same in every cluster, and in no response."""
SENSITIVE: Final = "is_sensitive"
"""Field of a configuration entry: whether its value is secret."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A struct: its fields of the wanted meaning, and its fields whose structs have some."""

    fields: tuple[str, ...]
    lists: tuple[str, ...]
    """Fields that are arrays of such values."""
    inner: tuple[tuple[str, bool, Branch], ...]
    """(field, whether an array, its struct)."""
    lone: str = ""
    """Name of the field if there is exactly one and no inner struct."""


class Named(NamedTuple):
    """Structs that have a field of each wanted meaning; the fields' names are in the order of the marks."""

    fields: tuple[str, ...]
    inner: tuple[tuple[str, bool, Named], ...]
    judged: bool = False
    """Whether the structs have the field is_sensitive."""


@dataclass(frozen=True, slots=True)
class FieldPaths:
    """Paths to the values of a layout that fill columns; None for a meaning that it does not have."""

    errors: Branch | None
    topics: Branch | None
    topic_ids: Branch | None
    groups: Branch | None
    records: Branch | None
    taught: Named | None
    """Topic id and name."""
    configs: Named | None
    """Name and value of a configuration entry."""
    finite: bool
    """Whether no number in it can be NaN."""
    texts: frozenset[str]
    """Names of its text fields, if it has secrets: a wrong length may put one there."""


@cache
def field_paths_of(layout: Layout) -> FieldPaths:
    """The paths of a layout; cached, since the number of layouts is fixed."""
    struct = layout.struct
    return FieldPaths(
        find(struct, _is_error),
        find(struct, lambda item: item.mark == "topic_name"),
        find(struct, lambda item: item.mark == "topic_id"),
        find(struct, lambda item: item.mark == "group_id"),
        find(struct, lambda item: item.type == "records"),
        find_beside(struct, ("topic_id", "topic_name")),
        find_beside(struct, ("config_name", "config_value")),
        find(struct, lambda item: item.type == "float64") is None,
        frozenset(_texts(struct)) if find(struct, lambda item: item.secret) is not None else frozenset(),
    )


def _texts(struct: Struct) -> Iterator[str]:
    for item in (*struct.items, *struct.tagged):
        if item.struct is not None:
            yield from _texts(item.struct)
        elif item.type == "string":
            yield item.name


def _is_error(item: FieldLayout) -> bool:
    return item.type == "int16" and item.name.endswith("error_code")


def has_errors(item: FieldLayout) -> bool:
    """Whether a field is an error code or contains one."""
    return _is_error(item) or (item.struct is not None and find(item.struct, _is_error) is not None)


def find(struct: Struct, wanted: Callable[[FieldLayout], bool]) -> Branch | None:
    """The wanted fields of a struct and its inner structs; None if there are none."""
    fields: list[str] = []
    lists: list[str] = []
    inner: list[tuple[str, bool, Branch]] = []
    for item in (*struct.items, *struct.tagged):
        if item.struct is not None:
            if (branch := find(item.struct, wanted)) is not None:
                inner.append((item.name, item.array, branch))
        elif wanted(item):
            (lists if item.array else fields).append(item.name)
    if not (fields or lists or inner):
        return None
    lone = fields[0] if len(fields) == 1 and not lists and not inner else ""
    return Branch(tuple(fields), tuple(lists), tuple(inner), lone)


def find_beside(struct: Struct, marks: tuple[str, ...]) -> Named | None:
    """The structs that have a field of each of these marks."""
    items = (*struct.items, *struct.tagged)
    by_mark = {item.mark: item.name for item in items if not item.array and item.struct is None}
    fields = tuple(by_mark[mark] for mark in marks) if by_mark.keys() >= set(marks) else ()
    inner = [
        (item.name, item.array, found)
        for item in items
        if item.struct is not None and (found := find_beside(item.struct, marks)) is not None
    ]
    judged = any(item.name == SENSITIVE for item in items)
    return Named(fields, tuple(inner), judged) if fields or inner else None


def collect(branch: Branch, body: BodyFields, into: list[Any]) -> None:
    """Append the values of a body, outer ones first; nulls are left out. Hot: thrice a message of Produce or Fetch."""
    for name in branch.fields:
        value = body.get(name)
        if value is not None:
            into.append(value)
    for name in branch.lists:
        into += body.get(name) or ()
    for name, array, inner in branch.inner:
        value = body.get(name)
        if not value:
            continue
        if not array:
            collect(inner, value, into)
        elif inner.lone:  # the last step of most paths, without a call for each element
            into += [found for element in value if (found := element.get(inner.lone)) is not None]
        else:
            for element in value:
                collect(inner, element, into)


def holders(branch: Branch | Named, body: BodyFields, into: list[tuple[BodyFields, tuple[str, ...]]]) -> None:
    """Append (struct of the body, names of its fields) for each struct that has them."""
    if branch.fields:
        into.append((body, branch.fields))
    for name, array, inner in branch.inner:
        value = body.get(name)
        if value:
            if array:
                for element in value:
                    holders(inner, element, into)
            else:
                holders(inner, value, into)


def texts(branch: Branch | None, body: BodyFields) -> tuple[str, ...]:
    """The distinct names in a body, in order; the id that means none is left out."""
    if branch is None:
        return ()
    if branch.lone:
        value = as_name(body.get(branch.lone))
        return (value,) if value and value != NO_ID else ()
    found: list[Any] = []
    collect(branch, body, found)
    if len(found) == 1 and found[0].__class__ is str and found[0] and found[0] != NO_ID:
        return (found[0],)
    names = map(as_name, dict.fromkeys(found))
    return tuple(name for name in names if name and name != NO_ID)


def taught(named: Named | None, body: BodyFields) -> tuple[tuple[str, str], ...]:
    """(topic id, name) pairs of a body."""
    if named is None:
        return ()
    found: list[tuple[BodyFields, tuple[str, ...]]] = []
    holders(named, body, found)
    pairs = ((inner.get(names[0]), as_name(inner.get(names[1]))) for inner, names in found)
    return tuple(
        dict.fromkeys(
            (topic_id, name) for topic_id, name in pairs if isinstance(topic_id, str) and name and topic_id != NO_ID
        )
    )
