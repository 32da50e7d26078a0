"""Spans: every byte of a frame beside what it means, and the same values as in the decoded body."""

from __future__ import annotations

import re

import pytest
from javavectors import lines
from remotingcraft import (
    CONVERSATIONS,
    RESPONSE,
    answer,
    binary_frame,
    frame,
    json_frame,
    pull_fields,
    pull_result,
    registration,
    stored,
)

from mqsniff.limits import Limits
from mqsniff.model import Frame, Secret, Side, Span
from mqsniff.testing.conversations import chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_rocketmq import RocketMQ
from mqsniff_rocketmq.explain import frame_spans
from mqsniff_rocketmq.tables import CodePart, tables

PLACED = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


COMPARED = re.compile(r"(?:body|ext_fields)\.(?!.*(?:_size|\.body|properties)$)")
"""Paths of fields that stand in the body as they are explained: sizes and message data do not."""


def at(body, path: str):
    """What stands in a body under a path."""
    for index, name in PLACED.findall(path):
        body = body[int(index)] if index else body[name]
    return body


def explained(*says):
    driver = Driver(RocketMQ).run(chunks(says))
    return [(message, list(driver.dissector.spans(message.frame))) for message in driver.messages]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_spans_tile_every_frame_and_agree_with_its_body(name):
    for message, spans in explained(*CONVERSATIONS[name]):
        assert spans[0].start == 0
        assert [span.start for span in spans[1:]] == [span.stop for span in spans[:-1]]
        assert spans[-1].stop == message.frame.size
        fields = {span.path: span.value for span in spans if COMPARED.match(span.path)}
        assert fields == {path: at(message.body, path) for path in fields}
        assert fields or not message.body.get("ext_fields")


def test_the_header_is_named_field_by_field():
    ((_, spans),) = explained(client(json_frame(310, 7, {"b": "orders", "x": "y"}, b"hello")))
    assert [(span.path, span.value, span.meaning) for span in spans] == [
        ("length", spans[0].value, "bytes after this word"),
        ("serialize_type", 0, "JSON"),
        ("header_size", spans[2].value, ""),
        ("code", 310, "SEND_MESSAGE_V2"),
        ("ext_fields.topic", "orders", "b"),
        ("ext_fields.unknown_fields.x", "y", ""),
        ("flag", 0, ""),
        ("language", "JAVA", ""),
        ("opaque", 7, ""),
        ("serialize_type_current_rpc", "JSON", ""),
        ("version", 513, "5.5.0"),
        ("", None, "end of JSON"),
        ("body", b"hello", "message data"),
    ]


@pytest.mark.parametrize(
    ("pending", "response", "meaning"),
    [
        (json_frame(105, 1, {"topic": "t"}), answer(1, None, code=17), "TOPIC_NOT_EXIST"),
        (json_frame(105, 1, {"topic": "t"}), answer(1, None, code=4321), ""),
        (json_frame(105, 1, {"topic": "t"}), answer(2, None), "SUCCESS"),
        (json_frame(51002, 1, None, b"{}"), answer(1, None, b"{}", code=200), "SUCCESS"),
        (json_frame(105, 1, {"topic": "t"}), binary_frame(1, 1, flag=RESPONSE), "SYSTEM_ERROR"),
    ],
)
def test_the_code_of_a_response_is_named_as_the_request_wants(pending, response, meaning):
    _, (_, spans) = explained(client(pending), server(response))
    assert [span.meaning for span in spans if span.path == "code"] == [meaning]


@pytest.mark.parametrize(("code", "name"), [(200050, "POP_MESSAGE"), (12345, "")])
def test_the_code_of_a_binary_header_is_named_though_it_was_cut(code, name):
    ((_, spans),) = explained(client(binary_frame(code, 1, {"topic": "t"})))
    assert [span.meaning for span in spans if span.path == "code"] == [name]


@pytest.mark.parametrize(
    "line",
    [
        line
        for line in lines("headers-5.5.0.jsonl")
        if line["class"] in ("PopMessageRequestHeader", "SendMessageRequestHeaderV2")
    ],
    ids=lambda line: f"{line['class']}-{line['serialization']}",
)
def test_both_serialisations_are_explained_field_by_field(line):
    data = line["frame"]
    header = tables().headers[line["class"]]
    spans = list(frame_spans(whole(data), CodePart(header, body="text"), Limits()))
    assert spans[-1] == Span("body", len(data) - 6, len(data), "a body")
    assert {span.path for span in spans} >= {f"ext_fields.{header.fields[wire].name}" for wire in line["fields"]}
    assert [span.start for span in spans[1:]] == [span.stop for span in spans[:-1]]


