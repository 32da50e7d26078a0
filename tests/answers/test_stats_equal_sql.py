"""What ``mqsniff stats`` counts equals SQL over the tables, on every sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from mqsniff.answers.stats import SECTIONS, RunFacts, TrafficStats
from mqsniff.answers.stats.sketch import ERROR
from mqsniff.answers.stats.topics import BESIDE
from mqsniff.decode.registry import load_dissectors
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import rows_of
from mqsniff.tables.schemas import TABLES, arrow_type
from mqsniff.tables.values import Redaction

PCAPS = Path(__file__).parents[2] / "pcaps"
SAMPLES = sorted(path for path in PCAPS.rglob("*.pcap*") if path.suffix in {".pcap", ".pcapng", ".gz"})
LEFT_OUT = {"body", "key", "value", "headers", "decoded", "beyond_int64", "ordering_key"}
"""Columns that no figure is made of."""
PLAIN = {table: [column for column in columns if column.name not in LEFT_OUT] for table, columns in TABLES.items()}

COMMANDS = """
with said as (select protocol, name, count(*) as count, sum(size) as bytes from messages group by all),
failing as (
  select connection_id, side, stream_offset from messages
  where error_count > 0
     or (error_count is null and (error_code <> 0 or (error_code is null and error_name is not null)))
),
asked as (
  select e.protocol, coalesce(e.name, e.response_name) as name,
         count(*) filter (e.status in ('error', 'partial') or (e.status = 'unasked' and f.side is not null)) as errors,
         count(*) filter (e.status = 'unanswered') as unanswered,
         count(e.work_ns) filter (timed and not coalesce(held, false)) as timed,
         count(*) filter (timed and latency_ns is not null and (held or work_ns is null)) as waited,
         quantile_cont(work_ns, [0.5, 0.95, 0.99, 1]) filter (timed and not coalesce(held, false)) as q
  from (select *, status in ('ok', 'partial', 'error') as timed from exchanges where link = 'answer') e
  left join failing f on f.connection_id = e.connection_id and f.side = e.side and f.stream_offset = e.stream_offset
  group by all
)
select protocol, name, coalesce(count, 0) as count, coalesce(bytes, 0) as bytes, coalesce(errors, 0) as errors,
       coalesce(unanswered, 0) as unanswered, coalesce(timed, 0) as timed, coalesce(waited, 0) as waited, q
from said full join asked using (protocol, name)
"""

NETWORK = """
select server, count(*) as connections, sum(retransmitted_segments)::bigint as retransmitted_segments,
       count(*) filter (outcome = 'mid-stream') as mid_stream, count(*) filter (outcome = 'refused') as refused,
       sum(client_zero_windows)::bigint as client_zero_windows, sum(duplicate_packets)::bigint as duplicate_packets,
       sum(gap_bytes)::bigint as gap_bytes, max(client_longest_stall_ns) as client_longest_stall_ns,
       sum(client_bytes)::bigint as client_bytes, sum(server_bytes)::bigint as server_bytes,
       count(*) filter (sides_seen <> 'both' and outcome in ('established', 'mid-stream')) as one_sided
from connections group by server
"""


class Sample:
    """A capture as its tables and as its statistics."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        pipeline = Pipeline(FileSource([str(path)]), Settings(wanted=WITH_RECORDS))
        known = [entry.dissector for entry in load_dissectors() if entry.dissector is not None]
        stats = TrafficStats(known, **options)
        rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
        for item in pipeline.items():
            if item is not None:
                stats.take(item)
                for table, row in rows_of(item, pipeline.captures, TABLES, Redaction()):
                    rows[table].append({column.name: row[column.name] for column in PLAIN[table]})
        self.stats = stats.rows(RunFacts(captures=pipeline.captures, packets=pipeline.totals.packets))
        self._base = duckdb.connect()
        for table, columns in PLAIN.items():
            schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
            for column in columns:
                if column.type == "timestamp":
                    schema = schema.set(schema.get_field_index(column.name), pa.field(column.name, pa.int64()))
            self._base.register(table, pa.Table.from_pylist(rows[table], schema))

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        answer = self._base.sql(query)
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda path: path.name)
def sample(request):
    return Sample(request.param)


def by(rows, *names):
    return {tuple(row[name] for name in names): row for row in rows}


def test_commands_equal_messages_and_exchanges(sample):
    counted, asked = by(sample.stats["commands"], "protocol", "name"), by(sample.ask(COMMANDS), "protocol", "name")
    assert counted.keys() == asked.keys()
    for key, row in counted.items():
        same = ("count", "bytes", "errors", "unanswered", "timed", "waited")
        assert {name: row[name] for name in same} == {name: asked[key][name] for name in same}, key
        assert sum(row["errors_by_name"].values()) == row["errors"], key
        shares = asked[key]["q"] or [None] * 4
        assert row["max_ns"] == shares[3], key
        for name, exact in zip(("p50_ns", "p95_ns", "p99_ns"), shares[:3], strict=True):
            assert row[name] == (None if exact is None else pytest.approx(exact, rel=ERROR, abs=1)), (key, name)


