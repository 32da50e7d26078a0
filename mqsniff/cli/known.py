"""Values of closed lists: text of the user in, the value or a usage error with similar names out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from mqsniff.filters.known import did_you_mean, nearest, unknown

if TYPE_CHECKING:
    Choice = click.Choice[str]
else:
    Choice = click.Choice

__all__ = ["OneOf", "did_you_mean", "nearest", "unknown"]


class OneOf(Choice):
    """A click type: one of a closed list of names; ``what`` is the noun for them."""

    def __init__(self, what: str, names: Iterable[str]) -> None:
        super().__init__(list(names))
        self.what = what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The value; BadParameter with similar names if it is unknown."""
        if value not in self.choices:
            self.fail(unknown(self.what, str(value), self.choices), param, ctx)
        return str(value)
