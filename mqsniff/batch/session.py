"""Where to run in, a Spark session out: this machine, a cluster, a Spark Connect server, or the one of spark-submit.

1. What the user set stays set: ours are given only where there is nothing.
2. What is missing is said in one line with what to do about it; so is what goes wrong inside Spark.
3. Tasks of this machine run with this Python; those of a cluster with the packed environment, if there is one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqsniff.batch.store import redacted, shown_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN: Final = 17
DEFAULT_MASTER: Final = "local[*,4]"
"""All cores of this machine, four attempts a task: plain local[*] gives a task one."""
CLASSES: Final = "MQSNIFF_SPARK_CLASSES"
"""Environment variable: a file in which the JVM keeps Spark's classes for later sessions. It is off unless somebody
names a file: making it takes ten CPU seconds, each later session starts in seven less (decision 013)."""
_JAVA_OPTIONS: Final = ("-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1")
"""A session of our own copies bytes for a minute and is gone: neither the second compiler nor a collector that works
beside it earn what they cost (1 GB took 24 CPU seconds of the JVM, not 41)."""
_QUIET: Final = ("-Xlog:cds*=off", "-Xlog:class+path=off")
"""What the JVM has to say of an archive of classes goes to stdout, where our report is."""
_OPTIONS_OF_USERS: Final = ("SPARK_CONF_DIR", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_UNDER_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"
_UNPACKED: Final = "mqsniff-environment"
_HEAP: Final = "2g"
"""Here the driver's JVM does the work of executors too: a row is up to a megabyte, on every core."""
_WORKERS: Final = "spark.python.daemon.module"
_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.memory": _HEAP,
    _WORKERS: "mqsniff.batch.daemon",
    # What is shuffled stays on this machine, and is payload, which often is compressed: it is written once, as it is.
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.shuffle.sort.bypassMergeThreshold": "1",
}
"""For sessions of our own on this machine."""
_JOB_SETTINGS: Final[Mapping[str, str]] = {
    # A batch of bundles in a worker's memory; rows of a megabyte make the usual count of rows meaningless. A worker's
    # peak was 278 MB, 294 MB with four times as much.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    # Bundles are compressed captures or payload: a second compression of what is kept on disk costs time only.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}


class SessionError(Exception):
    """Why there is no session, or what it failed at, in one line."""


def open_session(master: str | None = None, remote: str | None = None, package: str | None = None) -> SparkSession:
    """A session, new or the one that is there; SessionError for what is missing.

    ``package`` is a packed Python environment (``venv-pack``, ``conda-pack``) for the workers of a cluster.
    """
    need_pyspark()
    if remote is None and _UNDER_SUBMIT not in os.environ:
        _need_java()
    local = remote is None and (master or DEFAULT_MASTER).startswith("local")
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with calm(), _failures_in_one_line(shown_uri(remote) if remote else "Spark"):
        return _remote_session(remote, package) if remote is not None else _classic_session(master, package)


def _classic_session(master: str | None, package: str | None) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415  # an extra

    builder = SparkSession.builder.appName("mqsniff batch")
    under_submit = _UNDER_SUBMIT in os.environ
    if master is not None or not under_submit:
        builder = builder.master(master or DEFAULT_MASTER)
    if not under_submit and (master or DEFAULT_MASTER).startswith("local") and not _java_is_chosen():
        for name, value in local_settings().items():
            builder = builder.config(name, value)
    if not under_submit:  # spark-submit decides all of these
        builder = builder.config("spark.executorEnv.OPENBLAS_NUM_THREADS", "1")
        builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "ERROR")
    if package is not None:
        builder = builder.config("spark.archives", f"{package}#{_UNPACKED}")
        builder = builder.config("spark.pyspark.python", f"./{_UNPACKED}/bin/python")
    session: SparkSession = builder.getOrCreate()
    return session


