"""Conversations: which answer belongs to which question, who logs in, whose messages they are."""

from __future__ import annotations

import pytest
from pulsarcraft import (
    NO_REQUEST,
    PRODUCER,
    SUBSCRIBE,
    TOPIC,
    ack,
    connect,
    connected,
    deliver,
    ended,
    frame,
    names,
    noted,
    run,
    send,
    still_open,
)

from mqsniff.decode.exchanges import Exchanges
from mqsniff.limits import Limits
from mqsniff.model import Secret, Side
from mqsniff.testing.conversations import chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_pulsar import Pulsar

# ---- requests

REQUESTS = [
    ("UNSUBSCRIBE", {"consumer_id": 1}, "SUCCESS", {}),
    ("SEEK", {"consumer_id": 1}, "SUCCESS", {}),
    ("CLOSE_CONSUMER", {"consumer_id": 1}, "SUCCESS", {}),
    ("CLOSE_PRODUCER", {"producer_id": 1}, "SUCCESS", {}),
    ("LOOKUP", {"topic": TOPIC}, "LOOKUP_RESPONSE", {"response": "Connect", "broker_service_url": "pulsar://b:6650"}),
    ("PARTITIONED_METADATA", {"topic": TOPIC}, "PARTITIONED_METADATA_RESPONSE", {"partitions": 4}),
    ("GET_SCHEMA", {"topic": TOPIC}, "GET_SCHEMA_RESPONSE", {}),
    ("GET_LAST_MESSAGE_ID", {"consumer_id": 1}, "GET_LAST_MESSAGE_ID_RESPONSE", {}),
    ("NEW_TXN", {}, "NEW_TXN_RESPONSE", {"txnid_most_bits": 1}),
    ("END_TXN", {}, "END_TXN_RESPONSE", {}),
    ("CONSUMER_STATS", {"consumer_id": 1}, "CONSUMER_STATS_RESPONSE", {}),
    ("TC_CLIENT_CONNECT_REQUEST", {"tc_id": 0}, "TC_CLIENT_CONNECT_RESPONSE", {}),
    ("GET_LAST_MESSAGE_ID", {"consumer_id": 1}, "ERROR", {"error": "MetadataError", "message": "no"}),
]


@pytest.mark.parametrize(("request_name", "pending", "answer_name", "told"), REQUESTS)
def test_an_answer_finds_its_question_by_the_full_request_id(request_name, pending, answer_name, told):
    low, high = 5, (1 << 63) + 5
    driver = run(
        PRODUCER,
        SUBSCRIBE,
        client(frame(request_name, request_id=low, **pending), frame(request_name, request_id=high, **pending)),
        server(frame(answer_name, request_id=high, **told), frame(answer_name, request_id=low, **told)),
    )
    second, first = driver.messages[-2:]
    assert [a.frame.offset for a in second.resolved] == [driver.messages[3].frame.offset]
    assert [a.frame.offset for a in first.resolved] == [driver.messages[2].frame.offset]
    assert second.correlation == f"r:{high}"
    assert second.topics == (driver.messages[3].topics or ())


def test_an_answer_of_another_kind_is_paired_with_a_problem():
    driver = run(client(frame("GET_SCHEMA", topic=TOPIC, request_id=1)), server(frame("LOOKUP_RESPONSE", request_id=1)))
    assert ended(driver) == [("GET_SCHEMA", "LOOKUP_RESPONSE", None)]
    assert noted(driver) == [("unmatched", "warning")]


def test_a_producer_that_waits_is_answered_twice():
    driver = run(
        PRODUCER,
        server(frame("PRODUCER_SUCCESS", request_id=1, producer_name="p-0", producer_ready=False)),
        server(frame("PRODUCER_SUCCESS", request_id=1, producer_name="p-0", producer_ready=True)),
    )
    assert ended(driver) == [("PRODUCER", "PRODUCER_SUCCESS", None)]
    (pending,) = driver.messages[2].resolved
    assert (pending.answer, pending.last_answer) == (driver.messages[1], driver.messages[2])


