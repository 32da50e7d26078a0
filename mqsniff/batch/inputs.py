"""Paths, folders, globs and URIs in; the capture files that they name, and the bytes of these files, out.

1. Files and matches of globs are taken whatever their names; below folders, only files named like captures.
2. A file named twice is one file. Local paths become absolute: executors have another working folder.
3. Names are relative to the common folder of all inputs, so they do not depend on where the job ran; ``mqsniff decode``
   shows the same names when it runs in that folder.
4. ``Location.store`` may hold credentials and is never shown; URIs, names and messages hold none.
5. Folders of this machine are listed by several threads: on a network file system each question waits. A folder that
   cannot be read is listed like a file that cannot: reading it says why.
6. Size and modification time are those of the listing: if the file differs when it is read, ChangedError is raised.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from mqsniff.batch.filesystems import AZURE, FileSystemError, normal_uri, open_filesystem
from mqsniff.batch.store import redacted, shown_host, shown_uri
from mqsniff.limits import MIB

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_CAPTURE: Final = re.compile(r"\.(pcap|pcapng|cap|ntar|dmp)\d*(\.(gz|zst|lz4|xz|bz2))?$", re.IGNORECASE)
"""tcpdump appends a number to the names of rotated files."""
_MAGIC: Final = re.compile(r"[*?[]")
CHECK_BYTES: Final = 8 * MIB
"""After this many bytes from a remote file system, size and time of the file are checked again."""


LISTED_AT_ONCE: Final = 16
"""Threads that list folders."""
_BLOCK: Final = 256
"""Files whose sizes one thread asks for in turn."""


class InputError(Exception):
    """An input that cannot be used, in one line."""


class NoCapturesError(InputError):
    """A folder or glob without captures."""


class NoneReadableError(InputError):
    """Inputs of which not one can be read."""


class ChangedError(OSError):
    """A file that changed since it was listed."""


class Location(NamedTuple):
    """The path of a file, and its size and time when it was listed."""

    path: str
    store: str = ""
    """URI of the file system of ``path``; empty for local files."""
    size: int | None = None
    """None if the file was not listed or not found."""
    mtime_ns: int | None = None
    """None if the file system has no times."""

    def check(self, size: int, mtime_ns: int | None) -> None:
        """ChangedError if size or time differ from the listed ones."""
        if self.size is not None and (self.size, self.mtime_ns) != (size, mtime_ns):
            raise ChangedError("changed since it was listed")


class Listed(NamedTuple):
    """A file that was found."""

    uri: str
    """Its absolute path, or URI."""
    location: Location
    size: int
    mtime_ns: int | None


def list_inputs(inputs: Iterable[str]) -> list[Listed]:
    """The files that some inputs name, by URI.

    NoCapturesError if a glob or a folder holds none, InputError if a URI cannot be used. A path that does not exist is
    listed with size 0; reading it reports the error.
    """
    found: dict[str, Listed] = {}
    for given in map(normal_uri, inputs):
        some = {file.uri: file for file in (_of_uri(given) if "://" in given else _of_path(given))}
        if not some:
            raise NoCapturesError(f"{shown_uri(given)}: no captures there")
        found |= some
    return [found[uri] for uri in sorted(found)]


def names_of(uris: Iterable[str]) -> list[str]:
    """The names of files: relative to their common folder."""
    parts = [uri.split("/") for uri in uris]
    depth = 0
    for level in zip(*(each[:-1] for each in parts), strict=False):
        if len(set(level)) > 1:
            break
        depth += 1
    return ["/".join(each[depth:]) for each in parts]


def is_capture(name: str) -> bool:
    """Whether a file below a folder is named like a capture."""
    return _CAPTURE.search(name) is not None


def _of_path(given: str) -> Iterator[Listed]:
    path = Path(os.path.normpath(Path(given).absolute()))
    if path.is_dir():
        return list_local([path])
    if path.exists() or not _MAGIC.search(given):
        return list_local([], [path])
    matches = list(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    folders = [match for match in matches if match.is_dir()]
    return list_local(folders, sorted({*matches} - {*folders}))


def list_local(folders: Iterable[Path], files: Iterable[Path] = ()) -> Iterator[Listed]:
    """The captures below folders of this machine, level by level, then some files."""
    with ThreadPoolExecutor(LISTED_AT_ONCE) as pool:
        waiting = deque(pool.submit(_names_in, str(folder)) for folder in folders)
        sizes: deque[Future[list[Listed]]] = deque()
        while waiting:
            below, names = waiting.popleft().result()
            waiting.extend(pool.submit(_names_in, folder) for folder in below)
            sizes.extend(pool.submit(_local_files, some) for some in _blocks(names))
        sizes.extend(pool.submit(_local_files, some) for some in _blocks([str(path) for path in files]))
        while sizes:
            yield from sizes.popleft().result()


def _names_in(folder: str) -> tuple[list[str], list[str]]:
    """The folders in a folder, and the files named like captures; links to folders are not followed."""
    below, names = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.path)
                elif is_capture(entry.name) and entry.is_file():
                    names.append(entry.path)
    except FileNotFoundError:
        return [], []  # deleted since the folder above was listed
    except OSError:
        return below, [*names, folder]
    return sorted(below), sorted(names)


def _local(path: str) -> Listed:
    """A file, or a folder that cannot be read."""
    try:
        status = os.stat(path)  # noqa: PTH116  # a Path costs as much again
    except OSError:
        return Listed(path, Location(path), 0, None)
    if stat.S_ISDIR(status.st_mode):
        return Listed(path, Location(path), 0, None)
    size, mtime_ns = status.st_size, status.st_mtime_ns
    return Listed(path, Location(path, "", size, mtime_ns), size, mtime_ns)


def _blocks(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    return (paths[first : first + _BLOCK] for first in range(0, len(paths), _BLOCK))


def _local_files(paths: Sequence[str]) -> list[Listed]:
    return [_local(path) for path in paths]


def _of_uri(given: str) -> Iterator[Listed]:
    filesystem, path = _filesystem(given)
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415  # start-up is a budget

    folder = path
    while _MAGIC.search(folder):
        folder = folder.rpartition("/")[0]
    try:
        every = [filesystem.get_file_info(path)] if folder == path else []
        if folder != path or every[0].type == FileType.Directory:
            every = filesystem.get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
    except OSError as error:
        raise InputError(f"{shown_uri(given)}: {why(error)}") from None
    except UnicodeDecodeError:
        raise InputError(f"{shown_uri(given)}: a file name is not UTF-8; give its path instead") from None
    is_wanted = _wanted(path, folder)
    for info in every:
        if info.type == FileType.NotFound or (info.type == FileType.File and is_wanted(info.path)):
            location = Location(info.path, given, info.size, info.mtime_ns)
            yield Listed(_uri_of(given, info.path), location, info.size or 0, info.mtime_ns)


def _wanted(path: str, folder: str) -> Callable[[str], bool]:
    """A test whether a path on a remote file system matches a path, folder or glob."""
    if path == folder:
        return lambda found: found == path or is_capture(found)
    pattern = re.compile(_regex(path) + r"(?P<below>/.*)?")

    def is_wanted(found: str) -> bool:
        match = pattern.fullmatch(found)
        return match is not None and (match["below"] is None or is_capture(found))

    return is_wanted


def _regex(pattern: str) -> str:
    """A glob as a regular expression."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", pattern)
    sets = (part.replace("[!", "[^") if part.startswith("[") and part.endswith("]") else None for part in parts)
    return "".join(words.get(part) or each or re.escape(part) for part, each in zip(parts, sets, strict=True))


