"""Conversations: which answer belongs to which question, whose messages they are, what became of deliveries."""

from __future__ import annotations

import pytest
from driver import Driver
from pulsarcraft import NO_REQUEST, batch, connect, connected, frame, message, send
from wirecraft import Say, chunks, client, server

from dissectors.pulsar import Pulsar
from mqsniff.limits import Limits
from mqsniff.model import Secret, Side

TOPIC = "persistent://public/default/orders"
PRODUCER = client(frame("PRODUCER", topic=TOPIC, producer_id=1, request_id=1, producer_name="p-0"))
SUBSCRIBE = client(
    frame(
        "SUBSCRIBE",
        topic=TOPIC,
        subscription="billing",
        sub_type="Shared",
        consumer_id=1,
        request_id=2,
        consumer_name="c",
    )
)


def run(*dialogue: Say, limits: Limits | None = None) -> Driver:
    driver = Driver(Pulsar, limits).run(chunks(list(dialogue)))
    assert driver.skipped == []
    return driver


def names(driver: Driver) -> list[tuple[str, str, str | None]]:
    return [(message.name, message.kind, message.correlation) for message in driver.messages]


def ended(driver: Driver, link: str = "answer") -> list[tuple[str, str | None, str | None]]:
    """(name of the question, name of its answer, status) of every question that ended."""
    return [
        (asked.message.name, asked.answer.name if asked.answer else None, asked.status)
        for message in driver.messages
        for asked in message.closed
        if asked.link == link
    ]


def still_open(driver: Driver, link: str = "answer") -> list[str]:
    return [asked.message.name for asked in driver.dissector.open_questions() if asked.link == link]


def noted(driver: Driver) -> list[tuple[str, str]]:
    return [(problem.kind, problem.severity) for problem in driver.problems]


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


@pytest.mark.parametrize(("request_name", "asked", "answer_name", "told"), REQUESTS)
def test_an_answer_finds_its_question_by_the_full_request_id(request_name, asked, answer_name, told):
    low, high = 5, (1 << 63) + 5
    driver = run(
        PRODUCER,
        SUBSCRIBE,
        client(frame(request_name, request_id=low, **asked), frame(request_name, request_id=high, **asked)),
        server(frame(answer_name, request_id=high, **told), frame(answer_name, request_id=low, **told)),
    )
    second, first = driver.messages[-2:]
    assert [a.frame.offset for a in second.closed] == [driver.messages[3].frame.offset]
    assert [a.frame.offset for a in first.closed] == [driver.messages[2].frame.offset]
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
    (asked,) = driver.messages[2].closed
    assert (asked.answer, asked.last_answer) == (driver.messages[1], driver.messages[2])


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
    assert [a.frame.side for message in driver.messages for a in message.closed] == [Side.SERVER, Side.CLIENT]


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


@pytest.mark.parametrize(("opening", "asked", "update", "told", "correlation"), WATCHED)
def test_the_first_update_answers_and_later_ones_are_pushes(opening, asked, update, told, correlation):
    driver = run(client(frame(opening, **asked)), server(frame(update, **told)), server(frame(update, **told)))
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
    assert [(asked, answer) for asked, answer, _ in ended(driver)] == [
        ("WATCH_SCALABLE_TOPICS", "WATCH_SCALABLE_TOPICS_UPDATE"),
        ("WATCH_TC_ASSIGNMENTS", "WATCH_TC_ASSIGNMENTS_UPDATE"),
    ]


def test_a_watch_that_is_up_to_date_need_not_be_answered():
    driver = run(client(frame("WATCH_SCALABLE_TOPICS", watch_id=1, namespace="n", current_hash="h")))
    (asked,) = driver.dissector.open_questions()
    assert asked.expects == 0


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
    assert [asked.expects for asked in driver.dissector.open_questions()] == [0]
    failed = server(frame("ERROR", request_id=NO_REQUEST, error="AuthenticationError", message="expired"))
    driver = run(*dialogue, failed)
    assert ended(driver)[-1] == ("AUTH_RESPONSE", "ERROR", None)
    assert driver.dissector.identity.close_reason == "authentication"


