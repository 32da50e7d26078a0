"""A URI in; the file system that opens it, on the driver and on workers alike, out.

1. File systems of pyarrow come first. Names that Hadoop has for them mean the same: ``s3a`` and ``s3n`` are ``s3``,
   ``wasb`` and ``wasbs`` are ``abfs`` and ``abfss``. A URI is shown with pyarrow's name, so a file has one name.
2. ``dbfs:/x`` is the folder ``/dbfs/x`` where it is mounted.
3. Others are opened by fsspec, if it is installed with the package for the scheme. Python workers of Spark have no JVM,
   so Hadoop's Java classes open nothing here. ``hdfs`` needs libhdfs; without it, WebHDFS is used.
4. ``with_settings`` writes what Hadoop's configuration says into the URI. Such a URI goes where URIs with credentials
   go: to the workers in closures. It is never shown (``shown_uri``).
"""

from __future__ import annotations

import errno
import getpass
import os
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Setting: TypeAlias = Callable[[str], str | None]
"""The value of a setting of Hadoop by name; None if it has none."""

_PYARROWS_NAMES: Final = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}
AZURE: Final = frozenset(("abfs", "abfss", "wasb", "wasbs"))
"""Their URIs have the container where others have a user: ``abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/…``."""
_PYARROWS: Final = frozenset(("file", "s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs"))
_RENAMING: Final = frozenset(("local", "hdfs", "viewfs", "webhdfs", "swebhdfs"))
"""File systems that move a file atomically."""
_PACKAGES: Final = {"oss": "ossfs", "cosn": "cosfs", "webhdfs": "requests", "swebhdfs": "requests", "az": "adlfs"}
"""What fsspec needs for a scheme."""
_WEB_PORT: Final = 9870
"""Where a name node answers WebHDFS, unless configured otherwise."""
_DBFS: Final = "/dbfs"
_TIMES: Final = ("mtime", "modificationTime", "LastModified", "last_modified", "modified")
"""Under these names file systems of fsspec give the time of a file."""
_ADDRESS: Final = re.compile(r"\[.*\]|[0-9.]+|localhost")


class FileSystemError(Exception):
    """A URI that cannot be opened; the text is one line and may hold the URI."""


class OpenedFileSystem(NamedTuple):
    """A file system and the path of a URI there."""

    filesystem: FileSystem
    path: str
    renames: bool
    """Whether files can be moved atomically."""


def normal_uri(given: str) -> str:
    """A path or URI with pyarrow's name of the file system; ``dbfs:/…`` becomes a local path where it is mounted."""
    if given.startswith("dbfs:/"):
        path = "/" + given.removeprefix("dbfs:").lstrip("/")
        return _DBFS + path if Path(_DBFS).is_dir() else f"dbfs://{path}"
    scheme, colon, rest = given.partition("://")
    return f"{_PYARROWS_NAMES.get(scheme.lower(), scheme)}://{rest}" if colon else given


def takes_settings(given: str) -> bool:
    """Whether Hadoop's configuration may say how to open a path or URI."""
    return given.partition("://")[0].lower() in {"s3a", "s3n", "hdfs", *AZURE}


def with_settings(given: str, setting: Setting) -> str:
    """A path or URI with what Hadoop's configuration says; what the URI says itself wins."""
    if not takes_settings(given):
        return given
    parts = urlsplit(given.replace(" ", "%20"))  # pyarrow wants it, and ``redacted`` finds where a URI ends
    match parts.scheme.lower():
        case "s3a" | "s3n":
            return _s3_uri(parts, setting)
        case "hdfs":
            return _hdfs_uri(parts, setting)
        case _:
            return _azure_uri(parts, setting)


