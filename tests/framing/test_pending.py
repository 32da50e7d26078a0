"""Questions and their answers, without a stream: what the frame being decoded did to them."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import fields

import pytest

from mqsniff.framing.pending import PendingRequests, forget_bytes
from mqsniff.limits import Limits
from mqsniff.model import Frame, Message, Pending, Problem, RecordBatch, Side

NAMES = [each.name for each in fields(Pending)]


def message(side: Side, ts_ns: int) -> Message:
    frame = Frame(side, 0, 1, b"x", ts_ns, ts_ns, 1, 1, 0)
    return Message(frame, "toy", "T", "response" if side else "request")


def said(questions: PendingRequests, spoken: Message, *, asks: int = 0, answers: bool = False) -> Message:
    """A message goes by that asks for so many answers, or answers."""
    questions.begin(spoken.frame)
    if asks:
        questions.expect_reply("k", None, asks, "answer", None, in_order=True)
    if answers:
        questions.reply_to("k")
    questions.finish(spoken)
    return spoken


@pytest.mark.parametrize(("question_ns", "kinds"), [(100, []), (110, []), (111, ["clock"])])
def test_an_answer_that_is_older_than_its_question_has_a_problem(question_ns, kinds):
    questions = PendingRequests(Limits())
    said(questions, message(Side.CLIENT, question_ns), asks=1)
    answer = said(questions, message(Side.SERVER, 110), answers=True)
    assert [problem.kind for problem in answer.problems] == kinds


def test_the_first_of_several_answers_has_it_though_the_question_stays_open():
    questions = PendingRequests(Limits())
    said(questions, message(Side.CLIENT, 100), asks=3)
    first, second = (said(questions, message(Side.SERVER, ts_ns), answers=True) for ts_ns in (90, 95))
    assert [problem.kind for problem in first.problems] == ["clock"]
    assert second.problems == []
    assert [pending.expects for pending in questions.left()] == [1]


def test_the_questions_of_a_large_message_remember_it_without_its_bytes():
    questions, large = PendingRequests(Limits()), message(Side.CLIENT, 100)
    large.frame.data, large.records = b"x" * 5000, (RecordBatch(b"x", 1),)
    said(questions, large, asks=1)
    (pending,) = large.pending
    forget_bytes(large.pending)
    assert (pending.frame.data, pending.message.frame.data, pending.message.records) == (b"", b"", ())
    assert (pending.frame.first_ts_ns, pending.message.name) == (100, "T")
    assert (len(large.frame.data), len(large.records)) == (5000, 1)


def test_the_oldest_of_many_open_questions_let_their_bodies_go():
    questions = PendingRequests(Limits(handles_max=4))
    spoken = []
    for ts_ns in range(4):
        large = message(Side.CLIENT, ts_ns)
        large.frame.data, large.topics, large.body = b"x" * 5000, ("a", "b"), {"n": ts_ns}
        large.partitions = ({"topic": "a"},)
        spoken.append(said(questions, large, asks=1))
        questions.taken()
    assert [(pending.message.body, pending.message.topics) for pending in questions.left()] == [
        *([({}, ("a", "b"))] * 3),
        ({"n": 3}, ("a", "b")),
    ]
    assert [large.body for large in spoken] == [{"n": ts_ns} for ts_ns in range(4)]


def test_answered_questions_count_no_longer_among_those_whose_bodies_are_kept():
    questions = PendingRequests(Limits(handles_max=4))
    for ts_ns in range(4):
        large = message(Side.CLIENT, ts_ns)
        large.frame.data, large.topics, large.body = b"x" * 5000, ("a", "b"), {"n": ts_ns}
        pending = said(questions, large, asks=1).pending[0]
        questions.taken()
        assert pending.message.body == {"n": ts_ns}
        said(questions, message(Side.SERVER, ts_ns), answers=True)
    assert not questions._wide


# ---- settlements


class Settling:
    """Deliveries that commands settle which may be refused."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.questions = PendingRequests(limits or Limits())

    def deliver(self, key: str) -> Pending:
        spoken = message(Side.SERVER, 100)
        self.questions.begin(spoken.frame)
        pending = self.questions.expect_reply(key, None, 1, "settlement", None, in_order=False)
        self.questions.finish(spoken)
        return pending

    def settle(self, *delivered: Pending, expects: int = 0) -> tuple[Pending, Message]:
        spoken = message(Side.CLIENT, 200)
        self.questions.begin(spoken.frame)
        command = self.questions.expect_reply("command", None, expects, "answer", None, in_order=True)
        for pending in delivered:
            self.questions.resolve(pending, answered=True, awaits=command)
        self.questions.finish(spoken)
        return command, spoken

    def end(self, command: Pending, status: str | None, *, answered: bool = False) -> Message:
        spoken = message(Side.SERVER, 300)
        self.questions.begin(spoken.frame)
        self.questions.resolve(command, status, answered=answered)
        self.questions.finish(spoken)
        return spoken


