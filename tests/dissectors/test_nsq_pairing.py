"""Questions and answers on an NSQ connection: replies in order, failures without a reply, the end of deliveries."""

from __future__ import annotations

from typing import Any

import pytest
from nsqcraft import CLOSE_WAIT, HEARTBEAT, MAGIC, OK, auth, dpub, error, identify, line, message, mpub, negotiated, pub

from mqsniff.decode.exchanges import Exchanges
from mqsniff.limits import Limits
from mqsniff.model import Exchange, Frame, Message, Pending, Side
from mqsniff.testing.conversations import STEP_NS, Say, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_nsq import Nsq
from mqsniff_nsq.session import Deliveries

ONE, TWO = "18a2f48040acf000", "18a2f48040acf001"
OPENING = client(MAGIC, line("SUB", "t", "c"))


def replies(*dialogue: Say, holes: tuple[list, list] = ([], []), limits: Limits | None = None) -> list[tuple[Any, ...]]:
    """(command, what it is about, status, answer) of every command that was asked, in their order."""
    driver = Driver(Nsq, limits).run(chunks(dialogue, holes=holes))
    pending = [a for m in driver.messages for a in m.pending if a.link == "answer"]
    return [(a.context.name, a.context.about, a.status, _answer(a)) for a in pending]


def _answer(pending: Pending) -> str | None:
    if pending.answer is None:
        return None
    return pending.answer.error_name or str(pending.answer.body.get("data", "JSON"))


def test_replies_belong_to_commands_in_their_order_whatever_comes_between():
    assert replies(
        client(MAGIC, identify()),
        server(negotiated()),
        client(line("SUB", "t", "c"), line("RDY", "2"), pub("t", b"x"), mpub("t", b"y")),
        server(OK, message(ONE, b""), HEARTBEAT, OK, message(TWO, b""), OK),
        client(line("FIN", ONE), dpub("t", 1, b"z"), line("CLS")),
        server(OK, CLOSE_WAIT),
    ) == [
        ("MAGIC", None, "oneway", None),
        ("IDENTIFY", None, None, "JSON"),
        ("SUB", None, None, "OK"),
        ("RDY", "2", "oneway", None),
        ("PUB", None, None, "OK"),
        ("MPUB", None, None, "OK"),
        ("FIN", ONE, "oneway", None),
        ("DPUB", None, None, "OK"),
        ("CLS", None, None, "CLOSE_WAIT"),
    ]


FAILURES = [
    ([line("FIN", ONE)], f"E_FIN_FAILED FIN {ONE} failed ID not in flight", 0),
    ([line("REQ", ONE, "0")], f"E_REQ_FAILED REQ {ONE} failed ID not in flight", 0),
    ([line("TOUCH", ONE)], f"E_TOUCH_FAILED TOUCH {ONE} failed ID not in flight", 0),
    ([line("FIN", TWO), line("FIN", ONE), line("NOP")], f"E_FIN_FAILED FIN {ONE} failed ID not in flight", 1),
    ([line("RDY", "1"), line("RDY", "2501")], "E_INVALID RDY count 2501 out of range 0-2500", 1),
    ([line("RDY", "1"), line("RDY", "many")], "E_INVALID RDY could not parse count many", 1),
    ([line("FIN", ONE), line("FIN", "abc")], "E_INVALID invalid message ID", 1),
    ([line("RDY", "1"), pub("t", b"x")], "E_BAD_MESSAGE PUB message too big 2000 > 1024", 1),
    ([line("NOP"), mpub("b!", b"x")], 'E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "b!" is not valid', 1),
    ([line("RDY", "1"), pub("t", b"x")], "E_AUTH_FIRST AUTH required before PUB", 1),
    ([line("RDY", "1"), pub("t", b"x")], 'E_UNAUTHORIZED AUTH failed for PUB on "t" ""', 1),
    ([line("RDY", "1"), pub("t", b"x")], "E_AUTH_FAILED AUTH failed", 1),
    ([auth(b"s")], "E_AUTH_FAILED AUTH failed", 0),
    ([auth(b"s")], "E_UNAUTHORIZED AUTH no authorizations found", 0),
    ([line("SUB", "t", "c")], "E_TOO_MANY_CHANNEL_CONSUMERS channel consumers for t:c exceeds limit of 1", 0),
    ([line("SUB", "t", "c")], "E_SUB_FAILED SUB failed consumers for t:c exceeds limit of 1", 0),
    ([line("CLS")], "E_INVALID cannot CLS in current state", 0),
    ([line("RDY", "1"), line("HELLO")], "E_INVALID invalid command HELLO", 1),
    ([b"\n"], "E_INVALID invalid command ", 0),
]


