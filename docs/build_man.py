"""The help of all commands in, the man page ``mqsniff.1`` out: the same texts.

python docs/build_man.py            writes docs/mqsniff.1
python docs/build_man.py --check    fails where the committed file is not what they give
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Final

import click
from generated import write

from mqsniff.cli import COMMANDS, main
from mqsniff.cli.sections import option_sections

PAGE: Final = Path(__file__).parent / "mqsniff.1"

ENDING: Final = """\
.SH EXIT STATUS
0: fine; 1: what \\-\\-fail\\-on or check looked for was found; 2: usage, or input that cannot be read; 130: Ctrl\\-C.
.SH ENVIRONMENT
NO_COLOR: no colours. MQSNIFF_PAGER: command that shows text, as with \\-\\-pager.
.SH COMPLETION
In bash: eval "$(_MQSNIFF_COMPLETE=bash_source mqsniff)"; zsh_source and fish_source give those of other shells.
"""


def page() -> str:
    """The whole page."""
    context = click.Context(main, info_name="mqsniff", **main.context_settings)
    parts = [
        '.\\" Made by docs/build_man.py from the help of the commands: do not edit.\n',
        '.TH MQSNIFF 1 "" "mqsniff" "User Commands"\n',
        f".SH NAME\nmqsniff \\- {_plain(_first(main.help or ''))}\n",
        ".SH SYNOPSIS\n.B mqsniff\nCOMMAND [OPTIONS] ...\n.br\n.B mqsniff\nFILE\n",
        *_examples(main.epilog),
    ]
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        parts += _command(command, click.Context(command, context, name))
    return "".join([*parts, ENDING])


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SH MQSNIFF {_plain((context.info_name or '').upper())}\n.B mqsniff {context.info_name}\n{_plain(usage)}\n"
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        yield f".PP\n{_plain(' '.join(paragraph.split()))}\n"
    for section, records in option_sections(command, context).items():
        yield f".SS {_plain(section)}\n"
        for names, text in records:
            yield f".TP\n.B {_plain(names)}\n{_plain(text)}\n"
    yield from _examples(command.epilog)


def _examples(epilog: str | None) -> Iterator[str]:
    """What stands below the options, its examples as they are written."""
    for block in cleandoc(epilog or "").split("\n\n"):
        lines = block.strip().split("\n")
        if lines[0].strip() == "\b":
            yield ".PP\n.nf\n" + "".join(f"{_plain(line)}\n" for line in lines[1:]) + ".fi\n"
        elif block.strip():
            yield f".PP\n{_plain(' '.join(block.split()))}\n"


def _first(text: str) -> str:
    return text.partition("\n")[0].rstrip(".")


def _plain(text: str) -> str:
    """Text that troff takes for nothing else."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def build(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or check it; the exit code."""
    return write(PAGE, page(), "build_man.py", arguments)


if __name__ == "__main__":
    sys.exit(build())