def test_a_settlement_ends_with_its_command_and_is_answered_before():
    settling = Settling()
    one, other = settling.deliver("a"), settling.deliver("b")
    command, fin = settling.settle(one, other)
    assert (fin.answered, fin.resolved, one.answer) == ((one, other), (), fin)
    later = settling.end(command, "oneway")
    assert later.resolved == (command, one, other)
    assert (one.status, one.open, one.awaits) == (None, False, command)
    assert list(settling.questions.left()) == []


def test_a_delivery_comes_again_under_its_key_while_its_settlement_waits():
    settling = Settling()
    first = settling.deliver("a")
    command, _ = settling.settle(first)
    again = settling.deliver("a")
    assert list(settling.questions.open("a")) == [again]
    assert settling.end(command, "error", answered=True).resolved == (command, first)


def test_a_settlement_whose_refusal_may_be_lost_is_lost():
    settling = Settling()
    delivered = settling.deliver("a")
    command, _ = settling.settle(delivered)
    settling.questions.losses[Side.SERVER] += 1
    settling.end(command, "oneway")
    assert delivered.status == "lost"


def test_so_is_one_that_waits_at_the_end():
    settling = Settling()
    delivered = settling.deliver("a")
    settling.settle(delivered)
    settling.questions.losses[Side.SERVER] += 1
    assert len(list(settling.questions.left())) == 2
    assert delivered.status == "lost"


def test_a_settlement_by_a_command_that_has_ended_ends_at_once():
    settling = Settling()
    delivered = settling.deliver("a")
    command, _ = settling.settle()
    settling.end(command, "error")
    spoken = message(Side.CLIENT, 400)
    settling.questions.begin(spoken.frame)
    settling.questions.resolve(delivered, answered=True, awaits=command)
    settling.questions.finish(spoken)
    assert spoken.resolved == (delivered,)


def test_settlements_that_wait_are_bounded_and_given_at_the_end():
    settling = Settling(Limits(pending_max=4))
    first = [settling.deliver("a") for _ in range(3)]
    command, _ = settling.settle(*first)
    second = [settling.deliver("a") for _ in range(2)]
    other, ack = settling.settle(*second)
    assert (ack.resolved, first[0].status) == ((first[0],), "unanswered")
    left = list(settling.questions.left())
    assert [any(pending is one for one in left) for pending in (*first, *second, command, other)] == [
        False,
        *[True] * 6,
    ]


def test_pending_requests_are_counted_as_state_until_they_are_answered():
    questions = PendingRequests(Limits())
    assert questions.state_size == 0
    said(questions, message(Side.CLIENT, 1), asks=1)
    said(questions, message(Side.CLIENT, 2), asks=1)
    assert questions.state_size == 4096
    said(questions, message(Side.SERVER, 3), answers=True)
    assert questions.state_size == 2048


def test_an_answered_key_leaves_nothing_that_the_limit_would_end():
    questions = PendingRequests(Limits(pending_max=64))
    questions.begin(message(Side.CLIENT, 1).frame)
    for number in range(200):
        questions.expect_reply(number, None, 1, "answer", None, in_order=True)
        if number < 100:
            questions.reply_to(number)
    assert [pending.key for pending in questions.left()] == list(range(136, 200))


def test_large_requests_that_are_pickled_still_count_and_are_let_go():
    questions = PendingRequests(Limits(handles_max=4))
    for ts_ns in range(2):
        large = message(Side.CLIENT, ts_ns)
        large.frame.data, large.topics, large.body = b"x" * 5000, ("a", "b"), {"n": ts_ns}
        said(questions, large, asks=1)
        questions.taken()
    restored = pickle.loads(pickle.dumps(questions))
    for ts_ns in (2, 3):
        said(restored, message(Side.SERVER, ts_ns), answers=True)
        large = message(Side.CLIENT, ts_ns)
        large.frame.data, large.topics, large.body = b"x" * 5000, ("a", "b"), {"n": ts_ns}
        said(restored, large, asks=1)
        restored.taken()
    assert [pending.message.body for pending in restored.left()] == [{"n": 2}, {"n": 3}]


