"""What ``mqsniff protocols`` says is what traffic shows: names, answers and kinds of problems of all goldens."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from mqsniff.decode.registry import load_dissectors, protocols
from mqsniff.model import ProblemKind
from mqsniff.model.kinds import PROBLEM_KINDS

PCAPS = Path(__file__).parents[1] / "pcaps"
GOLDENS = sorted(PCAPS.glob("*/*.golden.ndjson"))
DISSECTORS = {name: entry.dissector for entry in load_dissectors() for name in entry.dissector.names}
COMMANDS = {
    "kafka": (("apis", "name"), ("other_messages", "name")),
    "nsq": (("commands", "command"), ("frame_types", "name"), ("other_messages", "name")),
    "nsqlookupd": (("nsqlookupd_commands", "command"), ("other_messages", "name")),
    "pulsar": (("commands", "name"),),
    "rocketmq": (("requests", "name"), ("older_names", "name")),
}
"""Protocol -> its tables of messages and the column that names them."""
DECODES = sorted(COMMANDS)
BLOCKS = ("metadata_blocks", "record_formats", "serialisations")


@cache
def described(protocol):
    return DISSECTORS[protocol].describe()


@cache
def answers(protocol):
    """Name of a message -> what may answer it."""
    found = {}
    for table, column in COMMANDS[protocol]:
        for row in described(protocol)[table]:
            found[row[column]] = row["answered_by"]
    return found


@cache
def rows(table):
    found = (json.loads(line) for golden in GOLDENS for line in golden.read_text().splitlines())
    return [row for row in found if row["table"] == table]


@pytest.mark.parametrize("protocol", DECODES)
def test_every_message_of_the_samples_has_a_name_that_is_described(protocol):
    names = {row["name"] for row in rows("messages") if row["protocol"] == protocol}
    named = {name for name in names if not re.match(r"unknown(\(|\Z)", name)}
    assert named
    assert named <= set(DISSECTORS[protocol].message_names())
    assert {*answers(protocol)} <= set(DISSECTORS[protocol].message_names())


@pytest.mark.parametrize("protocol", DECODES)
def test_every_answer_of_the_samples_is_one_that_is_described(protocol):
    """Settlements too: a message that was delivered is answered by what settles it."""
    odd = set()
    for row in rows("exchanges"):
        pending, answered = row.get("name"), row.get("response_name")
        if row["protocol"] != protocol or pending not in answers(protocol) or answered is None:
            continue
        settled = row["link"] == "settlement" and protocol == "rocketmq"  # its answer is a message of its own
        if not settled and answered not in answers(protocol)[pending]:
            odd.add((pending, answered))
    assert odd == set()


@pytest.mark.parametrize("protocol", DECODES)
def test_every_command_that_asks_says_what_answers_it(protocol):
    known = set(DISSECTORS[protocol].message_names())
    for table, column in COMMANDS[protocol]:
        for row in described(protocol)[table]:
            assert set(row["answered_by"]) <= known, row[column]
            if row.get("kind") == "request" or table in ("apis", "requests", "older_names"):
                assert row["answered_by"], row[column]


@pytest.mark.parametrize("protocol", DECODES)
def test_blocks_formats_and_serialisations_are_listed(protocol):
    tables = described(protocol)
    wanted = {table for table in BLOCKS if protocol != "nsqlookupd" or table != "record_formats"}
    assert wanted <= tables.keys()
    assert all(all(row.values()) is not None and row for table in wanted for row in tables[table])


@pytest.mark.parametrize(
    ("protocol", "table", "column", "some"),
    [
        ("kafka", "metadata_blocks", "block", {"RequestHeader", "record batch head", "control record key"}),
        ("kafka", "codecs", "name", {"none", "gzip", "snappy", "lz4", "zstd"}),
        ("kafka", "markers", "name", {"ABORT", "COMMIT", "KRAFT_VOTERS"}),
        ("kafka", "stored_formats", "topic", {"__consumer_offsets", "__cluster_metadata", "*mm2-offset-syncs*"}),
        ("kafka", "embedded_formats", "format", {"member_metadata", "otlp_metrics"}),
        ("pulsar", "metadata_blocks", "block", {"BrokerEntryMetadata", "MessageMetadata", "SingleMessageMetadata"}),
        ("pulsar", "codecs", "name", {"NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"}),
        ("rocketmq", "serialisations", "name", {"JSON", "ROCKETMQ"}),
        ("rocketmq", "codecs", "name", {"zlib", "lz4", "zstd"}),
        ("rocketmq", "markers", "name", {"PREPARED", "COMMIT", "ROLLBACK"}),
        ("rocketmq", "stored_formats", "format", {"message trace, Pub"}),
        ("rocketmq", "properties", "name", {"KEYS", "TAGS", "UNIQ_KEY"}),
        ("nsq", "metadata_blocks", "block", {"message head"}),
        ("rocketmq-ha", "frames", "sent_by", {"slave", "master"}),
    ],
)
def test_what_is_opened_is_listed(protocol, table, column, some):
    assert some <= {row.get(column) for row in described(protocol)[table]}


def test_codecs_of_the_samples_are_listed():
    codecs = {protocol: {row["name"].lower() for row in described(protocol).get("codecs", ())} for protocol in COMMANDS}
    for row in rows("records"):
        if (codec := row.get("codec")) not in (None, "none"):
            assert codec.lower().removesuffix("-block") in codecs[row["protocol"]]


def test_every_protocol_that_rows_name_is_answered():
    there = {
        row["protocol"] for table in ("connections", "messages", "problems") for row in rows(table) if "protocol" in row
    }
    assert there <= set(protocols(load_dissectors()))


def test_every_kind_of_problem_is_explained():
    assert sorted(PROBLEM_KINDS) == sorted(get_args(ProblemKind))
    assert all(all(about) for about in PROBLEM_KINDS.values())


def test_what_is_for_the_makers_is_there():
    for dissector in set(DISSECTORS.values()):
        tables = dissector.describe()
        columns = {column for table in tables.values() for row in table for column in row}
        assert dissector.makers <= {*tables, *columns, "without_oracle"}