@pytest.mark.parametrize(("commands", "text", "answered"), FAILURES, ids=[row[1] for row in FAILURES])
def test_an_error_belongs_to_the_command_that_it_speaks_of(commands, text, answered):
    rows = replies(client(MAGIC), client(*commands), server(error(text)))[1:]
    code = text.split()[0]
    assert [(status, answer) for _, _, status, answer in rows[: answered + 1]] == [
        *[("oneway", None)] * answered,
        ("error", code),
    ]


def test_a_bad_opening_is_what_the_server_refuses():
    assert replies(client(b"  V9"), server(error("E_BAD_PROTOCOL"))) == [("MAGIC", None, "error", "E_BAD_PROTOCOL")]


def test_of_two_settlements_of_one_message_the_one_that_ended_nothing_failed():
    rows = replies(
        OPENING,
        server(OK, message(ONE, b"")),
        client(line("FIN", ONE), line("FIN", ONE)),
        server(error(f"E_FIN_FAILED FIN {ONE} failed ID not in flight")),
    )
    assert [status for name, _, status, _ in rows if name == "FIN"] == ["oneway", "error"]


def test_a_command_that_is_refused_while_its_body_is_on_the_way_has_failed():
    big = pub("t", b"x" * 3000)
    rows = replies(
        client(MAGIC, big[:500]), server(error("E_BAD_MESSAGE PUB message too big 3000 > 1024")), client(big[500:])
    )
    assert rows[1] == ("PUB", None, "error", None)


def test_an_error_about_nothing_that_was_asked_is_unasked():
    driver = Driver(Nsq).run(chunks([OPENING, server(OK, error(f"E_FIN_FAILED FIN {ONE} failed ID not in flight"))]))
    assert driver.messages[-1].answers == 0
    assert [a.status for m in driver.messages for a in m.pending] == ["oneway", None]


def test_an_unknown_command_takes_no_reply_from_a_known_one():
    rows = replies(client(MAGIC, line("NEW", "thing"), pub("t", b"x")), server(OK))
    assert rows[1:] == [("unknown", None, "oneway", None), ("PUB", None, None, "OK")]


def test_old_settlements_end_when_more_than_the_cap_stand_open():
    fins = [line("FIN", f"{n:016x}") for n in range(5)]
    rows = replies(OPENING, server(OK), client(*fins), limits=Limits(unanswered_max=2))
    assert [status for _, _, status, _ in rows[2:]] == ["oneway", "oneway", "oneway", None, None]


# ---- with losses


def test_a_lost_reply_leaves_its_command_unanswered_and_the_next_finds_its_own():
    dialogue = [
        client(MAGIC, pub("t", b"1")),
        server(OK),
        client(pub("t", b"2")),
        server(OK),
        client(pub("t", b"3")),
        server(OK),
    ]
    assert [row[2:] for row in replies(*dialogue, holes=([], [(10, 20)]))[1:]] == [
        (None, "OK"),
        ("lost", None),
        (None, "OK"),
    ]


def test_a_lost_heartbeat_is_not_taken_for_a_reply():
    dialogue = [
        client(MAGIC, pub("t", b"1")),
        server(OK),
        server(HEARTBEAT),
        client(pub("t", b"2")),
        server(OK),
        server(OK),
    ]
    assert [row[2:] for row in replies(*dialogue, holes=([], [(10, 29)]))[1:]] == [(None, "OK"), (None, "OK")]


