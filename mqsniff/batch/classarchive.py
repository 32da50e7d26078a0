"""An archive of Spark's classes for the JVMs of this user's sessions: which options make it, or start from it.

1. The archive is code. It is used only if its folder and itself belong to this user, and nobody else may write to them.
2. It fits one Java, one PySpark and one set of options, which its name is made of. Java checks that too, and ignores an
   archive that does not fit.
3. The second session makes it, when its JVM ends: one that stays alone, as in a container, pays nothing. A session that
   cannot make it is followed by at most two that try again.
4. ``MQSNIFF_SPARK_CLASSES=FILE`` names another file, which the first session makes, and which the user answers for;
   empty, there is no archive.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Final

CLASSES: Final = "MQSNIFF_SPARK_CLASSES"
QUIET: Final = ("-Xlog:cds*=off", "-Xlog:class+path=off")
"""The JVM logs about class archives to stdout, where our report is."""
_LIBRARY: Final = "lib/server/libjvm.so"
"""What runs in a JVM, below its home."""
_OWN_CLASSES: Final = ("SPARK_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CLASSPATH", "SPARK_DIST_CLASSPATH")
"""These put folders before Spark's classes, and Java archives no classes then."""
_ATTEMPTS: Final = 3
_UNUSED_S: Final = 60 * 24 * 3600
"""Archives that nobody used for so long are deleted when another one is made."""
_SUFFIX: Final = ".jsa"


def archive_options(options: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The options for a JVM that runs with ``options``: to make the archive, to start from it, or none."""
    named = environment.get(CLASSES)
    if named:
        archive = Path(named).absolute()
        return _starting(archive) if archive.exists() else _making(archive)
    if named is not None or any(map(environment.get, _OWN_CLASSES)):
        return ()
    if "class" in environment.get("PYSPARK_SUBMIT_ARGS", ""):
        return ()
    with suppress(OSError, RuntimeError):  # no home, no rights, no room: Spark starts without
        return _of_user(options, environment)
    return ()


def _starting(archive: Path) -> tuple[str, ...]:
    return (f"-XX:SharedArchiveFile={archive}", *QUIET)


def _making(archive: Path) -> tuple[str, ...]:
    return (f"-XX:ArchiveClassesAtExit={archive}", *QUIET)


def _of_user(options: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, ...]:
    """As ``archive_options``, with the archive in the user's cache."""
    name = _name(options, environment)
    folder = _own_folder(environment)
    if not name or folder is None:
        return ()
    archive = folder / f"{name}{_SUFFIX}"
    if _is_whole(archive):
        if not _is_ours(archive):
            return ()
        os.utime(archive)
        return _starting(archive)
    sessions = archive.with_suffix(".sessions")
    with sessions.open("ab") as marks:
        before = marks.tell()
        marks.write(b".")
    if not 0 < before <= _ATTEMPTS:
        return ()
    _delete_unused(folder)
    return _making(archive)


def _name(options: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """The name of the archive for a Java, a PySpark and some options; empty for a Java of another kind."""
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    pyspark = find_spec("pyspark")
    if java is None or pyspark is None or pyspark.origin is None:
        return ""
    library = Path(java).resolve().parents[1] / _LIBRARY
    jars = Path(pyspark.origin).parent / "jars"
    if not library.exists() or not jars.is_dir():
        return ""
    seen = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in (library, jars)]
    return f"spark-{blake2b(repr((seen, options)).encode(), digest_size=8).hexdigest()}"


def _own_folder(environment: Mapping[str, str]) -> Path | None:
    """Our folder in the user's cache, made if it is not there; None where it is not this user's alone."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    there = next(path for path in (cache, *cache.parents) if path.exists())
    if not cache.is_absolute() or there.stat().st_uid != os.getuid():
        return None
    folder = cache / "mqsniff"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder if _is_ours(folder) else None


def _is_ours(path: Path) -> bool:
    """Whether a file or folder, no link, belongs to this user, and nobody else may write there."""
    about = path.lstat()
    return not stat.S_ISLNK(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022


def _is_whole(archive: Path) -> bool:
    """Whether there is an archive that was written to its end: Java writes its first bytes last."""
    try:
        with archive.open("rb") as file:
            return any(file.read(4))
    except FileNotFoundError:
        return False


def _delete_unused(folder: Path) -> None:
    for path in folder.glob("spark-*"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _UNUSED_S:
                path.unlink()
