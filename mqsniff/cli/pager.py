"""A command that shows text in, a stream to it out: ``--pager``, or MQSNIFF_PAGER.

1. The command is MQSNIFF_PAGER, else ``less -RS``: colours as they are, long lines to be scrolled. The shell runs it,
   as its user wrote it.
2. A reader that leaves early ends the run quietly, as with any pipe.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import BinaryIO, Final

import click

VARIABLE: Final = "MQSNIFF_PAGER"
USUAL: Final = "less -RS"


class Pager:
    """A process that shows what is written to its stream."""

    def __init__(self, command: str) -> None:
        """Raises click.UsageError for a command that there is not."""
        program = command.strip().partition(" ")[0]
        if shutil.which(program) is None:
            raise click.UsageError(f"no pager {program!r}: set {VARIABLE} to a command that there is")
        self._process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE)  # noqa: S602  # the user's own
        assert self._process.stdin is not None
        self.stream: BinaryIO = self._process.stdin  # type: ignore[assignment]  # typeshed: IO[bytes]

    def close(self) -> None:
        """Tell it that nothing more comes, and wait until its reader has seen enough."""
        try:
            self.stream.close()
        finally:
            while True:
                try:
                    self._process.wait()
                    break
                except KeyboardInterrupt:  # belongs to the pager's reader
                    continue


def pager_command(*, wanted: bool) -> str | None:
    """The command, if the user wants one here or always."""
    chosen = os.environ.get(VARIABLE)
    return chosen or (USUAL if wanted else None)
