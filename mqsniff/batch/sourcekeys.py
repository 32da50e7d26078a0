"""Names of files of keys in, keys out, where a task of Spark runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mqsniff.batch.inputs import InputError, why

if TYPE_CHECKING:
    from mqsniff.tables.hashkey import HashKey
    from mqsniff.tls.keylog import KeyLog


@dataclass(frozen=True)
class KeyFiles:
    """Names of files of keys, as the user gave them."""

    tls: tuple[str, ...] = ()
    hashes: str = ""

    def key_logs(self) -> list[KeyLog]:
        """The key logs of TLS, in a task; InputError for a file that cannot be read."""
        from mqsniff.tls.keylog import KeyLog  # noqa: PLC0415  # only workers decode

        logs = []
        for name in self.tls:
            try:
                logs.append(KeyLog(_place_of("tlsKeys", name)))
            except OSError as error:
                raise InputError(f"tlsKeys: {name}: {why(error)}") from None
        return logs

    def hash_key(self) -> HashKey | None:
        """The key of hashes, in a task; InputError for a file that cannot be it."""
        from mqsniff.tables.hashkey import HashKey, HashKeyError  # noqa: PLC0415  # only workers decode

        if not self.hashes:
            return None
        try:
            return HashKey.of_file(_place_of("hashKey", self.hashes))
        except (OSError, HashKeyError) as error:
            raise InputError(f"hashKey: {self.hashes}: {why(error) if isinstance(error, OSError) else error}") from None


def _place_of(option: str, name: str) -> str:
    """Where a task finds a file: at its path, or among the files of the session."""
    from pyspark import SparkFiles  # noqa: PLC0415  # on the worker

    sent = SparkFiles.get(Path(name).name)
    if not Path(name).exists() and Path(sent).exists():
        return sent
    if not Path(name).exists():
        raise InputError(
            f"{option}: {name}: no such file where Spark reads; mqsniff.batch.spark.share_keys sends one there"
        )
    return name
