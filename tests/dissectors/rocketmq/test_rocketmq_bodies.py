"""Bodies that are no message data: names, maps, secrets, odd ones."""

from __future__ import annotations

import json
import struct
import zlib

import pytest
from remotingcraft import HEARTBEAT, ROUTE, RUNNING_INFO, registration

from mqsniff.limits import Limits
from mqsniff.model import Secret, Undecoded
from mqsniff_rocketmq.bodies import Mentions, body_checksum_ok, read_body
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.texts import holds_secret, is_secret_name


def read(kind: str, raw: bytes, **limits: int):
    notes, mentions = ProblemNotes(Limits(**limits)), Mentions()
    return read_body(kind, raw, notes, mentions), [(p.kind, p.path) for p in notes.problems], mentions


def test_a_heartbeat_tells_client_group_and_topics():
    body, problems, mentions = read("HeartbeatData", HEARTBEAT)
    assert problems == []
    assert (mentions.client, mentions.group, mentions.topics) == ("10.1.2.3@77", "shop_c", ["orders"])
    assert body["client_id"] == "10.1.2.3@77"
    assert body["consumer_data_set"][0]["subscription_data_set"][0]["sub_string"] == "*"


def test_keys_of_maps_stay_as_they_are():
    body, problems, _ = read("TopicRouteData", ROUTE)
    assert problems == []
    assert body["broker_datas"][0]["broker_addrs"] == {"0": "10.1.2.4:10911", "1": "10.1.2.5:10911"}


def test_a_map_with_objects_as_keys_becomes_a_list_of_members():
    body, problems, _ = read("ConsumerRunningInfo", RUNNING_INFO)
    assert problems == []
    assert body["mq_table"] == [
        {
            "key": {"broker_name": "broker-a", "queue_id": 1, "topic": "orders"},
            "value": {"commit_offset": 7, "locked": False},
        }
    ]


@pytest.mark.parametrize("raw", [b"{}", b"[]"])
def test_an_empty_map_with_objects_as_keys_is_an_empty_list(raw):
    assert read("ConsumeStats", b'{"offsetTable":' + raw + b"}")[0] == {"offset_table": []}


def test_keys_that_no_class_has_and_references_are_kept():
    body, problems, _ = read("QueueData", b'{"perm":6,"color":{"a":1},"$ref":"$.x"}')
    assert (body, problems) == ({"perm": 6, "unknown_fields": {"color": {"a": 1}}, "$ref": "$.x"}, [])


BITS = [
    (b'"Ag=="', [1], []),
    (b'"gQE="', [0, 7, 8], []),
    (b'""', [], []),
    (b"null", None, []),
    (b'"?"', "?", ["format"]),
    (b"7", 7, ["format"]),
]


@pytest.mark.parametrize(("raw", "opened", "odd"), BITS)
def test_the_bits_of_a_batch_ack_are_opened_into_the_indexes_that_are_set(raw, opened, odd):
    body, problems, _ = read("BatchAckMessageRequestBody", b'{"acks":[{"b":%b,"so":4}]}' % raw)
    assert body["acks"] == [{"bit_set": opened, "start_offset": 4}]
    assert problems == [(kind, "body.acks[0].bit_set") for kind in odd]


def test_a_set_of_bits_that_is_too_long_stays_text():
    text = "A" * 400_000
    body, problems, _ = read("BatchAckMessageRequestBody", b'{"acks":[{"b":"%b"}]}' % text.encode())
    assert (body["acks"][0]["bit_set"], problems) == (text, [("format", "body.acks[0].bit_set")])


def test_the_indexes_of_a_set_of_bits_count_as_values():
    raw = b'{"acks":[{"b":"%b"}]}' % (b"////" * 100)
    body, problems, _ = read("BatchAckMessageRequestBody", raw, elements_max=2000)
    assert isinstance(body, Undecoded)
    assert problems == [("malformed", "body")]


def test_a_value_that_an_enum_does_not_have_is_kept_and_noted():
    raw = HEARTBEAT.replace(b"CLUSTERING", b"SOLO")
    body, problems, _ = read("HeartbeatData", raw)
    assert body["consumer_data_set"][0]["message_model"] == "SOLO"
    assert problems == [("unknown_code", "body.consumer_data_set[0].message_model")]


def test_a_list_of_a_class_is_one():
    body, _, _ = read("[UserInfo]", b'[{"username":"a","password":"hush"},{"username":"b"}]')
    assert body == [{"username": "a", "password": Secret(b"hush")}, {"username": "b"}]


# ---- secrets


def test_secrets_are_redacted_wherever_they_stand():
    config, _, _ = read(
        "GetBrokerClusterAclConfigResponseBody",
        b'{"plainAccessConfigs":[{"accessKey":"me","secretKey":"hush","topicPerms":["t=PUB"]}]}',
    )
    assert config["plain_access_configs"][0] == {
        "access_key": "me",
        "secret_key": Secret(b"hush"),
        "topic_perms": ["t=PUB"],
    }
    table, _, _ = read("KVTable", b'{"table":{"dbPassword":"hush","note":"{\\"password\\":\\"hush\\"}","plain":"x"}}')
    assert table["table"] == {"dbPassword": Secret(b"hush"), "note": Secret(b'{"password":"hush"}'), "plain": "x"}
    free, _, _ = read("json", b'{"a":[{"secretToken":"hush","ok":true}]}')
    assert free == {"a": [{"secretToken": Secret(b"hush"), "ok": True}]}
    info, _, _ = read("ConsumerRunningInfo", RUNNING_INFO)
    assert info["properties"] == {"PROP_THREADPOOL_CORE_SIZE": "20", "consumerSecret": Secret(b"hush")}


