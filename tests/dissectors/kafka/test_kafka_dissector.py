"""Kafka's connections as dialogues: what is said, and what the dissector makes of it."""

from __future__ import annotations

import json
import struct
from base64 import urlsafe_b64encode
from collections.abc import Sequence

import kafkacraft as craft
import pytest
from kafkacraft import fetch, fetched, produce, produced, raw_request, record_batch, request, response, sized
from record_craft import Plain, message_set

from mqsniff.dissector import Settings
from mqsniff.model import Frame, Message, Secret, Side, Undecoded, Upgrade
from mqsniff.tables.masking import hidden_ranges
from mqsniff.tables.values import Redaction
from mqsniff.testing.conversations import Say, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka

MILLISECOND_NS = 1_000_000


def heard(*dialogue: Say, **holes) -> Driver:
    return Driver(Kafka).run(chunks(dialogue, **holes))


def told(driver: Driver) -> list[tuple]:
    return [(message.name, message.kind, message.version, message.correlation) for message in driver.messages]


def problems(message: Message) -> list[tuple[str, str]]:
    return [(problem.kind, problem.severity) for problem in message.problems]


def conversation(name: str) -> Driver:
    return Driver(Kafka).run(chunks(craft.CONVERSATIONS[name]))


# ---- pairing


def test_a_response_is_read_by_the_request_with_its_correlation_id():
    driver = heard(
        client(request(craft.HEARTBEAT, 4, 1), request(craft.METADATA, 12, 2)),
        server(response(craft.HEARTBEAT, 4, 1, {"error_code": 27}), response(craft.METADATA, 12, 2)),
    )
    assert told(driver) == [
        ("Heartbeat", "request", 4, "1"),
        ("Metadata", "request", 12, "2"),
        ("Heartbeat", "response", 4, "1"),
        ("Metadata", "response", 12, "2"),
    ]
    assert [message.error_name for message in driver.messages[2:]] == ["REBALANCE_IN_PROGRESS", None]
    assert driver.messages[2].resolved[0].message is driver.messages[0]


def test_ids_that_repeat_are_answered_in_the_order_of_their_requests():
    driver = heard(
        client(request(craft.HEARTBEAT, 4, 7), request(craft.LEAVE_GROUP, 5, 7)),
        server(response(craft.HEARTBEAT, 4, 7), response(craft.LEAVE_GROUP, 5, 7)),
    )
    assert [message.name for message in driver.messages[2:]] == ["Heartbeat", "LeaveGroup"]
    assert [message.resolved[0].message for message in driver.messages[2:]] == driver.messages[:2]


def test_an_answer_that_was_lost_does_not_shift_those_behind_it_where_all_ids_are_the_same():
    lost = response(craft.HEARTBEAT, 4, 0)
    driver = heard(
        client(request(craft.HEARTBEAT, 4, 0)),
        server(lost),
        client(request(craft.METADATA, 12, 0)),
        server(response(craft.METADATA, 12, 0)),
        client(request(craft.HEARTBEAT, 4, 0)),
        server(response(craft.HEARTBEAT, 4, 0)),
        holes=((), [(0, len(lost))]),
    )
    answers = [message for message in driver.messages if message.kind == "response"]
    assert [(message.name, problems(message)) for message in answers] == [("Metadata", []), ("Heartbeat", [])]
    assert [pending.status for pending in answers[0].resolved] == ["lost", None]


def test_a_request_whose_turn_is_over_is_not_answered_by_a_later_answer_with_its_id():
    lost = response(craft.HEARTBEAT, 4, 7)
    driver = heard(
        client(request(craft.HEARTBEAT, 4, 7)),
        server(lost),
        client(request(craft.METADATA, 12, 1)),
        server(response(craft.METADATA, 12, 1)),
        client(request(craft.HEARTBEAT, 4, 7)),
        server(response(craft.HEARTBEAT, 4, 7)),
        holes=((), [(0, len(lost))]),
    )
    first, second = (pending for pending in driver.messages[-1].resolved)
    assert (first.status, first.frame.offset, second.status, second.answer) == ("lost", 0, None, driver.messages[-1])