def test_the_broker_names_a_producer():
    driver = run(
        client(frame("PRODUCER", topic=TOPIC, producer_id=1, request_id=1)),
        server(frame("PRODUCER_SUCCESS", request_id=1, producer_name="standalone-0-7")),
        server(frame("SEND_RECEIPT", producer_id=1, sequence_id=0)),
    )
    assert [message.client_id for message in driver.messages] == [None, "standalone-0-7", "standalone-0-7"]


def test_closes_of_the_broker_are_pushes_and_wait_for_nothing():
    driver = run(
        PRODUCER,
        SUBSCRIBE,
        server(
            frame("CLOSE_PRODUCER", producer_id=1, request_id=NO_REQUEST, assigned_broker_service_url="pulsar://b:6650")
        ),
        server(frame("CLOSE_CONSUMER", consumer_id=1, request_id=NO_REQUEST)),
    )
    assert names(driver)[2:] == [("CLOSE_PRODUCER", "push", None), ("CLOSE_CONSUMER", "push", None)]
    assert ("assigned_broker_service_url", "pulsar://b:6650") in driver.messages[2].notes
    assert driver.messages[2].topics == driver.messages[3].topics == (TOPIC,)
    assert sorted(still_open(driver)) == ["PRODUCER", "SUBSCRIBE"]


def test_pings_are_answered_by_the_other_side():
    driver = run(client(frame("PING")), server(frame("PING")), client(frame("PONG")), server(frame("PONG")))
    assert [a.frame.side for message in driver.messages for a in message.resolved] == [Side.SERVER, Side.CLIENT]


@pytest.mark.parametrize(
    ("request_name", "name", "fields", "status"),
    [
        ("LOOKUP", "LOOKUP_RESPONSE", {"broker_service_url": "pulsar://b:6650"}, "lost"),
        ("LOOKUP", "LOOKUP_RESPONSE", {"broker_service_url": "pulsar://b:6650", "response": "Failed"}, "error"),
        ("LOOKUP", "LOOKUP_RESPONSE", {"response": "Failed", "error": "TopicNotFound"}, "error"),
        ("UNSUBSCRIBE", "SUCCESS", {}, "ok"),
    ],
)
def test_a_cut_answer_is_ok_where_its_command_alone_or_what_is_there_tells_success(request_name, name, fields, status):
    asking = {"topic": TOPIC} if request_name == "LOOKUP" else {"consumer_id": 1}
    whole = frame(name, request_id=1, **fields, **({"message": "m" * 50} if name == "LOOKUP_RESPONSE" else {}))
    if name == "SUCCESS":
        whole = frame(name, request_id=1, schema={"name": "s" * 50, "schema_data": b"", "type": "String"})
    said = [client(frame(request_name, request_id=1, **asking)), server(whole, frame("PING"))]
    lost = len(whole) - 40, len(whole)
    messages = Driver(Pulsar).run(chunks(said, holes=([], [lost]))).messages
    (done,) = Exchanges(Limits()).of(next(message for message in messages if message.name == name))
    assert done.status == status


def test_a_lookup_chain_reads_as_a_timeline():
    driver = run(
        client(frame("LOOKUP", topic=TOPIC, request_id=1)),
        server(frame("LOOKUP_RESPONSE", request_id=1, response="Redirect", broker_service_url="pulsar://a:6650")),
        client(frame("LOOKUP", topic=TOPIC, request_id=2, authoritative=True)),
        server(frame("LOOKUP_RESPONSE", request_id=2, response="Connect", broker_service_url="pulsar://b:6650")),
    )
    assert [message.notes for message in driver.messages] == [
        (),
        (("response", "Redirect"), ("broker_service_url", "pulsar://a:6650")),
        (("authoritative", True),),
        (("response", "Connect"), ("broker_service_url", "pulsar://b:6650")),
    ]
    assert {message.topics for message in driver.messages} == {(TOPIC,)}


# ---- sessions and watches

