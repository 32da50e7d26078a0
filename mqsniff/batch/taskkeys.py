"""The keys of a job in, private files for its tasks out: key logs of TLS, and the key of hashes.

1. The secrets travel as files that only their owner can read, never inside a plan, a closure, a log or a manifest;
   tasks are told the names of the files (decisions 016, 018).
2. The files are emptied when the job is over, however it ended, and deleted with the process: a session that goes on
   may still ask for them. Those of a process that was killed go with the next run.
3. All tasks of a job have the same key of hashes; a task that does not find it fails, as its hashes would be others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Self

from mqsniff.sinks.privatefolder import process_folder
from mqsniff.tables.hashkey import HashKey
from mqsniff.tls.keylog import TLS_KEY_LOG, KeyLog, KeyRing


class TaskKeys:
    """The files; a context manager, at whose end they are emptied."""

    def __init__(self, logs: Sequence[KeyLog], hash_key: HashKey | None = None) -> None:
        """``hash_key``: None for a random one."""
        self._logs = logs
        self._hash_key = hash_key or HashKey.random()
        self._paths: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in self._paths:
            path.write_bytes(b"")

    def write_hash_key(self) -> str:
        """Write the key of hashes; its path."""
        path = self._new_file()
        self._hash_key.copy_to(path)
        return str(path)

    def write_key_logs(self, held: Iterable[tuple[int, bytes]]) -> str | None:
        """Write the key logs, with the secrets that captures hold; their path, None where there are no keys at all."""
        contents = [content for kind, content in held if kind == TLS_KEY_LOG]
        if not contents and not self._logs:
            return None
        path = self._new_file()
        with path.open("wb") as out:
            for log in self._logs:
                log.copy_to(out)
            for content in contents:
                out.write(content + b"\n")
        return str(path)

    def _new_file(self) -> Path:
        path = process_folder() / f"mqsniff-{token_hex(8)}"  # only its owner can enter the folder
        path.touch(mode=0o600)
        self._paths.append(path)
        return path


def ring_of(key_file: str) -> KeyRing | None:
    """What opens TLS in a task; None where there is no file."""
    return KeyRing([KeyLog(key_file)]) if key_file else None