def test_pairing_survives_a_response_whose_body_is_lost():
    answer = fetched(1, record_batch(b"x" * 300))
    driver = heard(client(fetch(1)), server(answer), holes=((), [(8, len(answer) - 4)]))
    (_, message) = driver.messages
    assert (message.name, message.correlation, message.answers) == ("Fetch", "1", 1)
    assert problems(message) == [("truncated", "error")]


def test_pairing_survives_a_response_that_cannot_be_decoded():
    driver = heard(client(request(craft.METADATA, 12, 5)), server(sized(struct.pack(">i", 5) + b"\x00garbage")))
    message = driver.messages[1]
    assert (message.name, message.answers, problems(message)) == ("Metadata", 1, [("malformed", "error")])


def test_a_response_whose_request_was_not_seen_has_its_id_and_its_bytes():
    driver = heard(server(response(craft.HEARTBEAT, 0, 3)))
    (message,) = driver.messages
    assert (message.name, message.correlation, message.answers) == ("Response", "3", 0)
    assert message.body == {"undecoded": Undecoded(bytes(2))}


def test_a_produce_without_acks_is_never_answered():
    driver = heard(client(produce(1, b"a", acks=0), produce(2, b"b")), server(produced(2, 9)))
    first, second, answer = driver.messages
    assert (first.kind, first.pending[0].status) == ("oneway", "oneway")
    assert first.records[0].constant["ack"] == "none"
    assert second.kind == "request"
    assert answer.resolved[0].message is second


@pytest.mark.parametrize(
    ("name", "pending", "limit_ms"),
    [
        ("Fetch", fetch(1), 500),
        ("JoinGroup", request(craft.JOIN_GROUP, 9, 1, {"rebalance_timeout_ms": 7, "session_timeout_ms": 3}), 7),
        ("JoinGroup", request(craft.JOIN_GROUP, 0, 1, {"session_timeout_ms": 3}), 3),
        ("Heartbeat", request(craft.HEARTBEAT, 4, 1), None),
    ],
)
def test_what_the_broker_may_hold_is_told(name, pending, limit_ms):
    (message,) = heard(client(pending)).messages
    assert message.name == name
    assert message.pending[0].wait_limit_ns == (None if limit_ms is None else limit_ms * MILLISECOND_NS)


def test_sync_group_may_take_as_long_as_the_group_was_given_to_join():
    joining = {"group_id": "g", "rebalance_timeout_ms": 4000}
    driver = heard(
        client(request(craft.JOIN_GROUP, 5, 1, joining)),
        server(response(craft.JOIN_GROUP, 5, 1)),
        client(request(craft.SYNC_GROUP, 3, 2, {"group_id": "g"})),
    )
    assert driver.messages[2].pending[0].wait_limit_ns == 4000 * MILLISECOND_NS


def test_an_answer_with_data_at_once_was_not_held():
    driver = heard(client(fetch(1, topics=craft.ASKED)), server(fetched(1, record_batch(b"x", base=5))))
    pending = driver.messages[1].resolved[0]
    assert (pending.held, pending.throttle_ns) == (False, 0)


# ---- versions and headers


def test_a_broker_that_knows_no_such_version_answers_in_version_0():
    _, answer, *_ = conversation("fallback").messages
    assert (answer.error_name, answer.problems) == ("UNSUPPORTED_VERSION", [])
    assert answer.body["api_keys"] == [{"api_key": 18, "min_version": 0, "max_version": 3}]


