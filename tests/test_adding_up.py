"""Accounts that add up, over every sample: bytes, messages, exchanges, records and problems.

``accounts`` says what the bytes of a connection must come to.

MQSNIFF_CAPTURES names one more folder to try.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from accounts import STRANGERS, Row, check_every_byte, check_sums, check_undecoded

from mqsniff.answers.captures import captures_under, key_logs_beside
from mqsniff.answers.summary import Summary
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.pipeline import Pipeline, Totals
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import rows_of
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction

PCAPS = Path(__file__).parents[1] / "pcaps"
FOLDERS = [PCAPS, *(Path(folder) for folder in os.environ.get("MQSNIFF_CAPTURES", "").split(os.pathsep) if folder)]
SAMPLES = {str(path.relative_to(folder)): path for folder in FOLDERS for path in captures_under([folder])}

every_sample = pytest.mark.parametrize("name", SAMPLES)


class Books(NamedTuple):
    """What a run over a capture has told: rows by table, totals, and what a summary counted."""

    rows: dict[str, list[Row]]
    totals: Totals
    summary: Summary

    def of(self, table: str, connection: Row, side: str | None = None) -> list[Row]:
        """The rows of a connection, or of one side of it."""
        return [
            row
            for row in self.rows[table]
            if row["connection_id"] == connection["connection_id"] and side in (None, row["side"])
        ]


@cache
def books(name: str) -> Books:
    """The rows of a sample, all tables."""
    keys = key_logs_beside(SAMPLES[name])
    pipeline, summary = Pipeline(FileSource([str(SAMPLES[name])]), Settings(wanted=WITH_RECORDS), keys=keys), Summary()
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    for item in pipeline.items():
        if item is not None:
            summary.take(item)
            for table, row in rows_of(item, pipeline.captures, TABLES, Redaction()):
                rows[table].append(row)
    return Books(rows, pipeline.totals, summary)


def places(rows: list[Row]) -> Counter[tuple[str, str, int]]:
    """How many rows each message key has."""
    return Counter((row["connection_id"], row["side"], row["stream_offset"]) for row in rows)


# ---- bytes


@every_sample
@pytest.mark.parametrize("side", ["client", "server"])
def test_every_byte_of_a_side_is_told_once(name, side):
    check_every_byte(books(name).rows, side)


@every_sample
def test_the_bytes_of_a_connection_add_up(name):
    check_sums(books(name).rows)


@every_sample
def test_undecoded_bytes_have_problems_that_say_why(name):
    check_undecoded(books(name).rows)


# ---- messages and their problems


@every_sample
def test_a_message_has_a_key_of_its_own(name):
    assert [key for key, count in places(books(name).rows["messages"]).items() if count > 1] == []


@every_sample
def test_messages_and_problems_are_what_the_totals_count(name):
    rows, totals, summary = books(name)
    messages = Counter(row["protocol"] for row in rows["messages"])
    kinds = Counter(row["kind"] for row in rows["problems"])
    assert (totals.messages, totals.by_protocol, totals.problems) == (messages.total(), messages, kinds)
    assert (summary.messages, summary.kinds) == (messages, kinds)
    assert totals.connections == len(rows["connections"])


@every_sample
def test_the_problems_of_a_message_are_its_rows(name):
    rows = books(name).rows
    found = places([row for row in rows["problems"] if row["name"] is not None])
    told = {key: row["problems"] for row in rows["messages"] if row["problems"] for key in places([row])}
    assert found == told


# ---- exchanges

ASK_IN_TURN = {"AUTH_CHALLENGE", "AUTH_RESPONSE"}
"""Messages that answer and ask: each step of a Pulsar login."""


def asks(message: Row) -> bool:
    """Whether a message is a request, one-way ones included."""
    return message["kind"] in ("request", "oneway") or message["name"] in ASK_IN_TURN


@every_sample
def test_every_request_is_one_exchange_and_every_unasked_answer_another(name):
    rows = books(name).rows
    exchanges = [row for row in rows["exchanges"] if row["link"] == "answer"]
    requests = places([row for row in rows["messages"] if asks(row)])
    answers = places([row for row in rows["messages"] if row["kind"] == "response"])
    unasked = places([row for row in exchanges if row["status"] == "unasked"])
    assert places([row for row in exchanges if row["status"] != "unasked"]) == requests
    assert len(exchanges) == requests.total() + unasked.total()
    assert unasked <= answers


@every_sample
def test_a_one_way_request_has_no_answer_unless_it_failed(name):
    rows = books(name).rows
    one_way = places([row for row in rows["messages"] if row["kind"] == "oneway"])
    for row in rows["exchanges"]:
        if row["link"] == "answer" and row["status"] != "unasked" and places([row]) <= one_way:
            assert row["status"] in ("oneway", "error", "lost", "unseen"), row


# ---- records


def promised_records(message: Row, partitions: list[Row]) -> int | None:
    """Records that the heads of a message's batches count; None where it has none, or nothing that counts them."""
    if message["protocol"] == "kafka":
        heads = (batch for batches in batches_in(message["body"]) for batch in batches)
        counts = [batch.get("records", 0) for batch in heads]  # a head that is cut may not count any
        return sum(counts) if counts else None
    counts = [row["records"] for row in partitions if row["records"] is not None]
    if not counts:
        return None
    metadata = message["body"].get("metadata", {})
    return 1 if "encryption_keys" in metadata else sum(counts)