def _uri_of(given: str, path: str) -> str:
    """The URI of a path on the file system of another URI, without credentials."""
    parts = urlsplit(given)
    if parts.scheme in AZURE:  # the container is in the host, and in the path again
        return f"{parts.scheme}://{shown_host(parts)}/{path.partition('/')[2]}"
    host = shown_host(parts) if path.startswith("/") else ""
    return f"{parts.scheme}://{host}{path}"


def _filesystem(uri: str) -> tuple[FileSystem, str]:
    """The file system of a URI, and the path there; InputError if there is none."""
    try:
        filesystem, path, _ = open_filesystem(uri)
    except FileSystemError as error:
        raise InputError(f"{shown_uri(uri)}: {redacted(str(error))}") from None
    return filesystem, path


def why(error: OSError) -> str:
    """What an error of the file system says, in a few words and without paths or credentials."""
    if error.errno:
        return os.strerror(error.errno).lower()
    return redacted(str(error)).splitlines()[0] if str(error) else "cannot be opened"


# ---- bytes


class _OpenFile(Protocol):
    def readinto(self, view: memoryview, /) -> int | None: ...
    def seek(self, offset: int, /) -> Any: ...
    def close(self) -> None: ...


class ByteRange:
    """The bytes of a file from ``start`` to ``stop``, or to its end: a ``RawBytes`` for ``codecs.files``.

    Opening raises OSError; a read that fails ends the bytes with a ``failure``. ChangedError if the file changed since
    it was listed, also while it is read: bytes returned before that are those of the listed file.
    """

    compression = ""

    def __init__(self, location: Location, start: int = 0, stop: int | None = None) -> None:
        self._file, size, self._check = _open(location)
        self.size: int | None = max(min(size, size if stop is None else stop) - start, 0)
        self.taken = 0
        self.failure = ""
        self.limited = False
        self._left = self.size
        self._head = b""
        self._check_after = CHECK_BYTES if location.store else 0
        self._unchecked_bytes = 0
        self._file.seek(start)

    def head(self, size: int) -> bytes:
        """See RawBytes."""
        head = self.read(size)
        while 0 < len(head) < size and (more := self.read(size - len(head))):
            head += more
        self._head = head
        return head

    def read(self, size: int, timeout_s: float | None = None) -> bytes:
        """See RawBytes; reading a file never waits."""
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self.readinto(memoryview(buffer), timeout_s)])

    def readinto(self, view: memoryview, timeout_s: float | None = None) -> int:
        """See ByteSource."""
        del timeout_s
        if self._head:
            taken = min(len(view), len(self._head))
            view[:taken] = self._head[:taken]
            self._head = self._head[taken:]
            return taken
        try:
            taken = self._file.readinto(view[: self._left]) or 0
            self._check_now_and_then(taken)
        except ChangedError:
            raise
        except OSError as error:
            self.failure = f"reading failed: {why(error)}"
            return 0
        self._left -= taken
        self.taken += taken
        return taken

    def _check_now_and_then(self, taken: int) -> None:
        """Check that the file has not changed: at the end of the bytes, and in between where that is cheap."""
        self._unchecked_bytes += taken
        if self._unchecked_bytes >= self._check_after or taken in (0, self._left):
            self._check()
            self._unchecked_bytes = 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def why_changed(location: Location) -> str:
    """Why a file cannot be read as listed; empty if it can."""
    try:
        ByteRange(location).close()
    except OSError as error:
        return why(error)
    return ""