def test_unknown_versions_and_keys_keep_header_bytes_and_pairing():
    newer, newer_answer, vendor, vendor_answer = conversation("fallback").messages[4:]
    assert [message.name for message in (newer, newer_answer)] == ["Metadata", "Metadata"]
    assert [message.name for message in (vendor, vendor_answer)] == ["unknown(10001)", "unknown(10001)"]
    assert problems(newer) == [("unknown_version", "warning")]
    assert problems(vendor) == [("unknown_code", "warning")]
    assert (newer.client_id, newer.body) == ("craft", {"undecoded": Undecoded(b"\x01\x02\x03")})
    assert newer_answer.body == {"undecoded": Undecoded(b"tomorrow")}
    assert vendor_answer.body == {"undecoded": Undecoded(b"answer")}


def test_bytes_behind_a_request_are_kept_and_told():
    (message,) = heard(client(raw_request(craft.API_VERSIONS, 0, 1, bytes(4)))).messages
    assert (message.body, problems(message)) == (
        {"trailing_bytes": Undecoded(bytes(4))},
        [("trailing_bytes", "info")],
    )


def test_a_null_that_must_not_be_is_a_problem_of_its_field():
    body = b"\xff\xff" + struct.pack(">i", 1) + b"\x00\x01m"
    (message,) = heard(client(raw_request(craft.HEARTBEAT, 0, 1, body))).messages
    assert [(problem.kind, problem.path) for problem in message.problems] == [("missing_field", "group_id")]


def test_header_tags_that_nobody_knows_are_kept():
    head = struct.pack(">hhih", craft.HEARTBEAT, 4, 1, 0) + b"\x01\x07\x02ab"
    body = request(craft.HEARTBEAT, 4, 1, client_id="")[15:]
    driver = heard(client(request(craft.METADATA, 12, 0), sized(head + body)))
    assert driver.messages[1].body["header_unknown_tags"] == {"7": b"ab"}


def test_a_version_that_once_meant_other_bytes_is_read_by_the_meaning_that_fits():
    old = b"\x02g\x02m" + struct.pack(">i", 1) + b"\x00\x00" + struct.pack(">i", 5) + b"\x00\x00\x00\x00\x00\x00"
    driver = heard(client(request(craft.METADATA, 12, 0), raw_request(68, 0, 1, old, flexible=True)))
    message = driver.messages[1]
    assert (message.problems, "client_assignors" in message.body) == ([], True)


# ---- columns


def test_errors_inside_are_counted_and_named():
    topics = [{"name": name, "error_code": code} for name, code in (("a", 0), ("b", 3), ("c", 17))]
    driver = heard(
        client(request(craft.CREATE_TOPICS, 4, 1)), server(response(craft.CREATE_TOPICS, 4, 1, {"topics": topics}))
    )
    message = driver.messages[1]
    assert (message.error_code, message.error_name, message.error_count) == (3, "UNKNOWN_TOPIC_OR_PARTITION", 2)
    assert message.resolved[0].status == "partial"


def test_a_response_in_which_all_failed_is_an_error_and_no_partial_success():
    driver = heard(client(produce(1, b"a")), server(produced(1, -1, error=10)))
    pending = driver.messages[1].resolved[0]
    assert (driver.messages[1].error_name, pending.status) == ("MESSAGE_TOO_LARGE", None)


def test_a_consumer_names_its_group_topics_and_what_its_members_want():
    driver = conversation("consumer")
    assert {message.group for message in driver.messages[4:12]} == {"g"}
    joining = driver.messages[4].body["protocols"][0]["metadata"]
    assert joining == {"version": 0, "topics": ["orders"], "user_data": None}
    assert {message.client_id for message in driver.messages} == {"craft"}
    assert driver.dissector.identity.client_software == "craft 1.0"


def test_metadata_teaches_the_names_of_topic_ids():
    answer = conversation("consumer").messages[3]
    assert answer.teaches == ((craft.TOPIC_ID, "orders"),)
    assert (answer.topics, answer.topic_ids) == (("orders",), (craft.TOPIC_ID,))


def test_an_empty_fetch_of_a_session_still_knows_its_topics():
    last_fetch, answer = (message for message in conversation("consumer").messages if message.correlation == "8")
    assert last_fetch.body["topics"] == []
    assert last_fetch.topics == answer.topics == ("orders",)
    assert ("session_partitions", 1) in last_fetch.notes


