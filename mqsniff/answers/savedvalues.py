"""Record batches that were chosen in, a folder of their values out: a file a value, and an index of them.

1. A file is called topic-partition-offset; whatever a name may not hold on some system is ``_``, and the same name is
   never written twice: what comes again (delivered, after it was produced) is ``.2``, ``.3`` and so on.
2. Values that are null or hidden have a line in the index, and no file.
3. The index, ``index.ndjson``, has a line a record: topic, partition, offset, key, time, size, file, and its packet.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, Final

from mqsniff.model import RecordItem
from mqsniff.tables.rows import Captures, Row, rows_of
from mqsniff.tables.times import rfc3339
from mqsniff.tables.values import Redaction

INDEX: Final = "index.ndjson"
NAME_MAX: Final = 120
"""Characters of a topic in a name: file systems take 255 bytes for all of it."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_TOLD: Final = (
    "protocol",
    "direction",
    "topic",
    "topic_id",
    "partition",
    "offset",
    "message_id",
    "key",
    "key_encoding",
)


class SavedValues:
    """Writes values into a folder, which is made."""

    def __init__(self, folder: Path, captures: Captures, shown: Redaction) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._captures = captures
        self._shown = shown
        self._names: Counter[str] = Counter()
        self._index: BinaryIO = (folder / INDEX).open("wb")
        self.files = 0
        self.size = 0

    def take(self, item: RecordItem) -> None:
        """Save the values of a batch."""
        for _, row in rows_of(item, self._captures, ("records",), self._shown):
            value = row["value"]
            name = None
            if isinstance(value, bytes) and row["value_encoding"] in ("utf8", "base64"):
                name = self._name(row)
                self._write(name, value)
                self.files += 1
                self.size += len(value)
            self._index.write(self._shown.json(_line(row, name)) + b"\n")

    def _write(self, name: str, value: bytes) -> None:
        """Write a file; half of a value is no value."""
        path = self._folder / name
        try:
            path.write_bytes(value)
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def _name(self, row: Row) -> str:
        topic = _UNSAFE.sub("_", str(row["topic"] or row["topic_id"] or "unknown"))[-NAME_MAX:].lstrip(".") or "unknown"
        place = row["offset"] if row["offset"] is not None else row["message_id"]
        told = _UNSAFE.sub("_", str("none" if place is None else place))[:NAME_MAX]
        name = f"{topic}-{'none' if row['partition'] is None else row['partition']}-{told}"
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}.{self._names[name]}"

    def close(self) -> None:
        """Close the index."""
        self._index.close()


def _line(row: Row, name: str | None) -> dict[str, Any]:
    line = {column: row[column] for column in _TOLD}
    return line | {
        "time": rfc3339(row["ts"]),
        "record_time": None if row["record_ts"] is None else rfc3339(row["record_ts"]),
        "size": row["value_size"],
        "hidden": row["value_encoding"] == "redacted",
        "file": name,
        "capture": row["capture"],
        "packet": row["packet"],
    }
