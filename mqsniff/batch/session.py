"""Options in, a Spark session out: on this machine, a cluster, a Spark Connect server, or under spark-submit.

1. Settings of the user win: ours apply only where there is none.
2. If something is missing, one line says what and how to get it; errors inside Spark are one line too.
3. Tasks on this machine run with this Python; those of a cluster with the packed environment, if there is one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqsniff.batch.classarchive import archive_options
from mqsniff.batch.failures import failure, start_jvm, unreachable
from mqsniff.batch.store import shown_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN: Final = 17
DEFAULT_MASTER: Final = "local[*,4]"
"""All cores of this machine, four attempts per task: plain local[*] allows one."""
_JAVA_OPTIONS: Final = ("-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1")
"""Our own sessions copy bytes for about a minute: the second compiler and a concurrent garbage collector cost more than
they save (1 GB took 24 CPU seconds of the JVM, not 41)."""
_OPTIONS_OF_USERS: Final = ("SPARK_CONF_DIR", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_DESCRIPTION: Final = "spark.job.description"
_UNDER_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"
_ONE_PROCESS: Final = re.compile(r"local(\[|$)")
"""Masters whose driver is the only executor."""
_UNPACKED: Final = "mqsniff-environment"
_UNPACKED_PYTHON: Final = f"./{_UNPACKED}/bin/python"
_WORKER_PYTHON: Final = "spark.sql.execution.pyspark.python"
"""The Python of workers. ``spark.pyspark.python`` is for spark-submit alone: PySpark reads the environment instead."""
_HEAP: Final = "2g"
"""Locally, the driver's JVM is the executor too: a row is up to a megabyte, on every core."""
_WORKERS: Final = "spark.python.daemon.module"
_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.memory": _HEAP,
    _WORKERS: "mqsniff.batch.daemon",
    # Shuffled bytes stay on this machine, and payload often is compressed already.
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.shuffle.sort.bypassMergeThreshold": "1",
}
"""Settings for our own sessions on this machine."""
_QUIET_SETTINGS: Final[Mapping[str, str]] = {
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_JOB_SETTINGS: Final[Mapping[str, str]] = {
    # Batches of bundles in a worker's memory: rows may have a megabyte, so a limit by count does not help. A worker's
    # peak was 278 MB, and 294 MB with four times this limit.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    # Bundles often hold compressed payload: compressing them again only costs time.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}


class SessionError(Exception):
    """Why there is no session, or how Spark failed; the text is one line."""


def open_session(master: str | None = None, remote: str | None = None, package: str | None = None) -> SparkSession:
    """A new or the existing session; SessionError if something is missing.

    ``package`` is a packed Python environment (``venv-pack``, ``conda-pack``) for the workers of a cluster.
    """
    need_pyspark()
    if remote is not None:
        if said := unreachable(remote):
            raise SessionError(said)
    elif _UNDER_SUBMIT not in os.environ:
        _need_java()
    local = remote is None and (master or DEFAULT_MASTER).startswith("local")
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with without_pandas_warning(), _failures_in_one_line(shown_uri(remote) if remote else "Spark"):
        return _remote_session(remote, package) if remote is not None else _classic_session(master, package)


def close_session(session: SparkSession) -> None:
    """Stop a session, whether or not its JVM still lives; the next one starts another JVM."""
    from pyspark import SparkContext  # noqa: PLC0415  # an extra
    from pyspark.sql import SparkSession  # noqa: PLC0415  # as above

    with contextlib.suppress(Exception):
        session.stop()
    gateway = SparkContext._gateway  # noqa: SLF001  # PySpark keeps the gateway of a JVM that died
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001  # as above
    SparkSession._instantiatedSession = None  # noqa: SLF001  # as above


def _classic_session(master: str | None, package: str | None) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415  # an extra

    under_submit = _UNDER_SUBMIT in os.environ
    settings = {"spark.app.name": "mqsniff batch"}
    if master is not None or not under_submit:
        settings["spark.master"] = master or DEFAULT_MASTER
    if not under_submit and (master or DEFAULT_MASTER).startswith("local") and not _java_is_chosen():
        settings |= local_settings()
    if not under_submit:  # spark-submit decides all of these
        settings |= _QUIET_SETTINGS
    if package is not None:
        settings |= {"spark.archives": f"{package}#{_UNPACKED}", _WORKER_PYTHON: _UNPACKED_PYTHON}
    if not under_submit:
        start_jvm(settings)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    return session


def local_settings() -> dict[str, str]:
    """Our settings for a session on this machine, without those that the user chose."""
    java = (*_JAVA_OPTIONS, *archive_options(_JAVA_OPTIONS))
    settings = {"spark.driver.defaultJavaOptions": shlex.join(java), **_LOCAL_SETTINGS}
    chosen = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if "memory" in chosen:
        del settings["spark.driver.memory"]
    if os.environ.get("PYSPARK_PYTHON") != sys.executable:  # another Python may lack mqsniff
        del settings[_WORKERS]
    return {name: value for name, value in settings.items() if name not in chosen}


def _java_is_chosen() -> bool:
    """Whether the user may have chosen options for the JVM, which ours could contradict."""
    return "java" in os.environ.get("PYSPARK_SUBMIT_ARGS", "").lower() or any(map(os.environ.get, _OPTIONS_OF_USERS))


def _remote_session(remote: str, package: str | None) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415  # an extra

    session: SparkSession = SparkSession.builder.remote(remote).getOrCreate()
    if package is not None:
        session.addArtifact(f"{package}#{_UNPACKED}", archive=True)
        session.conf.set(_WORKER_PYTHON, _UNPACKED_PYTHON)
    return session


@contextlib.contextmanager
def job_settings(session: SparkSession) -> Iterator[None]:
    """Apply our settings while a job runs, except where the user has set them."""
    given = dict(session.conf.getAll)
    ours = {name: value for name, value in _JOB_SETTINGS.items() if name not in given and _knows(session, name)}
    for name, value in ours.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in ours:
            with contextlib.suppress(Exception):  # its JVM may be gone
                session.conf.unset(name)


def payload_folder(session: SparkSession) -> str:
    """A new folder for payloads among Spark's temporary files; empty if tasks may run on other machines."""
    from pyspark import SparkFiles  # noqa: PLC0415  # an extra

    try:
        master = session.sparkContext.master or ""
    except Exception:  # noqa: BLE001  # Spark Connect has no context, and says so with an error of its own
        return ""
    if not _ONE_PROCESS.match(master):
        return ""
    return tempfile.mkdtemp(prefix="mqsniff-payloads-", dir=SparkFiles.getRootDirectory())


def _knows(session: SparkSession, name: str) -> bool:
    """Whether this version of Spark has a setting."""
    try:
        session.conf.get(name)
    except Exception:  # noqa: BLE001  # another error in each kind of session
        return False
    return True


@contextlib.contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Describe Spark jobs on Spark's page; over Spark Connect the description is a tag."""
    try:
        context = session.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setJobDescription(f"mqsniff: {text}")
    except Exception:  # noqa: BLE001  # it is only a description; each kind of session raises another error
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
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it


@contextlib.contextmanager
def without_pandas_warning() -> Iterator[None]:
    """Hide PySpark's warning about the version of pandas, which this job does not use."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextlib.contextmanager
def _failures_in_one_line(what: str) -> Iterator[None]:
    try:
        yield
    except SessionError:
        raise
    except Exception as error:  # the border to Spark: every error becomes one line
        raise SessionError(f"{what}: {failure(error)}") from error


def need_pyspark() -> None:
    """Check that PySpark is installed; SessionError says how to install it."""
    try:
        with without_pandas_warning():
            import pyspark.sql  # noqa: F401, PLC0415  # an extra
    except ImportError:
        raise SessionError("batch needs PySpark: pip install 'mqsniff[spark]'") from None


def _need_java() -> None:
    """Check that Spark can start Java; SessionError says what to install."""
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
