"""What nsqd says: its frames, their fields, and what they tell of the connection."""

from __future__ import annotations

import struct

import pytest
from nsqcraft import CLOSE_WAIT, HEARTBEAT, MAGIC, OK, error, frame, identify, line, message, negotiated, pub, response

from mqsniff.dissector import NEED, NO_FRAME
from mqsniff.model import Side, Undecoded
from mqsniff.testing.conversations import chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_nsq import Nsq, frames
from mqsniff_nsq.frames import TEXT_MAX

ID = "18a2f48040acf000"


def said(*parts: bytes) -> Driver:
    """A server that says this to a client that subscribed."""
    return Driver(Nsq).run(chunks([client(MAGIC), client(line("SUB", "orders", "billing")), server(*parts)]))


FRAMES = [
    (OK, "RESPONSE", "response", {"data": "OK"}, 0),
    (CLOSE_WAIT, "RESPONSE", "response", {"data": "CLOSE_WAIT"}, 0),
    (HEARTBEAT, "HEARTBEAT", "push", {"data": "_heartbeat_"}, None),
    (response(b"something new"), "RESPONSE", "response", {"data": "something new"}, 0),
    (response({"version": "1.3.0", "x": [1, None]}), "RESPONSE", "response", {"version": "1.3.0", "x": [1, None]}, 0),
    (response(b"{no json"), "RESPONSE", "response", {"data": Undecoded(b"{no json")}, 0),
    (
        error("E_INVALID cannot SUB in current state"),
        "ERROR",
        "response",
        {"code": "E_INVALID", "description": "cannot SUB in current state"},
        1,
    ),
    (error("E_BAD_PROTOCOL"), "ERROR", "response", {"code": "E_BAD_PROTOCOL", "description": ""}, 1),
    (
        message(ID, b"hello", 3, 1234567),
        "MESSAGE",
        "push",
        {"timestamp": 1234567, "attempts": 3, "message_id": ID, "body": {"size": 5}},
        None,
    ),
    (
        message(ID, b"", timestamp=-1),
        "MESSAGE",
        "push",
        {"timestamp": -1, "attempts": 1, "message_id": ID, "body": {"size": 0}},
        None,
    ),
    (frame(7, b"new"), "unknown(7)", "push", {"frame_type": 7, "data": Undecoded(b"new")}, None),
]


@pytest.mark.parametrize(("data", "name", "kind", "body", "errors"), FRAMES, ids=[str(row[3])[:30] for row in FRAMES])
def test_a_frame_has_its_fields(data, name, kind, body, errors):
    last = said(data).messages[-1]
    assert (last.name, last.kind, last.body, last.error_count) == (name, kind, body, errors)
    assert last.error_name == (body["code"] if name == "ERROR" else None)
    assert (last.frame.side, last.frame.size) == (Side.SERVER, len(data))


def test_a_delivery_carries_the_topic_and_channel_of_the_subscription():
    last = said(message(ID, b"hello")).messages[-1]
    assert (last.topics, last.group, last.correlation) == (("orders",), "billing", None)


def test_a_message_shorter_than_its_head_costs_one_frame():
    driver = said(frame(2, b"short"), OK)
    assert [problem.kind for problem in driver.problems] == ["malformed"]
    assert [skipped.length for skipped in driver.skipped] == [13]
    assert driver.messages[-1].name == "RESPONSE"


def test_an_odd_message_id_is_told():
    assert [problem.path for problem in said(message("NOT-HEX-AT-ALL!!", b"x")).problems] == ["message_id"]


@pytest.mark.parametrize("stop", [0, 7, 8, 9, 10, 25, 26, 30])
def test_a_message_with_a_hole_shows_as_much_of_its_head_as_there_is(stop):
    data = message(ID, b"0123456789")
    sub = line("SUB", "t", "c")
    events = chunks([client(MAGIC, sub), server(data), server(OK)], holes=([], [(8 + stop, len(data))]))
    last = Driver(Nsq).run(events).messages[2]
    kept = {name for name, needs in (("timestamp", 8), ("attempts", 10), ("message_id", 26)) if stop >= needs}
    assert set(last.body) == kept | {"body"}
    assert last.body["body"] == {"size": 10}
    (batch,) = last.records
    (first,), (end,) = batch.values
    assert batch.data[first:end] == b"0123456789"[: max(0, stop - 26)]


def test_a_word_whose_end_was_lost_is_still_that_word():
    events = chunks([client(MAGIC), client(pub("t", b"x")), server(OK), server(HEARTBEAT)], holes=([], [(9, 10)]))
    driver = Driver(Nsq).run(events)
    assert [(m.name, m.body) for m in driver.messages[2:]] == [
        ("RESPONSE", {"data": "OK"}),
        ("HEARTBEAT", {"data": "_heartbeat_"}),
    ]


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">ii", 3, 0),
        struct.pack(">ii", -1, 0),
        struct.pack(">ii", 100, -1),
        struct.pack(">ii", 2_000_000, 9),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x16\x03\x03\x00\x7a\x02\x00\x00",
    ],
)
def test_what_can_be_no_frame_is_searched_and_passed_over(head):
    driver = said(head, OK, OK)
    assert [m.name for m in driver.messages[2:]] == ["RESPONSE", "RESPONSE"]
    assert [skipped.length for skipped in driver.skipped] == [len(head)]


