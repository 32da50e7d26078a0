"""The path of a local folder in; a folder that tables can be written to, or the reason why not, out.

1. A folder that is not empty is refused, unless it may be overwritten: then the parts of our tables in it are deleted
   before the first new row is written, and nothing else.
2. Nothing is written or deleted through a link inside the folder; the folder itself may be a link.
3. A run that could read nothing leaves the folder as it was, and removes the folders that it made.
4. A name may be any bytes. Arrow accepts paths in UTF-8 only; for others a file system is rooted at the folder.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqsniff.tables.schemas import TABLES

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

UNFINISHED: Final = ".tmp"
_OURS: Final = (".parquet", ".parquet" + UNFINISHED)
LINK: Final = "is a link, and nothing is written or deleted through links: take it away, or choose another folder"


class OutputFolderError(Exception):
    """The folder cannot be written to; the text says why, in one line."""


class OutputFolder:
    """A local folder of tables."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder).absolute()
        self.filesystem, self.root = local_folder(self.path)
        self._shown = folder
        self._made: list[Path] = []

    def prepare(self, *, overwrite: bool) -> None:
        """Make the folder if needed; OutputFolderError if tables cannot be written to it."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise OutputFolderError(f"{self._shown} is a file, not a folder")
            self._made = made_folders(self.path)
            if not overwrite and any(self.path.iterdir()):
                raise OutputFolderError(f"{self._shown} is not empty: choose another folder, or say --overwrite")
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise OutputFolderError(f"{self._shown} cannot be written to: permission denied")
        except OSError as error:
            raise OutputFolderError(f"{self._shown} cannot be written to: {error.strerror or error}") from None
        for table in TABLES:
            if (self.path / table).is_symlink():
                raise OutputFolderError(f"{Path(self._shown, table)} {LINK}")

    def clear(self) -> None:
        """Delete the parts that earlier runs left."""
        for table in TABLES:
            folder = self.path / table
            if folder.is_symlink() or not folder.is_dir():
                continue
            for part in list(folder.iterdir()):
                if part.name.endswith(_OURS) and (part.is_symlink() or part.is_file()):
                    part.unlink()

    def abandon(self) -> None:
        """Remove the folders that were made, if they are empty."""
        remove_folders(self._made)
        self._made = []


def local_folder(path: Path) -> tuple[FileSystem, str]:
    """(an Arrow file system, the path of a local folder on it)."""
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem  # noqa: PLC0415  # start-up is a budget

    name = path.as_posix()
    if is_unicode(name):
        return LocalFileSystem(), name
    return SubTreeFileSystem(os.fsencode(name), LocalFileSystem()), ""


def is_unicode(name: str) -> bool:
    """Whether a file name is UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def made_folders(path: Path) -> list[Path]:
    """Make a folder and its parents; gives those that did not exist, the lowest first."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
    return missing


def remove_folders(folders: list[Path]) -> None:
    """Remove those of some folders that are empty, the lowest first."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
