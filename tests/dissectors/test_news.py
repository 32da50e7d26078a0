"""What exchanges tell of groups and servers: shapes that no sample shows, and bodies that are odd."""

from __future__ import annotations

import pytest
from handmade import pub

from mqsniff.model import EndpointNews, MemberNews
from mqsniff_kafka import Kafka
from mqsniff_nsq import Nsq
from mqsniff_pulsar import Pulsar
from mqsniff_rocketmq import RocketMQ


def message(name, body=None, kind="request", **fields):
    made = pub(body=body or {}, **fields)
    made.name, made.kind = name, kind
    return made


def told(dissector, request, answer):
    return list(dissector.news(request, answer))


def test_kafka_redirects_to_the_leader_that_the_answer_names():
    answer = message("Produce", {"node_endpoints": [{"node_id": 2, "host": "b2", "port": 9092}]}, "response")
    assert told(Kafka, message("Produce"), answer) == [EndpointNews("redirect", "b2", 9092)]
    assert told(Kafka, message("Produce"), message("Produce", {}, "response")) == []


def test_kafka_members_that_brokers_assign_join_get_partitions_and_leave():
    def beat(before, epoch, assignment=None):
        asked = message("ConsumerGroupHeartbeat", {"member_id": "m", "member_epoch": before}, group="g")
        held = {"member_id": "m", "member_epoch": epoch, "assignment": assignment}
        return told(Kafka, asked, message("ConsumerGroupHeartbeat", held, "response"))

    assignment = {"topic_partitions": [{"topic_id": "T", "partitions": [0, 1]}]}
    assert beat(0, 2, assignment) == [
        MemberNews("g", "joined", "m", 2),
        MemberNews("g", "assigned", "m", 2, (("T", (0, 1)),)),
    ]
    assert beat(2, 2) == []
    assert beat(-1, -1) == [MemberNews("g", "left", "m")]


def test_kafka_groups_of_old_versions_leave_without_a_list():
    left = told(Kafka, message("LeaveGroup", {"member_id": "m"}, group="g"), message("LeaveGroup", {}, "response"))
    assert left == [MemberNews("g", "left", "m")]


@pytest.mark.parametrize(
    ("body", "news"),
    [
        ({"response": "Connect", "broker_service_url": "pulsar://a:6650"}, EndpointNews("lookup", "a", 6650)),
        ({"response": "Redirect", "broker_service_url": "pulsar://[::1]:6650"}, EndpointNews("redirect", "::1", 6650)),
        ({"response": "Failed"}, None),
        ({"response": "Connect", "broker_service_url": "pulsar://a:99999"}, None),
        ({"response": "Connect", "broker_service_url": "no url"}, None),
    ],
)
def test_pulsar_lookups_send_clients_somewhere(body, news):
    answer = message("LOOKUP_RESPONSE", body, "response")
    assert told(Pulsar, message("LOOKUP"), answer) == ([news] if news else [])


def test_pulsar_moves_what_it_closes():
    closed = message(
        "CLOSE_CONSUMER", {"assigned_broker_service_url": "pulsar://b:1"}, "push", group="s", client_id="c"
    )
    assert told(Pulsar, None, closed) == [MemberNews("s", "left", "c"), EndpointNews("move", "b", 1)]
    migrated = message("TOPIC_MIGRATED", {"broker_service_url": "pulsar://c:2"}, "push")
    assert told(Pulsar, None, migrated) == [EndpointNews("move", "c", 2)]


@pytest.mark.parametrize("body", [None, [], 7, {"broker_datas": 7}, {"broker_datas": [None, {"broker_addrs": [1]}]}])
@pytest.mark.parametrize("name", sorted(RocketMQ.telling))
def test_rocketmq_bodies_may_be_anything(name, body):
    request = message(name, {"body": body, "ext_fields": None}, group="g")
    answer = message(name, {"body": body}, "response")
    assert all(isinstance(news, MemberNews) for news in told(RocketMQ, request, answer))


def test_rocketmq_routes_name_brokers():
    addresses = {"broker_addrs": {"0": "10.0.0.1:10911", "1": "odd", "2": None}}
    answer = message("GET_ROUTEINFO_BY_TOPIC", {"body": {"broker_datas": [addresses]}}, "response")
    request = message("GET_ROUTEINFO_BY_TOPIC")
    assert told(RocketMQ, request, answer) == [EndpointNews("lookup", "10.0.0.1", 10911)]


def test_nsq_consumers_come_and_go():
    done = message("RESPONSE", {}, "response")
    assert told(Nsq, message("SUB", group="ch"), done) == [MemberNews("ch", "joined")]
    assert told(Nsq, message("CLS", group="ch"), done) == [MemberNews("ch", "left")]


@pytest.mark.parametrize(
    ("dissector", "topic", "role"),
    [
        (Kafka, "__consumer_offsets", "internal"),
        (Kafka, "orders", None),
        (Pulsar, "persistent://public/default/orders-billing-RETRY", "retry"),
        (Pulsar, "persistent://public/default/orders-billing-DLQ-partition-0", "dead letter"),
        (Pulsar, "persistent://pulsar/system/assign", "internal"),
        (Pulsar, "persistent://public/default/orders-partition-0", None),
        (RocketMQ, "%RETRY%billing", "retry"),
        (RocketMQ, "%DLQ%billing", "dead letter"),
        (RocketMQ, "RMQ_SYS_TRACE_TOPIC", "internal"),
        (RocketMQ, "orders", None),
        (Nsq, "orders", None),
    ],
)
def test_names_tell_what_topics_are_for(dissector, topic, role):
    assert dissector.topic_role(topic) == role


def test_kafka_4_dropped_what_kip_896_names():
    dropped = Kafka.dropped_versions()
    first = {name: rule.before for name, rule in dropped.items()}
    assert {name: first[name] for name in ("Produce", "Fetch", "ListOffsets", "OffsetCommit", "CreateTopics")} == {
        "Produce": 3,
        "Fetch": 4,
        "ListOffsets": 1,
        "OffsetCommit": 2,
        "CreateTopics": 2,
    }
    assert (len(dropped), sum(first.values())) == (20, 29)
    assert "Metadata" not in dropped
    assert {rule.release for rule in dropped.values()} == {"Kafka 4.0"}