def test_partitions_are_rows_with_offsets_and_sizes():
    driver = conversation("consumer")
    pending, _, answer, *_ = (message for message in driver.messages if message.name in ("Fetch", "Heartbeat"))
    assert {name: pending.partitions[0][name] for name in ("topic", "partition", "offset")} == {
        "topic": "orders",
        "partition": 0,
        "offset": 5,
    }
    row = answer.partitions[0]
    assert (row["high_watermark"], row["batches"], row["records"], row["reader"]) == (9, 1, 2, "consumer")
    assert row["wire_bytes"] == len(record_batch(b"one", b"two"))


def test_a_batch_that_the_broker_cut_is_named_and_not_counted():
    whole, cut = record_batch(b"one", b"two", base=5), record_batch(b"three", base=7)[:70]
    answer = heard(client(fetch(1, topics=craft.ASKED)), server(fetched(1, whole + cut))).messages[1]
    (row,) = answer.partitions
    assert (row["batches"], row["records"], row["wire_bytes"]) == (1, 2, len(whole + cut))
    shown = answer.body["responses"][0]["partitions"][0]["records"]
    assert [batch["base_offset"] for batch in shown["batches"]] == [5]
    assert shown["partial_batch"].items() >= {"cut_by": "broker", "size": 70, "base_offset": 7}.items()
    assert not answer.problems


def test_a_batch_that_a_client_cut_is_a_problem():
    partition = {"index": 0, "records": record_batch(b"one")[:70]}
    body = {"acks": 1, "topic_data": [{"name": "orders", "partition_data": [partition]}]}
    (message,) = heard(client(craft.request(craft.PRODUCE, 3, 1, body))).messages
    shown = message.body["topic_data"][0]["partition_data"][0]["records"]
    assert (shown["batches"], shown["partial_batch"]["cut_by"]) == ([], "client")
    assert [problem.detail for problem in message.problems] == ["a batch without its end"]


def test_a_follower_is_told_from_a_consumer():
    body = {"replica_id": 3, "topics": craft.ASKED}
    driver = heard(client(fetch(1, **body)), server(fetched(1, record_batch(b"x", base=5))))
    assert ("follower", 3) in driver.messages[0].notes
    assert driver.messages[1].records[0].constant["reader"] == "follower"


@pytest.mark.parametrize(
    ("frame", "note"),
    [
        (produce(1, b"a", acks=-1), ("acks", "all")),
        (request(craft.METADATA, 12, 1), ("topics", "all")),
        (request(craft.METADATA, 0, 1), ("topics", "all")),
        (request(craft.METADATA, 4, 1, {"topics": []}), ("topics", "none")),
        (
            request(craft.LIST_OFFSETS, 1, 1, {"topics": [{"name": "t", "partitions": [{"timestamp": -2}]}]}),
            ("timestamp", "EARLIEST"),
        ),
        (request(craft.FIND_COORDINATOR, 1, 1, {"key": "tx", "key_type": 1}), ("key_type", "TRANSACTION")),
    ],
)
def test_special_values_are_spelled(frame, note):
    assert note in heard(client(frame)).messages[0].notes


# ---- records


def test_produced_records_get_the_brokers_offsets():
    driver = heard(client(produce(1, b"a", b"b")), server(produced(1, 40)))
    (batch,) = driver.messages[0].records
    assert list(batch.columns["client_offset"]) == [0, 1]
    assert list(batch.columns["offset"]) == [40, 41]
    assert (batch.constant["ack"], batch.constant["topic"], batch.constant["partition"]) == ("acked", "orders", 0)


def test_refused_records_failed_and_have_no_offset():
    driver = heard(client(produce(1, b"a")), server(produced(1, -1, error=10)))
    (batch,) = driver.messages[0].records
    assert (batch.constant["ack"], "offset" in batch.columns) == ("failed", False)


