"""File names of captures, the captures below a folder, and the key logs beside them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mqsniff.tls.keylog import KeyLog

_FORMATS: Final = (".pcap", ".pcapng", ".cap", ".ntar")
_COMPRESSIONS: Final = ("", ".gz", ".zst", ".lz4", ".xz", ".bz2")
_SUFFIXES: Final = tuple(a + b for a, b in product(_FORMATS, _COMPRESSIONS))


def is_capture_name(name: str) -> bool:
    """Whether a name has the suffix of a capture, compressed or not."""
    return name.lower().endswith(_SUFFIXES)


def captures_under(paths: Iterable[Path]) -> list[Path]:
    """Captures below folders, and files that are given directly, sorted by name.

    A folder that cannot be listed stands for its captures, so that reading it says why.
    """
    found: set[Path] = set()
    for path in paths:
        if path.is_dir():
            closed: list[OSError] = []
            for folder, _, names in os.walk(path, onerror=closed.append):
                files = (Path(folder, name) for name in names if is_capture_name(name))
                found |= {file for file in files if file.is_file()}
            found |= {Path(os.fsdecode(error.filename)) for error in closed}
        else:
            found.add(path)
    return sorted(found)


def key_logs_beside(capture: Path) -> tuple[KeyLog, ...]:
    """The key log of ``x.pcap``: ``x.keys`` beside it, if there is one."""
    from mqsniff.tls.keylog import KeyLog  # noqa: PLC0415  # it imports numpy, which this module's names need not

    name = capture.name.lower()
    suffix = next((suffix for suffix in sorted(_SUFFIXES, key=len, reverse=True) if name.endswith(suffix)), "")
    keys = capture.with_name(capture.name.removesuffix(capture.name[len(name) - len(suffix) :]) + ".keys")
    return (KeyLog(str(keys)),) if suffix and keys.is_file() else ()