def test_an_error_without_request_answers_the_login_and_else_nothing():
    refused = frame("ERROR", request_id=NO_REQUEST, error="AuthorizationError", message="no")
    assert ended(run(client(connect()), server(refused))) == [("CONNECT", "ERROR", None)]
    later = run(client(connect()), server(connected()), server(refused))
    assert names(later)[-1] == ("ERROR", "push", None)


# ---- sending


def test_receipts_come_first_in_first_out_for_each_sequence_id():
    receipts = [
        frame("SEND_RECEIPT", producer_id=1, sequence_id=5, message_id={"ledger_id": 7, "entry_id": entry})
        for entry in (1, 2)
    ]
    driver = run(PRODUCER, client(send(b"a", sequence=5), send(b"b", sequence=5)), server(*receipts))
    assert [a.frame.offset for message in driver.messages for a in message.closed] == [
        driver.messages[1].frame.offset,
        driver.messages[2].frame.offset,
    ]
    assert [message.records[0].constant["message_id"] for message in driver.messages[1:3]] == ["7:1:-1", "7:2:-1"]
    assert {message.correlation for message in driver.messages[1:]} == {"p:1:5"}


def test_a_receipt_names_each_message_of_a_batch():
    partition = client(frame("PRODUCER", topic=TOPIC + "-partition-3", producer_id=2, request_id=1))
    sent = send(batch((b"a", {}), (b"b", {})), producer=2, told={"num_messages": 2}, num_messages_in_batch=2)
    receipt = frame("SEND_RECEIPT", producer_id=2, sequence_id=0, message_id={"ledger_id": 7, "entry_id": 1})
    driver = run(partition, client(sent), server(receipt))
    (records,) = driver.messages[1].records
    assert records.columns["message_id"] == ["7:1:3:0", "7:1:3:1"]
    assert records.constant["partition"] == 3
    assert driver.problems == []


def test_a_message_that_is_nowhere_gets_no_place():
    nowhere = {"ledger_id": NO_REQUEST, "entry_id": NO_REQUEST}
    driver = run(
        PRODUCER, client(send(b"a")), server(frame("SEND_RECEIPT", producer_id=1, sequence_id=0, message_id=nowhere))
    )
    assert "message_id" not in driver.messages[1].records[0].constant
    assert ended(driver) == [("SEND", "SEND_RECEIPT", None)]


def test_a_refused_message_is_an_error_by_name():
    refused = frame("SEND_ERROR", producer_id=1, sequence_id=0, error="TopicTerminatedError", message="over")
    driver = run(PRODUCER, client(send(b"a")), server(refused))
    answer = driver.messages[-1]
    assert (answer.error_code, answer.error_name, answer.error_count) == (15, "TopicTerminatedError", 1)
    assert answer.topics == (TOPIC,)
    assert ended(driver) == [("SEND", "SEND_ERROR", None)]


def position(ledger: int, entry: int) -> dict:
    return {
        "replicated_from": "near",
        "properties": [{"key": "__MSG_PROP_REPL_SOURCE_POSITION", "value": f"{ledger}:{entry}"}],
    }


@pytest.mark.parametrize("flags", [{}, {"feature_flags": {"supports_repl_dedup_by_lid_and_eid": True}}])
def test_receipts_of_replicated_messages_tell_positions_where_both_ends_know_how(flags):
    by_position = bool(flags)
    receipt = {"sequence_id": 3, "highest_sequence_id": 8} if by_position else {"sequence_id": 0}
    driver = run(
        client(connect()),
        server(connected(**flags)),
        PRODUCER,
        client(send(b"a", **position(3, 8))),
        server(frame("SEND_RECEIPT", producer_id=1, **receipt)),
    )
    assert ended(driver)[-1] == ("SEND", "SEND_RECEIPT", None)
    assert {message.correlation for message in driver.messages[-2:]} == {"p:1:3:8" if by_position else "p:1:0"}