WATCHED = [
    (
        "SCALABLE_TOPIC_LOOKUP",
        {"session_id": 4, "topic": "topic://t"},
        "SCALABLE_TOPIC_UPDATE",
        {"session_id": 4},
        "s:4",
    ),
    (
        "WATCH_SCALABLE_TOPICS",
        {"watch_id": 4, "namespace": "n"},
        "WATCH_SCALABLE_TOPICS_UPDATE",
        {"watch_id": 4},
        "w:4",
    ),
    ("WATCH_TC_ASSIGNMENTS", {"watch_id": 4}, "WATCH_TC_ASSIGNMENTS_UPDATE", {"watch_id": 4}, "t:4"),
]


@pytest.mark.parametrize(("opening", "pending", "update", "told", "correlation"), WATCHED)
def test_the_first_update_answers_and_later_ones_are_pushes(opening, pending, update, told, correlation):
    driver = run(client(frame(opening, **pending)), server(frame(update, **told)), server(frame(update, **told)))
    assert names(driver) == [
        (opening, "request", correlation),
        (update, "response", correlation),
        (update, "push", correlation),
    ]
    assert ended(driver) == [(opening, update, None)]


def test_watches_of_different_things_count_by_themselves():
    driver = run(
        client(frame("WATCH_TC_ASSIGNMENTS", watch_id=1), frame("WATCH_SCALABLE_TOPICS", watch_id=1, namespace="n")),
        server(frame("WATCH_SCALABLE_TOPICS_UPDATE", watch_id=1), frame("WATCH_TC_ASSIGNMENTS_UPDATE", watch_id=1)),
    )
    assert [(pending, answer) for pending, answer, _ in ended(driver)] == [
        ("WATCH_SCALABLE_TOPICS", "WATCH_SCALABLE_TOPICS_UPDATE"),
        ("WATCH_TC_ASSIGNMENTS", "WATCH_TC_ASSIGNMENTS_UPDATE"),
    ]


def test_a_watch_that_is_up_to_date_need_not_be_answered():
    driver = run(client(frame("WATCH_SCALABLE_TOPICS", watch_id=1, namespace="n", current_hash="h")))
    (pending,) = driver.dissector.unanswered()
    assert pending.expects == 0


@pytest.mark.parametrize(("event", "kind", "status"), [("snapshot", "response", None), ("diff", "push", "oneway")])
def test_a_change_of_what_a_watch_knew_answers_nothing(event, kind, status):
    watch = client(frame("WATCH_SCALABLE_TOPICS", watch_id=1, namespace="n", current_hash="h"))
    driver = run(watch, server(frame("WATCH_SCALABLE_TOPICS_UPDATE", watch_id=1, **{event: {}})))
    answer = "WATCH_SCALABLE_TOPICS_UPDATE" if kind == "response" else None
    assert (driver.messages[1].kind, ended(driver)) == (kind, [("WATCH_SCALABLE_TOPICS", answer, status)])


def test_updates_speak_of_the_topic_of_their_session():
    driver = run(
        client(frame("SCALABLE_TOPIC_LOOKUP", session_id=4, topic="topic://t")),
        server(frame("SCALABLE_TOPIC_UPDATE", session_id=4), frame("SCALABLE_TOPIC_UPDATE", session_id=4)),
    )
    assert [message.topics for message in driver.messages] == [("topic://t",)] * 3


# ---- logging in


def test_connect_and_connected_tell_who_speaks():
    driver = run(client(connect(auth_method_name="basic", auth_data=b"ann:secret")), server(connected()))
    identity = driver.dissector.identity
    assert (identity.client_software, identity.server_software) == ("Pulsar-Java-v4.2.4", "Pulsar Server4.2.4")
    assert (identity.mechanism, identity.user) == ("basic", "ann")
    assert driver.messages[0].body["auth_data"] == Secret(b"ann:secret")
    assert ended(driver) == [("CONNECT", "CONNECTED", None)]


def test_a_proxy_speaks_for_its_client():
    driver = run(client(connect(original_principal="ann", original_auth_data="token", proxy_version="v")))
    assert driver.dissector.identity.user == "ann"
    assert driver.messages[0].body["original_auth_data"] == Secret(b"token")


