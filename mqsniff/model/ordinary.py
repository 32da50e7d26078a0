"""Responses of normal operation: their code is not 0, and still they are no errors.

1. A row is a response that healthy clients and servers exchange in normal operation: the server's code means "send your
   name", "not yet", "there is none". A response that a fault may cause too has no row: it stays an error.
2. Such a response keeps ``error_code`` and ``error_name``, but its ``error_count`` is 0. Status, ``--errors``,
   ``--fail-on`` and summaries use ``Message.failed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mqsniff.model.values import Value


class Ordinary(NamedTuple):
    """One such response; with a ``field``, only if that field of the request has one of the ``values``."""

    name: str
    """Name of the response in the table ``messages``."""
    code: int
    error: str
    """Name of the code in the protocol."""
    why: str
    field: str = ""
    values: tuple[str, ...] = ()
    """Texts; a ``*`` at the end means any ending."""

    @property
    def when(self) -> str:
        """The condition in words; empty if there is none."""
        return f"{self.field} of the request is {' or '.join(map(repr, self.values))}" if self.field else ""


class OrdinaryAnswers:
    """The table of one protocol."""

    def __init__(self, *rows: Ordinary) -> None:
        self.rows = rows
        self._rows = {(row.name, row.code): row for row in rows}

    def has(self, name: str, code: int, pending: Mapping[str, Value]) -> bool:
        """Whether a response with this name and code has a row; ``pending``: fields of its request."""
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
