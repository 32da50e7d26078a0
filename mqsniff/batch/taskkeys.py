"""Key logs of a job in, one private file for its tasks out.

1. The secrets travel as a file that only its owner can read, never inside a plan, a closure, a log or a manifest; tasks
   are told the name of the file (decision 016).
2. The file is emptied when the job is over, however it ended, and deleted with the process: a session that goes on may
   still ask for it.
"""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from types import TracebackType
from typing import Self

from mqsniff.tls.keylog import TLS_KEY_LOG, KeyLog, KeyRing


class TaskKeys:
    """The file; a context manager, at whose end it is emptied."""

    def __init__(self, logs: Sequence[KeyLog]) -> None:
        self._logs = logs
        self._path: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path is not None:
            self._path.write_bytes(b"")

    def write(self, held: Iterable[tuple[int, bytes]]) -> str | None:
        """Write the file, with the secrets that captures hold; its path, None where there are no keys at all."""
        contents = [content for kind, content in held if kind == TLS_KEY_LOG]
        if not contents and not self._logs:
            return None
        folder = mkdtemp(prefix="mqsniff-")  # only its owner can enter it
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self._path = path = Path(folder) / f"mqsniff-{token_hex(8)}"
        path.touch(mode=0o600)
        with path.open("wb") as out:
            for log in self._logs:
                log.copy_to(out)
            for content in contents:
                out.write(content + b"\n")
        return str(path)


def ring_of(key_file: str) -> KeyRing | None:
    """What opens TLS in a task; None where there is no file."""
    return KeyRing([KeyLog(key_file)]) if key_file else None