def test_java_properties_are_taken_apart_and_redacted():
    raw = (
        b"listenPort=10911\nname=a=b\n\naclSecretKey=hush\n"
        b'innerClientAuthenticationCredentials={"accessKey":"rmq","secretKey":"hush"}\n'
        b"storeUri=https://me:hush@store/\nodd line\n"
    )
    body, problems, _ = read("java-properties", raw)
    assert problems == []
    assert {key: value for key, value in body.items() if not isinstance(value, Secret)} == {
        "listenPort": "10911",
        "name": "a=b",
        "odd line": None,
    }
    assert {key for key, value in body.items() if isinstance(value, Secret)} == {
        "aclSecretKey",
        "innerClientAuthenticationCredentials",
        "storeUri",
    }


@pytest.mark.parametrize(
    "name", ["password", "userPasswd", "secretKey", "tlsPassphrase", "SecurityToken", "credentials"]
)
def test_names_of_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["accessKey", "keys", "topicKey", "passedCount", "brokerName"])
def test_names_that_are_none(name):
    assert not is_secret_name(name)


def test_texts_that_hold_a_secret():
    assert holds_secret('{"userSecret": "x"}')
    assert holds_secret("token=abc")
    assert not holds_secret("the token of the day")
    assert not holds_secret("https://store/path")


# ---- other kinds


def test_a_timer_checkpoint_has_seven_numbers_or_of_old_brokers_four():
    assert read("timer-checkpoint", struct.pack(">7q", *range(7)))[0] == {
        "last_read_time_ms": 0,
        "last_timer_log_flush_pos": 1,
        "last_timer_queue_offset": 2,
        "master_timer_queue_offset": 3,
        "data_version": {"state_version": 4, "timestamp": 5, "counter": 6},
    }
    assert len(read("timer-checkpoint", bytes(32))[0]) == 4
    assert read("timer-checkpoint", bytes(40))[:2] == (Undecoded(bytes(40)), [("malformed", "body")])


def test_text_is_text():
    assert read("text", "grüß".encode())[0] == "grüß"
    assert read("text", b"\xff")[0] == b"\xff"


def test_a_body_where_the_protocol_defines_none_is_noted():
    assert read("", b'{"a":1}')[:2] == ({"a": 1}, [("format", "body")])
    assert read("", b"\x01\x02")[:2] == (Undecoded(b"\x01\x02"), [("format", "body")])


@pytest.mark.parametrize("kind", ["HeartbeatData", "[UserInfo]", "json", "register-broker"])
@pytest.mark.parametrize("raw", [b"{", b"\xff\xfe", b"[" * 500])
def test_what_cannot_be_read_is_undecoded_and_noted(kind, raw):
    assert read(kind, raw)[:2] == (Undecoded(raw), [("malformed", "body")])


@pytest.mark.parametrize("raw", [b"[1]", b'"text"', b"7", b"null", b'{"table":[1,{"a":2}]}'])
def test_json_of_another_form_than_its_class_is_kept(raw):
    body, problems, _ = read("KVTable", raw)
    assert (body, problems) == (json.loads(raw), [])


def test_json_with_more_values_than_elements_max_is_undecoded():
    raw = b'{"table":{' + b",".join(b'"k%d":"v"' % number for number in range(3000)) + b"}}"
    assert len(read("KVTable", raw)[0]["table"]) == 3000
    assert read("KVTable", raw, elements_max=1000)[:2] == (Undecoded(raw), [("malformed", "body")])


# ---- REGISTER_BROKER


def test_a_compressed_registration_is_told_by_its_first_byte():
    body, problems, mentions = read("register-broker", registration("orders", "jobs"))
    assert problems == []
    assert mentions.topics == ["orders", "jobs"]
    wrapper = body["topic_config_serialize_wrapper"]
    assert wrapper["data_version"] == {"counter": 3, "state_version": 0, "timestamp": 1795255473376}
    assert wrapper["topic_config_table"]["jobs"] == {
        "topic_name": "jobs",
        "read_queue_nums": 4,
        "write_queue_nums": 4,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
    }
    assert body["filter_server_list"] == []


def test_a_topic_in_another_form_costs_only_itself():
    body, problems, _ = read("register-broker", registration("two words", "jobs"))
    table = body["topic_config_serialize_wrapper"]["topic_config_table"]
    assert table["two"] == "two words 4 4 6 SINGLE_TAG "
    assert table["jobs"]["perm"] == 6
    assert problems == [("malformed", "body")]


@pytest.mark.parametrize(
    "parts",
    [
        b"",
        struct.pack(">i", -1),
        struct.pack(">i", 1 << 30),
        struct.pack(">i", 2) + b"{}" + struct.pack(">i", 1 << 30),
        struct.pack(">i", 2) + b"{}" + struct.pack(">i", -5),
    ],
)
def test_lying_lengths_inside_a_registration_are_malformed(parts):
    raw = zlib.compress(parts)
    assert read("register-broker", raw)[:2] == (Undecoded(raw), [("malformed", "body")])


def test_a_registration_that_is_a_bomb_is_not_opened():
    raw = zlib.compress(bytes(64 << 20), 9)
    assert read("register-broker", raw)[:2] == (Undecoded(raw), [("malformed", "body")])


def test_the_checksum_of_a_body_leaves_the_sign_out():
    raw = registration("orders")
    assert body_checksum_ok(raw, zlib.crc32(raw) & 0x7FFFFFFF)
    assert not body_checksum_ok(raw + b"x", zlib.crc32(raw) & 0x7FFFFFFF)
