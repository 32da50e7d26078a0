"""Which modules a command brings in: start-up is a budget (DESIGN, section 6)."""

from __future__ import annotations

import subprocess
import sys


def imported(modules: tuple[str, ...], *arguments: object) -> list[str]:
    """Those of some modules that have been imported when the command ends, in a process of its own."""
    script = (
        f"import sys; sys.argv = {['mqsniff', *map(str, arguments)]!r}; from mqsniff.cli import main\n"
        "try: main()\n"
        f"finally: print(*(name for name in {modules!r} if name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1].split()
