"""The command ``mqsniff``: arguments in, an exit code out; each command is a module that is imported when it is used.

1. Data on stdout, talk on stderr.
2. Exit 0: fine, also when the reader of a pipe goes away; 1: ``--fail-on`` or ``check`` found something; 2: usage,
   unreadable input, or rows or talk that could not be written (a full disk, a stream that is closed); 130: interrupted.
3. An error is one line: where, what, what to do.
4. Heavy modules are imported only when a command runs.
"""

from __future__ import annotations

import contextlib
import difflib
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Never

import click

from mqsniff.answers.captures import is_capture_name
from mqsniff.cli.signals import code_of
from mqsniff.cli.talk import open_standard_streams, say, was_missed
from mqsniff.cli.version import print_version

COMMANDS: Final = {
    "decode": "Decode captures: text, NDJSON, CSV or Parquet files.",
    "live": "Decode packets of interfaces, or of captures that grow.",
    "stats": "Count what is in captures, and show what is wrong where.",
    "report": "Write one HTML page about captures.",
    "trace": "Follow one record, group, connection or transaction.",
    "explain": "Explain a packet, field by field beside its bytes.",
    "extract": "Extract the packets of chosen messages into a capture.",
    "sql": "Ask the tables with SQL.",
    "batch": "Decode archives of captures into tables, with Apache Spark.",
    "check": "Compare captures with their goldens, or check statements.",
    "protocols": "Show what can be decoded.",
}
"""Name -> what it is for, in the order of use."""

SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 120}

EPILOG: Final = """\b
Examples:
  mqsniff capture.pcapng                     what is in it, a line a message
  mqsniff decode -v --records capture.pcap   with every field and every record
  mqsniff decode capture.pcap | jq .name     NDJSON into a pipe
  mqsniff capture.pcap --topic orders        one topic; many more filters
  mqsniff sql capture.pcap 'from problems'   asked with SQL
  mqsniff explain capture.pcap 113           a packet, field by field
  mqsniff extract capture.pcap --errors -w share.pcapng
  tcpdump -w - -U | mqsniff decode -         while it is captured

In bash, eval "$(_MQSNIFF_COMPLETE=bash_source mqsniff)" switches on completion (also zsh_source, fish_source).

`mqsniff FILE` is short for `mqsniff decode FILE`. `mqsniff COMMAND --help` says more.
"""


class Commands(click.Group):
    """The group of commands; a capture instead of a command means decode."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Names in the order of use."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """Write what each command is for, without importing it."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"mqsniff.cli.{cmd_name}").command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``decode`` if the command was left out."""
        quiet, rest = _apart(args)
        if args and _means_decode((rest or args)[0]):
            rest = ["decode", *(rest or args)]
        args = [*rest[:1], *quiet, *rest[1:]] if rest else args
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a usage error for what is neither a command nor a file."""
        if args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            hint = f", did you mean {near[0]}?" if near else ""
            ctx.fail(f"no command and no file {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; if the reader of a pipe goes away, it ends without an error."""
        # numpy would start threads for linear algebra, which is not used here: half of its start-up time.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # Decoding makes many objects and few cycles: at Python's threshold, collecting takes a tenth of the time.
        gc.set_threshold(50_000)
        try:
            code: int = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _silence_stdout()
            return 0
        except OSError as error:
            raise _of_stdout(error) from None
        return code

    def main(  # type: ignore[override]  # click overloads it by ``standalone_mode``, which is decided here
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Never:
        """Run, report an error in one line, and exit with the code."""
        extra["standalone_mode"] = False
        open_standard_streams()
        code = self._exit_code(args, prog_name or "mqsniff", extra)
        sys.exit(2 if code in (0, 1) and was_missed() else code)

    def _exit_code(self, args: Sequence[str] | None, prog_name: str, extra: dict[str, Any]) -> int:
        """Run and report an error; returns the exit code."""
        code: int
        try:
            code = super().main(args, prog_name, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            for line in error.format_message().splitlines():
                say(line)
            code = error.exit_code
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "mqsniff"
            say(f"{where}: {error.format_message().rstrip('.')} ({where} --help)")
            code = error.exit_code
        except click.FileError as error:
            say(f"mqsniff: {error.ui_filename}: {error.message}")
            code = 2
        except click.ClickException as error:
            say(f"mqsniff: {error.format_message()}")
            code = error.exit_code
        except click.Abort:
            code = 130
        except RuntimeError as error:  # Python before 3.12 makes it of a Ctrl-C while a class is made
            if not isinstance(error.__cause__, KeyboardInterrupt):
                raise
            code = code_of(error.__cause__)
        except OSError as error:  # help and version
            say(f"mqsniff: stdout: {_of_stdout(error).message}")
            code = 2
        return code or 0


def _apart(args: list[str]) -> tuple[list[str], list[str]]:
    """``-q`` before everything, which belongs after the command, and the rest."""
    count = next((place for place, each in enumerate(args) if each not in ("-q", "--quiet")), len(args))
    return args[:count], args[count:]


def _means_decode(argument: str) -> bool:
    """Whether a first argument belongs to ``decode``: a capture, stdin, or an option that the group does not have."""
    if argument in COMMANDS or argument in ("--help", "-h", "--version"):
        return False
    return argument.startswith("-") or Path(argument).exists() or is_capture_name(argument) or "://" in argument


def _of_stdout(error: OSError) -> click.FileError:
    """A write error as an error of stdout: inputs and output files have their own errors, so only stdout is left."""
    _silence_stdout()
    return click.FileError("stdout", error.strerror or str(error))


def _silence_stdout() -> None:
    """Redirect stdout to the null device, so that the interpreter's last flush does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group("mqsniff", cls=Commands, epilog=EPILOG, context_settings=SETTINGS)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version and whether this build is compiled, and exit.",
)
def main() -> None:
    """Decode the traffic of message queues out of packet captures."""
