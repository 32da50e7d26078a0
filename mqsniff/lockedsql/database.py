"""Tables and a query in, batches of its result out: the command's side of the query process.

1. DuckDB runs in a process of its own (``worker.py``) with bounded memory, which ends when this one does. A signal that
   is raised here while a query runs ends that process, whatever it is doing: the database answers nothing more.
2. What comes back is Arrow IPC, checked, a few MiB at once; a result of any size needs no memory here.
3. An error is one line, also for a process that crashed or was killed.
4. Reading the tables is the process's task too: ``readable`` names the folders of their files.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, Self

import orjson

from mqsniff.errors import QueryError as QueryError  # noqa: PLC0414  # users of this module catch it
from mqsniff.limits import Limits
from mqsniff.lockedsql.frames import DONE, ERROR, REQUEST, ROWS, FrameSizeError, ProcessFrame, read_frame, write_frame
from mqsniff.lockedsql.worker import Terms
from mqsniff.tables.escape import safe
from mqsniff.tables.schemas import TableName

if TYPE_CHECKING:
    import pyarrow as pa

_AROUND_A_ROW: Final = 32 << 20
"""Bytes of a frame that may come on top of ``query_row``: the schema, padding, small columns."""
_END_S: Final = 0.6
"""Time to wait for the process to end: longer only if it frees much memory, or deletes large files."""
_LOOK_MS: Final = 250
"""Time between two looks for a signal while the process computes."""
_LAST_WORDS: Final = 4096
"""Bytes of what a crashed process said that are looked at."""
_START: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; from mqsniff.lockedsql.worker import main; main(sys.argv[1] or None)"
)
_PASSED: Final = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZ")
"""Variables of the environment that the process gets: those of Python and its libraries, no secrets."""
_THRIFT: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "4", "OPENBLAS_NUM_THREADS": "1"}
"""The system's own allocator, whose needs are bounded by what is in use."""


class QueryProcess:
    """A process that answers requests about tables; ``private`` is a folder that it deletes when this process dies."""

    def __init__(self, terms: Terms, private: Path | None = None) -> None:
        """Raises QueryError if it cannot be started."""
        self._terms = terms
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed by _end
        path = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100  # also of ''
        arguments = [sys.executable, "-P", "-c", _START, str(private or ""), *path]
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own interpreter
                arguments,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                cwd="/",
                env={name: os.environ[name] for name in _PASSED if name in os.environ} | _THRIFT,
                start_new_session=True,  # Ctrl-C is for the command
            )
        except OSError as error:
            self._said.close()
            raise QueryError(f"no process for the query: {error.strerror or error}") from None
        self.close = weakref.finalize(self, _end, self._process, self._said)
        """End the process; nothing can be asked then."""
        self._send(terms)

    def ask(self, name: str, *arguments: object) -> Any:
        """The answer to a request; raises QueryError."""
        self._send((name, *arguments))
        frame = self._next()
        assert frame.kind == DONE, frame.kind
        return orjson.loads(frame.payload)

    def rows(self, name: str, *arguments: object) -> Iterator[pa.RecordBatchReader]:
        """The rows that answer a request, a reader for each frame: first the schema alone; raises QueryError."""
        import pyarrow as pa  # noqa: PLC0415  # heavy

        self._send((name, *arguments))
        while (frame := self._next()).kind == ROWS:
            yield pa.ipc.open_stream(frame.payload)

    def _send(self, what: object) -> None:
        """Send a request; if that fails, the answer says why."""
        assert self._process.stdin is not None
        if self.close.alive:
            try:
                write_frame(self._process.stdin.fileno(), REQUEST, pickle.dumps(what))
            except BrokenPipeError:
                return
            except BaseException:  # half a request was sent
                self.close()
                raise

    def _next(self) -> ProcessFrame:
        """The next frame; raises QueryError for one that is an error, or if the process has ended."""
        assert self._process.stdout is not None
        if not self.close.alive:
            raise QueryError("the query was ended")
        try:
            _wait_for(self._process.stdout.fileno())
            frame = read_frame(self._process.stdout.fileno(), self._terms.limits.query_row + _AROUND_A_ROW)
        except FrameSizeError as error:
            self.close()
            raise QueryError(f"the result holds too much at once ({error})") from None
        except BaseException:  # a signal: it is not known how much of the frame was read
            self.close()
            raise
        if frame is None:
            raise QueryError(self._why())
        if frame.kind == ERROR:
            raise QueryError(safe(str(orjson.loads(frame.payload))))
        return frame

    def _why(self) -> str:
        """Why the process has ended."""
        code = self._process.wait()
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _LAST_WORDS))
        said = self._said.read().decode(errors="replace").strip()
        self.close()
        return ending(code, said, self._terms)