def test_network_and_hosts_equal_connections(sample):
    counted = by(sample.stats["network"], "server")
    for row in sample.ask(NETWORK):
        assert {name: counted[(row["server"],)][name] for name in row} == row
    hosts = [row for row in sample.stats["hosts"] if row["role"] == "server"]
    sums = "select sum(server_bytes), sum(client_bytes), count(*) from connections"
    found = [sum(row[name] for row in hosts) for name in ("sent_bytes", "received_bytes", "connections")]
    assert found == [value or 0 for value in sample.ask(sums)[0].values()]


def test_protocols_and_health_equal_connections(sample):
    asked = sample.ask(
        "select protocol, count(*) as connections, sum(client_bytes + server_bytes)::bigint as wire_bytes, "
        "coalesce(sum(client_bytes + server_bytes) filter (protocol = 'tls' or tls_version is not null), 0)::bigint "
        "as encrypted_bytes, sum(undecoded_bytes)::bigint as undecoded_bytes from connections group by protocol"
    )
    counted = by(sample.stats["protocols"], "protocol")
    for row in asked:
        assert {name: counted[(row["protocol"],)][name] for name in row} == row
    messages = by(sample.ask("select protocol, count(*) as messages from messages group by all"), "protocol")
    assert {key: row["messages"] for key, row in counted.items() if row["messages"]} == {
        key: row["messages"] for key, row in messages.items()
    }
    health = by(sample.stats["health"], "check")
    sums = sample.ask(
        "select coalesce(sum(gap_bytes), 0) as gap, coalesce(sum(undecoded_bytes), 0) as un from connections"
    )
    assert (health[("gap_bytes",)]["value"], health[("undecoded_bytes",)]["value"]) == (sums[0]["gap"], sums[0]["un"])
    problems = sum(row["value"] for row in sample.stats["health"] if row["trust"] is None)
    assert problems == sample.ask("select count(*) as n from problems")[0]["n"]


def test_amounts_of_records_are_enough(sample):
    pipeline = Pipeline(FileSource([str(sample.path)]), Settings(wanted=WITH_RECORDS | {"amounts"}))
    stats = TrafficStats(entry.dissector for entry in load_dissectors() if entry.dissector is not None)
    for item in pipeline.items():
        if item is not None:
            stats.take(item)
    found = stats.rows(RunFacts(captures=pipeline.captures, packets=pipeline.totals.packets))
    assert found == sample.stats


def test_every_section_is_a_list_of_rows(sample):
    assert tuple(sample.stats) == SECTIONS
    assert all(isinstance(row, dict) for rows in sample.stats.values() for row in rows)


TOPICS = """
with told as (
  select protocol, coalesce(topic, topic_id) as topic, coalesce(value_size, 0) as size, case
    when control then 'control'
    when direction = 'produce' and ack = 'failed' then 'refused'
    when direction = 'deliver' and reader <> 'consumer' then if(reader = 'follower', 'follower', 'other_readers')
    when chunk_id is not null and not coalesce(joined, false) then 'chunks'
    when direction = 'produce' then 'produced'
    when aborted then 'aborted'
    when left_out is not null then 'left_out'
    when before_asked then 'before_asked'
    when attempts > 1 then 'redelivered'
    else 'delivered' end as what
  from records
)
select protocol, coalesce(topic, '(no name)') as topic, what, count(*) as count, sum(size)::bigint as size
from told group by all
"""
"""``resent`` is not in it: rows cannot tell it one by one; it is a part of what was produced."""

DELIVERIES = """
select protocol, coalesce("group", '(no name)') as "group", count(*) as deliveries,
       count(*) filter (attempts > 1) as redelivered, count(*) filter (timed_out) as timed_out,
       count(*) filter (status in ('pending', 'unanswered')) as unacknowledged
from exchanges where link = 'settlement' group by all
"""


def test_topics_equal_records(sample):
    counted = by(sample.stats["topics"], "protocol", "topic")
    found = {
        (*key, what): (row[what], row[f"{what}_bytes"])
        for key, row in counted.items()
        for what in ("produced", "delivered", *BESIDE)
        if row[what]
    }
    for key in [key for key in found if key[2] == "resent"]:
        count, size = found.pop(key)
        new = found.get((*key[:2], "produced"), (0, 0))
        found[(*key[:2], "produced")] = (new[0] + count, new[1] + size)
    asked = {(row["protocol"], row["topic"], row["what"]): (row["count"], row["size"]) for row in sample.ask(TOPICS)}
    assert found == asked


def test_groups_equal_settlements(sample):
    counted = by(sample.stats["groups"], "protocol", "group")
    for row in sample.ask(DELIVERIES):
        group = counted[(row["protocol"], row["group"])]
        assert {name: group[name] for name in row} == row
        assert sum(one["deliveries"] for one in group["by_topic"]) == row["deliveries"]


def test_clients_equal_messages(sample):
    counted: dict[tuple[str, str], int] = {}
    for row in sample.stats["clients"]:
        for api in row["apis"]:
            key = (row["protocol"], api["name"])
            counted[key] = counted.get(key, 0) + api["count"]
    asked = sample.ask(
        "select protocol, name, count(*) as n from messages where kind in ('request', 'oneway') group by all"
    )
    assert counted == {(row["protocol"], row["name"]): row["n"] for row in asked}