def test_aborted_transactions_are_marked_up_to_their_marker():
    data = record_batch(b"lost", base=5, producer=9, attributes=0x10) + craft.control_batch(0, 6, 9)
    data += record_batch(b"kept", base=7, producer=9, attributes=0x10)
    aborted = [{"producer_id": 9, "first_offset": 5}]
    driver = heard(
        client(fetch(1, topics=craft.ASKED, isolation_level=1)), server(fetched(1, data, aborted_transactions=aborted))
    )
    found = [(batch.constant["control"], batch.constant.get("aborted")) for batch in driver.messages[1].records]
    assert found == [(False, True), (True, None), (False, False)]


def test_record_data_that_the_capture_lost_keeps_its_size():
    answer = fetched(1, record_batch(b"x" * 500, base=5))
    driver = heard(client(fetch(1, topics=craft.ASKED)), server(answer), holes=((), [(200, len(answer) - 10)]))
    records = driver.messages[1].body["responses"][0]["partitions"][0]["records"]
    assert records["size"] == len(record_batch(b"x" * 500))


@pytest.mark.parametrize("version", ["0300", "0301", "0303"])
def test_a_server_on_a_tls_port_answers_with_an_alert(version):
    alert = bytes.fromhex(f"15{version}00020250")
    driver = heard(client(request(craft.API_VERSIONS, 3, 1)), server(alert))
    (upgrade,) = (event for _, event in driver.told if isinstance(event, Upgrade))
    assert (upgrade.to, upgrade.at) == ("tls", {Side.SERVER: 0})
    assert driver.dissector.identity.close_reason == "protocol error"
    assert driver.skipped == []


# ---- secrets and logins


def test_configuration_values_are_hidden_by_name_and_by_what_the_broker_says():
    configs = [
        {"name": "ssl.keystore.password", "value": "x", "is_sensitive": False},
        {"name": "retention.ms", "value": "5", "is_sensitive": False},
        {"name": "custom", "value": "y", "is_sensitive": True, "synonyms": [{"name": "custom", "value": "z"}]},
    ]
    driver = heard(
        client(request(craft.DESCRIBE_CONFIGS, 4, 1)),
        server(response(craft.DESCRIBE_CONFIGS, 4, 1, {"results": [{"configs": configs}]})),
    )
    found = driver.messages[1].body["results"][0]["configs"]
    assert [one["value"] for one in found] == [Secret(b"x"), "5", Secret(b"y")]
    assert found[2]["synonyms"][0]["value"] == Secret(b"z")
    spans = [span for span in driver.dissector.spans(driver.messages[1].frame) if span.meaning == "config_value"]
    assert [span.value for span in spans] == [Secret(b"x"), "5", Secret(b"y"), Secret(b"z")]


def test_a_configuration_value_is_hidden_where_the_capture_lost_what_the_broker_says_of_it():
    configs = [{"name": "custom", "value": "innocent or not", "is_sensitive": True}]
    answer = response(craft.DESCRIBE_CONFIGS, 4, 1, {"results": [{"configs": configs}]})
    lost = answer.index(b"innocent") + len("innocent or not")
    holes = ((), [(lost, len(answer) - 1)])
    driver = heard(client(request(craft.DESCRIBE_CONFIGS, 4, 1)), server(answer), holes=holes)
    message = driver.messages[1]
    (found,) = message.body["results"][0]["configs"]
    assert found["value"] == Secret(b"innocent or not")
    spans = [span for span in driver.dissector.spans(message.frame) if span.meaning == "config_value"]
    assert [span.value for span in spans] == [Secret(b"innocent or not")]


def test_a_login_by_sasl_authenticate_names_user_and_mechanism():
    driver = conversation("login by SaslAuthenticate")
    identity = driver.dissector.identity
    assert (identity.user, identity.mechanism, identity.close_reason) == ("alice", "PLAIN", None)
    assert [message.answers for message in driver.messages if message.kind == "response"] == [1] * 5
    assert driver.messages[2].body == {"auth_bytes": Secret(b"\x00alice\x00wonder")}