def condition_process(limits: Limits) -> QueryProcess:
    """A process for conditions on rows, which reads and writes no files; raises QueryError."""
    return QueryProcess(Terms(limits, spill=None, readable=(), cpu_seconds=None))


class Database:
    """Tables to query; ``spill`` is a folder for what does not fit into memory, which the caller deletes."""

    def __init__(
        self,
        spill: Path,
        limits: Limits | None = None,
        *,
        readable: Sequence[Path] = (),
        cpu_seconds: int | None = None,
        private: Path | None = None,
    ) -> None:
        spill.mkdir(mode=0o700, exist_ok=True)
        folders = tuple(os.path.realpath(folder) for folder in readable)
        terms = Terms(limits or Limits(), os.path.realpath(spill), folders, cpu_seconds)
        self._process = QueryProcess(terms, private)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.close()

    def open(self, tables: Mapping[str, Any]) -> Self:
        """Let queries see these datasets or tables, and no others."""
        import pyarrow.dataset as ds  # noqa: PLC0415  # heavy

        held = {
            name: table.to_table() if isinstance(table, ds.InMemoryDataset) else table for name, table in tables.items()
        }
        self._process.ask("open", held)
        return self

    def check(self, query: str) -> None:
        """Raise QueryError unless a query is one statement that reads and is valid for these tables."""
        self._process.ask("check", query)

    def needed_tables(self, query: str) -> tuple[TableName, ...]:
        """The tables that a query may read; all if it names none, as SHOW TABLES does."""
        return tuple(self._process.ask("needed_tables", query))

    def run(self, query: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The columns of a result and its batches, which come as they are computed; raises QueryError."""
        readers = self._process.rows("run", query)
        return next(readers).schema, _checked(readers)


def _checked(readers: Iterator[pa.RecordBatchReader]) -> Iterator[pa.RecordBatch]:
    """The batches of readers, once they are known to be what they say."""
    for reader in readers:
        for batch in reader:
            batch.validate(full=True)
            yield batch


def ending(code: int, said: str, terms: Terms) -> str:
    """Why a process ended by itself, by its exit code and the last that it said."""
    last = f": {safe(said.splitlines()[-1])}" if said else ""
    number = -code if code < 0 else code - 128
    if number <= 0:
        return f"the process of the query ended by itself ({code}{last})"
    name = signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"
    if name == "SIGXCPU":
        return f"the query has used its processor time, {terms.cpu_seconds} s; --cpu-seconds gives it more"
    if "bad_alloc" in said or "MemoryError" in said or "not enough memory" in said:
        most = terms.limits.query_memory
        return (
            f"the query needs more memory than the {most} bytes it may have; --limit query_memory=BYTES gives it more"
        )
    if name == "SIGKILL":
        return "the process of the query was killed (SIGKILL), perhaps by the system for lack of memory"
    return f"the process of the query crashed on it ({name}{last})"


def _wait_for(descriptor: int) -> None:
    """Wait for bytes, or for the end.

    A signal that comes just before a read, or to another thread, does not wake a read.
    """
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    while not waiting.poll(_LOOK_MS):
        pass


def _end(process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    """End a process: it kills its worker when its stdin closes, and ends."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    said.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        Thread(target=process.wait, daemon=True).start()  # it frees gigabytes: nobody has to wait for that