def test_a_reply_that_names_its_command_needs_no_count_of_what_was_lost():
    dialogue = [OPENING, server(OK), client(pub("t", b"1"), line("CLS")), server(OK), server(CLOSE_WAIT)]
    assert [row[2:] for row in replies(*dialogue, holes=([], [(10, 20)]))[2:]] == [("lost", None), (None, "CLOSE_WAIT")]


def test_a_client_that_waits_for_each_reply_stays_paired_behind_a_loss_of_its_own():
    bodies = [pub("t", b"x" * 40) for _ in range(4)]
    dialogue = [say for body in bodies for say in (client(body), server(OK))]
    size = len(bodies[0])
    driver = Driver(Nsq).run(chunks([client(MAGIC), *dialogue], holes=([(4 + size, 4 + 2 * size)], [])))
    pending = {a.frame.offset: a.answer.frame.offset for m in driver.messages for a in m.pending if a.answer}
    assert pending == {4: 0, 4 + 2 * size: 20, 4 + 3 * size: 30}


# ---- deliveries


def test_what_a_consumer_does_is_about_its_channel_and_what_it_publishes_is_not():
    dialogue = [
        client(MAGIC, identify()),
        server(negotiated()),
        client(line("SUB", "t", "c"), line("RDY", "2"), pub("t", b"x")),
        server(OK, OK, message(ONE, b""), HEARTBEAT),
        client(line("NOP"), line("FIN", TWO), line("CLS")),
        server(error(f"E_FIN_FAILED FIN {TWO} failed ID not in flight"), CLOSE_WAIT),
    ]
    messages = Driver(Nsq).run(chunks(dialogue)).messages
    assert [(m.name, m.group) for m in messages if m.group is None] == [
        ("MAGIC", None),
        ("IDENTIFY", None),
        ("RESPONSE", None),
        ("PUB", None),
        ("RESPONSE", None),
    ]
    assert {m.group for m in messages} == {None, "c"}


def settlements(*dialogue: Say) -> list[tuple[Any, ...]]:
    driver = Driver(Nsq).run(chunks([OPENING, server(OK), *dialogue]))
    pending = [a for m in driver.messages for a in m.pending if a.link == "settlement"]
    return [(a.key[1].decode(), a.status, a.answer and a.answer.name, a.extra) for a in pending]


def test_a_delivery_is_settled_by_the_fin_or_req_of_its_id():
    assert settlements(
        client(line("RDY", "5")),
        server(message(ONE, b""), message(TWO, b"", attempts=3)),
        client(line("TOUCH", TWO), line("FIN", ONE), line("TOUCH", TWO), line("REQ", TWO, "0")),
    ) == [
        (ONE, None, "FIN", {"attempts": 1, "touches": 0, "in_flight": 1, "credit": 5, "settled_by": "FIN"}),
        (TWO, None, "REQ", {"attempts": 3, "touches": 2, "in_flight": 2, "credit": 5, "settled_by": "REQ"}),
    ]


def test_a_message_that_comes_again_unsettled_has_timed_out():
    rows = settlements(server(message(ONE, b""), message(ONE, b"", attempts=2)), client(line("FIN", ONE)))
    assert [(status, name, extra["in_flight"]) for _, status, name, extra in rows] == [
        ("unanswered", None, 1),
        (None, "FIN", 1),
    ]


def test_a_message_that_comes_again_after_req_is_a_delivery_of_its_own():
    rows = settlements(
        server(message(ONE, b"")),
        client(line("REQ", ONE, "0")),
        server(message(ONE, b"", attempts=2)),
        client(line("FIN", ONE)),
    )
    assert [(status, name) for _, status, name, _ in rows] == [(None, "REQ"), (None, "FIN")]


def test_a_delivery_that_nobody_settles_stays_open():
    driver = Driver(Nsq).run(chunks([OPENING, server(OK, message(ONE, b""))]))
    assert [a.link for a in driver.dissector.unanswered()] == ["settlement"]