# ---- what it tells of the connection


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("E_BAD_MESSAGE PUB message too big 2000 > 1024", "too large"),
        ("E_BAD_BODY MPUB body too big 2000 > 1024", "too large"),
        ('E_UNAUTHORIZED AUTH failed for PUB on "t" ""', "authentication"),
        ("E_INVALID cannot CLS in current state", "protocol error"),
        ("E_PUB_FAILED PUB failed no disk", "server error"),
        ("E_FIN_FAILED FIN 18a2f48040acf000 failed ID not in flight", None),
        ("E_NEVER_HEARD_OF anything", None),
    ],
)
def test_an_error_that_closes_the_connection_is_the_cause_of_the_close(text, cause):
    assert said(error(text)).dissector.identity.close_reason == cause


@pytest.mark.parametrize("code", ["E_MSG_TOO_BIG", "E_TOO_MANY_CHANNEL_CONSUMERS"])
def test_codes_of_older_servers_are_known(code):
    assert said(error(f"{code} text")).problems == []


def test_a_code_that_nobody_knows_is_told():
    assert [problem.kind for problem in said(error("E_NEW text")).problems] == ["unknown_code"]


def test_the_answer_to_identify_tells_the_server():
    driver = Driver(Nsq).run(chunks([client(MAGIC), client(identify()), server(negotiated(version="1.2.1"))]))
    assert driver.dissector.identity.server_software == "nsqd 1.2.1"


def test_two_heartbeats_without_a_command_are_told_at_the_second():
    driver = said(OK, HEARTBEAT, HEARTBEAT, HEARTBEAT)
    beats = [[p.kind for p in m.problems] for m in driver.messages if m.name == "HEARTBEAT"]
    assert beats == [[], ["unmatched"], []]


def test_any_command_answers_a_heartbeat():
    sub, nop = client(MAGIC, line("SUB", "t", "c")), client(line("NOP"))
    driver = Driver(Nsq).run(chunks([sub, server(HEARTBEAT), nop, server(HEARTBEAT), nop, server(HEARTBEAT)]))
    assert driver.problems == []


@pytest.mark.parametrize(
    ("closes", "cause"), [((Side.SERVER, Side.CLIENT), "keepalive missed"), ((Side.CLIENT, Side.SERVER), None)]
)
def test_a_server_that_closes_behind_an_unanswered_heartbeat_missed_the_keepalive(closes, cause):
    dialogue = [client(MAGIC, line("SUB", "t", "c")), server(OK, HEARTBEAT)]
    assert Driver(Nsq).run(chunks(dialogue), closes).dissector.identity.close_reason == cause


def test_a_client_that_was_not_captured_misses_no_heartbeat():
    driver = Driver(Nsq).run(chunks([server(OK, HEARTBEAT, HEARTBEAT)]), (Side.SERVER, Side.CLIENT))
    assert driver.problems == []
    assert driver.dissector.identity.close_reason is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (struct.pack(">ii", 4 + 26 + 1, 2) + struct.pack(">qH", 1, 1) + b"0123456789abcdef" + b"x", 35),
        (struct.pack(">ii", 4 + 26 - 1, 2) + struct.pack(">qH", 1, 1) + b"0123456789abcde", NO_FRAME),
        (struct.pack(">ii", 4 + 26 + 1, 2) + struct.pack(">qH", 1, 1) + b"0123456789abcdeg" + b"x", NO_FRAME),
        (struct.pack(">ii", 4 + 26 + 1, 2) + struct.pack(">qH", 1, 1) + b"0123456789", NEED),
        (struct.pack(">ii", 4 + TEXT_MAX, 0) + b'{"a":', 8 + TEXT_MAX),
        (struct.pack(">ii", 4 + TEXT_MAX + 1, 0) + b'{"a":', NO_FRAME),
        (struct.pack(">ii", 4 + 2, 0) + b'{"', 10),
        (struct.pack(">ii", 4 + 2, 0) + b"{", NEED),
        (struct.pack(">ii", 4 + TEXT_MAX, 1) + b"E_INVALID cannot", 8 + TEXT_MAX),
        (struct.pack(">ii", 4 + TEXT_MAX + 1, 1) + b"E_INVALID cannot", NO_FRAME),
    ],
)
def test_a_search_takes_what_nsqd_can_send(data, expected):
    found = frames.probe(data)
    assert found is expected if expected in (NEED, NO_FRAME) else found == expected