# ---- whole requests


def test_a_pending_request_has_its_frame_and_all_that_was_said_of_it():
    questions, spoken = PendingRequests(Limits()), message(Side.CLIENT, 100)
    questions.gaps, questions.losses = [1, 2], [3, 4]
    questions.begin(spoken.frame)
    asked = questions.expect_reply("k", {"c": 1}, 2, "settlement", 9, in_order=False)
    questions.finish(spoken)
    found = {name: getattr(asked, name) for name in NAMES}
    assert found == {name: getattr(Pending("k", "settlement", spoken.frame), name) for name in NAMES} | {
        "context": {"c": 1},
        "expects": 2,
        "wait_limit_ns": 9,
        "in_order": False,
        "message": spoken,
        "gaps_before": 2,
        "losses_before": 4,
    }
    assert (spoken.pending, spoken.resolved, spoken.answered, spoken.answers) == ((asked,), (), (), 0)


def test_an_answer_has_the_requests_that_it_answered_and_ended():
    questions = PendingRequests(Limits())
    first = said(questions, message(Side.CLIENT, 1), asks=2).pending[0]
    once = said(questions, message(Side.SERVER, 2), answers=True)
    assert (once.answers, once.answered, once.resolved, first.open) == (1, (first,), (), True)
    twice = said(questions, message(Side.SERVER, 3), answers=True)
    assert (twice.answers, twice.answered, twice.resolved, first.open) == (1, (first,), (first,), False)
    assert (first.answer, first.last_answer, first.expects, first.status) == (once, twice, 0, None)
    nobody = said(questions, message(Side.SERVER, 4), answers=True)
    assert (nobody.answers, nobody.answered, nobody.resolved) == (0, (), ())


def test_an_old_answer_says_so_in_whole():
    questions = PendingRequests(Limits())
    said(questions, message(Side.CLIENT, 111), asks=1)
    answer = said(questions, message(Side.SERVER, 110), answers=True)
    assert answer.problems == [Problem("clock", "warning", "the answer comes before its request")]


@pytest.mark.parametrize("size", [15, 16, 17, 40])
def test_requests_of_a_key_are_answered_in_order_however_many_there_are(size):
    questions = PendingRequests(Limits())
    asked = [said(questions, message(Side.CLIENT, at), asks=1).pending[0] for at in range(size)]
    assert list(questions.open("k")) == asked
    assert [said(questions, message(Side.SERVER, at), answers=True).resolved for at in range(size)] == [
        (each,) for each in asked
    ]
    assert list(questions.open("k")) == []


@pytest.mark.parametrize(("most", "ended"), [(3, []), (2, [0]), (1, [0, 1])])
def test_requests_that_get_no_reply_end_one_by_one_beyond_their_limit(most, ended):
    questions = PendingRequests(Limits(unanswered_max=most))
    asked = []
    for at in range(3):
        spoken = message(Side.CLIENT, at)
        questions.begin(spoken.frame)
        asked.append(questions.expect_reply("k", None, 0, "answer", None, in_order=True))
        questions.finish(spoken)
    assert [at for at, each in enumerate(asked) if each.status == "oneway"] == ended


@pytest.mark.parametrize(("most", "status"), [(2, None), (1, "oneway")])
def test_a_command_that_settled_a_delivery_waits_longer_for_its_refusal(most, status):
    settling = Settling(Limits(unanswered_max=1, refusals_max=most))
    command, _ = settling.settle(settling.deliver("a"))
    settling.settle()
    assert command.status == status


@pytest.mark.parametrize(("size", "kept"), [(1024, True), (1025, False)])
def test_requests_keep_the_bytes_of_small_messages_only(size, kept):
    questions, spoken = PendingRequests(Limits()), message(Side.CLIENT, 1)
    spoken.frame.data = b"x" * size
    (asked,) = said(questions, spoken, asks=1).pending
    questions.taken()
    assert (asked.message is spoken, len(asked.message.frame.data) == size) == (kept, kept)


