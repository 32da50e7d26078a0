"""``data/queries.sql`` in, the queries that have a name out: ``mqsniff sql FILE :slow``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class NamedQuery(NamedTuple):
    """A query and what it tells."""

    name: str
    about: str
    remark: str
    """Which protocols can answer it, and what is left out."""
    sql: str


@cache
def named_queries() -> dict[str, NamedQuery]:
    """The queries by name, in their order."""
    text = (files("mqsniff.answers") / "data" / "queries.sql").read_text("utf-8")
    return {query.name: query for query in _read(text)}


def _read(text: str) -> Iterator[NamedQuery]:
    """Blocks of comments and SQL: a name, a sentence that says what it tells, remarks, a query up to a semicolon."""
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        name, *comment = [line.removeprefix("-- ") for line in lines if line.startswith("-- ")]
        ends = next(number for number, line in enumerate(comment, 1) if line.endswith("."))
        sql = "\n".join(lines[len(comment) + 1 :]).rstrip(";\n")
        yield NamedQuery(name.removeprefix(":"), " ".join(comment[:ends]), " ".join(comment[ends:]), sql)
