"""The Java of this machine in, how Spark starts it best out: for sessions of our own, where the user chose nothing.

1. Spark loads nine thousand classes before it does anything: ten CPU seconds, five of them where the JVM finds these
   classes in an archive of its own (class data sharing). Java 17 makes one when it ends, in eighteen CPU seconds.
2. So the first session leaves a mark, the second makes the archive, those after it start with it. Who runs one job in
   a container and throws it away pays for nothing.
3. An archive is for one Java and one installation of Spark. A JVM that finds that one does not fit goes on without;
   where there is no good place to keep it, there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

OPTIONS: Final = ("-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1")
"""A session of our own copies bytes for a minute and is gone: neither the second compiler nor a collector that works
beside it earn what they cost (1 GB took 24 CPU seconds of the JVM, not 41)."""
QUIET: Final = ("-Xlog:cds*=off", "-Xlog:class+path=off")
"""What the JVM has to say of an archive goes to stdout, where our report is."""
KEPT: Final = 2
"""Archives that stay when one more is made; each takes 170 MB."""
_OPTIONS_OF_USERS: Final = ("SPARK_CONF_DIR", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_CLASSES_OF_USERS: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CLASSPATH", "SPARK_DIST_CLASSPATH")
"""Folders among the classes, of which the JVM makes no archive."""
_QUOTED: Final = frozenset(" \t\n\"'\\")
"""What would have to be quoted among options."""
_SHARING: Final = "sharing)"
"""Behind the name of a JVM that has an archive of Java's own classes, which ours builds on."""


def program() -> str:
    """The Java that Spark starts; FileNotFoundError where there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise FileNotFoundError("java")
    return java


def version_of() -> str:
    """What Java says of itself; OSError or CalledProcessError where there is none that runs."""
    return subprocess.run([program(), "-version"], capture_output=True, text=True, check=True).stderr  # noqa: S603


def users_choice() -> bool:
    """Whether the user may have chosen options for the JVM, which ours could contradict."""
    return "java" in os.environ.get("PYSPARK_SUBMIT_ARGS", "").lower() or any(map(os.environ.get, _OPTIONS_OF_USERS))


def options(version: str, jars: Path) -> str:
    """Options for the JVM; ``version`` is what it says of itself, ``jars`` the folder of Spark's classes."""
    return " ".join((*OPTIONS, *_archive_options(version, jars)))


def _archive_options(version: str, jars: Path) -> tuple[str, ...]:
    """Those that make or use the archive of classes, or neither."""
    if _SHARING not in version or any(map(os.environ.get, _CLASSES_OF_USERS)):
        return ()
    try:
        option = _archive_option(_cache() / f"spark-{_name(version, jars)}")
    except (OSError, RuntimeError):  # no home, no space, no rights
        return ()
    return (option, *QUIET) if option and not _QUOTED & set(option) else ()


def _archive_option(mark: Path) -> str:
    """What this session has to do with its archive: nothing, make it, or use it."""
    archive = mark.with_suffix(".jsa")
    if _is_whole(archive):
        return f"-XX:SharedArchiveFile={archive}"
    if not mark.exists():
        mark.touch()
        return ""
    _forget_others(mark.parent)
    return f"-XX:ArchiveClassesAtExit={archive}"


def _cache() -> Path:
    """A folder that nobody else can write to; OSError where there is none."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "mqsniff"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(folder)
    return folder


def _name(version: str, jars: Path) -> str:
    parts = version, str(jars), str(jars.stat().st_mtime_ns), *OPTIONS
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _is_whole(archive: Path) -> bool:
    """Whether an archive was made to its end: the JVM writes its head last."""
    try:
        with archive.open("rb") as stream:
            return any(stream.read(4))
    except FileNotFoundError:
        return False


def _forget_others(folder: Path) -> None:
    """Make room for one more."""
    archives = sorted(folder.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime)
    for archive in archives[: -KEPT or None]:
        with suppress(OSError):
            archive.unlink()