def test_touch_and_settlements_of_other_messages_end_nothing():
    rows = settlements(server(message(ONE, b"")), client(line("TOUCH", ONE), line("FIN", TWO), line("REQ", TWO, "0")))
    assert [(status, name, extra["touches"]) for _, status, name, extra in rows] == [(None, None, 1)]


def test_open_deliveries_are_bounded():
    limits = Limits(pending_max=3)
    ids = [f"{n:016x}" for n in range(10)]
    dialogue = [
        client(MAGIC, line("SUB", "t", "c")),
        server(*[message(n, b"") for n in ids]),
        client(*[line("FIN", n) for n in ids]),
    ]
    driver = Driver(Nsq, limits).run(chunks(dialogue))
    assert [problem for problem in driver.problems if problem.kind == "internal"] == []
    assert max(a.extra["in_flight"] for m in driver.messages for a in m.pending if a.extra) <= 3


# ---- settlements that may be refused

NOT_IN_FLIGHT = "failed ID not in flight"


def ended(*dialogue: Say, holes: tuple[list, list] = ([], []), limits: Limits | None = None) -> list[tuple[Any, ...]]:
    """(id, status, settled_by, timed_out, error, what ended it) of each delivery, as its exchange says it."""
    driver = Driver(Nsq, limits).run(chunks(dialogue, holes=holes))
    exchanges = Exchanges(limits or Limits())
    done: list[tuple[Message | None, Exchange]] = [
        (message, exchange) for message in driver.messages for exchange in exchanges.of(message)
    ]
    gaps = driver.dissector.gaps_of(Side.CLIENT), driver.dissector.gaps_of(Side.SERVER)
    left = driver.dissector.unanswered()
    done += [(None, exchanges.rest(pending, open_at_end=True, seen=(True, True), gaps=gaps)) for pending in left]
    return [_settled(message, each) for message, each in done if each.pending and each.pending.link == "settlement"]


def _settled(message: Message | None, exchange: Exchange) -> tuple[Any, ...]:
    pending, extra = exchange.pending, exchange.pending.extra
    told = pending.awaits.answer.error_name if pending.awaits and pending.awaits.answer else None
    by = message and message.name
    return pending.key[1].decode(), exchange.status, extra.get("settled_by"), extra.get("timed_out"), told, by