def read_range(location: Location, start: int, stop: int) -> bytes:
    """These bytes of a file, fewer at its end; OSError if it cannot be opened."""
    source = ByteRange(location, start, stop)
    try:
        return source.head(stop - start)
    finally:
        source.close()


def _open(location: Location) -> tuple[_OpenFile, int, Callable[[], None]]:
    """(file, size, a check that it has not changed since it was listed)."""
    if location.store:
        return _open_remote(location)
    mode = Path(location.path).stat().st_mode
    if stat.S_ISDIR(mode):
        os.scandir(location.path).close()  # a folder is listed as a file if it could not be read: this says why
    if not stat.S_ISREG(mode):  # reading a pipe waits, and cannot be repeated
        raise OSError("not a regular file")
    file = io.FileIO(location.path)

    def check() -> None:
        status = os.fstat(file.fileno())
        location.check(status.st_size, status.st_mtime_ns)

    try:
        check()
        return file, os.fstat(file.fileno()).st_size, check
    except BaseException:
        file.close()
        raise


def _open_remote(location: Location) -> tuple[_OpenFile, int, Callable[[], None]]:
    """As ``_open``, by the file system of a URI."""
    from pyarrow.fs import FileType  # noqa: PLC0415  # start-up is a budget

    try:
        filesystem = _filesystem(location.store)[0]

        def check() -> None:
            info = filesystem.get_file_info(location.path)
            if info.type == FileType.NotFound:
                raise ChangedError(os.strerror(errno.ENOENT).lower())
            location.check(info.size or 0, info.mtime_ns)

        remote = filesystem.open_input_file(location.path)
        if location.size is not None:
            check()
    except (InputError, ValueError) as error:  # Arrow's own errors are ValueErrors
        raise OSError(redacted(str(error))) from None
    return remote, remote.size(), check if location.size is not None else _unchecked


def _unchecked() -> None:
    """The check of a file that was not listed."""
