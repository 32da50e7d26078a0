"""Names of topics that other flows taught are known from then on, and not before."""

from __future__ import annotations

import pytest

from mqsniff.batch.flowitems import Order
from mqsniff.batch.learning import FlowNames, Lessons
from mqsniff.model import Frame, Message, Side

ROWS = [("kafka", "id", "second", 70, 1), ("kafka", "id", "first", 50, 9), ("kafka", "other", "name", 60, 2)]


class At(Order):
    """A place in the merge that a test says."""

    now = (0, 0)


def names(order: At) -> FlowNames:
    return FlowNames(Lessons.of(ROWS).first, order)


@pytest.mark.parametrize("rows", [ROWS, ROWS[::-1]])
def test_a_topic_id_keeps_the_name_that_was_taught_first(rows):
    assert Lessons.of(Lessons.of(rows).rows()).first == {
        ("kafka", "id"): ((50, 9), "first"),
        ("kafka", "other"): ((60, 2), "name"),
    }


@pytest.mark.parametrize(("now", "known"), [((50, 8), None), ((50, 9), None), ((50, 10), "first"), ((99, 0), "first")])
def test_what_others_taught_is_known_behind_the_packet_that_taught_it(now, known):
    order = At()
    order.now = now
    assert names(order).at("kafka", ["id"]).name("kafka", "id") == known
    assert names(order).at("pulsar", ["id"]).name("pulsar", "id") is None


def test_what_the_flow_taught_itself_is_known_at_once():
    order = At()
    order.now = (50, 9)
    flow = names(order)
    frame = Frame(Side.SERVER, 0, 1, b"", 50, 50, 9, 9, 0)
    flow.learn(Message(frame, "kafka", "Metadata", "response", teaches=(("id", "first"), ("new", "own"))))
    found = flow.at("kafka", ["id", "new", "other"])
    assert [found.name("kafka", each) for each in ("id", "new", "other")] == ["first", "own", None]