def subscribed(timeout_steps: int | None = None) -> list[Say]:
    """A consumer that has subscribed; what its messages may take, in steps of the dialogue."""
    told = negotiated() if timeout_steps is None else negotiated(msg_timeout=timeout_steps * STEP_NS // 1_000_000)
    return [client(MAGIC, identify()), server(told), client(line("SUB", "t", "c")), server(OK)]


def test_a_settlement_that_is_refused_is_an_error_with_its_code():
    rows = ended(
        *subscribed(),
        server(message(ONE, b""), message(TWO, b"")),
        client(line("FIN", ONE), line("REQ", TWO, "0")),
        server(error(f"E_FIN_FAILED FIN {ONE} {NOT_IN_FLIGHT}"), error(f"E_REQ_FAILED REQ {TWO} {NOT_IN_FLIGHT}")),
    )
    assert rows == [
        (ONE, "error", "FIN", None, "E_FIN_FAILED", "ERROR"),
        (TWO, "error", "REQ", None, "E_REQ_FAILED", "ERROR"),
    ]


def test_a_refused_settlement_of_a_delivery_whose_time_was_over_says_so():
    rows = ended(
        *subscribed(timeout_steps=2),
        server(message(ONE, b"")),
        client(line("NOP")),
        client(line("FIN", ONE)),
        server(error(f"E_FIN_FAILED FIN {ONE} {NOT_IN_FLIGHT}")),
    )
    assert rows == [(ONE, "error", "FIN", True, "E_FIN_FAILED", "ERROR")]


def test_a_settlement_is_true_once_a_later_command_was_answered():
    rows = ended(
        *subscribed(), server(message(ONE, b"")), client(line("FIN", ONE)), client(line("CLS")), server(CLOSE_WAIT)
    )
    assert rows == [(ONE, "ok", "FIN", None, None, "RESPONSE")]


def test_a_settlement_is_true_once_a_later_one_was_refused():
    rows = ended(
        *subscribed(),
        server(message(ONE, b""), message(TWO, b"")),
        client(line("FIN", ONE), line("FIN", TWO)),
        server(error(f"E_FIN_FAILED FIN {TWO} {NOT_IN_FLIGHT}")),
    )
    assert [row[:3] for row in rows] == [(ONE, "ok", "FIN"), (TWO, "error", "FIN")]


@pytest.mark.parametrize(("steps", "by"), [(3, "HEARTBEAT"), (4, None)])
def test_a_settlement_is_true_once_the_server_speaks_well_after_it(steps, by):
    rows = ended(
        *subscribed(),
        server(message(ONE, b"")),
        client(line("FIN", ONE)),
        client(line("NOP")),
        client(line("NOP")),
        client(line("NOP")),
        server(HEARTBEAT),
        limits=Limits(refusal_ns=steps * STEP_NS),
    )
    assert rows == [(ONE, "ok" if by else "pending", "FIN", None, None, by)]


def test_a_settlement_whose_refusal_may_have_been_lost_is_lost():
    refusal = error(f"E_FIN_FAILED FIN {ONE} {NOT_IN_FLIGHT}")
    dialogue = [
        client(MAGIC, line("SUB", "t", "c")),
        server(OK),
        server(message(ONE, b"")),
        client(line("FIN", ONE)),
        server(refusal),
        client(line("CLS")),
        server(CLOSE_WAIT),
    ]
    start = len(OK) + len(message(ONE, b""))
    rows = ended(*dialogue, holes=([], [(start, start + len(refusal))]))
    assert rows == [(ONE, "lost", "FIN", None, None, "RESPONSE")]


def test_many_settlements_at_once_find_their_late_refusals():
    many = [f"{n:016x}" for n in range(1500)]
    rows = ended(
        *subscribed(),
        server(*[message(one, b"") for one in many]),
        client(*[line("FIN", one) for one in many]),
        server(*[error(f"E_FIN_FAILED FIN {one} {NOT_IN_FLIGHT}") for one in many]),
    )
    assert [row[:2] for row in rows] == [(one, "error") for one in many]


def test_settlements_that_wait_for_a_refusal_are_bounded():
    many = [f"{n:016x}" for n in range(9)]
    rows = ended(
        *subscribed(),
        server(*[message(one, b"") for one in many]),
        client(*[line("FIN", one) for one in many]),
        limits=Limits(unanswered_max=2, refusals_max=4),
    )
    assert [(status, by) for _, status, _, _, _, by in rows] == [("ok", "FIN")] * 5 + [("pending", None)] * 4


def test_a_delivery_that_comes_again_says_that_its_time_ran_out():
    rows = ended(*subscribed(), server(message(ONE, b"")), server(message(ONE, b"", attempts=2)))
    assert rows[0] == (ONE, "unanswered", "timeout", True, None, "MESSAGE")
    assert rows[1][:4] == (ONE, "pending", None, None)


def test_a_delivery_that_comes_again_behind_a_loss_of_the_client_may_have_been_settled():
    requeued = line("REQ", ONE, "0")
    opening = MAGIC + line("SUB", "t", "c")
    dialogue = [
        client(opening),
        server(OK, message(ONE, b"")),
        client(requeued),
        client(line("NOP")),
        server(message(ONE, b"", attempts=2)),
    ]
    rows = ended(*dialogue, holes=([(len(opening), len(opening) + len(requeued))], []))
    assert rows[0] == (ONE, "lost", None, None, None, "MESSAGE")


def test_a_delivery_that_comes_again_in_spite_of_a_fin_was_not_settled_by_it():
    rows = ended(
        *subscribed(),
        server(message(ONE, b"")),
        client(line("FIN", ONE)),
        server(message(ONE, b"", attempts=2)),
        client(line("CLS")),
        server(CLOSE_WAIT),
    )
    assert rows[0] == (ONE, "unanswered", "FIN", True, None, "RESPONSE")


def test_a_delivery_that_nobody_settled_in_its_time_says_so_at_the_end():
    waits = [client(line("NOP"))] * 3
    assert ended(*subscribed(timeout_steps=3), server(message(ONE, b"")), *waits)[0][2:4] == ("timeout", True)
    assert ended(*subscribed(timeout_steps=4), server(message(ONE, b"")), *waits)[0][2:4] == (None, None)
    touched = [client(line("NOP")), client(line("TOUCH", ONE)), client(line("NOP"))]
    assert ended(*subscribed(timeout_steps=3), server(message(ONE, b"")), *touched)[0][2:4] == (None, None)


def test_a_refused_touch_extends_nothing():
    driver = Driver(Nsq).run(
        chunks(
            [
                *subscribed(timeout_steps=2),
                server(message(ONE, b"")),
                client(line("NOP")),
                client(line("TOUCH", ONE)),
                server(error(f"E_TOUCH_FAILED TOUCH {ONE} {NOT_IN_FLIGHT}")),
            ]
        )
    )
    (pending,) = [a for a in driver.dissector.unanswered() if a.link == "settlement"]
    assert (pending.extra["touches"], pending.extra["timed_out"]) == (0, True)


def test_of_two_settlements_of_a_delivery_whose_time_was_over_both_fail():
    rows = replies(
        *subscribed(timeout_steps=2),
        server(message(ONE, b"")),
        client(line("NOP")),
        client(line("FIN", ONE), line("FIN", ONE)),
        server(*[error(f"E_FIN_FAILED FIN {ONE} {NOT_IN_FLIGHT}")] * 2),
    )
    assert [status for name, _, status, _ in rows if name == "FIN"] == ["error", "error"]


def test_replies_find_their_commands_behind_many_settlements():
    many = [f"{n:016x}" for n in range(1500)]
    rows = replies(
        *subscribed(),
        server(*[message(one, b"") for one in many]),
        client(*[line("FIN", one) for one in many], pub("t", b"x")),
        server(OK),
    )
    assert rows[-1][2:] == (None, "OK")


def test_a_gap_inside_a_later_message_hides_no_refusal():
    first, second = message(ONE, b""), message(TWO, b"x" * 500)
    dialogue = [client(MAGIC, line("SUB", "t", "c")), server(OK, first), client(line("FIN", ONE)), server(second)]
    dialogue += [client(line("CLS")), server(CLOSE_WAIT)]
    start = len(OK) + len(first) + 100
    rows = ended(*dialogue, holes=([], [(start, start + 300)]))
    assert rows[0] == (ONE, "ok", "FIN", None, None, "RESPONSE")


def test_a_delivery_runs_out_at_the_latest_its_longest_time_after_it_however_often_it_was_extended():
    deliveries = Deliveries(10)
    pending = Pending("m", "settlement", Frame(Side.SERVER, 0, 1, b"x", 100, 100, 1, 1, 0))
    deliveries.add(b"id", 1, pending)
    assert not deliveries.has_run_out(pending, 1 << 60)
    deliveries.learn(2, 3)
    assert [deliveries.has_run_out(pending, 100 + at) for at in (1_999_999, 2_000_000)] == [False, True]
    deliveries.touch(b"id", 100 + 1_900_000)
    assert [deliveries.has_run_out(pending, 100 + at) for at in (2_999_999, 3_000_000)] == [False, True]
    deliveries.learn(2, None)
    assert [deliveries.has_run_out(pending, 100 + at) for at in (3_899_999, 3_900_000)] == [False, True]


def test_late_refusals_of_many_commands_find_them_among_those_that_were_answered():
    many = [f"18a2f48040acf{number:03x}" for number in range(9)]
    late = [server(error(f"E_FIN_FAILED FIN {each} failed ID not in flight")) for each in many]
    asked = [client(line("FIN", each)) for each in many]
    told = replies(OPENING, server(OK), *asked, *late, limits=Limits(refusals_max=2))
    assert [status for name, _, status, _ in told if name == "FIN"] == ["error"] * len(many)