def test_receipts_of_markers_are_as_others():
    driver = run(
        PRODUCER,
        client(send(b"", marker_type=21, **position(3, 8))),
        server(frame("SEND_RECEIPT", producer_id=1, sequence_id=0, highest_sequence_id=1 << 63)),
    )
    assert ended(driver) == [("SEND", "SEND_RECEIPT", None)]


def test_the_counts_of_command_and_metadata_are_held_against_each_other():
    driver = run(PRODUCER, client(send(batch((b"a", {})), told={"num_messages": 2}, num_messages_in_batch=1)))
    assert noted(driver) == [("out_of_range", "warning")]


def test_chunks_are_followed_on_both_sides():
    def chunk(number):
        return {"uuid": "u", "chunk_id": number, "num_chunks_from_msg": 3, "total_chunk_msg_size": 3}

    sent = [send(b"x", sequence=9, told={"is_chunk": True}, **chunk(number)) for number in (0, 2)]
    delivered = [message(b"x", entry_id=number, **chunk(number)) for number in (0, 1, 2)]
    driver = run(PRODUCER, SUBSCRIBE, client(*sent), server(*delivered))
    assert noted(driver) == [("unmatched", "warning")]
    assert [m.records[0].constant["chunk_id"] for m in driver.messages if m.records] == [0, 2, 0, 1, 2]


# ---- delivering and settling


def deliver(*entries: int, **more) -> Say:
    return server(*(message(b"v", entry_id=entry, **more) for entry in entries))


def ack(*entries: int, kind: str = "Individual", ack_set: list[int] | None = None, **more) -> Say:
    sets = {"ack_set": ack_set} if ack_set is not None else {}
    ids = [{"ledger_id": 7, "entry_id": entry, **sets} for entry in entries]
    return client(frame("ACK", consumer_id=1, ack_type=kind, message_id=ids, **more))


def settled(driver: Driver) -> list[tuple[int, str | None, str | None, str | None]]:
    """(entry, name of what settled it, settled_by, status) of every delivery that ended."""
    return [
        (
            asked.key[2][1],
            asked.last_answer.name if asked.last_answer else None,
            asked.extra.get("settled_by"),
            asked.status,
        )
        for one in driver.messages
        for asked in one.closed
        if asked.link == "settlement"
    ]


def test_an_ack_settles_the_entries_that_it_names():
    driver = run(SUBSCRIBE, deliver(1, 2, 3), ack(3, 1))
    assert settled(driver) == [(3, "ACK", "ACK", None), (1, "ACK", "ACK", None)]
    assert still_open(driver, "settlement") == ["MESSAGE"]


def test_a_cumulative_ack_settles_everything_before_it():
    driver = run(SUBSCRIBE, deliver(1, 2, 3, 4), ack(2), ack(3, kind="Cumulative"))
    assert [entry for entry, *_ in settled(driver)] == [2, 1, 3]


def batch_of(count: int) -> Say:
    return server(message(batch(*[(b"v", {})] * count), entry_id=1, num_messages_in_batch=count))


def test_a_batch_is_settled_index_by_index():
    driver = run(SUBSCRIBE, batch_of(3), ack(1, ack_set=[0b110]), ack(1, ack_set=[0b100]), ack(1, ack_set=[0b000]))
    (asked,) = driver.messages[1].asked
    assert asked.answer is driver.messages[2]
    assert asked.last_answer is driver.messages[4]
    assert settled(driver) == [(1, "ACK", "ACK", None)]
    assert driver.messages[2].body["message_id"][0]["ack_set"] == [1, 2]


def test_a_batch_that_is_settled_in_part_says_so():
    driver = run(SUBSCRIBE, batch_of(3), ack(1, ack_set=[0b110]))
    (asked,) = driver.dissector.open_questions()
    assert (asked.link, asked.status, asked.answer) == ("settlement", "partial", driver.messages[2])


def test_acks_with_a_request_id_are_answered():
    driver = run(
        SUBSCRIBE, deliver(1), ack(1, request_id=9), server(frame("ACK_RESPONSE", consumer_id=1, request_id=9))
    )
    assert names(driver)[2:] == [("ACK", "request", "c:1:9"), ("ACK_RESPONSE", "response", "c:1:9")]
    assert ended(driver) == [("ACK", "ACK_RESPONSE", None)]


