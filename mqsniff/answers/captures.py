"""Names in, the captures that they mean out: files, folders with all below them, globs, ``-``; key logs beside them.

A name that is there is taken as it is, whatever characters it has. A glob takes what is named as captures are, if there
is any: goldens and notes lie beside them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import glob, has_magic
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


def named_captures(names: Iterable[str]) -> tuple[str, ...]:
    """The captures that names mean; raises ValueError for a folder or a glob without any."""
    return tuple(file for name in names for file in _files_of(name))


def _files_of(name: str) -> Iterator[str]:
    if name == "-" or "://" in name:
        yield name
        return
    path = Path(name)
    if _is_folder(path):
        found = captures_under((path,))
        if not found:
            raise ValueError(f"{name}: no captures in this folder")
        yield from map(str, found)
    elif has_magic(name) and not path.exists():
        found = captures_under(Path(place) for place in glob(name, recursive=True))  # noqa: PTH207  # absolute ones too
        captures = [file for file in found if is_capture_name(file.name)] or found
        if not captures:
            raise ValueError(f"{name}: no captures there")
        yield from map(str, captures)
    else:
        yield name


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def key_logs_beside(capture: Path) -> tuple[KeyLog, ...]:
    """The key log of ``x.pcap``: ``x.keys`` beside it, if there is one."""
    from mqsniff.tls.keylog import KeyLog  # noqa: PLC0415  # it imports numpy, which this module's names need not

    name = capture.name.lower()
    suffix = next((suffix for suffix in sorted(_SUFFIXES, key=len, reverse=True) if name.endswith(suffix)), "")
    keys = capture.with_name(capture.name.removesuffix(capture.name[len(name) - len(suffix) :]) + ".keys")
    return (KeyLog(str(keys)),) if suffix and keys.is_file() else ()
