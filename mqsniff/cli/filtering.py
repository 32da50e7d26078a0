"""The filter options, the same for every command: click parameters in, ``Filters`` out.

The options stand in ``mqsniff/filters/options.py``, what each of them means in ``mqsniff/filters/itemfilter.py``. A
value that cannot be meant is refused before anything is read; a command's name that no dissector gives is told of,
since a newer protocol may have it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from mqsniff.cli.sections import Decorator, all_of, option
from mqsniff.cli.talk import say
from mqsniff.filters.itemfilter import Filters
from mqsniff.filters.options import FILTER_OPTIONS, FilterOption
from mqsniff.filters.patterns import Patterns
from mqsniff.filters.readings import asked_filters, read_name, unknown_names

_SECTION: Final = "Filters (any of the values of one option, all of the options)"


def complete_protocol(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Protocols that begin so, for the shell."""
    from mqsniff.decode.registry import load_dissectors, protocols

    return [name for name in protocols(load_dissectors()) if name.startswith(incomplete)]


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Commands that begin so, for the shell: those of the protocols that were chosen before."""
    from mqsniff.decode.registry import load_dissectors, message_names

    chosen = ctx.params.get("protocols") or ()
    known = message_names(load_dissectors(), Patterns(chosen).fit) or ()
    return sorted(name for name in known if name.lower().startswith(incomplete.lower()))


_COMPLETIONS: Final = {"--protocol": complete_protocol, "--name": complete_name}


def reading(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback of click that reads one value, or each of many; a ValueError of ``read`` is told in one line."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(map(read, value))
            return None if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


def _click_option(filter_option: FilterOption) -> Decorator:
    """A filter as an option of click."""
    name, field, takes, metavar, read, text = filter_option
    if takes == "flag":
        return option(_SECTION, name, field, is_flag=True, help=text)
    many = takes == "many"
    return option(
        _SECTION, name, field, multiple=many, metavar=metavar, callback=reading(read),
        help=f"{text}; repeatable." if many else text, shell_complete=_COMPLETIONS.get(name)
    )  # fmt: skip


filter_options: Final = all_of(tuple(map(_click_option, FILTER_OPTIONS)))
"""Decorates a command with all filters but ``--where``."""

where_option: Final = option(
    _SECTION, "--where", metavar="SQL", callback=reading(read_name),
    help="Rows for which this is true, of the tables that have its columns: 'size > 1e6' fits messages, 'work_ns > 5e6'"
         " --table exchanges, 'value_size > 1e6' --table records; decides last."
)  # fmt: skip


def filters_of(options: dict[str, Any]) -> Filters:
    """Take the filters out of the parameters of a command; names that no command has are told on stderr.

    Times that a capture decides stay there as ``times``. Raises click.UsageError for a time that ends before it begins.
    """
    values = {name: options.pop(name) for name in Filters.__dataclass_fields__}
    try:
        filters, options["times"] = asked_filters(values)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    for warning in unknown_names(filters):
        say(f"mqsniff: {warning}")
    return filters
