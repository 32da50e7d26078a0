"""Responses that a search finds after a loss, or on a connection that was joined in the middle: which are believed."""

from __future__ import annotations

import random
import struct

import kafkacraft as craft
import pytest
from kafkacraft import fetched, record_batch, request, response, sized

from mqsniff.model import Side
from mqsniff.testing.conversations import Say, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff.testing.laws import recut, told
from mqsniff_kafka import Kafka


def test_a_response_after_a_gap_must_answer_something():
    """Zeros and small numbers in record data look like a response; the open questions know better."""
    lookalike = b"".join(sized(struct.pack(">i", number)) for number in (50, 51))
    long = fetched(1, record_batch(b"x" * 50 + lookalike + b"y" * 40))
    dialogue = [
        client(request(craft.FETCH, 12, 1), request(craft.HEARTBEAT, 4, 2), request(craft.HEARTBEAT, 4, 3)),
        server(long, response(craft.HEARTBEAT, 4, 2), response(craft.HEARTBEAT, 4, 3)),
    ]
    driver = Driver(Kafka).run(chunks(dialogue, holes=((), [(0, 12)])))
    answers = [message for message in driver.messages if message.frame.side is Side.SERVER]
    assert [(message.name, message.correlation) for message in answers] == [("Heartbeat", "2"), ("Heartbeat", "3")]


def joined(*answers: bytes, ids: tuple[int, ...] = (100, 101)) -> list[tuple[str, str | None]]:
    """(name, id) of what a server says after a loss, on a connection that was joined in the middle."""
    said = [
        client(request(craft.HEARTBEAT, 4, ids[0]), request(craft.HEARTBEAT, 4, ids[1])),
        server(bytes(9), *answers),
    ]
    driver = Driver(Kafka, in_step=False).run(chunks(said))
    return [(message.name, message.correlation) for message in driver.messages if message.kind == "response"]


def test_a_response_after_a_loss_may_answer_a_request_from_before_it_that_is_near_by() -> None:
    answers = [response(craft.HEARTBEAT, 4, number) for number in (98, 99, 100, 101)]
    assert [number for _, number in joined(*answers)] == ["98", "99", "100", "101"]


@pytest.mark.parametrize("stray", [0, 35, 102, 131_345])
def test_what_looks_like_a_response_with_an_id_far_from_all_requests_is_passed_over(stray: int) -> None:
    strays = [response(craft.HEARTBEAT, 4, stray)] * 2
    assert joined(*strays, response(craft.HEARTBEAT, 4, 100)) == [("Heartbeat", "100")]


@pytest.mark.parametrize(("stray", "found"), [(90, []), (101, [("Heartbeat", "101")])])
def test_once_a_seen_request_was_answered_every_answer_found_is_to_a_seen_one(stray: int, found: list) -> None:
    first = response(craft.HEARTBEAT, 4, 100)
    said = [
        client(request(craft.HEARTBEAT, 4, 100), request(craft.HEARTBEAT, 4, 101)),
        server(first, b"lost", response(craft.HEARTBEAT, 4, stray)),
    ]
    holes: tuple[list, list] = ([], [(len(first), len(first) + 4)])
    driver = Driver(Kafka, in_step=False).run(chunks(said, holes=holes))
    answers = [(message.name, message.correlation) for message in driver.messages if message.kind == "response"]
    assert answers == [("Heartbeat", "100"), *found]


# ---- connections joined inside a message


def lookalikes(size: int) -> bytes:
    """Record data that looks like responses and requests all over: sizes, small numbers, zeros."""
    values = [
        bytes(40),
        sized(bytes(4)) * 3,
        struct.pack(">ihhih", 20, 0, 0, 0, 0) + bytes(10),
        struct.pack(">i", 8) * 5,
    ]
    return b"".join(record_batch(*values, base=base) for base in range(size))


def inside(dialogue: list[Say], cut: int) -> tuple[list[tuple[str, str | None]], list[tuple[str, str | None]]]:
    """What each side is told to have said whose first ``cut`` bytes, all of one side, were before the capture."""
    first, *rest = dialogue
    driver = Driver(Kafka, in_step=False).run(chunks([Say(first.side, first.data[cut:], 0), *rest]))
    told: tuple[list[tuple[str, str | None]], list[tuple[str, str | None]]] = ([], [])
    for message in driver.messages:
        told[message.frame.side].append((message.name, message.correlation))
    return told


LARGE = fetched(507, lookalikes(4))
NEXT = [
    client(request(craft.FETCH, 12, 508)),
    server(fetched(508, record_batch(b"z"))),
    client(request(craft.HEARTBEAT, 4, 509)),
    server(response(craft.HEARTBEAT, 4, 509)),
]


BOTH = [("Fetch", "508"), ("Heartbeat", "509")]


@pytest.mark.parametrize("packets", [1, 3])
def test_a_connection_joined_inside_a_large_answer_takes_no_false_frame(packets: int) -> None:
    step = len(LARGE) // packets + 1
    for cut in range(1, step, 3):
        parts = [server(LARGE[at : at + step]) for at in range(0, len(LARGE), step)]
        assert inside([*parts, *NEXT], cut) == (BOTH, BOTH)


def test_a_connection_joined_inside_a_large_request_takes_no_false_frame() -> None:
    partition = {"index": 0, "records": lookalikes(4)}
    body = {"acks": 1, "topic_data": [{"name": "orders", "partition_data": [partition]}]}
    large = request(craft.PRODUCE, 3, 507, body)
    for cut in range(1, len(large), 3):
        pending, answered = inside([client(large), server(craft.produced(507, 1)), *NEXT], cut)
        assert pending == BOTH
        assert [number for _, number in answered] in (["507", "508", "509"], ["508", "509"])


def test_the_answers_of_a_client_that_was_not_captured_are_found() -> None:
    answers = [server(response(craft.HEARTBEAT, 4, number)) for number in range(505, 509)]
    assert inside([server(LARGE), *answers], 5)[1] == [("Response", str(number)) for number in range(505, 509)]


def test_a_whole_answer_to_a_request_before_the_capture_is_found() -> None:
    assert inside([server(LARGE), *NEXT], 0) == (BOTH, [("Response", "507"), *BOTH])


def test_cuts_of_a_packet_do_not_move_what_the_peer_said_before():
    said = list(craft.CONVERSATIONS["producer"])
    said[2] = said[2]._replace(data=said[2].data[4:])  # a request without its size: the side searches
    events = chunks(said, holes=([(0, 1)], []))
    whole = told(Driver(Kafka, in_step=False).run(events))
    for seed in range(10):
        assert told(Driver(Kafka, in_step=False).run(recut(events, random.Random(seed)))) == whole


@pytest.mark.parametrize(
    "first",
    [
        response(craft.HEARTBEAT, 4, 0),
        response(craft.HEARTBEAT, 4, 508),
        response(craft.HEARTBEAT, 4, 507) + b"more",
    ],
    ids=["of id 0", "of a request that comes later", "that is not all of its packet"],
)
def test_what_looks_like_an_answer_where_the_capture_begins_is_passed_over(first: bytes) -> None:
    assert inside([server(first), *NEXT], 0) == (BOTH, BOTH)


def test_a_lone_answer_on_a_connection_without_requests_is_passed_over() -> None:
    assert inside([server(response(craft.HEARTBEAT, 4, 65_536))], 0) == ([], [])
