"""Folders of a run that go away with it, or, if the run was killed, at the next start.

1. A folder is locked as long as its process lives: the kernel unlocks it, however the process ends.
2. What nobody locks is removed. Making and removing exclude each other by a lock on the folder above.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch(above: Path, name: str) -> Iterator[Path]:
    """A new folder in ``above`` for the time of the block."""
    above.mkdir(parents=True, exist_ok=True)
    with _locked(above):
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=above))
        held = os.open(folder, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def sweep(above: Path) -> list[str]:
    """Remove the folders of runs that were killed; their names."""
    if not above.is_dir():
        return []
    with _locked(above):
        left = [folder for folder in sorted(above.iterdir()) if folder.is_dir() and not _is_held(folder)]
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)
    return [folder.name for folder in left]


def _is_held(folder: Path) -> bool:
    """Whether the process that made a folder lives."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