def test_raw_tokens_end_when_their_mechanism_is_through():
    driver = conversation("login by raw tokens")
    assert [message.name for message in driver.messages] == [
        *["SaslHandshake"] * 2,
        *["SaslToken"] * 4,
        *["Metadata"] * 2,
    ]
    assert driver.dissector.identity.user == "al,ice"
    assert ("authenticated", True) in driver.messages[5].notes


def test_an_empty_raw_token_ends_plain():
    driver = heard(
        client(request(craft.SASL_HANDSHAKE, 0, 1, {"mechanism": "PLAIN"})),
        server(response(craft.SASL_HANDSHAKE, 0, 1)),
        client(sized(b"boss\x00alice\x00pw")),
        server(sized(b"")),
        client(request(craft.METADATA, 1, 2)),
    )
    assert [message.name for message in driver.messages][2:] == ["SaslToken", "SaslToken", "Metadata"]
    assert ("authzid", "boss") in driver.messages[2].notes


def test_a_client_of_0_9_begins_with_a_gssapi_token():
    driver = heard(client(sized(b"\x60\x82token")), server(sized(b"\x60answer")), client(request(craft.METADATA, 0, 1)))
    assert [message.name for message in driver.messages] == ["SaslToken", "SaslToken", "Metadata"]
    assert driver.dissector.identity.mechanism == "GSSAPI"


def jws(header: dict, claims: dict, signature: bytes) -> bytes:
    return b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in (_json(header), _json(claims), signature))


def _json(value: dict) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(("algorithm", "user"), [("none", "carol"), ("RS256", None)])
def test_claims_of_an_unsecured_token_are_shown_and_of_a_signed_one_not(algorithm, user):
    token = b"n,,\x01auth=Bearer " + jws({"alg": algorithm}, {"sub": "carol"}, b"sig") + b"\x01\x01"
    driver = heard(
        client(request(craft.SASL_HANDSHAKE, 1, 1, {"mechanism": "OAUTHBEARER"})),
        server(response(craft.SASL_HANDSHAKE, 1, 1)),
        client(request(craft.SASL_AUTHENTICATE, 0, 2, {"auth_bytes": token})),
    )
    assert driver.dissector.identity.user == user


def test_a_refused_login_is_why_the_connection_closes():
    driver = heard(
        client(request(craft.SASL_HANDSHAKE, 1, 1, {"mechanism": "PLAIN"})),
        server(response(craft.SASL_HANDSHAKE, 1, 1)),
        client(request(craft.SASL_AUTHENTICATE, 0, 2, {"auth_bytes": b"\x00a\x00b"})),
        server(response(craft.SASL_AUTHENTICATE, 0, 2, {"error_code": 58})),
    )
    assert driver.messages[-1].error_name == "SASL_AUTHENTICATION_FAILED"
    assert driver.dissector.identity.close_reason == "authentication"


@pytest.mark.parametrize(
    ("closes", "cause"), [((Side.SERVER, Side.CLIENT), "authentication"), ((Side.CLIENT, Side.SERVER), None)]
)
def test_a_server_that_closes_on_a_raw_token_has_refused_it_unless_the_client_left_or_the_capture_ended(closes, cause):
    said = [
        client(request(craft.SASL_HANDSHAKE, 0, 1, {"mechanism": "PLAIN"})),
        server(response(craft.SASL_HANDSHAKE, 0, 1)),
    ]
    driver = Driver(Kafka).run(chunks([*said, client(sized(b"\x00a\x00pw"))]), closes)
    assert driver.dissector.identity.close_reason == cause


def test_a_forwarded_request_and_its_response_are_read_whole():
    inner = request(craft.HEARTBEAT, 4, 3, {"group_id": "g"})[4:]
    answer = response(craft.HEARTBEAT, 4, 3, {"error_code": 16})[4:]
    driver = heard(
        client(request(58, 0, 1, {"request_data": inner, "client_host_address": bytes([10, 0, 0, 1])})),
        server(response(58, 0, 1, {"response_data": answer})),
    )
    pending, told_back = driver.messages
    assert pending.body["client_host_address"] == "10.0.0.1"
    assert pending.body["request_data"]["header"]["api_key"] == craft.HEARTBEAT
    assert pending.body["request_data"]["body"]["group_id"] == "g"
    assert told_back.body["response_data"]["body"]["error_code"] == 16


