"""Questions become exactly one exchange each; records of a question wait for its answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqsniff.decode.exchanges import Exchanges
from mqsniff.limits import Limits
from mqsniff.model import Exchange, Frame, Message, Pending, RecordBatch, Side

END = {"open_at_end": False, "seen": (True, True), "gaps": (0, 0)}


def frame(side: Side, first: int, last: int) -> Frame:
    return Frame(side, 0, 1, b"x", first, last, 1, 1, 0)


def question(first: int, last: int, **more) -> Pending:
    return Pending("k", "answer", frame(Side.CLIENT, first, last), **more)


def response(first: int, last: int, *closed: Pending, **more) -> Message:
    message = Message(
        frame(Side.SERVER, first, last), "toy", "R", "response", resolved=closed, answers=len(closed), **more
    )
    for pending in closed:
        pending.answer = pending.last_answer = message
    return message


def test_latency_runs_from_the_last_byte_of_the_question_to_the_first_of_the_answer():
    (done,) = Exchanges(Limits()).of(response(150, 170, question(100, 110)))
    assert (done.status, done.latency_ns, done.total_ns, done.queue_ns) == ("ok", 40, 70, 0)


def test_an_exchange_has_its_two_messages_and_all_its_times():
    asked = question(100, 110)
    answer = response(150, 170, asked)
    assert Exchanges(Limits()).of(answer) == [
        Exchange(asked, answer, "ok", latency_ns=40, total_ns=70, queue_ns=0, work_ns=40)
    ]


def test_an_answer_in_several_parts_ends_with_the_last_one():
    asked = question(100, 110)
    first = response(150, 160)
    last = response(180, 190, asked)
    asked.answer = first
    assert Exchanges(Limits()).of(last) == [Exchange(asked, first, "ok", 40, 90, 0, 40)]


def test_an_answer_in_the_nanosecond_of_its_request_took_no_time():
    asked = question(100, 110)
    answer = response(110, 110, asked)
    assert Exchanges(Limits()).of(answer) == [Exchange(asked, answer, "ok", 0, 10, 0, 0)]


@pytest.mark.parametrize(("status", "told"), [(None, "unanswered"), ("lost", "lost")])
def test_a_request_that_gets_no_answer_any_more_ends_with_the_message_that_shows_it(status, told):
    asked = question(100, 110, status=status)
    later = Message(frame(Side.SERVER, 150, 170), "toy", "P", "push", resolved=(asked,))
    assert Exchanges(Limits()).of(later) == [Exchange(asked, None, told, ended_ns=150)]


def test_a_message_that_ends_several_requests_gives_an_exchange_of_each_in_their_order():
    given_up, asked = question(90, 95), question(100, 110)
    answer = response(150, 170, asked)
    answer.resolved = (given_up, asked)
    assert Exchanges(Limits()).of(answer) == [
        Exchange(given_up, None, "unanswered", ended_ns=150),
        Exchange(asked, answer, "ok", 40, 70, 0, 40),
    ]


@pytest.mark.parametrize(
    ("link", "in_order", "queue_ns", "work_ns"),
    [("answer", True, 50, 10), ("answer", False, None, 60), ("settlement", True, None, None)],
)
def test_only_requests_that_are_answered_in_order_queue(link, in_order, queue_ns, work_ns):
    exchanges = Exchanges(Limits())
    exchanges.of(response(150, 170, question(100, 100)))
    asked = replace(question(110, 120), link=link, in_order=in_order)
    answer = response(180, 190, asked)
    assert exchanges.of(answer) == [Exchange(asked, answer, "ok", 60, 80, queue_ns, work_ns)]


def test_a_settlement_makes_nobody_wait():
    exchanges = Exchanges(Limits())
    exchanges.of(response(150, 170, replace(question(100, 100), link="settlement")))
    (done,) = exchanges.of(response(180, 190, question(110, 120)))
    assert done.queue_ns == 0


def test_a_request_that_was_sent_after_the_answer_before_did_not_queue():
    exchanges = Exchanges(Limits())
    exchanges.of(response(150, 170, question(100, 100)))
    asked = question(171, 172)
    answer = response(180, 190, asked)
    assert exchanges.of(answer) == [Exchange(asked, answer, "ok", 8, 19, 0, 8)]


def test_an_answer_before_the_one_that_it_queued_behind_is_no_work():
    exchanges = Exchanges(Limits())
    exchanges.of(response(150, 170, question(100, 100)))
    asked = question(100, 110)
    answer = response(150, 190, asked)
    assert exchanges.of(answer) == [Exchange(asked, answer, "ok", 40, 90, 60, 0)]


def test_a_question_queues_behind_the_answer_before_its_own():
    exchanges = Exchanges(Limits())
    exchanges.of(response(150, 170, question(100, 100)))
    (done,) = exchanges.of(response(180, 190, question(110, 120)))
    assert done.queue_ns == 50


def test_an_answer_older_than_its_question_has_no_times():
    answer = response(90, 95, question(100, 110))
    (done,) = Exchanges(Limits()).of(answer)
    assert (done.latency_ns, done.total_ns) == (None, None)


@pytest.mark.parametrize(
    ("more", "first", "work"),
    [
        ({}, 150, 40),
        ({"wait_limit_ns": 30, "held": False}, 150, 40),
        ({"wait_limit_ns": 30, "held": True}, 150, 10),  # beyond its limit it did not wait
        ({"wait_limit_ns": 40, "held": True}, 150, None),
        ({"in_order": False}, 150, 40),
        ({}, 90, None),  # a clock that stepped back
    ],
)
def test_work_is_latency_without_the_wait(more, first, work):
    (done,) = Exchanges(Limits()).of(response(first, first, question(100, 110, **more)))
    assert done.work_ns == work


@pytest.mark.parametrize(("more", "work"), [({}, 10), ({"wait_limit_ns": 4, "held": True}, 6)])
def test_work_is_latency_without_the_queue(more, work):
    exchanges = Exchanges(Limits())
    exchanges.of(response(150, 170, question(100, 100)))
    (done,) = exchanges.of(response(180, 190, question(110, 120, **more)))
    assert done.work_ns == work


def test_what_a_client_does_with_a_delivered_message_is_no_work_of_the_broker():
    settled = replace(question(100, 110), link="settlement")
    (done,) = Exchanges(Limits()).of(response(150, 150, settled))
    assert (done.latency_ns, done.work_ns) == (40, None)


def test_errors_make_the_status():
    (done,) = Exchanges(Limits()).of(response(150, 150, question(100, 100), error_count=1))
    assert done.status == "error"
    (done,) = Exchanges(Limits()).of(response(150, 150, question(100, 100, status="partial"), error_count=1))
    assert done.status == "partial"


def test_an_answer_to_nothing_is_unasked():
    (done,) = Exchanges(Limits()).of(response(150, 150))
    assert (done.status, done.pending) == ("unasked", None)


@pytest.mark.parametrize(("kind", "status"), [("oneway", "oneway"), ("request", "lost")])
def test_a_request_that_opened_no_question_is_an_exchange_of_its_own(kind, status):
    message = Message(frame(Side.CLIENT, 1, 1), "toy", "R", kind)
    (done,) = Exchanges(Limits()).of(message)
    asked = done.pending
    assert done == Exchange(asked, None, status)
    assert (asked.key, asked.link, asked.frame, asked.message, asked.status) == (
        *(None, "answer", message.frame, message, status),
    )


def test_a_request_that_opened_a_question_is_no_exchange_yet():
    asked = question(1, 1)
    delivered = Pending("m", "settlement", asked.frame)
    message = Message(asked.frame, "toy", "R", "request", pending=(delivered, asked))
    assert Exchanges(Limits()).of(message) == []


def test_a_message_that_only_opened_a_settlement_asked_for_no_answer():
    message = Message(frame(Side.CLIENT, 1, 1), "toy", "R", "oneway")
    message.pending = (Pending("m", "settlement", message.frame),)
    assert [done.status for done in Exchanges(Limits()).of(message)] == ["oneway"]


def test_an_answer_without_a_request_is_no_exchange_of_one():
    answer = response(150, 150)
    assert Exchanges(Limits()).of(answer) == [Exchange(None, answer, "unasked")]
    answered = response(150, 150)
    answered.answers = 1
    assert Exchanges(Limits()).of(answered) == []


def test_a_push_is_no_exchange():
    assert Exchanges(Limits()).of(Message(frame(Side.SERVER, 1, 1), "toy", "P", "push")) == []


@pytest.mark.parametrize(
    ("more", "left", "status"),
    [
        ({"expects": 0}, {}, "oneway"),
        ({}, {"seen": (True, False)}, "unseen"),
        ({}, {"gaps": (0, 1)}, "lost"),
        ({"gaps_before": 1}, {"gaps": (0, 1)}, "unanswered"),
        ({}, {"open_at_end": True}, "pending"),
        ({}, {}, "unanswered"),
    ],
)
def test_an_open_question_says_why(more, left, status):
    assert Exchanges(Limits()).rest(question(1, 1, **more), **(END | left)).status == status


# ---- settlements


def settled(command: Pending) -> Pending:
    """A delivery that the message of this command settled."""
    delivery = Pending("m", "settlement", frame(Side.SERVER, 10, 20), awaits=command)
    delivery.answer = delivery.last_answer = Message(command.frame, "toy", "ACK", "oneway")
    return delivery


REFUSED = Message(frame(Side.SERVER, 150, 150), "toy", "R", "response", error_count=1)
TAKEN = Message(frame(Side.SERVER, 150, 150), "toy", "R", "response", error_count=0)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ({"expects": 0, "status": "oneway"}, "ok"),
        ({"expects": 0, "status": "error", "answer": REFUSED}, "error"),
        ({"answer": TAKEN}, "ok"),
        ({"answer": REFUSED}, "error"),
        ({"answer": REFUSED, "status": "partial"}, "partial"),
        ({"status": "lost"}, "lost"),
        ({"status": "unanswered"}, "unanswered"),
    ],
)
def test_a_settlement_is_what_the_answer_to_its_command_says(command, status):
    delivery = settled(question(100, 110, **command))
    later = Message(frame(Side.SERVER, 150, 150), "toy", "R", "push", resolved=(delivery,))
    (done,) = Exchanges(Limits()).of(later)
    assert (done.status, done.latency_ns, done.answer.name) == (status, 80, "ACK")


def test_what_a_dissector_says_of_a_settlement_goes_before_its_command():
    delivery = settled(question(100, 110, answer=TAKEN))
    delivery.status = "unanswered"
    (done,) = Exchanges(Limits()).of(Message(frame(Side.SERVER, 150, 150), "toy", "R", "push", resolved=(delivery,)))
    assert done.status == "unanswered"


@pytest.mark.parametrize(
    ("expects", "left", "status"),
    [
        (0, {}, "ok"),
        (0, {"gaps": (0, 1)}, "ok"),
        (0, {"open_at_end": True}, "pending"),
        (1, {}, "unanswered"),
        (1, {"open_at_end": True}, "pending"),
        (1, {"gaps": (0, 1)}, "lost"),
    ],
)
def test_a_settlement_that_nobody_refused_by_the_end_says_whether_that_tells(expects, left, status):
    delivery = settled(question(100, 110, expects=expects))
    done = Exchanges(Limits()).rest(delivery, **(END | left))
    assert (done.status, done.latency_ns) == (status, 80)


def produce(pending: Pending, count: int = 1) -> tuple[Message, RecordBatch]:
    batch = RecordBatch(b"ab", count)
    return Message(pending.frame, "toy", "P", "request", records=(batch,), pending=(pending,)), batch


def test_records_wait_for_the_answer_of_their_question():
    exchanges, pending = Exchanges(Limits()), question(1, 1)
    message, batch = produce(pending)
    assert list(exchanges.records_of(message, [])) == []
    pending.status = "ok"
    answer = response(2, 2, pending)
    assert list(exchanges.records_of(answer, exchanges.of(answer))) == [(message, batch)]
    assert batch.constant["ack"] == "acked"


@pytest.mark.parametrize(("errors", "ack"), [(1, "failed"), (0, "acked")])
def test_the_answer_tells_the_ack(errors, ack):
    exchanges, pending = Exchanges(Limits()), question(1, 1)
    message, batch = produce(pending)
    list(exchanges.records_of(message, []))
    answer = response(2, 2, pending, error_count=errors)
    list(exchanges.records_of(answer, exchanges.of(answer)))
    assert batch.constant["ack"] == ack


def test_records_of_a_question_without_answer_go_out_at_once():
    message, batch = produce(question(1, 1, expects=0))
    assert list(Exchanges(Limits()).records_of(message, [])) == [(message, batch)]
    assert batch.constant["ack"] == "none"


@pytest.mark.parametrize("limit", ["records_wait_max", "records_wait_size"])
def test_records_that_wait_too_many_go_out_without_their_answer(limit):
    exchanges = Exchanges(replace(Limits(), **{limit: 3}))
    first, second = produce(question(1, 1), 2), produce(question(2, 2), 2)
    assert list(exchanges.records_of(first[0], [])) == []
    ((message, batch),) = exchanges.records_of(second[0], [])
    assert (message, batch.count, batch.data) == (first[0], 2, b"ab")
    assert "ack" not in batch.constant
    assert (first[1].data, first[1].count) == (b"", 0)  # which a dissector may keep until the answer
    first[1].columns["offset"] = range(2)
    first[1].constant["ack"] = "acked"
    assert (batch.columns, batch.constant) == ({}, {}), "what went out is final"


@pytest.mark.parametrize("limit", ["records_wait_max", "records_wait_size"])
def test_as_many_records_as_may_wait_do(limit):
    exchanges = Exchanges(replace(Limits(), **{limit: 2}))
    assert list(exchanges.records_of(produce(question(1, 1), 2)[0], [])) == []  # two records, of two bytes


def test_records_that_go_out_make_room_for_others():
    exchanges = Exchanges(replace(Limits(), records_wait_max=2))
    for number in range(3):
        pending = question(number, number)
        message, _ = produce(pending, 2)
        assert list(exchanges.records_of(message, [])) == []
        assert (exchanges.state_size, len(exchanges.waiting)) == (2, 1)
        answer = response(number, number, pending)
        assert len(list(exchanges.records_of(answer, exchanges.of(answer)))) == 1
        assert (exchanges.state_size, len(exchanges.waiting)) == (0, 0)


def test_records_are_unseen_when_the_connection_ends_first():
    exchanges, pending = Exchanges(Limits()), question(1, 1)
    message, batch = produce(pending)
    list(exchanges.records_of(message, []))
    rest = exchanges.rest(pending, open_at_end=True, seen=(True, True), gaps=(0, 0))
    assert list(exchanges.settled(rest)) == [(message, batch)]
    assert batch.constant["ack"] == "unseen"


def cut(holes: tuple[tuple[int, int], ...] = (), unread: int = 0) -> Frame:
    """An answer of 20 bytes of which the first 8 can be read."""
    return replace(frame(Side.SERVER, 150, 150), size=20, data=bytes(8), holes=holes, unread=unread)


@pytest.mark.parametrize(
    ("place", "said", "status"),
    [
        (cut(), {}, "unanswered"),  # the rest was never sent
        (cut(), {"error_count": 0, "judged": True}, "unanswered"),
        (cut(), {"error_count": 1}, "error"),
        (cut(((8, 12),)), {"error_count": 0}, "unanswered"),
        (cut(((8, 20),)), {}, "lost"),
        (cut(((8, 12),), 8), {}, "lost"),
        (cut(((8, 8),), 4), {}, "lost"),  # a loss of unknown length
        (cut(((8, 20),)), {"error_count": 0}, "ok"),
        (cut(((8, 20),)), {"judged": True}, "ok"),
        (cut(((8, 20),)), {"error_count": 0, "judged": False}, "lost"),
        (cut(unread=12), {"judged": False}, "unseen"),  # a limit
        (cut(unread=12), {"error_count": 0}, "ok"),
        (frame(Side.SERVER, 150, 150), {}, "ok"),
        (frame(Side.SERVER, 150, 150), {"judged": False}, "unseen"),
    ],
)
def test_an_answer_is_ok_when_all_that_tells_success_was_read(place, said, status):
    answer = response(150, 150, question(100, 110), **said)
    answer.frame = place
    (done,) = Exchanges(Limits()).of(answer)
    assert (done.status, done.answer) == (status, answer)


def test_an_answer_that_the_end_of_the_capture_cuts_is_pending():
    exchanges, answer = Exchanges(Limits()), response(150, 150, question(100, 110), error_count=0)
    answer.frame, exchanges.capture_ended = cut(), True
    assert [done.status for done in exchanges.of(answer)] == ["pending"]


def test_records_are_acked_by_no_answer_that_was_cut():
    exchanges, pending = Exchanges(Limits()), question(1, 1)
    message, batch = produce(pending)
    list(exchanges.records_of(message, []))
    answer = response(2, 2, pending)
    answer.frame = cut()
    list(exchanges.records_of(answer, exchanges.of(answer)))
    assert batch.constant["ack"] == "unseen"


@pytest.mark.parametrize(("seen", "status"), [((True, True), "ok"), ((True, False), "unseen"), ((False, True), "ok")])
def test_a_settlement_is_not_known_to_hold_where_its_refusal_could_not_be_seen(seen, status):
    delivery = settled(question(100, 110, expects=0))
    assert Exchanges(Limits()).rest(delivery, **(END | {"seen": seen})).status == status


def test_a_request_that_is_open_at_the_end_has_no_times_and_keeps_a_status_that_it_has():
    asked = question(1, 1)
    assert Exchanges(Limits()).rest(asked, **END) == Exchange(asked, None, "unanswered")
    assert asked.status == "unanswered"
    known = question(1, 1, status="lost")
    assert Exchanges(Limits()).rest(known, **(END | {"open_at_end": True})) == Exchange(known, None, "lost")


def test_records_of_a_request_that_has_ended_or_that_nobody_knows_go_out_at_once():
    for status in ("ok", None):
        pending = question(1, 1, status=status)
        message, batch = produce(pending)
        if status is None:
            message.pending = ()
        exchanges = Exchanges(Limits())
        assert exchanges.records_of(message, []) == [(message, batch)]
        assert (batch.constant, exchanges.waiting) == ({}, {})


def test_an_ack_that_the_dissector_told_stays():
    message, batch = produce(question(1, 1, expects=0))
    batch.constant["ack"] = "failed"
    Exchanges(Limits()).records_of(message, [])
    assert batch.constant == {"ack": "failed"}
    exchanges, pending = Exchanges(Limits()), question(1, 1)
    message, batch = produce(pending)
    exchanges.records_of(message, [])
    batch.constant["ack"] = "failed"
    answer = response(2, 2, pending)
    assert exchanges.records_of(answer, exchanges.of(answer)) == [(message, batch)]
    assert batch.constant == {"ack": "failed"}


@pytest.mark.parametrize(
    ("status", "ack"),
    [("ok", "acked"), ("partial", "acked"), ("error", "failed"), ("oneway", "none"), ("lost", "unseen")],
)
def test_every_status_of_a_request_is_an_ack_of_its_records(status, ack):
    exchanges, pending = Exchanges(Limits()), question(1, 1)
    message, batch = produce(pending)
    exchanges.records_of(message, [])
    assert exchanges.settled(Exchange(pending, None, status)) == [(message, batch)]
    assert (batch.constant, exchanges.settled(Exchange(None, message, "unasked"))) == ({"ack": ack}, [])


def test_a_batch_that_went_out_early_is_emptied_of_all_that_takes_memory():
    exchanges = Exchanges(replace(Limits(), records_wait_max=1))
    message, _ = produce(question(1, 1), 2)
    whole = RecordBatch(b"ab", 2, {"topic": "t"}, {"offset": [1]}, ([0], [1]), ([1], [2]), [[]], lambda: None)
    message.records = (whole,)
    ((_, gone),) = exchanges.records_of(message, [])
    assert gone == RecordBatch(
        b"ab", 2, {"topic": "t"}, {"offset": [1]}, ([0], [1]), ([1], [2]), [[]], gone.header_spans
    )
    assert whole == RecordBatch(b"", 0)
    assert (exchanges.state_size, exchanges.waiting) == (0, {})
