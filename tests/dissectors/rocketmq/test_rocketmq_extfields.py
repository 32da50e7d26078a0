"""Ext fields by their class, and the formats that hide in their text."""

from __future__ import annotations

from base64 import b64encode

import pytest
from remotingcraft import UNIQUE, properties, send_fields

from mqsniff.limits import Limits
from mqsniff.model import Secret
from mqsniff_rocketmq import texts
from mqsniff_rocketmq.extfields import note_missing, read_ext
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.tables import tables


def read(name: str, ext: dict, *, owed: bool = False):
    notes, header = ProblemNotes(Limits()), tables().headers[name]
    found = read_ext(ext, header, notes)
    if owed:
        note_missing(found, header, notes)
    return found, [(problem.kind, problem.severity, problem.path) for problem in notes.problems]


def test_the_short_names_of_send_message_v2_are_spelled_out():
    found, problems = read("SendMessageRequestHeaderV2", {key: str(value) for key, value in send_fields().items()})
    assert found == {
        "producer_group": "shop_p",
        "topic": "orders",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 2,
        "sys_flag": 0,
        "born_timestamp": 1_795_255_473_376,
        "flag": 0,
        "properties": {"KEYS": "k1", "UNIQ_KEY": UNIQUE + "0001", "TAGS": "A"},
        "reconsume_times": 0,
        "unit_mode": False,
        "batch": False,
        "broker_name": "broker-a",
    }
    assert problems == []


FORMAT, RANGE = "format", "out_of_range"
NUMBERS = {
    "7": (7, []),
    "-7": (-7, []),
    "+7": (7, []),
    "2147483647": (2147483647, []),
    "-2147483648": (-2147483648, []),
    "2147483648": ("2147483648", [RANGE]),
    "9" * 5000: ("9" * 5000, [RANGE]),
    "1_000": ("1_000", [FORMAT]),
    " 7": (" 7", [FORMAT]),
    "٣": ("٣", [FORMAT]),
    "²": ("²", [FORMAT]),
    "seven": ("seven", [FORMAT]),
    "-": ("-", [FORMAT]),
    "": (None, []),
}


@pytest.mark.parametrize(("text", "value", "kinds"), [(text, *told) for text, told in NUMBERS.items()])
def test_a_number_is_one_as_java_reads_it_or_stays_text(text, value, kinds):
    found, problems = read("PullMessageRequestHeader", {"queueId": text})
    assert (found["queue_id"], [kind for kind, _, _ in problems]) == (value, kinds)


@pytest.mark.parametrize(
    ("text", "value", "kinds"),
    [("true", True, []), ("false", False, []), ("", None, []), ("TRUE", True, [FORMAT]), ("1", "1", [FORMAT])],
)
def test_a_boolean_in_another_form_is_noted(text, value, kinds):
    found, problems = read("NotificationResponseHeader", {"hasMsg": text})
    assert (found["has_msg"], [kind for kind, _, _ in problems]) == (value, kinds)


def test_values_that_are_no_text_are_taken_as_they_are():
    found, problems = read("PullMessageRequestHeader", {"queueId": 3, "commitOffset": None, "subscription": b"\xff"})
    assert (found, problems) == ({"queue_id": 3, "commit_offset": None, "subscription": b"\xff"}, [])


def test_a_required_field_that_is_absent_null_or_empty_is_a_problem():
    ext = {"consumerGroup": "g", "topic": None, "queueId": "", "commitOffset": "1"}
    _, problems = read("UpdateConsumerOffsetRequestHeader", ext, owed=True)
    assert problems == [
        ("missing_field", "warning", "ext_fields.queue_id"),
        ("missing_field", "warning", "ext_fields.topic"),
    ]
    _, problems = read("UpdateConsumerOffsetRequestHeader", {}, owed=True)
    assert len(problems) == 4


def test_fields_that_the_class_does_not_have_are_kept_and_secrets_among_them_redacted():
    found, problems = read("GetRouteInfoRequestHeader", {"topic": "t", "color": "red", "mySecretKey": "hush"})
    assert found == {"topic": "t", "unknown_fields": {"color": "red", "mySecretKey": Secret(b"hush")}}
    assert problems == []


@pytest.mark.parametrize("signature", ["vqRdOTvPf8uYjTQnOQWu9/yKRVY=", b64encode(bytes(32)).decode()])
def test_a_signature_is_one_whatever_the_name_of_its_field(signature):
    found, _ = read("GetRouteInfoRequestHeader", {"Signatvre": signature, "color": "red"})
    assert found["unknown_fields"] == {"Signatvre": Secret(signature.encode()), "color": "red"}


