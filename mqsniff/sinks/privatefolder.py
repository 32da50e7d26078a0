"""A folder for one run that nobody else can read, gone when the run ends, however it ends.

1. It is deleted at the end of the run, also by Ctrl-C and SIGTERM.
2. A run that was killed leaves it; the next run that makes one in the same place deletes those whose lock nobody holds.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

_PREFIX: Final = "mqsniff-run-"
_LOCK: Final = ".lock"


@contextmanager
def private_folder(parent: str | None = None) -> Iterator[Path]:
    """A new folder, deleted in the end; ``parent`` is the folder for temporary files, unless another one is given."""
    parent = parent or tempfile.gettempdir()
    delete_orphans(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))  # made with the mode 0700
    lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def process_folder(parent: str | None = None) -> Path:
    """The private folder of this process in a place, deleted when the process ends."""
    return _process_folder(parent or tempfile.gettempdir())


@cache
def _process_folder(parent: str) -> Path:
    held = ExitStack()
    folder = held.enter_context(private_folder(parent))
    atexit.register(held.close)
    return folder


def delete_orphans(parent: str) -> None:
    """Delete the private folders in a place whose runs were killed."""
    for folder in Path(parent).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if _is_orphan(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_orphan(folder: Path) -> bool:
    """Whether a folder is ours and its run has ended. A run that has not locked its folder yet keeps it."""
    about = folder.lstat()
    if folder.is_symlink() or not folder.is_dir() or about.st_uid != os.getuid():
        return False
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
