"""Answers that are no errors though their code is not 0: a protocol's table of them in, which answers it means out.

1. A row stands for what a healthy client and a healthy server exchange in the course that their protocol was designed
   for: the code is how the server says "give your name", "not yet", "there is none". What a client cannot foresee, or
   what may as well come of a fault, has no row: it stays an error.
2. Such an answer keeps its code and name in ``error_code`` and ``error_name`` and counts as none in ``error_count``:
   what speaks of errors (status, ``--errors``, ``--fail-on``, summaries) goes by ``Message.failed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mqsniff.model.values import Value


class Ordinary(NamedTuple):
    """One such answer; with a ``field``, only to a request whose field has one of the ``values``."""

    name: str
    """Name of the answer, as the table ``messages`` has it."""
    code: int
    error: str
    """What the protocol calls the code."""
    why: str
    field: str = ""
    values: tuple[str, ...] = ()
    """Texts; one that ends with ``*`` means every text that begins with the rest of it."""

    @property
    def when(self) -> str:
        """The condition in words; empty where there is none."""
        return f"{self.field} of the request is {' or '.join(map(repr, self.values))}" if self.field else ""


class OrdinaryAnswers:
    """The table of one protocol."""

    def __init__(self, *rows: Ordinary) -> None:
        self.rows = rows
        self._rows = {(row.name, row.code): row for row in rows}

    def has(self, name: str, code: int, pending: Mapping[str, Value]) -> bool:
        """Whether an answer with this name and code is one of them; ``pending`` are the fields of its request."""
        row = self._rows.get((name, code))
        if row is None:
            return False
        return not row.field or _fits(pending.get(row.field), row.values)

    def described(self) -> list[dict[str, Value]]:
        """The rows as ``mqsniff protocols`` shows them."""
        return [
            {"answer": row.name, "code": row.code, "name": row.error, "when": row.when or None, "why": row.why}
            for row in self.rows
        ]


def _fits(value: Value, patterns: tuple[str, ...]) -> bool:
    if not isinstance(value, str):
        return False
    return any(value.startswith(one[:-1]) if one.endswith("*") else value == one for one in patterns)
