"""The query process: requests on stdin, answers on stdout, as frames.

It is two processes, and holds nothing of the command that started it but what that sends:

1. The warden waits. When the command is gone, even killed, or closes its pipe, it kills the worker and deletes the
   private folder. It ends as the worker ended: its exit code is that of the worker, or 128 and the signal.
2. The worker gives up what it does not need (``confinement.py``), and answers requests. It dies with the warden.
"""

from __future__ import annotations

import os
import pickle
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from mqsniff.limits import Limits
from mqsniff.lockedsql import confinement
from mqsniff.lockedsql.frames import DONE, ERROR, ROWS, read_frame, write_frame

if TYPE_CHECKING:
    import pyarrow as pa

    from mqsniff.lockedsql.engine import LockedDatabase

_MOST: Final = 1 << 40
"""Bytes of a request: the command is trusted."""
_TALK: Final = 1 << 20
"""Bytes that a process without a spill folder may write to a file: what libraries say when they crash."""


class Terms(NamedTuple):
    """What the worker may have; the first frame."""

    limits: Limits
    spill: str | None
    """The folder for what does not fit into memory."""
    readable: tuple[str, ...]
    """Folders with the files of tables."""
    cpu_seconds: int | None


def main(private: str | None) -> NoReturn:
    """Run both; ``private`` is the folder to delete in the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command decides what Ctrl-C ends
    os.umask(0o077)
    alive, held = os.pipe()
    warden = os.getpid()
    worker = os.fork()
    if worker == 0:
        os.close(alive)
        _work(warden)
    os.close(held)
    os.close(sys.stdout.fileno())  # so that the answers end when the worker does
    _wait(alive)
    os.kill(worker, signal.SIGKILL)
    deleted = None
    if private is not None and not _is_open(sys.stdin.fileno()):
        deleted = _renamed(private)
    _, status = os.waitpid(worker, 0)
    if deleted is not None:
        shutil.rmtree(deleted, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    os._exit(128 - code if code < 0 else code)


def _wait(alive: int) -> None:
    """Return when the command or the worker has closed its end of a pipe."""
    waiting = select.poll()
    for descriptor in (sys.stdin.fileno(), alive):
        waiting.register(descriptor, 0)
    waiting.poll()


def _is_open(descriptor: int) -> bool:
    """Whether the other end of a pipe is open."""
    waiting = select.poll()
    waiting.register(descriptor, 0)
    return not waiting.poll(0)


def _renamed(private: str) -> str | None:
    """Take a folder away at once, since to delete gigabytes takes time; its new name."""
    try:
        os.rename(private, f"{private}-deleted")  # noqa: PTH104  # a plain name
    except OSError:
        return None
    return f"{private}-deleted"


def _work(warden: int) -> NoReturn:
    """Answer requests until there are no more."""
    code = 1
    try:
        confinement.stay_with_parent(warden)
        confinement.deny_system_calls()
        requests, answers = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, sys.stdin.fileno())
        os.dup2(null, sys.stdout.fileno())  # what libraries print is no frame
        first = read_frame(requests, _MOST)
        if first is not None:
            _Worker(pickle.loads(first.payload), answers).serve(requests)  # noqa: S301  # sent by the command that started us
        code = 0
    except BrokenPipeError:
        code = 0
    except BaseException:  # noqa: BLE001  # the border of the process: the command gets the last line
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


class _WithoutPandas:
    """Hides pandas, which Arrow would load if it is installed: a third of the time to start, for nothing."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:  # noqa: ARG004  # the protocol of importlib
        """Fail for pandas, and leave other modules to others."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


class _Worker:
    """Answers requests with a database."""

    def __init__(self, terms: Terms, answers: int) -> None:
        # After the confinement that threads inherit, and before that of files.
        sys.meta_path.insert(0, _WithoutPandas())
        import orjson  # noqa: F401, PLC0415
        import pyarrow.dataset  # noqa: F401, PLC0415

        from mqsniff.lockedsql import engine  # noqa: PLC0415

        self._engine = engine
        self._terms = terms
        self._answers = answers
        self._database: LockedDatabase | None = None
        spill = () if terms.spill is None else (terms.spill,)
        confinement.deny_files((*terms.readable, *spill), spill)
        confinement.bound(confinement.FILE_SIZE, terms.limits.query_spill if spill else _TALK)

    def serve(self, requests: int) -> None:
        """Answer each request with a frame, or with frames of rows and one after them."""
        while (frame := read_frame(requests, _MOST)) is not None:
            name, *asked = pickle.loads(frame.payload)  # noqa: S301  # as above
            try:
                answer = _json(self._answer(name, asked))
            except self._engine.RefusedQueryError as error:
                write_frame(self._answers, ERROR, _json(str(error)))
            except MemoryError as error:
                text = self._engine.one_line("", f"Out of Memory Error: {error}", self._terms.limits)
                write_frame(self._answers, ERROR, _json(text))
            else:
                write_frame(self._answers, DONE, answer)

    def _answer(self, name: str, asked: list[Any]) -> Any:
        """The answer to a request; rows are sent before it."""
        if name == "open":
            return self._open(*asked)
        if name == "needed_tables":
            return self._engine.needed_tables(*asked)
        assert self._database is not None
        match name:
            case "check":
                return self._database.check(*asked)
            case "misfit":
                return self._database.misfit(*asked)
            case "met":
                return self._database.met(*asked)
            case "run":
                return self._run(*self._database.run(*asked))
        raise ValueError(name)

    def _open(self, tables: dict[str, Any]) -> None:
        """Open other tables than before."""
        is_first = self._database is None
        if self._database is not None:
            self._database.close()
        self._database = self._engine.LockedDatabase(tables, self._terms.spill, self._terms.limits)
        if is_first:
            confinement.bound_memory(self._terms.limits.query_memory)
            if self._terms.cpu_seconds is not None:
                confinement.bound_processor(self._terms.cpu_seconds)

    def _run(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Send the columns of a result, then its rows."""
        write_frame(self._answers, ROWS, _ipc(schema, None))
        for batch in batches:
            write_frame(self._answers, ROWS, _ipc(schema, batch))


def _json(value: object) -> bytes:
    import orjson  # noqa: PLC0415  # as above

    return orjson.dumps(value)


def _ipc(schema: pa.Schema, batch: pa.RecordBatch | None) -> pa.Buffer:
    """A stream of Arrow IPC."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        if batch is not None:
            writer.write_batch(batch)
    return sink.getvalue()
