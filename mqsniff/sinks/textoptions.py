"""How text output looks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mqsniff.model import Message
from mqsniff.sinks.clock import TimeMode
from mqsniff.tables.schemas import STREAM_TABLES, TableName
from mqsniff.tables.values import Redaction

NARROW: Final = 130
"""Terminals with fewer columns get short names of connections, and no protocols: the line at the close has them."""

CodeNames: TypeAlias = Callable[[Message, str, int], str | None]
"""A message, a field of its body and a number in it -> what the specification calls it, if it has a name."""


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How text output looks."""

    time: TimeMode = "utc"
    body: bool = False
    records: bool = False
    network: bool = False
    """Whether lines tell what the network did."""
    color: bool = False
    width: int | None = None
    """Columns of the terminal; None for a pipe."""
    wide: bool = False
    """Whether lines are wrapped at the width, not cut."""
    packets: bool = False
    """Whether lines name the packet they begin in."""
    live: bool = False
    """Whether somebody watches while packets come: nothing is held back for long."""
    code_name: CodeNames | None = None
    """What codes in bodies are called."""
    encoding: str = "utf-8"
    tables: Collection[TableName] = STREAM_TABLES
    shown: Redaction = field(default_factory=Redaction)

    @property
    def narrow(self) -> bool:
        """Whether there is no room for endpoints in every line."""
        return self.width is not None and self.width < NARROW
