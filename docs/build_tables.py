"""The schemas and the named queries in, ``tables.md`` out.

python docs/build_tables.py            writes docs/tables.md
python docs/build_tables.py --check    fails where the committed file is not what they give
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from generated import write

from mqsniff.answers.queries import NamedQuery, named_queries
from mqsniff.batch.filestats import FILE_COLUMNS, RUN_ID
from mqsniff.decode.registry import load_dissectors
from mqsniff.tables.schemas import SCHEMA_VERSION, TABLES, Column, ColumnType, TableName

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "tables.md"

ROWS: Final[dict[TableName, str]] = {
    "connections": "a TCP connection, written when it closes or the input ends",
    "messages": "one protocol unit: a request, an answer, a command, something pushed",
    "exchanges": "a request and its answer, or half of one; or a delivered message and its settlement",
    "partitions": "a topic, or a partition of one, inside a message",
    "records": "a record that a client produced or was delivered",
    "topics": "the name of a topic id, as learned from the traffic",
    "problems": "anything odd: damage, losses, bent rules, what nobody decoded",
}

KEYS: Final[dict[TableName, tuple[str, ...]]] = {
    "connections": ("connection_id",),
    "messages": ("connection_id", "side", "stream_offset"),
    "exchanges": ("connection_id", "side", "stream_offset"),
    "partitions": ("connection_id", "side", "stream_offset"),
    "records": ("connection_id", "side", "stream_offset"),
    "topics": ("protocol", "topic_id"),
    "problems": ("connection_id", "side", "stream_offset"),
}
"""What ties a row to the others: the message (or connection) that it comes from."""

APART: Final[dict[TableName, tuple[str, ...]]] = {
    "connections": (),
    "messages": (),
    "partitions": ("topic", "topic_id", "partition"),
    "records": ("topic", "topic_id", "partition", "batch_index", "record_index"),
    "topics": (),
}
"""What tells rows of one message apart, together with the key; the other tables have nothing that always does."""

TYPES: Final[dict[ColumnType, tuple[str, str]]] = {
    "text": ("string", "text"),
    "texts": ("list of string", "list of text"),
    "int64": ("int64", "number"),
    "bool": ("bool", "true or false"),
    "timestamp": ("timestamp[us, UTC]", "RFC 3339 text, nine digits, Z"),
    "json": ("string that holds JSON", "object"),
    "payload": ("binary", "text, see `*_encoding`"),
    "headers": ("list of struct{key string, value binary}", "list of {key, value}"),
}
"""How each type stands in Parquet and SQL, and in NDJSON; CSV has lists and objects as JSON."""

INTRODUCTION: Final = """\
# Tables

<!-- Made by docs/build_tables.py from mqsniff/tables/schemas.py and mqsniff/answers/data/queries.sql: do not edit. -->

Every output of mqsniff is rows of these tables: NDJSON, CSV, Parquet, Spark and `mqsniff sql` share them.
Schema version {version}: within a major version columns are only added, nullable, at the end of their table.

- A message is (`connection_id`, `side`, `stream_offset`), and every row that comes from a message carries this key.
  `connection_id` is the same in every run over the same packets; the tables of two captures of the same packets hold
  the same rows twice.
- Durations are nanoseconds (`_ns`), sizes bytes. `ts` and `*_ts` are microseconds in Parquet and SQL; where it matters
  the exact time stands beside them as `ts_ns`.
- Null means that it is not known, or that there is no such thing; 0 and empty text are values.
- `offset` and `group` are words of SQL: write `"offset"`, `"group"`.
- In SQL `key` and `value` are bytes: `decode(value)` is their text where `value_encoding` is utf8. `body` and `decoded`
  are JSON text: `body ->> '$.field'` is a field of it.
- What is not shown stands as `{{"redacted": N}}` (a secret), `{{"undecoded": N, "hmac_sha256": "…"}}` or, under
  `--redact payload`, `{{"redacted": N, "hmac_sha256": "…"}}`: N bytes, and their HMAC-SHA256. Equal bytes have equal
  hashes in a run, and in all runs with the same `--hash-key FILE`; without it the key is random, so that nobody can
  check a guess. `openssl dgst -sha256 -hmac "$(cat FILE)"` computes it. Checksums over redacted payload are not shown.
- A settlement is what became of a delivered message. It is `ok` or `error` after the answer that could refuse its
  command. A Pulsar ACK without `request_id` gets no such answer: `ok` then means that the client acknowledged. Of a
  delivery that its client gave back, `settled_by` has the command that did so; of one that came again without, it says
  redelivered, and the status is `unanswered`.