def settings_file(path: str) -> Setting:
    """The settings in a file of Hadoop, such as core-site.xml; OSError and ValueError if it is none."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415  # start-up is a budget; the user's own file

    try:
        root = ET.fromstring(Path(path).read_bytes())  # noqa: S314  # as above
    except ET.ParseError:
        raise ValueError("no XML file of Hadoop") from None
    if root.tag != "configuration":
        raise ValueError("no XML file of Hadoop")
    found = {each.findtext("name", "").strip(): each.findtext("value", "").strip() for each in root.iter("property")}
    return found.get


def _s3_uri(parts: SplitResult, setting: Setting) -> str:
    """See ``with_settings``: endpoint, region, TLS, style of addresses, and keys, of the bucket or of all."""
    user, _, bucket = parts.netloc.rpartition("@")

    def value(name: str) -> str:
        return setting(f"fs.s3a.bucket.{bucket}.{name}") or setting(f"fs.s3a.{name}") or ""

    query = dict(parse_qsl(parts.query))
    if (endpoint := value("endpoint")) and "endpoint_override" not in query:
        scheme, _, host = endpoint.rpartition("://")
        host = host.rstrip("/")
        plain = scheme == "http" or (not scheme and value("connection.ssl.enabled") == "false")
        query |= {"endpoint_override": host, "scheme": "http" if plain else "https"}
        if value("path.style.access") != "true" and not _ADDRESS.fullmatch(host.rpartition(":")[0] or host):
            query["force_virtual_addressing"] = "true"
    if region := value("endpoint.region"):
        query.setdefault("region", region)
    if not user and (key := value("access.key")) and (secret := value("secret.key")):
        user = f"{quote(key, safe='')}:{quote(secret, safe='')}"
        if token := value("session.token"):
            query["session_token"] = token
    netloc = f"{user}@{bucket}" if user else bucket
    return urlunsplit(("s3", netloc, parts.path, urlencode(query), ""))


def _hdfs_uri(parts: SplitResult, setting: Setting) -> str:
    """See ``with_settings``: the default name node, and its address for WebHDFS."""
    if not parts.netloc and (default := setting("fs.defaultFS") or "").startswith("hdfs://"):
        parts = parts._replace(netloc=urlsplit(default).netloc)
    query = dict(parse_qsl(parts.query))
    if web := setting("dfs.namenode.http-address"):
        query.setdefault("web", web)
    query.setdefault("web_user", parts.username or _hadoop_user())  # workers may run as another one
    return urlunsplit(("hdfs", parts.netloc, parts.path, urlencode(query), ""))


def _hadoop_user() -> str:
    """Who Hadoop's simple authentication says that we are."""
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def _azure_uri(parts: SplitResult, setting: Setting) -> str:
    """See ``with_settings``: the key of the account."""
    container, _, host = parts.netloc.rpartition("@")
    key = setting(f"fs.azure.account.key.{host}")
    if key and container and ":" not in container:
        parts = parts._replace(netloc=f"{container}:{quote(key, safe='')}@{host}")
    return normal_uri(urlunsplit(parts))


@lru_cache(maxsize=64)
def open_filesystem(given: str) -> OpenedFileSystem:
    """The file system of a URI; FileSystemError if none here can open it, with what is missing."""
    uri = normal_uri(given).replace(" ", "%20")
    try:
        scheme = urlsplit(uri).scheme
        if scheme == "hdfs":
            return _open_hdfs(uri)
        return _open_by_pyarrow(uri) if scheme in _PYARROWS else _open_by_fsspec(unquote(uri))
    except (OSError, ValueError) as error:  # Arrow's own errors are among them
        raise FileSystemError((str(error).splitlines() or [type(error).__name__])[0]) from None


def _open_by_pyarrow(uri: str) -> OpenedFileSystem:
    from pyarrow import fs  # noqa: PLC0415  # start-up is a budget

    parts = urlsplit(uri)
    query = dict(parse_qsl(parts.query))
    if parts.scheme == "s3" and not {"session_token", "force_virtual_addressing"}.isdisjoint(query):
        return _open_s3(parts, query)
    if parts.scheme in AZURE:  # pyarrow knows these accounts by their blob and dfs hosts
        uri = uri.replace(".blob.core.", ".dfs.core.", 1)
    filesystem, path = fs.FileSystem.from_uri(uri)
    return OpenedFileSystem(filesystem, path, filesystem.type_name in _RENAMING)


