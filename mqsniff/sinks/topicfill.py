"""Part files and the topic names that count in; parts whose rows show other names, rewritten, out.

1. Only parts that show another name for a topic id than the one that counts are rewritten, row group by row group.
2. Records whose topic turns out to be internal are decoded from the key and value in their part, unless these are
   redacted or cut.
3. A part is replaced when its successor is complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from mqsniff.decode.internal import InternalTopics
from mqsniff.model import Int64s
from mqsniff.sinks.parts import PartFile, WrittenPart
from mqsniff.tables.buffers import bools_in, number_array, numbers_in
from mqsniff.tables.cells import array_of
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction
from mqsniff.topics import Names, final_topic, final_topics, shows_other_names

_WHOLE: Final = (None, "utf8", "base64")
"""Encodings of keys and values that are complete."""
_CONTENT: Final = ("protocol", "control", "key", "key_encoding", "value", "value_encoding", "value_size")


@dataclass(frozen=True, slots=True)
class TopicFill:
    """Fills final topic names into part files."""

    filesystem: pafs.FileSystem
    names: Names
    internal: InternalTopics
    shown: Redaction = field(default_factory=Redaction)

    def parts(self, parts: Iterable[WrittenPart]) -> list[WrittenPart]:
        """All parts; those that show other names are rewritten in place."""
        return [self.part(part, part.path) if self.needed(part) else part for part in parts]

    def needed(self, part: WrittenPart) -> bool:
        """Whether a part shows another name than the one that counts."""
        return shows_other_names(part.topic_ids, self.names)

    def part(self, part: WrittenPart, path: str) -> WrittenPart:
        """A part with the names that count, written to ``path``, which may be its own."""
        with self.filesystem.open_input_file(part.path) as stream, pq.ParquetFile(stream) as source:
            extra = source.schema_arrow.names[len(TABLES[part.table]) :]
            target = PartFile(self.filesystem, part.table, path, extra)
            for index in range(source.num_row_groups):
                target.write(self._filled(part, source.read_row_group(index)), {})
        target.topic_ids = {
            key: self.names[key][0] if key in self.names else name for key, name in part.topic_ids.items()
        }
        return target.close()

    def _filled(self, part: WrittenPart, rows: pa.Table) -> pa.Table:
        if part.table in ("messages", "exchanges"):
            return _replaced(rows, "topics", self._topics(rows))
        topics = self._topic(rows)
        if part.table == "records":
            rows = _replaced(rows, "decoded", self._decoded(rows, topics))
        return _replaced(rows, "topic", topics)

    def _topics(self, rows: pa.Table) -> pa.Array:
        """The column ``topics`` of messages and exchanges."""
        filled: list[Any] = []
        columns = (rows[name].to_pylist() for name in ("protocol", "topics", "topic_ids"))
        for protocol, topics, topic_ids in zip(*columns, strict=True):
            keys = [(protocol, topic_id) for topic_id in topic_ids or ()]
            filled.append(final_topics(topics or (), keys, self.names) if keys else topics)
        return array_of(filled, "texts")

    def _topic(self, rows: pa.Table) -> pa.Array:
        """The column ``topic`` of partitions and records; each (protocol, topic id, topic) is looked up once."""
        values, codes = zip(*(_encoded(rows[name]) for name in ("protocol", "topic_id", "topic")), strict=True)
        sizes = [len(one) for one in values]
        combined = (codes[0] * sizes[1] + codes[1]) * sizes[2] + codes[2]
        distinct, where = np.unique(combined, return_inverse=True)
        finals: list[str | None] = []
        for code in distinct.tolist():
            rest, topic = divmod(code, sizes[2])
            protocol, topic_id = divmod(rest, sizes[1])
            name, named = values[2][topic], values[1][topic_id]
            finals.append(name if named is None else final_topic(name, (values[0][protocol], named), self.names))
        return array_of(finals, "text").take(number_array(where.reshape(-1)))

    def _decoded(self, rows: pa.Table, topics: pa.Array) -> pa.Array:
        """The column ``decoded`` of records that get these topics (rule 2)."""
        decoded = rows["decoded"].combine_chunks()
        before = rows["topic"].combine_chunks()
        same = bools_in(pc.equal(before, topics))
        chosen = np.flatnonzero(~same & bools_in(topics.is_valid()))
        if not len(chosen):
            return decoded
        found = rows.select([*_CONTENT]).append_column("final", topics).take(number_array(chosen))
        contents = decoded.to_pylist()
        for index, row in zip(chosen.tolist(), found.to_pylist(), strict=True):
            if self._decodable(row):
                content = self.internal.decode(row["protocol"], row["final"], row["key"], row["value"])
                contents[index] = None if content is None else self.shown.json(content)
        return array_of(contents, "json")

    def _decodable(self, row: dict[str, Any]) -> bool:
        """Whether a record belongs to an internal topic and its key and value are complete."""
        if row["control"] or not self.internal.knows(row["protocol"], row["final"]):
            return False
        if row["key_encoding"] not in _WHOLE or row["value_encoding"] not in _WHOLE:
            return False
        key, value, most = row["key"], row["value"], self.shown.max_bytes
        if value is not None and len(value) < row["value_size"]:
            return False
        return key is None or most is None or len(key) < most


def _encoded(column: pa.ChunkedArray) -> tuple[list[Any], Int64s]:
    """(the distinct values of a column and None, the index among them of each row)."""
    encoded = column.combine_chunks().dictionary_encode()
    values = encoded.dictionary.to_pylist()
    codes = numbers_in(encoded.indices.cast(pa.int64()))
    return [*values, None], np.where(bools_in(encoded.is_valid()), codes, len(values))


def _replaced(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(index), values)
