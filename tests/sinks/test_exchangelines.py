"""Exchanges and problems as lines at once: the same bytes as by their rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade import answer_to, captures, connection, frame, pub
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.dissector import Settings
from mqsniff.model import Exchange, ExchangeItem, Identity, Pending, Problem, ProblemItem, Side
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.exchangelines import exchange_line, problem_line
from mqsniff.sinks.lineparts import LONG
from mqsniff.sinks.ndjson import ndjson_line
from mqsniff.sources.files import FileSource
from mqsniff.tables.rows import rows_of
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction

PCAPS = Path(__file__).parents[2] / "pcaps"
SAMPLES = sorted(path for path in PCAPS.glob("*/*.pcap*") if path.suffix in {".pcap", ".pcapng"})
LONE = "\udc80"
TEXTS = st.none() | st.text(st.characters() | st.just(LONE), max_size=4) | st.sampled_from(["7", "a" * LONG])
NAMES = st.lists(TEXTS.filter(lambda text: text is not None), max_size=2).map(tuple)
NUMBERS = st.none() | st.integers(-2, 70) | st.sampled_from([1 << 63, -(1 << 63) - 1, 1 << 70])


def by_row(item, inputs=None):
    ((table, row),) = rows_of(item, inputs or captures(), TABLES, Redaction())
    return ndjson_line(table, row, Redaction())


def test_samples_give_the_same_lines():
    made = {ExchangeItem: [0, 0], ProblemItem: [0, 0]}
    for path in SAMPLES:
        run = Pipeline(FileSource([str(path)]), Settings())
        for item in run.items():
            if isinstance(item, ExchangeItem | ProblemItem):
                make = exchange_line if isinstance(item, ExchangeItem) else problem_line
                line = make(item, run.captures)
                made[type(item)][line is None] += 1
                assert line in (None, by_row(item, run.captures))
    for at_once, _ in made.values():
        assert at_once > 100


def message(draw, side=Side.CLIENT):
    told = pub(
        frame=frame(side, draw(st.integers(0, 1 << 40)), at=draw(st.sampled_from([0, 1, 1 << 70]))),
        version=draw(NUMBERS),
        correlation=draw(TEXTS),
        topics=draw(NAMES),
        topic_ids=draw(NAMES),
        group=draw(TEXTS),
        client_id=draw(TEXTS),
        error_code=draw(NUMBERS),
        error_name=draw(TEXTS),
    )
    told.name = draw(TEXTS) or "PUB"
    return told


@settings(max_examples=150)
@given(st.data())
def test_whatever_stands_in_an_exchange_is_the_same_line(data):
    draw = data.draw
    request = message(draw) if draw(st.booleans()) else None
    answer = message(draw, Side.SERVER) if draw(st.booleans()) or request is None else None
    pending = None
    if request is not None:
        pending = Pending(1, draw(st.sampled_from(["answer", "settlement"])), request.frame, message=request)
        pending.answer = answer
        pending.last_answer = draw(st.sampled_from([answer, answer, request]))
        pending.wait_limit_ns, pending.throttle_ns = draw(NUMBERS), draw(NUMBERS)
        pending.held = draw(st.none() | st.booleans())
        pending.extra = draw(st.sampled_from([{}, {}, {"attempts": 1, "timed_out": True}]))
        pending.message = draw(st.sampled_from([request, request, None])) if answer is not None else request
    spans = [draw(NUMBERS) for _ in range(4)]
    spans[1:3] = spans[1:3] if spans[0] is not None else (None, None)
    exchange = Exchange(pending, answer, draw(st.sampled_from(["ok", "unanswered"])), *spans)
    item = ExchangeItem(connection(identity=Identity(client_id=draw(TEXTS), group=draw(TEXTS))), exchange)
    assert exchange_line(item, captures()) in (None, by_row(item))


@settings(max_examples=100)
@given(st.data())
def test_whatever_stands_in_a_problem_is_the_same_line(data):
    draw = data.draw
    told = message(draw)
    problem = Problem("unmatched", "warning", draw(TEXTS) or "", draw(TEXTS) or "", size=draw(NUMBERS))
    info = connection(identity=Identity(client_id=draw(TEXTS), group=draw(TEXTS)))
    item = ProblemItem(info, problem, told.frame.first_ts_ns, draw(st.sampled_from([None, 0, 7])), told)
    assert problem_line(item, captures()) in (None, by_row(item))


@pytest.mark.parametrize("latency", [None, 0, 5])
def test_an_ordinary_exchange_is_made_without_a_row(latency):
    request = pub()
    answer, pending = answer_to(request)
    item = ExchangeItem(connection(), Exchange(pending, answer, "ok", latency, latency, latency, latency))
    assert exchange_line(item, captures()) == by_row(item)
