"""``mqsniff protocols --seen DIR``: what captures exercise of the protocols, and what not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mqsniff.cli.talk import remark, say

if TYPE_CHECKING:
    from mqsniff.answers.exercised import Exercised
    from mqsniff.decode.registry import LoadedDissector

NAMES_SHOWN: Final = 12


def show_seen(paths: Sequence[Path], loaded: Sequence[LoadedDissector], *, verbose: bool, as_json: bool) -> int:
    """Print what captures below paths exercise of dissectors; the exit code."""
    from mqsniff.answers.captures import captures_under
    from mqsniff.answers.exercised import Sightings, exercised

    captures = captures_under(paths)
    if not captures:
        say(f"mqsniff: no captures under {', '.join(map(str, paths))}")
        return 2
    sightings = Sightings()
    for capture in _watched(captures):
        sightings.read(capture)
    found = list(exercised(sightings, loaded))
    if as_json:
        _print_json(found)
    else:
        _print_grid(found, verbose=verbose)
    for name, why in sightings.unreadable.items():
        say(f"mqsniff: {name}: {why}")
    remark(f"{sightings.captures} captures" + ("" if verbose or as_json else "; -v lists every name, --json too"))
    return 2 if len(sightings.unreadable) == len(captures) else 0


def _watched(captures: Sequence[Path]) -> Iterator[Path]:
    """The captures; on a terminal with a bar."""
    if not sys.stderr.isatty():
        yield from captures
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress

    with Progress(BarColumn(), MofNCompleteColumn(), console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(captures)


def _print_json(found: Sequence[Exercised]) -> None:
    import orjson

    rows = [each._asdict() for each in found]
    click.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())


def _print_grid(found: Sequence[Exercised], *, verbose: bool) -> None:
    from mqsniff.cli.grid import show_grid

    limit = None if verbose else NAMES_SHOWN
    rows = [
        (
            each.protocol,
            each.what,
            f"{len(each.seen)} of {len(each.seen) + len(each.unseen)}" if each.seen or each.unseen else "",
            _some(each.unseen, limit),
            _some([f"{name} ({count})" for name, count in sorted(each.other.items())], limit),
        )
        for each in found
    ]
    show_grid("", ("protocol", "what", "seen", "not seen", "not listed"), rows)
    if not verbose:
        return
    seen = [
        (each.protocol, each.what, name, f"{count:,}")
        for each in found
        for name, count in sorted(each.seen.items(), key=lambda pair: -pair[1])
    ]
    click.echo()
    show_grid("", ("protocol", "what", "name", "times"), seen, numbers=(3,))


def _some(names: Sequence[str], limit: int | None) -> str:
    text = ", ".join(names[:limit])
    left = len(names) - len(names[:limit])
    return f"{text}, and {left} more" if left else text