def test_a_message_that_the_client_found_damaged_is_an_error():
    driver = run(SUBSCRIBE, deliver(1), ack(1, validation_error="ChecksumMismatch"))
    last = driver.messages[-1]
    assert (last.kind, last.error_code, last.error_name, last.error_count) == ("oneway", 2, "ChecksumMismatch", 1)


@pytest.mark.parametrize(("ids", "expected"), [([{"ledger_id": 7, "entry_id": 2}], [2]), ([], [1, 2])])
def test_a_wish_for_redelivery_settles_what_it_names_or_all(ids, expected):
    wish = client(frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, message_ids=ids))
    driver = run(SUBSCRIBE, deliver(1, 2), wish)
    name = "REDELIVER_UNACKNOWLEDGED_MESSAGES"
    assert settled(driver) == [(entry, name, name, None) for entry in expected]


def test_an_entry_that_is_delivered_again_leaves_its_first_delivery_unanswered():
    driver = run(SUBSCRIBE, deliver(1), deliver(1, told={"redelivery_count": 2}), ack(1))
    assert settled(driver) == [(1, None, "redelivered", "unanswered"), (1, "ACK", "ACK", None)]
    assert [m.asked[0].extra["attempts"] for m in driver.messages if m.name == "MESSAGE"] == [1, 3]


def test_nobody_acknowledges_messages_of_non_persistent_topics():
    subscribe = frame(
        "SUBSCRIBE", topic="non-persistent://a/b/c", subscription="s", sub_type="Shared", consumer_id=1, request_id=1
    )
    driver = run(client(subscribe), deliver(0, 0, 0))
    assert still_open(driver, "settlement") == []
    assert driver.problems == []


def test_permits_are_counted_against_deliveries():
    flow = client(frame("FLOW", consumer_id=1, message_permits=4))
    driver = run(SUBSCRIBE, flow, deliver(1), batch_of(3), deliver(5), ack(5), flow, deliver(6))
    extras = [m.asked[0].extra for m in driver.messages if m.name == "MESSAGE"]
    assert [extra["credit"] for extra in extras] == [4, 3, 0, 3]
    assert [extra["in_flight"] for extra in extras] == [1, 3, 4, 4]


def test_permits_are_unknown_where_the_opening_was_not_seen():
    driver = run(client(frame("FLOW", consumer_id=1, message_permits=4)), deliver(1))
    assert driver.messages[1].asked[0].extra["credit"] is None


def test_only_what_is_to_be_delivered_of_a_batch_counts():
    flow = client(frame("FLOW", consumer_id=1, message_permits=9))
    half = server(message(batch(*[(b"v", {})] * 4), entry_id=1, told={"ack_set": [0b1010]}, num_messages_in_batch=4))
    driver = run(SUBSCRIBE, flow, half, ack(1, ack_set=[0b1000]), deliver(2))
    assert driver.messages[2].records[0].columns["record_index"] == [1, 3]
    assert [m.asked[0].extra["credit"] for m in driver.messages if m.name == "MESSAGE"] == [9, 7]
    assert [m.asked[0].extra["in_flight"] for m in driver.messages if m.name == "MESSAGE"] == [2, 2]


# ---- whose messages


def test_producers_and_consumers_are_resolved_over_the_connection():
    driver = run(PRODUCER, SUBSCRIBE, client(send(b"a")), deliver(1), ack(1))
    sent, delivered, acknowledged = driver.messages[2:]
    assert (sent.topics, sent.group, sent.client_id) == ((TOPIC,), None, "p-0")
    for one in (delivered, acknowledged):
        assert (one.topics, one.group, one.client_id) == ((TOPIC,), "billing", "c")


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


def test_open_questions_are_limited():
    limits = Limits().with_value("questions_max", 20)
    driver = run(SUBSCRIBE, deliver(*range(100)), limits=limits)
    assert len(list(driver.dissector.open_questions())) == 20
    assert len(driver.dissector._session._consuming._consumers._known[1].unsettled) == 20
