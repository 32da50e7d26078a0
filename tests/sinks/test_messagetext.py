"""The end of a message's line at once: the same text as its parts."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from handmade import connection, pub
from test_recordlines import SAMPLES

from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.limits import Limits
from mqsniff.model import MessageItem, PayloadText, Secret
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.lines import message_parts
from mqsniff.sinks.messagetext import message_text
from mqsniff.sinks.text import TextSink
from mqsniff.sinks.textoptions import TextOptions
from mqsniff.sources.files import FileSource
from mqsniff.tables.values import Redaction

WAYS = [Redaction(), Redaction(payload=False), Redaction(secrets=True, raw=True)]


def by_parts(message, latency_ns, shown) -> str:
    return "".join(text for _, text in message_parts(message, latency_ns, shown))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_the_messages_of_a_sample_have_the_text_of_their_parts(path):
    run = Pipeline(FileSource([str(path)]), Settings(Limits(), wanted=WITH_RECORDS))
    whole, lines = (
        (io.BytesIO(), TextOptions(width=None if at_once else 100_000, color=False)) for at_once in (True, False)
    )
    sinks = [TextSink(out, run.captures, options) for out, options in (whole, lines)]
    for item in run.items():
        if item is None:
            continue
        for sink in sinks:
            sink.write(item)
        if isinstance(item, MessageItem) and not item.message.failed:
            for shown in WAYS:
                told = message_text(item.message, item.latency_ns, shown)
                assert told == by_parts(item.message, item.latency_ns, shown)
    for sink in sinks:
        sink.close()
    assert whole[0].getvalue() == lines[0].getvalue()


@pytest.mark.parametrize(
    "value",
    [True, 1, 1.0, None, 1 << 70, -5, "plain", "two words", "\x1b[31m", "x" * 1000, b"\0", Secret(b"key"), [1, "a"]],
)
def test_notes_of_all_types_are_told_as_values_are(value):
    message = replace(pub(), notes=(("note", value), ("note\x07", 1), ("note", PayloadText("hidden"))))
    for shown in WAYS:
        assert message_text(message, None, shown) == by_parts(message, None, shown)


@pytest.mark.parametrize("topics", [("one",), ("a", "b", "c", "d", "e"), ("\x1b[2J",), ("x" * 1000,)])
@pytest.mark.parametrize("correlation", ["17", "²", "two words", "", "\u202e"])
def test_topics_groups_and_ids_from_the_traffic_are_escaped(topics, correlation):
    message = replace(pub(), topics=topics, correlation=correlation, group='a "group"', error_code=0)
    for latency_ns in (None, 0, 1_234_567_890):
        assert message_text(message, latency_ns, Redaction()) == by_parts(message, latency_ns, Redaction())


def test_a_line_in_a_pipe_is_the_line_of_a_wide_terminal():
    lines = []
    for width in (None, 100_000):
        out = io.BytesIO()
        sink = TextSink(out, [], TextOptions(width=width))
        for name in ("SHORT", "A LONG NAME OF A COMMAND", "SHORT"):
            sink.write(MessageItem(connection(), replace(pub(), name=name, notes=(("n", 1),)), 5_000))
        sink.close()
        lines.append(out.getvalue())
    assert lines[0] == lines[1]
    assert lines[0].count(b"\n") == 4