def batches_in(value: Any) -> list[list[Row]]:
    """Every list of batch heads in a body."""
    if isinstance(value, list):
        return [found for one in value for found in batches_in(one)]
    if not isinstance(value, dict):
        return []
    own = [value["batches"]] if isinstance(value.get("batches"), list) and "size" in value else []
    return [*own, *(found for one in value.values() for found in batches_in(one))]


@every_sample
def test_records_are_what_their_batches_count(name):
    rows = books(name).rows
    found, partitions = places([row for row in rows["records"] if not row["joined"]]), defaultdict(list)
    for row in rows["partitions"]:
        partitions[row["connection_id"], row["side"], row["stream_offset"]].append(row)
    spoiled = places([row for row in rows["problems"] if row["name"] is not None and row["severity"] == "error"])
    for message in rows["messages"]:
        (key,) = places([message])
        promised = promised_records(message, partitions[key])
        if promised is not None:
            assert found[key] == promised or (spoiled[key] and found[key] < promised), key


@every_sample
def test_partitions_count_the_records_of_their_message(name):
    rows = books(name).rows
    counted: Counter[tuple[str, str, int]] = Counter()
    for row in rows["partitions"]:
        if row["protocol"] == "kafka":
            counted[row["connection_id"], row["side"], row["stream_offset"]] += row["records"] or 0
    spoiled = places([row for row in rows["problems"] if row["name"] is not None and row["severity"] == "error"])
    kafka = places([row for row in rows["records"] if row["protocol"] == "kafka"])
    assert {key: count for key, count in counted.items() if count and not spoiled[key]} == {
        key: count for key, count in kafka.items() if not spoiled[key]
    }


# ---- the samples try all of it


def test_the_samples_have_what_makes_accounts_hard():
    connections = [row for name in SAMPLES for row in books(name).rows["connections"]]
    assert {"tls", "http", "unknown", "kafka", "nsq", "pulsar", "rocketmq"} <= {row["protocol"] for row in connections}
    assert any(row["proxy_bytes"] for row in connections)
    assert any(row["client_plain_bytes"] for row in connections)
    assert any(row["gap_bytes"] for row in connections)
    assert any(row["undecoded_bytes"] and row["protocol"] not in STRANGERS for row in connections)


@every_sample
def test_a_joined_record_is_its_chunks_one_behind_the_other(name):
    chunks = defaultdict(dict)
    for row in books(name).rows["records"]:
        if row["chunk_count"] is None:
            continue
        pieces = chunks[row["connection_id"], row["side"], row["topic"], row["producer_name"], row["chunk_count"]]
        if not row["joined"]:
            pieces[row["chunk_id"]] = row["value"]
        elif row["codec"] == "none":  # a compressed message is compressed before it is cut
            assert row["value"] == b"".join(pieces[number] for number in range(row["chunk_count"]))
        else:
            assert sorted(pieces) == list(range(row["chunk_count"]))