def whole(data: bytes) -> Frame:
    return Frame(Side.CLIENT, 0, len(data), data, 0, 0, 1, 1, 1)


def test_secrets_stay_secrets():
    body = b'{"username":"u","password":"hush","note":"x"}'
    ext = {"username": "u", "Signature": "c2ln"}
    ((_, spans),) = explained(client(json_frame(3001, 1, ext, body)))
    secret = {span.path: span.value for span in spans if isinstance(span.value, Secret)}
    assert secret == {"ext_fields.signature": Secret(b"c2ln"), "body.password": Secret(b"hush")}
    ((_, spans),) = explained(client(json_frame(25, 1, None, b"secretKey=hush\nport=1\n")))
    assert [(span.path, span.value) for span in spans[-2:]] == [
        ("body.secretKey", Secret(b"hush")),
        ("body.port", "1"),
    ]


def test_messages_are_explained_to_their_properties():
    raw = stored(b"five", "KEYS\x01k\x02TAGS\x01A\x02", offset=5)
    told = explained(client(json_frame(11, 1, pull_fields())), server(answer(1, pull_result(6), raw)))[1][1]
    found = {
        span.path.removeprefix("body.messages[0]."): (span.stop - span.start, span.value, span.meaning) for span in told
    }
    assert found["born_host"] == (8, "10.1.2.3:50123", "")
    assert found["queue_offset"] == (8, 5, "")
    assert found["body"] == (4, b"five", "message data, CRC matches")
    assert found["topic"] == (7, "orders", "")
    assert found["properties.TAGS"] == (7, "A", "")


def test_a_compressed_registration_has_its_parts_inside():
    raw = registration("orders")
    ((_, spans),) = explained(client(json_frame(103, 1, {}, raw)))
    inside = spans[-1].inside
    assert (spans[-1].path, inside.codec) == ("body", "zlib")
    assert [span.start for span in inside.spans] == [0, *(span.stop for span in inside.spans)][:-1]
    assert inside.spans[-1].stop == len(inside.data)
    assert any("orders" in str(span.value) for span in inside.spans)


@pytest.mark.parametrize("size", range(0, 120, 7))
def test_of_a_part_of_a_frame_every_byte_is_a_span(size):
    data = json_frame(34, 1, {"AccessKey": "me"}, b"{}")[:size]
    spans = list(frame_spans(whole(data), CodePart(tables().common), Limits()))
    assert sum(span.stop - span.start for span in spans) == len(data)


@pytest.mark.parametrize("raw", [b"{", b"}", b"[1,{", b'"a', b'{"a":}', b"{{}:[]}", b"\xff", b"{,,}", b'{"a":[[],{}]}'])
def test_odd_json_is_explained_as_far_as_it_goes(raw):
    spans = list(frame_spans(whole(frame(raw, raw)), CodePart(tables().common, body="json"), Limits()))
    assert [span.start for span in spans[1:]] == [span.stop for span in spans[:-1]]
    assert spans[-1].stop == 8 + 2 * len(raw)


def test_a_set_of_bits_is_explained_by_its_indexes():
    body = b'{"acks":[{"b":"gQE=","so":4}]}'
    ((_, spans),) = explained(client(json_frame(200151, 7, None, body)))
    (span,) = [span for span in spans if span.path == "body.acks[0].bit_set"]
    assert (span.value, span.meaning) == ([0, 7, 8], "gQE=")


@pytest.mark.parametrize(("explain", "path"), [(True, "msg_id"), (False, "unknown_fields.msgId")])
def test_how_a_response_was_read_is_remembered_only_where_frames_are_explained(explain, path):
    said = [client(json_frame(310, 7)), server(answer(7, {"msgId": "01"}))]
    driver = Driver(RocketMQ, explain=explain).run(chunks(said))
    assert f"ext_fields.{path}" in {span.path for span in driver.dissector.spans(driver.messages[1].frame)}
