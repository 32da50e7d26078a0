"""Options that stand in sections of ``--help``, so that thirty of them can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class Decorator(Protocol):
    """Adds something to a command, whatever its type."""

    def __call__(self, command: CommandT, /) -> CommandT:
        """The command with it."""
        ...


class SectionedOption(click.Option):
    """An option that knows its section of the help."""

    def __init__(self, *declarations: Any, section: str, **attributes: Any) -> None:
        super().__init__(*declarations, **attributes)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help shows its options by section, in the order in which they first appear."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; ``--help``, which the reader has found, is left out."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if isinstance(param, SectionedOption) and record is not None:
                sections.setdefault(param.section, []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def option(section: str, *declarations: str, **attributes: Any) -> Decorator:
    """An option of a section, to decorate a command with."""
    return click.option(*declarations, cls=SectionedOption, section=section, **attributes)


def all_of(options: tuple[Decorator, ...]) -> Decorator:
    """Many options as one decorator, in their order."""

    def decorate(command: CommandT) -> CommandT:
        for each in reversed(options):
            command = each(command)
        return command

    return decorate
