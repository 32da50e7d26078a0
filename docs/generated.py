"""A file that a program of this folder makes: written, or with ``--check`` compared with what is committed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def write(path: Path, text: str, program: str, arguments: Sequence[str] | None = None) -> int:
    """Write the text, or compare it; the exit code: 1 if ``--check`` found another text.

    ``program``: the file in this folder that makes it.
    """
    parser = argparse.ArgumentParser(description=f"Write {path.name}.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file is stale")
    if not parser.parse_args(arguments).check:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"stale: {path.name} (python docs/{program} writes it)", file=sys.stderr)
    return 1