def test_requests_that_are_left_come_in_the_order_in_which_they_were_sent():
    questions, made = PendingRequests(Limits()), []
    for release, key in ((3, "a"), (1, "b"), (2, "a")):
        spoken = Message(Frame(Side.CLIENT, 0, 1, b"x", 1, 1, 1, 1, release), "toy", "T", "request")
        questions.begin(spoken.frame)
        made.append(questions.expect_reply(key, None, 1, "answer", None, in_order=True))
        questions.finish(spoken)
    assert list(questions.left()) == [made[1], made[2], made[0]]
    assert (list(questions.left()), questions.state_size) == ([], 0)


@pytest.mark.parametrize("expects", [0, 1])
def test_beyond_the_limit_of_all_the_oldest_ends_by_what_it_waited_for(expects):
    questions = PendingRequests(Limits(pending_max=1))
    first = []
    for key in "ab":
        spoken = message(Side.CLIENT, 1)
        questions.begin(spoken.frame)
        first.append(questions.expect_reply(key, None, expects, "answer", None, in_order=True))
        questions.finish(spoken)
    assert [each.status for each in first] == ["unanswered" if expects else "oneway", None]
    assert spoken.resolved == (first[0],)


@pytest.mark.parametrize(("status", "lost", "told"), [(None, 1, "lost"), (None, 0, None), ("error", 1, "error")])
def test_a_settlement_keeps_what_its_dissector_said_and_is_lost_only_where_frames_may_be(status, lost, told):
    settling = Settling()
    delivered = settling.deliver("a")
    command, _ = settling.settle(delivered)
    delivered.status = status
    settling.questions.losses[Side.SERVER] += lost
    settling.end(command, "oneway")
    assert delivered.status == told


def test_a_command_that_was_answered_leaves_no_doubt_about_its_settlements():
    settling = Settling()
    delivered = settling.deliver("a")
    command, _ = settling.settle(delivered)
    settling.questions.losses[Side.SERVER] += 1
    settling.end(command, "oneway", answered=True)
    assert delivered.status is None
    waiting = settling.deliver("b")
    asking, _ = settling.settle(waiting, expects=1)
    settling.questions.losses[Side.SERVER] += 1
    settling.end(asking, "unanswered")
    assert waiting.status is None


@pytest.mark.parametrize("size", [1, 3, 20])
def test_a_request_leaves_its_queue_wherever_it_stands(size):
    for place in range(size):
        questions = PendingRequests(Limits())
        asked = [said(questions, message(Side.CLIENT, at), asks=1).pending[0] for at in range(size)]
        spoken = message(Side.SERVER, 99)
        questions.begin(spoken.frame)
        questions.resolve(asked[place], "lost")
        questions.finish(spoken)
        assert list(questions.open("k")) == asked[:place] + asked[place + 1 :]
        assert (spoken.resolved, asked[place].status, questions.state_size) == (
            (asked[place],),
            "lost",
            2048 * (size - 1),
        )


def test_requests_that_are_ended_from_the_oldest_on_stand_in_an_ordered_dict():
    """A dict looks for its first entry among all that were deleted: each request cost 20 µs more, of 2."""
    questions = PendingRequests(Limits(pending_max=3))
    questions.begin(message(Side.CLIENT, 1).frame)
    for number in range(9):
        questions.expect_reply(number, None, 1, "answer", None, in_order=True)
    assert [pending.key for pending in questions.left()] == [6, 7, 8]
    assert isinstance(questions._queues, OrderedDict)


@pytest.mark.parametrize(("packet", "before"), [(4, (1, 0)), (5, (1, 0)), (6, (2, 1)), (7, (2, 1)), (9, (3, 2))])
def test_gaps_before_a_request_are_those_that_no_later_packet_showed(packet, before):
    questions, spoken = PendingRequests(Limits()), message(Side.CLIENT, 1)
    spoken.frame.last_packet = packet
    for gap, loses in ((3, False), (6, True), (8, True)):
        questions.note_gap(Side.SERVER, gap)
        if loses:
            questions.note_loss(Side.SERVER, gap)
        questions.note_gap(Side.CLIENT, gap)
    questions.begin(spoken.frame)
    asked = questions.expect_reply("k", None, 1, "answer", None, in_order=True)
    assert (asked.gaps_before, asked.losses_before) == before
