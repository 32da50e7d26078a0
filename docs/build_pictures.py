"""Commands in, a picture of them in a real terminal out: ``pictures/session.svg``, for the README.

Each command runs in a pseudo-terminal, with its colours; rich draws what it printed. ``make pictures`` calls it. A test
compares the words of the picture with what the commands print today.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

HOME: Final = Path(__file__).parents[1]
PICTURE: Final = HOME / "docs/pictures/session.svg"
SIZE: Final = (40, 132)
"""Rows and columns of the terminal."""
CAPTURE: Final = "pcaps/kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
SESSION: Final = (
    (["stats", CAPTURE], 9),
    (["decode", "--errors", CAPTURE], 99),
    (["trace", CAPTURE, "--topic", "xa.zstd", "--partition", "0", "--offset", "3"], 99),
)
"""(a command, how many of its lines are shown)."""
FONTS: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def printed(arguments: list[str]) -> list[str]:
    """The lines that a command prints on a terminal, with their escape sequences."""
    ours, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    path = f"{HOME}:{HOME / 'dissectors'}"
    with subprocess.Popen(  # noqa: S603  # ours
        [sys.executable, "-m", "mqsniff", *arguments],
        cwd=HOME,
        env={"PATH": os.environ.get("PATH", ""), "TERM": "xterm-256color", "PYTHONPATH": path, "LC_ALL": "C.UTF-8"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    ):
        os.close(terminal)
        said = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    lines = said.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    return [line.rpartition("\r")[2] for line in lines if line.rpartition("\r")[2] or not line]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux says so that nobody writes any more
        return b""


def picture() -> str:
    """The session as SVG, without fonts from elsewhere."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=SIZE[1], file=nowhere, color_system="truecolor", force_terminal=True)
        for arguments, most in SESSION:
            console.print(Text(f"$ mqsniff {' '.join(arguments)}", style="bold"), soft_wrap=True)
            for line in printed(arguments)[:most]:
                console.print(Text.from_ansi(line), no_wrap=True, overflow="ellipsis")
            console.print()
        drawn = console.export_svg(title="mqsniff", unique_id="mqsniff")
    return FONTS.sub("", drawn).replace("Fira Code", "DejaVu Sans Mono")


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture())