def local_settings() -> dict[str, str]:
    """Our settings for a session on this machine, without those that the user chose."""
    settings = {"spark.driver.defaultJavaOptions": shlex.join(_java_options()), **_LOCAL_SETTINGS}
    chosen = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if "memory" in chosen:
        del settings["spark.driver.memory"]
    if os.environ.get("PYSPARK_PYTHON") != sys.executable:  # another may have no mqsniff, which is told in our words
        del settings[_WORKERS]
    return {name: value for name, value in settings.items() if name not in chosen}


def _java_is_chosen() -> bool:
    """Whether the user may have chosen options for the JVM, which ours could contradict."""
    return "java" in os.environ.get("PYSPARK_SUBMIT_ARGS", "").lower() or any(map(os.environ.get, _OPTIONS_OF_USERS))


def _java_options() -> tuple[str, ...]:
    """Options for the JVM; it makes the file of classes that ``CLASSES`` names, or starts from it where it is there."""
    name = os.environ.get(CLASSES)
    if not name:
        return _JAVA_OPTIONS
    archive = Path(name).absolute()
    option = "SharedArchiveFile" if archive.exists() else "ArchiveClassesAtExit"
    return (*_JAVA_OPTIONS, f"-XX:{option}={archive}", *_QUIET)


def _remote_session(remote: str, package: str | None) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415  # an extra

    session: SparkSession = SparkSession.builder.remote(remote).getOrCreate()
    if package is not None:
        session.addArtifact(f"{package}#{_UNPACKED}", archive=True)
        session.conf.set("spark.sql.execution.pyspark.python", f"./{_UNPACKED}/bin/python")
    return session


@contextlib.contextmanager
def job_settings(session: SparkSession) -> Iterator[None]:
    """Our settings while a job runs, where the user has set none."""
    given = dict(session.conf.getAll)
    ours = {name: value for name, value in _JOB_SETTINGS.items() if name not in given and _knows(session, name)}
    for name, value in ours.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in ours:
            session.conf.unset(name)


def _knows(session: SparkSession, name: str) -> bool:
    """Whether this version of Spark has a setting."""
    try:
        session.conf.get(name)
    except Exception:  # noqa: BLE001  # another error in each kind of session
        return False
    return True


@contextlib.contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Give Spark jobs a name that can be read on its page; over Spark Connect it is a tag."""
    try:
        session.sparkContext.setJobDescription(f"mqsniff: {text}")
    except Exception:  # noqa: BLE001  # only for readers; each kind of session refuses with another error
        tag = re.sub(r"[^\w.-]+", "-", f"mqsniff-{text}")
        session.addTag(tag)
        try:
            yield
        finally:
            session.removeTag(tag)
        return
    try:
        yield
    finally:
        session.sparkContext.setJobDescription("")


@contextlib.contextmanager
def calm() -> Iterator[None]:
    """Without PySpark's warning about the version of pandas, which this job does not use."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextlib.contextmanager
def _failures_in_one_line(what: str) -> Iterator[None]:
    try:
        yield
    except SessionError:
        raise
    except Exception as error:  # the border to Spark: whatever it raises is told in one line
        raise SessionError(f"{what}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """The telling line of an error of Spark, without stack traces and credentials."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Exit)\b", line)]
    told = (raised or lines or [type(error).__name__])[-1 if raised else 0]
    return redacted(told)


def need_pyspark() -> None:
    """See that PySpark is installed; SessionError says how."""
    try:
        with calm():
            import pyspark.sql  # noqa: F401, PLC0415  # an extra
    except ImportError:
        raise SessionError("batch needs PySpark: pip install 'mqsniff[spark]'") from None


def _need_java() -> None:
    """See that there is a Java that Spark can start; SessionError says what to install."""
    install = f"Spark needs Java {JAVA_MIN} or newer: install it (Debian, Ubuntu: apt install openjdk-17-jre-headless)"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        where = f", JAVA_HOME is {home}" if home else ""
        raise SessionError(f"{install}{where}") from None
    version = re.search(r'version "(\d+)', said)
    if version is not None and int(version.group(1)) < JAVA_MIN:
        raise SessionError(f"{install}; {java} is version {version.group(1)}")