def _open_s3(parts: SplitResult, query: dict[str, str]) -> OpenedFileSystem:
    """S3 with options that pyarrow does not take from a URI."""
    from pyarrow.fs import S3FileSystem  # noqa: PLC0415  # as above

    user, _, bucket = parts.netloc.rpartition("@")
    key, _, secret = user.partition(":")
    more: dict[str, Any] = {name: query[name] for name in ("endpoint_override", "scheme", "region") if name in query}
    filesystem = S3FileSystem(
        access_key=unquote(key) or None,
        secret_key=unquote(secret) or None,
        session_token=query.get("session_token"),
        force_virtual_addressing=query.get("force_virtual_addressing") == "true",
        **more,
    )
    return OpenedFileSystem(filesystem, bucket + unquote(parts.path).rstrip("/"), renames=False)


def _open_hdfs(uri: str) -> OpenedFileSystem:
    """HDFS by libhdfs, else by WebHDFS."""
    parts = urlsplit(uri)
    query = dict(parse_qsl(parts.query))
    web, user = query.pop("web", ""), query.pop("web_user", "") or parts.username or _hadoop_user()
    try:
        return _open_by_pyarrow(urlunsplit(parts._replace(query=urlencode(query))))
    except OSError as error:
        host, colon, port = web.rpartition(":")
        host = parts.hostname or "" if host in {"", "0.0.0.0"} else host  # noqa: S104  # not an address to listen on
        try:
            return _open_by_fsspec(f"webhdfs://{user}@{host}:{port if colon else _WEB_PORT}{unquote(parts.path)}")
        except (FileSystemError, OSError, ValueError) as other:
            missing = "libhdfs (ARROW_LIBHDFS_DIR, and Hadoop's jars in CLASSPATH)"
            raise FileSystemError(f"{missing} is missing ({str(error).splitlines()[0]}); WebHDFS: {other}") from None


def _open_by_fsspec(uri: str) -> OpenedFileSystem:
    """FileSystemError where fsspec, or its package for the scheme, is not installed."""
    from pyarrow.fs import PyFileSystem  # noqa: PLC0415  # as above

    scheme = urlsplit(uri).scheme
    needed = f"pip install fsspec {_PACKAGES.get(scheme, '')}".strip()
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415  # an extra
        from fsspec.registry import get_filesystem_class  # noqa: PLC0415  # as above

        get_filesystem_class(scheme)
    except ImportError:
        raise FileSystemError(f"pyarrow does not open {scheme}://, and fsspec is not there: {needed}") from None
    except ValueError:
        raise FileSystemError(f"neither pyarrow nor fsspec opens {scheme}://") from None
    filesystem, path = url_to_fs(uri, use_listings_cache=False)
    return OpenedFileSystem(PyFileSystem(_timed_handler(filesystem)), path.rstrip("/"), scheme in _RENAMING)


def _timed_handler(filesystem: Any) -> Any:
    """The handler of pyarrow for file systems of fsspec, with the times of files under all their names."""
    from pyarrow.fs import FSSpecHandler  # noqa: PLC0415  # as above

    class TimedHandler(FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
        """Gives the times of files, and says when a file was not moved."""

        def _create_file_info(self, path: str, info: dict[str, Any]) -> Any:
            time = next((info[name] for name in _TIMES if isinstance(info.get(name), int | float | datetime)), None)
            if isinstance(time, int) and "modificationTime" in info:  # WebHDFS gives milliseconds
                time /= 1000
            return super()._create_file_info(path, info | {"mtime": time})

        def move(self, source: str, target: str) -> None:
            """FileExistsError where nothing was moved: WebHDFS says so with a value that fsspec does not read."""
            super().move(source, target)
            if self.fs.exists(source):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)

    return TimedHandler(filesystem)