# ---- one field beside its bytes


@pytest.mark.parametrize("name", craft.CONVERSATIONS)
def test_spans_tile_every_frame(name):
    driver = conversation(name)
    for message in driver.messages:
        if message.name == "SaslToken":
            continue
        at = 0
        for span in driver.dissector.spans(message.frame):
            assert span.start == at, (message.name, span)
            at = span.stop
        assert at == message.frame.size, message.name


SMALL = (Plain(1_600_000_000_000, b"key", b"value"), Plain(1_600_000_000_001, None, b"x" * 30))
CUT = {
    **{f"magic {magic}": message_set(SMALL, magic) for magic in (0, 1)},
    **{f"magic {magic}, gzip": message_set(SMALL, magic, 1) for magic in (0, 1)},
    "magic 2": record_batch(b"three", base=7),
}


def blanked(frame: Frame, driver: Driver) -> bytes:
    """The bytes of a frame as an extract has them."""
    data = bytearray(frame.data)
    for start, stop, _ in hidden_ranges(driver.dissector.spans(frame), frame.data, Redaction()):
        data[start:stop] = bytes(stop - start)
    return bytes(data)


@pytest.mark.parametrize("name", CUT)
def test_what_the_broker_cut_is_the_same_after_what_nobody_decoded_was_blanked(name):
    asked, whole = client(fetch(1, topics=craft.ASKED)), record_batch(b"one", base=5)
    for size in range(1, len(CUT[name])):
        driver = heard(asked, server(fetched(1, whole + CUT[name][:size])))
        answer = driver.messages[1]
        spans = list(driver.dissector.spans(answer.frame))
        assert [span.start for span in spans] == [0, *(span.stop for span in spans[:-1])]
        copy = heard(asked, server(blanked(answer.frame, driver))).messages[1]
        assert (copy.body, copy.problems) == (answer.body, []), size


@pytest.mark.parametrize(("explain", "body"), [(True, ["throttle_time_ms", "error_code"]), (False, ["undecoded"])])
def test_how_a_response_was_read_is_remembered_only_where_frames_are_explained(explain, body):
    said = [client(request(craft.HEARTBEAT, 1, 1)), server(response(craft.HEARTBEAT, 1, 1))]
    driver = Driver(Kafka, explain=explain).run(chunks(said))
    spans = driver.dissector.spans(driver.messages[1].frame)
    assert [span.path for span in spans] == ["size", "correlation_id", *body]
    assert "spans" not in Settings().wanted


def test_the_description_counts_every_layout():
    tables = Kafka.describe()
    coverage = {row["what"]: row["number"] for row in tables["coverage"]}
    assert (coverage["APIs"], coverage["layouts (API, version, direction)"]) == (95, 736)


def test_the_release_is_known_by_what_a_broker_offers():
    offered: Sequence[tuple[int, int, int]] = [(key, first, last) for key, (first, last, _) in releases("1.1").items()]
    keys = [{"api_key": key, "min_version": first, "max_version": last} for key, first, last in offered]
    driver = heard(
        client(request(craft.API_VERSIONS, 0, 1)), server(response(craft.API_VERSIONS, 0, 1, {"api_keys": keys}))
    )
    assert driver.dissector.identity.server_software == "Apache Kafka 1.1"


def releases(name: str) -> dict[int, tuple[int, int, bool]]:
    from mqsniff_kafka import specs

    return dict(specs.releases()[name])


def test_nothing_of_a_dialogue_is_passed_over():
    driver = conversation("producer")
    assert {message.frame.side for message in driver.messages} == {Side.CLIENT, Side.SERVER}
    assert driver.skipped == []