def test_challenges_stand_between():
    challenge = frame("AUTH_CHALLENGE", challenge={"auth_method_name": "sasl", "auth_data": "cXVlc3Rpb24="})
    response = frame("AUTH_RESPONSE", response={"auth_method_name": "sasl", "auth_data": "YW5zd2Vy"})
    driver = run(client(connect()), server(challenge), client(response), server(connected()))
    assert ended(driver) == [
        ("CONNECT", "AUTH_CHALLENGE", None),
        ("AUTH_CHALLENGE", "AUTH_RESPONSE", None),
        ("AUTH_RESPONSE", "CONNECTED", None),
    ]
    assert driver.messages[1].body["challenge"]["auth_data"] == Secret(b"question")
    assert driver.messages[2].body["response"]["auth_data"] == Secret(b"answer")


def test_a_refresh_is_answered_only_when_it_fails():
    refresh = frame("AUTH_CHALLENGE", challenge={"auth_data": "UHVsc2FyQXV0aFJlZnJlc2g="})
    response = frame("AUTH_RESPONSE", response={"auth_data": "bmV3"})
    dialogue = [client(connect()), server(connected()), server(refresh), client(response)]
    driver = run(*dialogue)
    assert driver.messages[2].kind == "request"
    assert driver.messages[2].body["challenge"]["auth_data"] == "PulsarAuthRefresh"
    assert names(driver)[-1] == ("AUTH_RESPONSE", "response", None)
    assert [pending.expects for pending in driver.dissector.unanswered()] == [0]
    failed = server(frame("ERROR", request_id=NO_REQUEST, error="AuthenticationError", message="expired"))
    driver = run(*dialogue, failed)
    assert ended(driver)[-1] == ("AUTH_RESPONSE", "ERROR", None)
    assert driver.dissector.identity.close_reason == "authentication"


REFRESH = server(frame("AUTH_CHALLENGE", challenge={"auth_data": "UHVsc2FyQXV0aFJlZnJlc2g="}))
RESPONSE = client(frame("AUTH_RESPONSE", response={"auth_data": "bmV3"}))
STEP = server(frame("AUTH_CHALLENGE", challenge={"auth_data": "bW9yZQ=="}))
LOGIN = [client(connect()), server(connected())]
EXPIRED = server(frame("ERROR", request_id=NO_REQUEST, error="AuthenticationError", message="expired"))
ASKED = ("AUTH_CHALLENGE", "AUTH_RESPONSE", None)
TAKEN = ("AUTH_RESPONSE", None, "oneway")
REFRESHES = [
    ("again and again", [*LOGIN, *[REFRESH, RESPONSE] * 3], [ASKED, TAKEN, ASKED, TAKEN, ASKED]),
    ("the opening not captured", [REFRESH, RESPONSE] * 2, [ASKED, TAKEN, ASKED]),
    ("begun with a response", [RESPONSE, REFRESH, RESPONSE], [TAKEN, ASKED]),
    (
        "the second one refused",
        [*LOGIN, *[REFRESH, RESPONSE] * 2, EXPIRED],
        [ASKED, TAKEN, ASKED, ("AUTH_RESPONSE", "ERROR", None)],
    ),
    (
        "in two steps",
        [*LOGIN, REFRESH, RESPONSE, STEP, RESPONSE, REFRESH, RESPONSE],
        [ASKED, ("AUTH_RESPONSE", "AUTH_CHALLENGE", None), ASKED, TAKEN, ASKED],
    ),
    (
        "a login in two steps",
        [client(connect()), STEP, RESPONSE, STEP, RESPONSE, server(connected())],
        [
            ("CONNECT", "AUTH_CHALLENGE", None),
            ASKED,
            ("AUTH_RESPONSE", "AUTH_CHALLENGE", None),
            ASKED,
            ("AUTH_RESPONSE", "CONNECTED", None),
        ],
    ),
    ("CONNECTED not captured", [client(connect()), REFRESH, RESPONSE, REFRESH], [ASKED, TAKEN]),
]


@pytest.mark.parametrize(
    ("dialogue", "expected"), [case[1:] for case in REFRESHES], ids=[case[0] for case in REFRESHES]
)
def test_a_challenge_on_a_live_connection_is_a_question_and_no_answer(dialogue, expected):
    found = ended(run(*dialogue))
    assert [one for one in found if one[:2] != ("CONNECT", "CONNECTED")] == expected


