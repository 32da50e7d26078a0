"""Questions and their answers, without a stream: what the frame being decoded did to them."""

from __future__ import annotations

import pytest

from mqsniff.framing.questions import Questions, forget_bytes
from mqsniff.limits import Limits
from mqsniff.model import Frame, Message, RecordBatch, Side


def message(side: Side, ts_ns: int) -> Message:
    frame = Frame(side, 0, 1, b"x", ts_ns, ts_ns, 1, 1, 0)
    return Message(frame, "toy", "T", "response" if side else "request")


def said(questions: Questions, spoken: Message, *, asks: int = 0, answers: bool = False) -> Message:
    """A message goes by that asks for so many answers, or answers."""
    questions.begin(spoken.frame)
    if asks:
        questions.ask("k", None, asks, "answer", None, in_order=True)
    if answers:
        questions.answer("k")
    questions.finish(spoken)
    return spoken


@pytest.mark.parametrize(("question_ns", "kinds"), [(100, []), (110, []), (111, ["clock"])])
def test_an_answer_that_is_older_than_its_question_has_a_problem(question_ns, kinds):
    questions = Questions(Limits())
    said(questions, message(Side.CLIENT, question_ns), asks=1)
    answer = said(questions, message(Side.SERVER, 110), answers=True)
    assert [problem.kind for problem in answer.problems] == kinds


def test_the_first_of_several_answers_has_it_though_the_question_stays_open():
    questions = Questions(Limits())
    said(questions, message(Side.CLIENT, 100), asks=3)
    first, second = (said(questions, message(Side.SERVER, ts_ns), answers=True) for ts_ns in (90, 95))
    assert [problem.kind for problem in first.problems] == ["clock"]
    assert second.problems == []
    assert [asked.expects for asked in questions.left()] == [1]


def test_the_questions_of_a_large_message_remember_it_without_its_bytes():
    questions, large = Questions(Limits()), message(Side.CLIENT, 100)
    large.frame.data, large.records = b"x" * 5000, (RecordBatch(b"x", 1),)
    said(questions, large, asks=1)
    (asked,) = large.asked
    forget_bytes(large.asked)
    assert (asked.frame.data, asked.message.frame.data, asked.message.records) == (b"", b"", ())
    assert (asked.frame.first_ts_ns, asked.message.name) == (100, "T")
    assert (len(large.frame.data), len(large.records)) == (5000, 1)


def test_the_oldest_of_many_open_questions_let_their_bodies_go():
    questions = Questions(Limits(handles_max=4))
    spoken = []
    for ts_ns in range(4):
        large = message(Side.CLIENT, ts_ns)
        large.frame.data, large.topics, large.body = b"x" * 5000, ("a", "b"), {"n": ts_ns}
        large.partitions = ({"topic": "a"},)
        spoken.append(said(questions, large, asks=1))
        questions.taken()
    assert [(asked.message.body, asked.message.topics) for asked in questions.left()] == [
        *([({}, ("a", "b"))] * 3),
        ({"n": 3}, ("a", "b")),
    ]
    assert [large.body for large in spoken] == [{"n": ts_ns} for ts_ns in range(4)]


def test_answered_questions_count_no_longer_among_those_whose_bodies_are_kept():
    questions = Questions(Limits(handles_max=4))
    for ts_ns in range(4):
        large = message(Side.CLIENT, ts_ns)
        large.frame.data, large.topics, large.body = b"x" * 5000, ("a", "b"), {"n": ts_ns}
        asked = said(questions, large, asks=1).asked[0]
        questions.taken()
        assert asked.message.body == {"n": ts_ns}
        said(questions, message(Side.SERVER, ts_ns), answers=True)
    assert not questions._wide