@pytest.mark.parametrize("name", ["GetRouteInfoRequestHeader", "SendMessageResponseHeader", "Common"])
def test_what_access_control_adds_to_any_frame_is_known_and_redacted(name):
    ext = {"AccessKey": "me", "Signature": "c2ln", "SecurityToken": "tok", "OnsChannel": "ALIYUN", "ReqT": "0"}
    assert read(name, ext)[0] == {
        "access_key": "me",
        "signature": Secret(b"c2ln"),
        "security_token": Secret(b"tok"),
        "ons_channel": "ALIYUN",
        "req_type": 0,
    }


def test_the_secret_key_of_old_access_control_is_redacted_its_access_key_is_shown():
    found, _ = read("CreateAccessConfigRequestHeader", {"accessKey": "new", "secretKey": "hush", "AccessKey": "me"})
    assert found == {"config_access_key": "new", "secret_key": Secret(b"hush"), "access_key": "me"}


# ---- formats


def test_properties_may_end_without_their_last_mark_and_repeat():
    assert texts.read_properties(properties(A="1", B="")) == {"A": "1", "B": ""}
    assert texts.read_properties("A\x011\x02B\x012") == {"A": "1", "B": "2"}
    assert texts.read_properties("A\x011\x02B\x01x\x01y\x02A\x013\x02") == {"A": "3", "B": "x\x01y"}
    assert texts.read_properties("") == {}


@pytest.mark.parametrize("text", ["A", "A\x011\x02\x02", "\x01v\x02", "\x02"])
def test_text_that_is_no_properties_stays_text_and_is_noted(text):
    assert texts.read_properties(text) is None
    found, problems = read("SendMessageRequestHeader", {"properties": text})
    assert (found["properties"], problems) == (text, [("format", "warning", "ext_fields.properties")])


def test_a_pop_handle_has_eight_words_or_of_old_peers_seven():
    new = texts.read_pop_handle("12 1795255473376 20000 3 1 broker-a 2 17")
    assert new == {
        "ck_queue_offset": 12,
        "pop_time": 1795255473376,
        "invisible_time": 20000,
        "revive_qid": 3,
        "retry": 1,
        "broker_name": "broker-a",
        "queue_id": 2,
        "msg_queue_offset": 17,
    }
    old = texts.read_pop_handle("12 1795255473376 20000 3 1 broker-a 2")
    assert old == {name: value for name, value in new.items() if name != "msg_queue_offset"}


@pytest.mark.parametrize(
    "text", ["", "1 2 3", "1 2 3 4 5 b 6 7 8", "x 2 3 4 5 b 6 7", "1 2 3 4 5 b 6 x", "1" * 30 + " 2 3 4 5 b 6"]
)
def test_what_is_no_pop_handle_is_none(text):
    assert texts.read_pop_handle(text) is None


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        (texts.read_pop_start_offsets, "", []),
        (texts.read_pop_start_offsets, "0 1 15;2 0 3", [(0, 1, 15), (2, 0, 3)]),
        (texts.read_pop_start_offsets, "0 1", None),
        (texts.read_pop_message_offsets, "0 1 15,16;1 0 3", [(0, 1, [15, 16]), (1, 0, [3])]),
        (texts.read_pop_message_offsets, "0 1 15,x", None),
        (texts.read_pop_message_offsets, "0 1", None),
        (texts.read_pop_order_counts, "0 1 2;0 qo1%15 4", [(0, 1, 2), (0, 1, 15, 4)]),
        (texts.read_pop_order_counts, "0;0;3", [(0,), (0,), (3,)]),
        (texts.read_pop_order_counts, "0 1", None),
        (texts.read_pop_order_counts, "0 qo% 1", None),
    ],
)
def test_what_a_pop_tells_of_its_queues_is_taken_apart(reader, text, value):
    found = reader(text)
    assert (found and [tuple(item.values()) for item in found]) == value if found is not None else value is None


def test_a_recall_handle_tells_topic_broker_time_and_message():
    assert texts.read_recall_handle("djEgdCBiIDE3OTUyNTU1NTYwMDEgSUQ=") == {
        "version": "v1",
        "topic": "t",
        "broker_name": "b",
        "deliver_time": 1795255556001,
        "message_id": "ID",
    }
    assert texts.read_recall_handle("djEgdCBi") is None
    assert texts.read_recall_handle("ü") is None
    assert texts.read_recall_handle("/////w==") is None
