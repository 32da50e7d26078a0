"""Responses whose ids repeat, after losses: the request that each is for, or no pair; never a wrong one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import kafkacraft as craft
import pytest
from kafkacraft import HEARTBEAT, LIST_OFFSETS, METADATA, PRODUCE, produce, produced, request, response, sized

from mqsniff.model import Message, Side
from mqsniff.testing.conversations import Say, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka

REQUESTS = 60
Holes = tuple[list[tuple[int, int]], list[tuple[int, int]]]


def conversation(depth: int, id_of: Callable[[int], int], rng: random.Random) -> list[Say]:
    """Heartbeats of a client that has at most so many in flight; request and response tell their number."""
    said: list[Say] = []
    pending = heard = 0
    for answered in range(REQUESTS):
        while pending < REQUESTS and pending - answered < depth and (pending == answered or rng.random() < 0.7):
            beat = {"group_id": "g", "member_id": str(pending)}
            said.append(client(request(HEARTBEAT, 4, id_of(pending), beat), knows=heard))
            pending += 1
        answer = response(HEARTBEAT, 4, id_of(answered), {"throttle_time_ms": answered})
        heard += len(answer)
        said.append(server(answer))
    return said


def holes(said: list[Say], side: Side, rng: random.Random) -> Holes:
    """Runs of one to three whole frames of a side that the capture lost, none of them its first ones or its last."""
    ends = [0]
    for say in said:
        if say.side is side:
            ends.append(ends[-1] + len(say.data))
    lost: list[tuple[int, int]] = []
    at = 6
    while (at := at + rng.randrange(3, 15)) + 4 < len(ends):
        stop = at + rng.randrange(1, 4)
        lost.append((ends[at], ends[stop]))
        at = stop
    return ([], lost) if side is Side.SERVER else (lost, [])


def pairs(messages: list[Message]) -> Iterator[tuple[str, int]]:
    for message in messages:
        for pending in message.resolved:
            if pending.answer is not None and pending.message is not None:
                yield str(pending.message.body["member_id"]), pending.answer.body["throttle_time_ms"]


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize(
    ("depth", "ids", "all_paired"), [(1, 1, True), (1, 3, True), (3, 1, False), (3, 3, False), (3, REQUESTS, True)]
)
def test_no_response_is_paired_with_another_request(depth: int, ids: int, all_paired: bool, side: Side) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        said = conversation(depth, lambda number: number % ids, rng)
        messages = Driver(Kafka).run(chunks(said, holes=holes(said, side, rng))).messages
        found = list(pairs(messages))
        assert [pair for pair in found if pair[0] != str(pair[1])] == []
        kinds = Counter(message.kind for message in messages)
        assert not all_paired or len(found) == min(kinds["response"], kinds["request"])


def behind_a_loss(*said: Say, lost: int) -> list[Message]:
    """What a server says after a loss of its first bytes."""
    return [
        message
        for message in Driver(Kafka).run(chunks(said, holes=([], [(0, lost)]))).messages
        if message.kind == "response"
    ]


BEAT = response(HEARTBEAT, 4, 0)
BEATS = [request(HEARTBEAT, 4, 0, {"group_id": "g"})] * 3
NEXT = [client(request(METADATA, 12, 9)), server(response(METADATA, 12, 9))]


def test_a_response_that_may_answer_several_requests_says_so_and_keeps_what_it_tells() -> None:
    refused = response(HEARTBEAT, 4, 0, {"error_code": 27})
    first, second = behind_a_loss(client(*BEATS), server(BEAT, refused, BEAT), lost=len(BEAT))
    assert [(first.name, first.answers), (second.name, second.answers)] == [("Heartbeat", 0)] * 2
    assert first.error_name == "REBALANCE_IN_PROGRESS"
    assert [pending.status for pending in (*first.resolved, *second.resolved)] == ["lost", "lost"]
    assert [problem.kind for problem in first.problems] == ["unmatched"]
    assert "it is unknown which" in first.problems[0].detail


def test_a_later_answer_with_an_id_of_its_own_ends_the_doubt() -> None:
    said = [client(*BEATS), server(BEAT, BEAT, BEAT), *NEXT, client(*BEATS[:2]), server(BEAT, BEAT)]
    answers = behind_a_loss(*said, lost=len(BEAT))
    assert [message.answers for message in answers] == [0, 0, 1, 1, 1]


def test_a_body_that_names_other_topics_answers_another_request() -> None:
    asking = [produce(7, b"a"), request(PRODUCE, 3, 7, {"acks": 1, "topic_data": [{"name": "bills"}]})]
    lost = produced(7, 1)
    bills = response(PRODUCE, 3, 7, {"responses": [{"name": "bills"}]})
    (answer,) = behind_a_loss(client(*asking), server(lost, bills), lost=len(lost))
    assert [(pending.status, pending.message.topics) for pending in answer.resolved if pending.message] == [
        ("lost", ("orders",)),
        (None, ("bills",)),
    ]


def test_one_that_several_apis_may_have_sent_has_no_name() -> None:
    several = [request(HEARTBEAT, 0, 7), request(craft.LEAVE_GROUP, 0, 7), request(HEARTBEAT, 0, 7)]
    answer = sized(bytes((0, 0, 0, 7, 0, 0)))
    first, _ = behind_a_loss(client(*several), server(answer, answer, answer), lost=len(answer))
    assert (first.name, first.answers, [problem.kind for problem in first.problems]) == ("Response", 0, ["unmatched"])


def test_an_answer_whose_header_was_cut_is_lost_too() -> None:
    answers = Driver(Kafka).run(chunks([client(*BEATS), server(BEAT, BEAT, BEAT)], holes=([], [(4, 9)]))).messages[3:]
    assert [message.answers for message in answers] == [0, 0]


def test_a_hole_inside_an_answer_loses_none() -> None:
    wide = response(LIST_OFFSETS, 1, 0, {"topics": [{"name": "t" * 50}]})
    asking = [request(LIST_OFFSETS, 1, 0, {"topics": [{"name": "t" * 50}]})] * 2
    messages = Driver(Kafka).run(chunks([client(*asking), server(wide, wide)], holes=([], [(20, 30)]))).messages
    assert [[pending.message for pending in message.resolved] for message in messages[2:]] == [
        [messages[0]],
        [messages[1]],
    ]


def test_of_two_requests_with_an_id_the_one_that_the_body_fits_is_answered() -> None:
    """Both stood in the capture before the server's loss, so that either answer may be the lost one."""
    asked = client(request(HEARTBEAT, 4, 7, {"group_id": "g"}), request(METADATA, 12, 7))
    lost, there = response(HEARTBEAT, 4, 7), response(METADATA, 12, 7, {"cluster_id": "c"})
    (answer,) = behind_a_loss(asked, server(lost, there), lost=len(lost))
    assert (answer.name, answer.body["cluster_id"], answer.problems) == ("Metadata", "c", [])
    assert [(pending.message.name, pending.status) for pending in answer.resolved if pending.message] == [
        ("Heartbeat", "lost"),
        ("Metadata", None),
    ]


def test_an_answer_of_an_id_that_was_asked_twice_goes_to_the_first_where_both_fit_and_nothing_was_lost() -> None:
    asked = client(request(METADATA, 12, 7), request(METADATA, 12, 7))
    answers = [response(METADATA, 12, 7, {"cluster_id": name}) for name in "ab"]
    messages = Driver(Kafka).run(chunks([asked, server(*answers)])).messages
    assert [[pending.message for pending in message.resolved] for message in messages[2:]] == [
        [messages[0]],
        [messages[1]],
    ]
