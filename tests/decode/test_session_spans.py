"""Spans of a message cover each of its bytes, whatever a dissector tells."""

from __future__ import annotations

import pytest
from toymq import ToyMq, chunk

from mqsniff.decode.session import ProtocolSession
from mqsniff.dissector import Settings
from mqsniff.model import ConnectionInfo, MessageItem, Span, Undecoded


class Telling(ToyMq):
    """Tells of the middle byte alone."""

    def spans(self, frame):
        yield Span("middle", 1, 2, frame.data[1])


class Stumbling(ToyMq):
    """Tells of the first byte, then raises."""

    def spans(self, frame):
        yield Span("first", 0, 1, frame.data[0])
        raise ValueError("a bug")


def spans_of(dissector, wants=lambda *_: True):
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 7777, 0, 1)
    session = ProtocolSession(dissector(Settings()), Settings(), info, wants)
    session.begin(in_step=True)
    (item,) = [item for item in session.take(chunk(b"F\x01q")) if isinstance(item, MessageItem)]
    return item


@pytest.mark.parametrize(
    ("dissector", "told"),
    [
        (ToyMq, [("undecoded", 0, 3)]),
        (Telling, [("undecoded", 0, 1), ("middle", 1, 2), ("undecoded", 2, 3)]),
        (Stumbling, [("undecoded", 0, 3)]),
    ],
)
def test_what_a_dissector_leaves_out_is_undecoded(dissector, told):
    spans = spans_of(dissector).spans
    assert [(span.path, span.start, span.stop) for span in spans] == told
    assert all(isinstance(span.value, Undecoded) for span in spans if span.path == "undecoded")


def test_a_dissector_that_raises_is_a_problem_of_the_message():
    assert [problem.detail for problem in spans_of(Stumbling).message.problems] == ["ValueError in Stumbling.spans"]


def test_nobody_is_asked_for_spans_that_nobody_wants():
    assert spans_of(Stumbling, lambda *_: False).spans is None
    assert spans_of(Stumbling, None).spans is None