- Bodies of Pulsar: `ack_set` holds the words of the wire, and `unacknowledged` beside it the numbers of their bits; in
  every command these are the messages of a batch that are not acknowledged. SEND and MESSAGE have beside the fields of
  their command `broker_entry_metadata`, `metadata`, `payload` (its size, the sizes of command and metadata, the CRC-32C
  as `checksum`, and whether it fits), and `opened_marker`, what a marker between brokers says.
- Records of Pulsar: each slot of a batch is a row, and `left_out` says why one is not for the application. A message in
  chunks is a row too (`joined`), after those of its chunks (`chunk_id`): count or sum with one of the two left out.

| type here | in Parquet and SQL | in NDJSON |
|---|---|---|
"""

FILES_INTRODUCTION: Final = """\
## files

Written by `mqsniff batch` alone, which also adds the column `run_id` to the end of every table. A row is an input file,
and what was learned of it.
"""

ORDINARY_INTRODUCTION: Final = """\
## Codes of the normal course

What a healthy client and a healthy server exchange in the course that their protocol was designed for is no error,
though its code is not 0. `error_code` and `error_name` say what the wire says; `error_count` is 0 and `status` ok, so
that `--errors`, `--fail-on answer-error` and counts pass them over. `mqsniff protocols NAME` shows the same table. What
a client cannot foresee, or what may as well come of a fault, stays an error.

| protocol | answer | code | name | only where | why |
|---|---|---|---|---|---|
"""

QUERIES_INTRODUCTION: Final = """\
## Queries

Each of them has a name: `mqsniff sql FILE... :slow`, where FILE is a capture or a folder that
`mqsniff decode -o parquet` or `mqsniff batch` wrote; `mqsniff sql --queries` lists them. Where a protocol does not tell
what a query asks, that stands beside it. nsqlookupd carries no records: for it all queries about records, deliveries
and lag are empty.
"""


def page() -> str:
    """The whole page."""
    types = "".join(f"| {name} | {stored} | {shown} |\n" for name, (stored, shown) in TYPES.items())
    tables = "\n".join(table_section(table) for table in TABLES)
    pending = "\n".join(map(query_section, named_queries().values()))
    files = f"{FILES_INTRODUCTION}\n{_columns((*FILE_COLUMNS, RUN_ID), ('uri',))}"
    parts = (tables, files, ordinary_section(), QUERIES_INTRODUCTION, pending)
    return f"{INTRODUCTION.format(version=SCHEMA_VERSION)}{types}\n" + "\n".join(parts)


def ordinary_section() -> str:
    """The answers of all protocols that are no errors though their code is not 0."""
    lines = [ORDINARY_INTRODUCTION]
    for entry in sorted(load_dissectors(), key=lambda entry: entry.name):
        rows = entry.dissector.describe().get("ordinary_answers", ()) if entry.dissector is not None else ()
        for row in rows:
            cells = (entry.name, row["answer"], row["code"], row["name"], row["when"] or "", row["why"])
            lines.append(f"| {' | '.join(map(str, cells))} |\n")
    return "".join(lines)


def query_section(query: NamedQuery) -> str:
    """A query, what it tells, and of what."""
    remark = f"{query.remark}\n\n" if query.remark else ""
    return f"`:{query.name}` {query.about}\n\n{remark}```sql\n{query.sql}\n```\n"


def table_section(table: TableName) -> str:
    """What one table holds, and its columns in their order."""
    return f"## {table}\n\n" + "\n".join(_about(table)) + f"\n\n{_columns(TABLES[table], KEYS[table])}"


def _columns(columns: Sequence[Column], key: tuple[str, ...]) -> str:
    head = "| # | column | type | unit | null | what it means |\n|---|---|---|---|---|---|\n"
    return head + "".join(_row(number, column, key) for number, column in enumerate(columns, 1))


def _about(table: TableName) -> Iterator[str]:
    yield f"A row is {ROWS[table]}."
    apart = APART.get(table)
    if apart:
        yield f"Rows of one message are told apart by {', '.join(f'`{name}`' for name in apart)}."


def _row(number: int, column: Column, key: tuple[str, ...]) -> str:
    name = f"**{column.name}**" if column.name in key else column.name
    return (
        f"| {number} | {name} | {column.type} | {column.unit} | {'yes' if column.nullable else 'no'} | {column.doc} |\n"
    )


def build(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or check it; the exit code."""
    return write(PAGE, page(), "build_tables.py", arguments)


if __name__ == "__main__":
    sys.exit(build())
