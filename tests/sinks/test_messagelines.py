"""Messages as lines at once: the same bytes as by their rows."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
from handmade import START, captures, connection, frame, pub
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.dissector import Settings
from mqsniff.model import ConnectionInfo, Identity, Message, MessageItem, Secret, Side, Undecoded
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.ndjson import LONG, NdjsonSink, message_line, ndjson_line
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import message_row, rows_of
from mqsniff.tables.values import Redaction

PCAPS = Path(__file__).parents[2] / "pcaps"
SAMPLES = sorted(path for path in PCAPS.glob("*/*.pcap*") if path.suffix in {".pcap", ".pcapng"})
WAYS = [Redaction(), Redaction(secrets=True, raw=True)]
LONE = "\udc80"


def by_row(info: ConnectionInfo, message: Message, shown: Redaction, inputs=None) -> bytes:
    return ndjson_line("messages", message_row(info, message, inputs or captures()), shown)


def written(info: ConnectionInfo, message: Message, *tables: str) -> bytes:
    stream = io.BytesIO()
    NdjsonSink(stream, captures(), tables or ("messages",), Redaction()).write(MessageItem(info, message))
    return stream.getvalue()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_the_messages_of_a_sample_are_the_same_lines(path):
    run = Pipeline(FileSource([str(path)]), Settings())
    for item in run.items():
        if isinstance(item, MessageItem):
            for shown in WAYS:
                line = message_line(item.connection, item.message, run.captures, shown)
                assert line == by_row(item.connection, item.message, shown, run.captures)


TEXTS = st.none() | st.text(st.characters() | st.just(LONE), max_size=4) | st.sampled_from(["7", "a" * LONG])
NAMES = st.lists(TEXTS.filter(lambda text: text is not None), max_size=2).map(tuple)
NUMBERS = st.none() | st.integers(-2, 70)
VALUES = st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(max_size=3)
BODIES = st.dictionaries(
    st.text(st.characters() | st.just(LONE), max_size=2),
    st.recursive(VALUES | st.binary(max_size=4) | st.builds(Secret, st.binary(max_size=2)), st.lists, max_leaves=4),
    max_size=3,
)


@settings(max_examples=50)
@given(st.data())
def test_whatever_stands_in_a_message_is_the_same_line(data):
    draw = data.draw
    message = pub(
        frame=frame(
            draw(st.sampled_from(Side)), draw(st.integers(0, 1 << 40)), at=draw(st.sampled_from([0, 1, 1 << 70]))
        ),
        version=draw(NUMBERS),
        correlation=draw(TEXTS),
        topics=draw(NAMES),
        topic_ids=draw(NAMES),
        group=draw(TEXTS),
        client_id=draw(TEXTS),
        error_code=draw(NUMBERS),
        error_name=draw(TEXTS),
        error_count=draw(NUMBERS),
        body=draw(BODIES),
    )
    message.name = draw(TEXTS) or "PUB"
    info = connection(identity=Identity(client_id=draw(TEXTS), group=draw(TEXTS)))
    assert written(info, message) == by_row(info, message, Redaction())


@pytest.mark.parametrize(
    "odd",
    [
        {"correlation": LONE},
        {"group": LONE},
        {"topics": (LONE,)},
        {"body": {"number": math.nan}},
        {"body": {LONE: 1}},
        {"body": {"long": 1 << 64}},
        {"frame": frame(at=1 << 70)},
        {"frame": frame(at=-START - (1 << 70))},
    ],
    ids=str,
)
def test_an_odd_message_is_left_to_its_row(odd):
    message = pub(**odd)
    assert message_line(connection(), message, captures(), Redaction()) is None
    assert written(connection(), message) == by_row(connection(), message, Redaction())


def test_a_vouched_body_is_not_searched_and_its_nulls_stay():
    message = pub(body={"none": None, "raw": Undecoded(b"x")}, finite=True)
    assert message_line(connection(), message, captures(), Redaction()) == by_row(connection(), message, Redaction())


def test_partitions_come_along_where_they_are_wanted():
    message = pub(partitions=({"partition": 3},))
    assert written(connection(), message, "messages", "partitions").count(b"\n") == 2
    assert written(connection(), message, "partitions").count(b"\n") == 1
    assert written(connection(), message, "connections") == b""


def test_who_the_client_is_counts_at_each_message():
    info = connection()
    first = written(info, pub())
    info.client_ip, info.client_port = "10.0.0.9", 1
    info.identity.client_id = "late"
    second = written(info, pub())
    assert b'"client":"127.0.0.1:57938"' in first
    assert b'"client":"10.0.0.9:1"' in second
    assert b'"client_id":"late"' in second


@pytest.mark.parametrize("partitions", [(), ({"topic": "orders", "partition": 3}, {"topic": "orders", "partition": 4})])
def test_rows_of_partitions_follow_the_line_of_their_message(partitions):
    message = pub(partitions=partitions)
    item = MessageItem(connection(), message)
    wanted = ("messages", "partitions")
    expected = b"".join(ndjson_line(table, row, WAYS[0]) for table, row in rows_of(item, captures(), wanted, WAYS[0]))
    assert written(connection(), message, *wanted) == expected
    assert expected.count(b"\n") == 1 + len(partitions)
    assert written(connection(), message, "partitions").count(b"\n") == len(partitions)
