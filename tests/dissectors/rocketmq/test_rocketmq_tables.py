"""The tables that are built from proto/rocketmq: what they hold, and what is printed of them."""

from __future__ import annotations

import pytest

from mqsniff_rocketmq import RocketMQ
from mqsniff_rocketmq.tables import RemotingTables, tables
from mqsniff_rocketmq.texts import FORMATS


def test_every_request_code_of_the_protocol_has_a_name():
    known = tables()
    statuses = [request.status for request in known.every]
    dledger = [code for code in known.requests if code >= 50000 and code < 60000]
    assert len(statuses) - len(dledger) == 206
    assert sum(status in ("current", "newer", "unused") for status in statuses) - len(dledger) == 171
    assert sum(status in ("legacy", "alias") for status in statuses) == 35


def test_where_a_current_and_a_removed_code_have_one_number_the_current_one_is_meant():
    assert tables().requests[105].name == "GET_ROUTEINFO_BY_TOPIC"
    assert tables().requests[351].name == "GET_TOPIC_CONFIG"
    assert tables().requests[1001].name == "CONTROLLER_ALTER_SYNC_STATE_SET"
    assert tables().requests[350].name == "REGISTER_SNODE"


def test_a_code_that_was_cut_to_16_bits_is_found_again_and_stands_for_no_other():
    known = tables()
    assert known.cut[3442].name == "POP_MESSAGE"
    assert known.cut[3543].name == "BATCH_ACK_MESSAGE"
    assert known.cut[50000 - 65536].name == "DLEDGER_METADATA"
    assert not set(known.cut) & set(known.requests)
    assert len(known.cut) == sum(code > 0x7FFF for code in known.requests)


@pytest.mark.parametrize(
    ("code", "group", "name"),
    [
        (0, "", "SUCCESS"),
        (19, "", "PULL_NOT_FOUND"),
        (209, "", "POLLING_FULL"),
        (209, "acl1", "UPDATE_AND_CREATE_ACL_CONFIG_FAILED"),
        (1, "acl1", "SYSTEM_ERROR"),
        (200, "", "TRANSACTION_SHOULD_COMMIT"),
        (200, "dledger", "SUCCESS"),
        (404, "dledger", "NOT_LEADER"),
        (-2, "", "ASYNC_AND_RETURN_NULL"),
        (2012, "", "CONTROLLER_ELECT_MASTER_FAILED"),
        (4321, "", None),
    ],
)
def test_response_codes_are_read_by_the_code_of_their_request(code, group, name):
    assert tables().response_name(code, group) == name


def test_there_are_as_many_response_codes_as_the_protocol_has():
    groups = tables().responses
    assert len(groups[""]) == 68
    assert len(groups["acl1"]) + len(groups["legacy"]) == 9


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (513, "5.5.0"),
        (512, "5.5.0-SNAPSHOT"),
        (0, "3.0.0-SNAPSHOT"),
        (612, "HIGHER-VERSION"),
        (613, None),
        (-1, None),
        ("513", None),
    ],
)
def test_a_version_is_the_number_of_a_release(number, name):
    assert tables().version_name(number) == (name.replace("HIGHER-VERSION", "HIGHER.VERSION") if name else None)


@pytest.mark.parametrize(
    ("language", "name"), [(0, "JAVA"), (9, "GO"), ("GO", "GO"), (77, None), (None, None), (b"x", None)]
)
def test_a_language_is_text_in_json_and_a_number_in_binary_headers(language, name):
    assert tables().language_name(language) == name


def test_every_format_of_a_header_field_has_its_reader():
    formats = {field.format for header in tables().headers.values() for field in header.fields.values()}
    assert formats == {"", *FORMATS}


def test_polls_name_the_field_that_lets_the_broker_hold_them():
    waits = {request.name: request.waits for request in tables().every if request.waits}
    assert waits == {
        "PULL_MESSAGE": "suspend_timeout_millis",
        "LITE_PULL_MESSAGE": "suspend_timeout_millis",
        "POP_MESSAGE": "poll_time",
        "POP_LITE_MESSAGE": "poll_time",
        "NOTIFICATION": "poll_time",
    }


def test_names_in_a_class_are_different():
    for header in tables().headers.values():
        names = [field.name for field in header.fields.values()]
        assert len(names) == len(set(names)), header.name


def test_data_of_another_format_is_refused():
    with pytest.raises(ValueError, match="mqsniff-rocketmq"):
        RemotingTables({"format": "mqsniff-rocketmq/0"})


def test_the_description_shows_every_code_with_its_classes():
    described = RocketMQ.describe()
    rows = {row["code"]: row for row in described["requests"]}
    assert rows[310] == {
        "code": 310,
        "name": "SEND_MESSAGE_V2",
        "status": "current",
        "who": ["client to broker", "client to proxy", "broker to broker"],
        "answered_by": ["SEND_MESSAGE_V2"],
        "request_header": "SendMessageRequestHeaderV2",
        "request_body": "message",
        "response_header": "SendMessageResponseHeader",
        "response_body": None,
    }
    assert len(rows) + len(described["older_names"]) == len(tables().every)
    assert {row["name"] for row in described["older_names"]} >= {"GET_ROUTEINTO_BY_TOPIC", "SNODE_PULL_MESSAGE"}
    assert {"class": "KVTable", "status": "current", "fields": 1} in described["body_classes"]


def test_codes_without_any_class_are_those_for_which_the_protocol_defines_none():
    bare = {
        row["name"]
        for row in RocketMQ.describe()["requests"]
        if row["status"] == "current" and not any(row[name] for name in row if name.endswith(("_header", "_body")))
    }
    assert bare == {
        "CLEAN_EXPIRED_CONSUMEQUEUE",
        "CLEAN_UNUSED_TOPIC",
        "DELETE_EXPIRED_COMMITLOG",
        "POP_ROLLBACK",
        "SET_COMMITLOG_READ_MODE",
    }
