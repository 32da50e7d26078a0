"""Options that stand in sections of ``--help``, so that thirty of them can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import click

from mqsniff.cli.talk import QUIET

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


OTHER: Final = "Other"
"""Section of what every command has."""


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


def _be_quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001  # click's
    ctx.meta[QUIET] = value


def _quiet_option() -> SectionedOption:
    return SectionedOption(
        ["-q", "--quiet"],
        section=OTHER,
        is_flag=True,
        expose_value=False,
        callback=_be_quiet,
        help="Print only warnings and errors on stderr: no totals, no hints.",
    )


class SectionedCommand(click.Command):
    """A command whose help shows its options by section, in the order in which they first appear; all have ``-q``."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.params.append(_quiet_option())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options; those without a section, such as ``--help``, stand in the last one."""
        sections = option_sections(self, ctx)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def option_sections(command: click.Command, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """The options of a command by section, each as its names and its help."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            section = param.section if isinstance(param, SectionedOption) else OTHER
            sections.setdefault(section, []).append(record)
    if OTHER in sections:
        sections[OTHER] = sections.pop(OTHER)
    return sections


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
