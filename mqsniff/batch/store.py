"""File operations in a folder on any file system (``filesystems``).

1. Paths are relative to the folder and use ``/``. Nothing outside the folder is touched; locally, StoreError if a path
   leads through a symbolic link.
2. ``replace`` writes a small file atomically: readers see all of it or nothing. On HDFS an older one is deleted first.
3. ``renames`` tells whether files can be moved atomically. On object stores a move is a copy.
4. URIs are shown without credentials.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from mqsniff.batch.filesystems import AZURE, FileSystemError, normal_uri, open_filesystem
from mqsniff.sinks.outputfolder import LINK, local_folder

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_HARMLESS: Final = frozenset(("endpoint_override", "scheme", "region", "use_ssl"))
"""Parameters of pyarrow's URIs that are no credentials."""
_URI: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>]+")
_UNFINISHED: Final = ".tmp"


class StoreError(Exception):
    """A folder that cannot be used; the text is one line."""


class StoredFile(NamedTuple):
    """A file in a store."""

    path: str
    size: int
    mtime_ns: int = 0


class Store:
    """One folder. Tasks get its URI and make their own Store."""

    def __init__(self, filesystem: FileSystem, root: str, *, renames: bool, folder: Path | None = None) -> None:
        """``folder``: the local path, if the folder is on this machine."""
        self.filesystem = filesystem
        self.root = root.rstrip("/")
        self.renames = renames
        self.folder = folder

    @classmethod
    def at(cls, uri: str) -> Store:
        """The folder with this URI or local path; StoreError if nothing here opens its file system."""
        uri = normal_uri(uri)
        if "://" not in uri:
            path = Path(uri).absolute()
            return cls(*local_folder(path), renames=True, folder=path)
        try:
            filesystem, root, renames = open_filesystem(uri)
        except FileSystemError as error:
            raise StoreError(f"{shown_uri(uri)}: {redacted(str(error))}") from None
        folder = Path(root) if filesystem.type_name == "local" else None
        return cls(filesystem, root, renames=renames, folder=folder)

    @property
    def where(self) -> str:
        """The folder for messages, and for other processes on this machine."""
        return self.root if self.folder is None else str(self.folder)

    def place(self, path: str) -> str:
        """The path on the file system, for a path in the folder."""
        return posixpath.join(self.root, path)

    def read(self, path: str) -> bytes | None:
        """The content of a small file; None if there is none."""
        try:
            with self.filesystem.open_input_stream(self.place(path)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file atomically."""
        self.check_links(path)
        self.filesystem.create_dir(posixpath.dirname(self.place(path)), recursive=True)
        written = path + _UNFINISHED if self.renames else path
        with self.filesystem.open_output_stream(self.place(written)) as stream:
            stream.write(data)
        if written == path:
            return
        if self.folder is None:  # HDFS does not rename onto an existing file
            self.delete(path)
        self.filesystem.move(self.place(written), self.place(path))

    def move(self, source: str, target: str) -> None:
        """Move a file; nothing happens if it was moved before, so that a move can be repeated."""
        self.check_links(source)
        self.check_links(target)
        if not self.exists(source) and self.exists(target):
            return
        self.filesystem.create_dir(posixpath.dirname(self.place(target)), recursive=True)
        self.filesystem.move(self.place(source), self.place(target))

    def delete(self, path: str) -> None:
        """Delete a file, or a link to one, if it exists."""
        self.check_links(path)
        if self.folder is not None:
            (self.folder / path).unlink(missing_ok=True)
            return
        try:
            self.filesystem.delete_file(self.place(path))
        except FileNotFoundError:
            return

    def delete_tree(self, path: str) -> None:
        """Delete a folder and its content if it exists; links are not followed."""
        self.check_links(f"{path}/")
        try:
            self.filesystem.delete_dir(self.place(path))
        except FileNotFoundError:
            return

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        from pyarrow.fs import FileType  # noqa: PLC0415  # as in ``at``

        return bool(self.filesystem.get_file_info(self.place(path)).type == FileType.File)

    def sizes(self, paths: Sequence[str]) -> dict[str, int]:
        """The sizes of those of the files that exist."""
        from pyarrow.fs import FileType  # noqa: PLC0415  # as in ``at``

        infos = self.filesystem.get_file_info([self.place(path) for path in paths])
        found = zip(paths, infos, strict=True)
        return {path: int(info.size) for path, info in found if info.type == FileType.File}

    def files(self, path: str = "") -> Iterator[StoredFile]:
        """All files below a subfolder, by path; none if it does not exist.

        Folders that are links are skipped.
        """
        if self.folder is not None:
            yield from _local_files(self.folder, path)
            return
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415  # as in ``at``

        selector = FileSelector(self.place(path) if path else self.root, allow_not_found=True, recursive=True)
        for info in sorted(self.filesystem.get_file_info(selector), key=lambda info: str(info.path)):
            if info.type == FileType.File:
                path = str(info.path)[len(self.root) :].lstrip("/")
                yield StoredFile(path, int(info.size), int(info.mtime_ns or 0))

    def folders(self, path: str) -> list[str]:
        """Names of the folders in a folder."""
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415  # as in ``at``

        self.check_links(f"{path}/" if path else "")
        found = self.filesystem.get_file_info(FileSelector(self.place(path), allow_not_found=True))
        return sorted(str(info.base_name) for info in found if info.type == FileType.Directory)

    def check_links(self, path: str) -> None:
        """StoreError if a path leads through a link, or out of the folder; if it ends with ``/``, also if it is a link.

        Paths may come from a manifest in a folder that another user sent.
        """
        if path.startswith("/") or ".." in path.split("/"):
            raise StoreError(f"{self.where}: {path} points outside of this folder")
        place = self.folder
        if place is None:
            return
        for name in path.split("/")[:-1]:
            place /= name
            if place.is_symlink():
                raise StoreError(f"{place} {LINK}")


def _local_files(folder: Path, path: str) -> Iterator[StoredFile]:
    """See ``Store.files``; names may be any bytes."""
    found = []
    for below, _, names in os.walk(folder / path):
        for place in (Path(below, name) for name in names):
            with contextlib.suppress(FileNotFoundError):  # a dangling link, or deleted meanwhile
                if stat.S_ISREG((status := place.stat()).st_mode):
                    path = place.relative_to(folder).as_posix()
                    found.append(StoredFile(path, status.st_size, status.st_mtime_ns))
    yield from sorted(found)


def shown_uri(uri: str) -> str:
    """A URI without credentials: no user part, and only harmless parameters."""
    if "://" not in uri:
        return uri
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri.partition("://")[0] + "://…"
    host = shown_host(parts)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name in _HARMLESS]
    return urlunsplit((parts.scheme, host, parts.path.partition(";")[0], urlencode(kept, safe=":/"), ""))


def shown_host(parts: SplitResult) -> str:
    """The host of a URI without its user; with the container, which Azure's URIs have in its place."""
    user, _, host = parts.netloc.rpartition("@")
    container = user.partition(":")[0]
    return f"{container}@{host}" if container and parts.scheme in AZURE else host


def redacted(text: str) -> str:
    """A text with the credentials removed from every URI in it."""
    return _URI.sub(lambda found: shown_uri(found.group()), text)
