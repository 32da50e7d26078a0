"""Two definitions of one message in, one that loses nothing out: how our pages stay whole when Kafka drops versions.

1. Versions are sets of numbers; what no range can say is UnmergeableError.
2. A merge is proved: at each version the layout must be that of the definition it came from, names and all.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafka_notation import PRIMITIVES, Block, Field

Range = tuple[int, int]
OPEN: Final = 0x7FFF


class UnmergeableError(Exception):
    """Two definitions that do not fit into one."""


# ---- ranges


def held(text: str) -> Range:
    """A range of versions as numbers; empty ones have their end before their start."""
    if text == "none":
        return 0, -1
    if text.endswith("+"):
        return int(text[:-1]), OPEN
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def inside(text: str, versions: Iterable[int]) -> set[int]:
    """Those of ``versions`` that the range holds."""
    first, last = held(text)
    return {version for version in versions if first <= version <= last}


def spelled(part: set[int], whole: set[int]) -> str:
    """``part`` of ``whole`` as a range, empty text for all of it; UnmergeableError where it is no range."""
    if part == whole:
        return ""
    first, last = min(part), max(part)
    if part != {version for version in whole if first <= version <= last}:
        raise UnmergeableError
    if last == max(whole):
        return f"{first}+"
    return str(first) if first == last else f"{first}-{last}"


# ---- one layout, to compare by


def layout(block: Block, version: int) -> Any:
    """What a version looks like: nested tuples of (name, type, array, nullable, tag, old encoding, fields)."""
    known = dict(block.structs)
    for one in walk(block):
        if one.fields:
            known.setdefault(one.type, one.fields)

    def of(fields: list[Field]) -> Any:
        return tuple(
            (
                one.name,
                one.type if one.type in PRIMITIVES else "struct",
                one.array,
                one.nullable is not None and bool(inside(one.nullable or "0+", [version])),
                one.tag if inside(one.tagged or "0+", [version]) else None,
                one.old_encoding,
                () if one.type in PRIMITIVES else of(one.fields or known[one.type]),
            )
            for one in fields
            if inside(one.versions or "0+", [version])
        )

    return bool(inside(block.flexible, [version])), of(block.fields)


def bytes_of(shape: Any) -> Any:
    """A layout without what leaves the bytes as they are: names, new tags, null where the length can say it."""
    flexible, fields = shape

    def of(items: Any) -> Any:
        return tuple(
            (kind, array, null and kind == "struct" and not array, old, of(inner))
            for _, kind, array, null, tag, old, inner in items
            if tag is None
        )

    return flexible, of(fields)


def walk(block: Block) -> Iterator[Field]:
    """Every field of a block, structs included."""

    def of(fields: list[Field]) -> Iterator[Field]:
        for one in fields:
            yield one
            yield from of(one.fields)

    yield from of(block.fields)
    for fields in block.structs.values():
        yield from of(fields)


# ---- merging


@dataclass
class Merged:
    """What became of a definition: the block that stands first, and those beside it."""

    main: Block
    beside: list[Block]
    notes: list[str]


def merge(new: Block, old: Block, releases_before: str) -> Merged:
    """Bring a definition up to date and lose nothing that the old one could read."""
    now, then = inside(new.versions, range(256)), inside(old.versions, range(256))
    changed = {v for v in now & then if bytes_of(layout(new, v)) != bytes_of(layout(old, v))}
    beside, notes = [], []
    if changed:
        beside += [only(old, run, variant=releases_before) for run in runs(changed)]
        notes.append(f"{new.name}: versions {sorted(changed)} mean other bytes now; the old meaning stays as a variant")
    carry_marks(new, old)
    gone = then - now
    main = new
    if gone and now:
        try:
            main = grafted(new, old, now, gone)
        except UnmergeableError:
            beside += [only(old, run, legacy=True) for run in runs(gone)]
            notes.append(f"{new.name}: versions {sorted(gone)} stay in a definition of their own")
    elif gone:
        main = copy.deepcopy(old)
        main.legacy = main.versions
    if now - then:
        notes.append(f"{new.name}: new versions {sorted(now - then)}")
    if gone - inside(old.legacy, gone):
        notes.append(f"{new.name}: versions {sorted(gone - inside(old.legacy, gone))} dropped, kept as legacy")
    return Merged(main, beside, notes)


def runs(versions: set[int]) -> list[set[int]]:
    """Versions that follow one another, together."""
    found: list[set[int]] = []
    for version in sorted(versions):
        if found and version - 1 in found[-1]:
            found[-1].add(version)
        else:
            found.append({version})
    return found


def whole_range(versions: set[int]) -> str:
    """A range for a set that stands alone."""
    first, last = min(versions), max(versions)
    if len(versions) != last - first + 1:
        raise UnmergeableError
    return str(first) if first == last else f"{first}-{last}"


def only(old: Block, versions: set[int], *, variant: str = "", legacy: bool = False) -> Block:
    """A copy of a block cut down to some versions."""
    block = copy.deepcopy(old)
    block.versions, block.variant = whole_range(versions), variant
    block.legacy = block.versions if legacy else "none"
    if not inside(block.flexible, versions):
        block.flexible = "none"
    whole = inside(old.versions, range(256))
    block.fields = _cut(block.fields, whole, versions)
    block.structs = {name: _cut(fields, whole, versions) for name, fields in block.structs.items()}
    return block


def _cut(fields: list[Field], whole: set[int], versions: set[int]) -> list[Field]:
    """Fields of ``whole`` as fields of ``versions``, a part of it."""
    kept = []
    for one in fields:
        wide = inside(one.versions or "0+", whole)
        part = wide & versions
        if not part:
            continue
        nullable = inside(one.nullable or "0+", part) if one.nullable is not None else set()
        tagged = inside(one.tagged or "0+", part)
        one.versions = spelled(part, versions)
        one.nullable = spelled(nullable, part) if nullable else None
        one.tag, one.tagged = (one.tag, spelled(tagged, part)) if tagged else (None, "")
        one.fields = _cut(one.fields, wide, part)
        kept.append(one)
    return kept


def grafted(new: Block, old: Block, now: set[int], gone: set[int]) -> Block:
    """``new`` with what ``old`` needs for the versions that are gone; UnmergeableError where a layout would change."""
    block = copy.deepcopy(new)
    versions = now | gone
    block.versions, block.legacy = whole_range(versions), whole_range(gone)
    flexible = inside(new.flexible, now) | inside(old.flexible, gone)
    block.flexible = (spelled(flexible, versions) or "0+") if flexible else "none"
    block.fields = _graft(new.fields, old.fields, now, gone)
    names = [*new.structs, *(name for name in old.structs if name not in new.structs)]
    for name in names:
        block.structs[name] = _graft(new.structs.get(name, []), old.structs.get(name, []), now, gone)
    block.structs = {name: fields for name, fields in block.structs.items() if fields}
    unlike = [v for v in now if layout(block, v) != layout(new, v)]
    unlike += [v for v in gone if layout(block, v) != layout(old, v)]
    if unlike:
        raise UnmergeableError
    return block


def _graft(new: list[Field], old: list[Field], now: set[int], gone: set[int]) -> list[Field]:
    """The fields of both; ``now`` and ``gone`` are the versions in which the parent stands."""
    result = copy.deepcopy(new)
    place = 0
    for one in old:
        if not inside(one.versions or "0+", gone):
            continue
        found = next((index for index, kept in enumerate(result) if kept.name == one.name), None)
        if found is None:
            result.insert(place, copy.deepcopy(one))
            place += 1
        else:
            place = found + 1
    earlier = {one.name: one for one in old}
    later = {one.name: one for one in new}
    return [_both(one, later.get(one.name), earlier.get(one.name), now, gone) for one in result]


def _both(one: Field, new: Field | None, old: Field | None, now: set[int], gone: set[int]) -> Field:
    """A field that holds where either definition has it."""
    if new and old and (new.type, new.array, new.old_encoding) != (old.type, old.array, old.old_encoding):
        raise UnmergeableError
    in_new = inside(new.versions or "0+", now) if new else set()
    in_old = inside(old.versions or "0+", gone) if old else set()
    part = in_new | in_old
    nullable = (inside(new.nullable or "0+", in_new) if new and new.nullable is not None else set()) | (
        inside(old.nullable or "0+", in_old) if old and old.nullable is not None else set()
    )
    tagged = (inside(new.tagged or "0+", in_new) if new and new.tag is not None else set()) | (
        inside(old.tagged or "0+", in_old) if old and old.tag is not None else set()
    )
    one.versions = spelled(part, now | gone)
    one.nullable = spelled(nullable, part) if nullable else None
    one.tagged = spelled(tagged, part) if tagged else ""
    one.fields = _graft(new.fields if new else [], old.fields if old else [], in_new, in_old)
    return one


def carry_marks(new: Block, old: Block) -> None:
    """Give fields of the new definition the marks and comments that people gave them in the old one."""
    new.comment = old.comment

    def of(fields: list[Field], before: list[Field]) -> None:
        known = {one.name: one for one in before}
        for one in fields:
            earlier = known.get(one.name)
            if earlier is None:
                continue
            one.marks, one.comment = earlier.marks or one.marks, earlier.comment
            of(one.fields, earlier.fields)

    of(new.fields, old.fields)
    for name, fields in new.structs.items():
        of(fields, old.structs.get(name, []))
