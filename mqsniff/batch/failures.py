"""What Spark says in, one line out: a log file and scratch space for the JVM, and the cause of an error.

1. The JVM of our own sessions writes to a file: warnings of its start, and stack traces. The file goes with the private
   folder of the process, unless a run failed: then it is moved out, and the line of the failure names it.
2. A failure that operators can mend is said in their terms, and the line says what to do. Others are said in the line
   of Spark's text that holds the cause. No line has credentials.
3. Spark's temporary files on this machine are below a private folder too: a JVM that is killed leaves gigabytes, and
   the next run deletes them.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mqsniff.batch.store import redacted
from mqsniff.sinks.privatefolder import process_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RAISED: Final = re.compile(r"(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Exit)\b")
_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded|\[Errno (?:28|122)\]", re.IGNORECASE)
_IN_WORKER: Final = re.compile(r"Python worker: Traceback|\[Errno ")
"""Marks errors of Python; what the JVM writes are Spark's temporary files."""
_PAYLOADS: Final = re.compile(r"\bPayloadError\b")
"""Marks errors of the temporary files that workers write."""
_MEMORY: Final = (
    "the JVM ran out of memory: give it more, on this machine with PYSPARK_SUBMIT_ARGS='--driver-memory 4g "
    "pyspark-shell', on a cluster with spark.executor.memory"
)
_WORKER: Final = (
    "a Python worker died as often as a task may be tried; if it was for memory, use fewer cores, such as "
    "--master 'local[2,4]', or larger executors"
)
_MISSING: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_CAUSES: Final = (
    (re.compile(r"OutOfMemoryError|GC overhead limit"), _MEMORY),
    (re.compile(r"Python worker exited unexpectedly|exited with code 137|MemoryError"), _WORKER),
    (
        re.compile(r"Java side is empty|Py4JNetworkError|Error while sending or receiving|Errno 111|the Java server"),
        "the JVM is gone: it was killed, or the machine ran out of memory",
    ),
    (
        re.compile(r"All masters are unresponsive|stopped SparkContext|SparkContext was shut down"),
        "the cluster does not answer, or ended the application: is --master right, and the cluster up?",
    ),
    (
        re.compile(r"StatusCode\.UNAVAILABLE|failed to connect to all addresses"),
        "no Spark Connect server answers: is --remote right, and the server up?",
    ),
)
_SCRATCH: Final = "SPARK_LOCAL_DIRS"
_CONNECT_PORT: Final = 15002
_CONNECT_S: Final = 10.0
_CHOSEN_LOGS: Final = ("SPARK_CONF_DIR", "SPARK_LOG_DIR")


class JvmLog:
    """The file to which a JVM writes."""

    def __init__(self) -> None:
        self.path: Path | None = None

    def open(self) -> Any:
        """Make the file."""
        descriptor, name = _new_log(process_folder())
        self.path = Path(name)
        return os.fdopen(descriptor, "wb")

    def keep(self) -> Path | None:
        """Keep the file, to which the JVM goes on to write; None if there is none, or nothing in it."""
        path, self.path = self.path, None
        if path is None or not path.exists() or not path.stat().st_size:
            return None
        descriptor, kept = _new_log(path.parents[1])
        os.close(descriptor)
        return path.replace(kept)


def _new_log(folder: Path) -> tuple[int, str]:
    return tempfile.mkstemp(prefix="mqsniff-spark-", suffix=".log", dir=folder)


_JVM_LOG: Final = JvmLog()


def start_jvm(settings: dict[str, str]) -> None:
    """Start the JVM of a session with these settings, if there is none yet, with its output in a file.

    Where the user configured Spark's logs, they stay where they are.
    """
    from pyspark import SparkConf, SparkContext, accumulators  # noqa: PLC0415  # an extra
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415  # as above

    if SparkContext._gateway is not None or "log4j" in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):  # noqa: SLF001
        return
    if any(map(os.environ.get, _CHOSEN_LOGS)):
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with _JVM_LOG.open() as log, private_scratch():
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001  # no public call takes a gateway and a builder
    for name in {"AccumulatorServer", "AccumulatorTCPServer"} & vars(accumulators).keys():  # by version
        setattr(getattr(accumulators, name), "handle_error", _say_nothing)  # noqa: B010  # a method, to mypy


