"""Items in, Arrow blocks of the tables out, in the order in which they fill up.

1. A block has the schema of its table. Records stay columns (``recordcolumns``); other rows come from ``tables.rows``
   and become columns here.
2. Bodies become JSON text at once, so that waiting rows are bounded by bytes, not objects; also by the text of their
   columns, since all rows may hold the same long client id.
3. ``topics`` comes at the end, when the names that count are known.
4. Topic names that are known so far are filled in, for all topics of a row or for none. A block tells which topic ids
   its rows name, and which names they show: ``mqsniff.sinks.topicfill`` fills in what is known at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import pyarrow as pa

from mqsniff.model import ExchangeItem, Item, Message, MessageItem, RecordItem, TopicItem
from mqsniff.tables.cells import array_of
from mqsniff.tables.recordcolumns import BLOCK_TEXT, RecordColumns
from mqsniff.tables.rows import Captures, Row, rows_of
from mqsniff.tables.schemas import TABLES, TableName, arrow_schema, names_of
from mqsniff.tables.values import Redaction
from mqsniff.topics import TopicDirectory, TopicIds, final_topic, final_topics, note_topic

ROWS: Final = 4_096
"""Rows that wait at most, as each is a dict."""
JSON_BYTES: Final = 4 << 20
"""Bytes of JSON text in them at most."""

_JSON: Final = {table: names_of(table, "json") for table in TABLES}
_TEXT: Final = {table: names_of(table, "text", "texts") for table in TABLES}


class Block(NamedTuple):
    """Rows of one table."""

    table: TableName
    rows: pa.RecordBatch
    topic_ids: TopicIds


class _Rows:
    """Rows of one table that wait for their block."""

    def __init__(self, table: TableName) -> None:
        self._table = table
        self._rows: list[Row] = []
        self._json_bytes = 0
        self._text = 0
        self.topic_ids: TopicIds = {}

    def add(self, row: Row, shown: Redaction) -> None:
        """Add a row."""
        for name in _JSON[self._table]:
            if (value := row[name]) is not None:
                row[name] = text = bytes(bytearray(shown.json(value)))  # orjson over-allocates by 4 KB
                self._json_bytes += len(text)
        self._text += sum([_width(row[name]) for name in _TEXT[self._table]])
        self._rows.append(row)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def full(self) -> bool:
        """Whether enough waits for a block."""
        return len(self._rows) >= ROWS or self._json_bytes >= JSON_BYTES or self._text >= BLOCK_TEXT

    def block(self) -> Block:
        """The waiting rows as a block."""
        rows, topic_ids = self._rows, self.topic_ids
        self._rows, self._json_bytes, self._text, self.topic_ids = [], 0, 0, {}
        arrays = [array_of([row[column.name] for row in rows], column.type) for column in TABLES[self._table]]
        return Block(self._table, pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self._table)), topic_ids)


class ArrowTables:
    """The wanted tables of one run, block by block."""

    def __init__(
        self,
        captures: Captures,
        wanted: Collection[TableName],
        shown: Redaction,
        topics: TopicDirectory | None = None,
    ) -> None:
        """``topics``: a directory that others read or teach as well."""
        self._captures = captures
        self._shown = shown
        self._rows = {table: _Rows(table) for table in TABLES if table in wanted and table not in ("records", "topics")}
        self._records = RecordColumns(captures, shown) if "records" in wanted else None
        self._record_ids: TopicIds = {}
        self._final_topics = "topics" in wanted
        self.topics = TopicDirectory() if topics is None else topics

    def take(self, item: Item) -> Iterator[Block]:
        """Add an item; gives the blocks that are full."""
        if isinstance(item, RecordItem):
            if self._records is not None:
                self._note_records(item)
                for rows in self._records.add(item.connection, item.message, item.batch):
                    yield self._record_block(rows)
                    self._note_records(item)
            return
        if isinstance(item, MessageItem) and item.message.teaches:
            self.topics.learn(item.message)
        for table, row in rows_of(item, self._captures, self._rows, self._shown):
            waiting = self._rows[table]
            if row.get("topic_ids") or row.get("topic_id"):
                self._name(item, row, waiting.topic_ids)
            waiting.add(row, self._shown)
            if waiting.full:
                yield waiting.block()

    def rest(self) -> Iterator[Block]:
        """The blocks of the waiting rows, and the topics."""
        yield from self.waiting()
        if self._final_topics and (topics := list(self.topics.final())):
            yield topics_block(topics)

    def waiting(self) -> Iterator[Block]:
        """The blocks of the waiting rows; more may follow."""
        for waiting in self._rows.values():
            if len(waiting):
                yield waiting.block()
        if self._records is not None and self._records.waiting:
            yield self._record_block(self._records.block())

    # ---- topic names

    def _name(self, item: Item, row: Row, topic_ids: TopicIds) -> None:
        """Fill known topic names into a row with topic ids, and note them."""
        protocol, names = row["protocol"], self.topics.names
        if "topic_id" in row:
            key = protocol, row["topic_id"]
            row["topic"] = final_topic(row["topic"], key, names)
            note_topic(topic_ids, key, row["topic"])
            return
        keys = [(protocol, topic_id) for topic_id in row["topic_ids"]]
        known = all(key in names for key in keys)
        row["topics"] = final_topics(_written(item), keys, names if known else {})
        for key in keys:
            note_topic(topic_ids, key, names[key][0] if known else None)

    def _note_records(self, item: RecordItem) -> None:
        """Note the topic ids of a batch; the pipeline has filled in known names."""
        constant, columns, protocol = item.batch.constant, item.batch.columns, item.message.protocol
        if "topic_id" in columns:
            topics = columns.get("topic") or [constant.get("topic")] * item.batch.count
            pairs: Any = set(zip(columns["topic_id"], topics, strict=True))
        else:
            pairs = ((constant.get("topic_id"), constant.get("topic")),)
        for topic_id, topic in pairs:
            if topic_id is not None:
                note_topic(self._record_ids, (protocol, topic_id), topic)

    def _record_block(self, rows: pa.RecordBatch) -> Block:
        topic_ids, self._record_ids = self._record_ids, {}
        return Block("records", rows, topic_ids)


def _width(value: Any) -> int:
    """Characters of a text, or of a list of texts."""
    if isinstance(value, str):
        return len(value)
    return sum(map(_width, value)) if isinstance(value, list | tuple) else 0


def topics_block(topics: Sequence[TopicItem]) -> Block:
    """The rows of ``topics``."""
    rows = [row for each in topics for _, row in rows_of(each, (), ("topics",), Redaction())]
    arrays = [array_of([row[column.name] for row in rows], column.type) for column in TABLES["topics"]]
    return Block("topics", pa.RecordBatch.from_arrays(arrays, schema=arrow_schema("topics")), {})


def _written(item: Item) -> tuple[str, ...]:
    """The topics in the messages of an item, without those that the pipeline filled in."""
    messages: tuple[Message | None, ...] = ()
    if isinstance(item, MessageItem):
        messages = (item.message,)
    elif isinstance(item, ExchangeItem):
        pending = item.exchange.pending
        messages = (pending.message if pending is not None else None, item.exchange.answer)
    topics = (message.own_topics for message in messages if message is not None)
    return tuple(dict.fromkeys(chain.from_iterable(topics)))