def test_an_error_without_request_answers_the_login_and_else_nothing():
    refused = frame("ERROR", request_id=NO_REQUEST, error="AuthorizationError", message="no")
    assert ended(run(client(connect()), server(refused))) == [("CONNECT", "ERROR", None)]
    later = run(client(connect()), server(connected()), server(refused))
    assert names(later)[-1] == ("ERROR", "push", None)


# ---- whose messages


def test_producers_and_consumers_are_resolved_over_the_connection():
    driver = run(PRODUCER, SUBSCRIBE, client(send(b"a")), deliver(1), ack(1))
    sent, delivered, acknowledged = driver.messages[2:]
    assert (sent.topics, sent.group, sent.client_id) == ((TOPIC,), None, "p-0")
    for one in (delivered, acknowledged):
        assert (one.topics, one.group, one.client_id) == ((TOPIC,), "billing", "c")
        assert ("sub_type", "Shared") in one.notes


def test_an_opening_that_is_not_in_the_capture_is_said_once_a_side():
    receipt = frame("SEND_RECEIPT", producer_id=1, sequence_id=0)
    driver = run(client(send(b"a"), send(b"b", sequence=1)), server(receipt, receipt), deliver(1, 2), ack(1, 2))
    assert [(m.name, len(m.problems)) for m in driver.messages] == [
        *[("SEND", 1), ("SEND", 0), ("SEND_RECEIPT", 1), ("SEND_RECEIPT", 0)],
        *[("MESSAGE", 1), ("MESSAGE", 0), ("ACK", 1)],
    ]
    assert {m.topics for m in driver.messages} == {()}


def test_migrations_name_the_topic_of_the_producer_or_consumer():
    driver = run(
        PRODUCER,
        SUBSCRIBE,
        server(
            frame("TOPIC_MIGRATED", resource_id=1, resource_type="Producer", broker_service_url="pulsar://new:6650")
        ),
        server(frame("TOPIC_MIGRATED", resource_id=1, resource_type="Consumer")),
    )
    assert [message.topics for message in driver.messages[2:]] == [(TOPIC,), (TOPIC,)]
    assert driver.messages[3].group == "billing"


NAMED = [
    ("GET_TOPICS_OF_NAMESPACE_RESPONSE", {"topics": ["a", "b"]}, ("a", "b")),
    ("WATCH_TOPIC_UPDATE", {"new_topics": ["a"], "deleted_topics": ["b"]}, ("a", "b")),
    ("ADD_PARTITION_TO_TXN", {"partitions": ["a", "a"]}, ("a",)),
    ("ADD_SUBSCRIPTION_TO_TXN", {"subscription": [{"topic": "a", "subscription": "s"}]}, ("a",)),
    ("END_TXN_ON_SUBSCRIPTION", {"subscription": {"topic": "a", "subscription": "s"}}, ("a",)),
]


@pytest.mark.parametrize(("name", "fields", "topics"), NAMED)
def test_topics_are_named_wherever_they_stand(name, fields, topics):
    say = server if name.endswith(("RESPONSE", "UPDATE")) else client
    assert run(say(frame(name, **fields))).messages[0].topics == topics


# ---- limits


def test_what_the_broker_takes_is_what_connected_says():
    large = send(bytes(200_000))
    dialogue = [client(connect()), server(connected(max_message_size=100_000)), PRODUCER, client(large)]
    driver = run(*dialogue)
    assert noted(driver) == [("out_of_range", "warning")]
    assert driver.dissector.identity.close_reason == "too large"
    assert driver.messages[-1].body["payload"]["size"] == 200_000


def test_of_two_requests_with_one_id_the_first_is_answered_first():
    lookups = [frame("LOOKUP", topic=TOPIC, request_id=4), frame("PARTITIONED_METADATA", topic=TOPIC, request_id=4)]
    answer = frame("LOOKUP_RESPONSE", request_id=4, response="Connect", broker_service_url="pulsar://b:6650")
    driver = run(client(connect()), server(connected()), client(*lookups), server(answer))
    assert ("LOOKUP", "LOOKUP_RESPONSE", None) in ended(driver)
    assert still_open(driver) == ["PARTITIONED_METADATA"]