@contextlib.contextmanager
def private_scratch() -> Iterator[None]:
    """A JVM that is started meanwhile has its temporary files in private folders, in the places that the user chose."""
    chosen = os.environ.get(_SCRATCH)
    if not chosen and ("spark.local.dir" in os.environ.get("PYSPARK_SUBMIT_ARGS", "") or "SPARK_HOME" in os.environ):
        yield  # it is in the settings
        return
    with contextlib.suppress(OSError):  # Spark says that it cannot write there
        places = (chosen or tempfile.gettempdir()).split(",")
        os.environ[_SCRATCH] = ",".join(str(process_folder(place)) for place in places)
    try:
        yield
    finally:
        if chosen:
            os.environ[_SCRATCH] = chosen
        else:
            os.environ.pop(_SCRATCH, None)


def _say_nothing(*_: object) -> None:
    """Replaces a stack trace on stderr where the JVM dies: the run says that, in one line."""


def failure(error: BaseException, session: SparkSession | None = None, out: str = "") -> str:
    """The line for an error of Spark (rule 2), and where the JVM's log is."""
    text = str(error)
    log = _JVM_LOG.keep()
    if "JAVA_GATEWAY_EXITED" in text and log is not None:
        said = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("WARNING:")]
        text = "\n".join(said) or "the JVM ended while it started: it was killed, or the machine ran out of memory"
    line = _known(text, session, out) or one_line(text)
    return f"{line} (Spark's log: {log})" if log is not None else line


def _known(text: str, session: SparkSession | None, out: str) -> str:
    """The line for a known cause; empty for another one."""
    if _FULL.search(text):
        if _IN_WORKER.search(text) and not _PAYLOADS.search(text):
            return f"no space left for the tables{f' in {out}' if out else ''}: nothing was committed"
        return (
            f"no space left for Spark's temporary files, in {local_folder(session)}: name a larger folder in "
            "SPARK_LOCAL_DIRS (on a cluster: spark.local.dir); a job needs twice the bytes of its captures"
        )
    if missing := _MISSING.search(text):
        return f"workers have no {missing[1]}: install mqsniff there, or give --package"
    return next((said for pattern, said in _CAUSES if pattern.search(text)), "")


def local_folder(session: SparkSession | None) -> str:
    """Where Spark keeps temporary files."""
    chosen = os.environ.get(_SCRATCH, "")
    with contextlib.suppress(Exception):  # the session may be gone with its JVM
        if not chosen and session is not None:
            chosen = session.conf.get("spark.local.dir", "") or ""
    return chosen or tempfile.gettempdir()


def unreachable(remote: str) -> str:
    """Why no Spark Connect server can be reached at ``sc://host:port``; empty if one may be.

    Spark's client itself tries for ten minutes. A server that it starts itself, and one behind a proxy, is not asked.
    """
    place = urlsplit(remote)
    if place.scheme != "sc" or any("proxy" in name.lower() for name in os.environ):
        return ""
    try:
        socket.create_connection((place.hostname or "", place.port or _CONNECT_PORT), _CONNECT_S).close()
    except (OSError, ValueError) as error:
        return f"no Spark Connect server answers at {redacted(remote)}: {str(error).lower()}"
    return ""


def one_line(error: BaseException | str) -> str:
    """The line of a Spark error that says the cause, without stack traces and credentials."""
    marks = re.compile(r"^(?:Caused by)?: ")
    lines = [marks.sub("", line.strip()) for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    cause = (raised or lines or [type(error).__name__])[-1 if raised else 0]
    return redacted(cause)
