"""Items in, Arrow blocks of the tables out, in the order in which they fill up.

1. A block has the schema of its table. Records stay columns (``recordcolumns``), but for small batches; other rows come
   as lists of values from ``rowvalues``, where they are many, else from ``rows``, and become columns here.
2. Bodies become JSON text at once, so that waiting rows are bounded by bytes, not objects; also by the text of their
   columns, since all rows may hold the same long client id. What a message says itself counts by the size of its
   frame, what others said by its own length.
3. ``topics`` comes at the end, when the names that count are known.
4. Topic names that are known so far are filled in, for all topics of a row or for none. A block tells which topic ids
   its rows name, and which names they show: ``mqsniff.sinks.topicfill`` fills in what is known at the end.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa

from mqsniff.model import ExchangeItem, Item, Message, MessageItem, PartitionItem, RecordItem, TopicItem
from mqsniff.tables.buffers import ended_array
from mqsniff.tables.cells import array_of
from mqsniff.tables.recordcolumns import BLOCK_TEXT, RecordColumns
from mqsniff.tables.rows import rows_of
from mqsniff.tables.rowvalues import (
    EXCHANGE_COLUMNS,
    MESSAGE_COLUMNS,
    PARTITION_COLUMNS,
    Captures,
    RowValues,
    exchange_values,
    message_values,
    partition_values,
)
from mqsniff.tables.schemas import TABLES, TableName, arrow_schema, arrow_type, names_of
from mqsniff.tables.values import Redaction
from mqsniff.topics import TopicDirectory, TopicIds, final_topic, final_topics, note_topic

ROWS: Final = 4_096
"""Rows that wait at most, as each is a list."""
JSON_BYTES: Final = 4 << 20
"""Bytes of JSON text in them at most."""

_JSON: Final = {table: [names_of(table).index(name) for name in names_of(table, "json")] for table in TABLES}
_TEXT: Final = {table: [names_of(table).index(name) for name in names_of(table, "text", "texts")] for table in TABLES}
_BODY: Final = MESSAGE_COLUMNS.index("body")
_CLIENT_ID: Final = 5
_GROUP: Final = 6
"""Where they stand in all tables but topics."""
_PROTOCOL: Final = {table: names_of(table).index("protocol") for table in TABLES}
_TOPIC: Final = PARTITION_COLUMNS.index("topic")
_TOPIC_ID: Final = PARTITION_COLUMNS.index("topic_id")
_TOPICS: Final = {"messages": MESSAGE_COLUMNS.index("topics"), "exchanges": EXCHANGE_COLUMNS.index("topics")}
_TOPIC_IDS: Final = {"messages": MESSAGE_COLUMNS.index("topic_ids"), "exchanges": EXCHANGE_COLUMNS.index("topic_ids")}


class Block(NamedTuple):
    """Rows of one table."""

    table: TableName
    rows: pa.RecordBatch
    topic_ids: TopicIds


class _Rows:
    """Rows of one table that wait for their block."""

    def __init__(self, table: TableName) -> None:
        self.table: TableName = table
        self._forget()

    def _forget(self) -> None:
        self._rows: list[RowValues] = []
        self._bodies = bytearray()
        self._body_stops = array("i", (0,))
        self._text = 0
        self.topic_ids: TopicIds = {}

    def add(self, values: RowValues, shown: Redaction) -> bool:
        """Add a row of any table, its objects as JSON; whether enough waits for a block."""
        for at in _JSON[self.table]:
            if (value := values[at]) is not None:
                values[at] = text = bytes(bytearray(shown.json(value)))  # orjson over-allocates by 4 KB
                self._text += len(text)
        return self.add_ready(values, sum([_width(values[at]) for at in _TEXT[self.table]]))

    def add_message(self, values: RowValues, body: bytes, width: int, shown: Redaction) -> bool:
        """Add a row of ``messages`` and its body."""
        values[_BODY] = None
        self._bodies += body
        size = len(self._bodies)
        self._body_stops.append(size)
        return self.add_fitting(values, width, shown) or size >= JSON_BYTES

    def add_fitting(self, values: RowValues, width: int, shown: Redaction) -> bool:
        """Add a row whose only object is ``beyond_int64``, its last column."""
        if values[-1] is not None:
            values[-1] = shown.json(values[-1])
        return self.add_ready(values, width)

    def add_ready(self, values: RowValues, width: int) -> bool:
        """Add a row whose objects are JSON already; ``width``: about the characters of its text. Hot."""
        rows = self._rows
        rows.append(values)
        self._text += width
        return len(rows) >= ROWS or self._text >= BLOCK_TEXT

    def __len__(self) -> int:
        return len(self._rows)

    def block(self) -> Block:
        """The waiting rows as a block."""
        columns = zip(*self._rows, strict=True)
        arrays = [array_of(values, column.type) for column, values in zip(TABLES[self.table], columns, strict=True)]
        if self.table == "messages":
            arrays[_BODY] = ended_array(self._bodies, self._body_stops, arrow_type("json"))
        block = Block(self.table, pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self.table)), self.topic_ids)
        self._forget()
        return block


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
        self._messages = self._rows.get("messages")
        self._exchanges = self._rows.get("exchanges")
        self._partitions = self._rows.get("partitions")
        self._records = RecordColumns(captures, shown) if "records" in wanted else None
        self._record_ids: TopicIds = {}
        self._final_topics = "topics" in wanted
        self.topics = TopicDirectory() if topics is None else topics

    def take(self, item: Item) -> Iterable[Block]:
        """Add an item; gives the blocks that are full."""
        if isinstance(item, RecordItem):
            return self._take_records(item) if self._records is not None else ()
        if isinstance(item, MessageItem):
            blocks = self._take_message(item)
            if item.message.partitions and self._partitions is not None:
                return *blocks, *self._take_partitions(item)
            return blocks
        if isinstance(item, ExchangeItem):
            return self._take_exchange(item)
        if isinstance(item, PartitionItem):
            return self._take_partitions(item)
        return self._take_other(item)

    def _take_other(self, item: Item) -> Iterator[Block]:
        for table, row in rows_of(item, self._captures, self._rows, self._shown):
            waiting = self._rows[table]
            if waiting.add(list(row.values()), self._shown):
                yield waiting.block()

    def _take_records(self, item: RecordItem) -> Iterator[Block]:
        if self._records is not None:
            self._note_records(item)
            for rows in self._records.add(item.connection, item.message, item.batch):
                yield self._record_block(rows)
                self._note_records(item)

    def _take_message(self, item: MessageItem) -> tuple[Block, ...]:
        message, shown, waiting = item.message, self._shown, self._messages
        if message.teaches:
            self.topics.learn(message)
        if waiting is None:
            return ()
        values = message_values(item.connection, message, self._captures)
        if message.topic_ids:
            self._name_all(item, values, waiting)
        body = shown.sure_json(message.body, finite=message.finite) or shown.json(message.body)
        width = message.frame.size + _shared_width(values, "messages")
        return (waiting.block(),) if waiting.add_message(values, body, width, shown) else ()

    def _take_exchange(self, item: ExchangeItem) -> tuple[Block, ...]:
        exchange, waiting = item.exchange, self._exchanges
        if waiting is None:
            return ()
        values = exchange_values(item.connection, exchange, self._captures)
        if values[_TOPIC_IDS["exchanges"]]:
            self._name_all(item, values, waiting)
        width = _shared_width(values, "exchanges")
        for half in (exchange.pending, exchange.answer):
            if half is not None:
                width += half.frame.size
        return (waiting.block(),) if waiting.add_fitting(values, width, self._shown) else ()

    def _take_partitions(self, item: MessageItem | PartitionItem) -> list[Block]:
        waiting, blocks = self._partitions, list[Block]()
        if waiting is None:
            return blocks
        for values in partition_values(item.connection, item.message):
            if values[_TOPIC_ID]:
                self._name_one(values, waiting)
            topic = values[_TOPIC]
            width = _named_width(values) + (len(topic) if isinstance(topic, str) else 0)
            if waiting.add_fitting(values, width, self._shown):
                blocks.append(waiting.block())
        return blocks

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

    def _name_one(self, values: RowValues, waiting: _Rows) -> None:
        """Fill the known topic name into a row of ``partitions`` with a topic id, and note it."""
        key = values[_PROTOCOL["partitions"]], values[_TOPIC_ID]
        values[_TOPIC] = final_topic(values[_TOPIC], key, self.topics.names)
        note_topic(waiting.topic_ids, key, values[_TOPIC])

    def _name_all(self, item: Item, values: RowValues, waiting: _Rows) -> None:
        """Fill known topic names into a row with topic ids, and note them."""
        names, protocol = self.topics.names, values[_PROTOCOL[waiting.table]]
        keys = [(protocol, topic_id) for topic_id in values[_TOPIC_IDS[waiting.table]]]
        known = all(key in names for key in keys)
        values[_TOPICS[waiting.table]] = final_topics(_written(item), keys, names if known else {})
        for key in keys:
            note_topic(waiting.topic_ids, key, names[key][0] if known else None)

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


def _shared_width(values: RowValues, table: Literal["messages", "exchanges"]) -> int:
    """Characters of the text in a row that its message may not say itself."""
    topics = values[_TOPICS[table]]
    return _named_width(values) + (_width(topics) if topics else 0)


def _named_width(values: RowValues) -> int:
    """Characters of client id and group."""
    client_id, group = values[_CLIENT_ID], values[_GROUP]
    return (len(client_id) if isinstance(client_id, str) else 0) + (len(group) if isinstance(group, str) else 0)


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
