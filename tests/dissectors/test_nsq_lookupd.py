"""nsqlookupd's protocol: commands, replies without a frame type, errors, and who is there."""

from __future__ import annotations

import nsqcraft
import pytest
from nsqcraft import line, sized

from mqsniff.model import Message, Side, Undecoded
from mqsniff.testing.conversations import Say, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_nsq import Nsqlookupd

MAGIC = b"  V1"
HELLO = line("IDENTIFY") + sized(
    b'{"version":"1.3.0","tcp_port":4150,"http_port":4151,"broadcast_address":"10.0.0.7","hostname":"h"}'
)
WELCOME = sized(b'{"broadcast_address":"10.0.0.8","hostname":"l","http_port":4161,"tcp_port":4160,"version":"1.3.0"}')


def run(*dialogue: Say) -> Driver:
    return Driver(Nsqlookupd).run(chunks(dialogue))


def last(*parts: bytes) -> Message:
    return run(client(MAGIC), client(*parts)).messages[-1]


@pytest.mark.parametrize(
    ("data", "name", "body", "topics", "group"),
    [
        (line("REGISTER", "orders"), "REGISTER", {"topic": "orders"}, ("orders",), None),
        (
            line("REGISTER", "orders", "c#ephemeral"),
            "REGISTER",
            {"topic": "orders", "channel": "c#ephemeral"},
            ("orders",),
            "c#ephemeral",
        ),
        (line("UNREGISTER", "orders", "c"), "UNREGISTER", {"topic": "orders", "channel": "c"}, ("orders",), "c"),
        (line("PING"), "PING", {}, (), None),
        (line("ANNOUNCE", "t", "."), "unknown(ANNOUNCE)", {"params": ["t", "."]}, (), None),
        (line("lower"), "unknown", {"command": Undecoded(b"lower")}, (), None),
    ],
)
def test_a_command_has_its_parameters_by_name(data, name, body, topics, group):
    message = last(data)
    assert (message.name, message.kind, message.body, message.topics, message.group) == (
        name,
        "request",
        body,
        topics,
        group,
    )


def test_identify_and_its_answer_tell_both_ends():
    driver = run(client(MAGIC), client(HELLO), server(WELCOME))
    assert driver.messages[1].body["tcp_port"] == 4150
    assert driver.messages[2].body["broadcast_address"] == "10.0.0.8"
    identity = driver.dissector.identity
    assert (identity.client_software, identity.client_id) == ("nsqd 1.3.0", "10.0.0.7:4150")
    assert identity.server_software == "nsqlookupd 1.3.0"


def test_replies_are_paired_strictly_in_order():
    driver = run(
        client(MAGIC),
        client(HELLO, line("REGISTER", "t"), line("PING")),
        server(WELCOME, sized(b"OK"), sized(b"E_INVALID x")),
    )
    pairs = [(a.context, a.answer.name if a.answer else None, a.status) for m in driver.messages for a in m.pending]
    assert pairs == [
        ("MAGIC", None, "oneway"),
        ("IDENTIFY", "RESPONSE", None),
        ("REGISTER", "RESPONSE", None),
        ("PING", "ERROR", None),
    ]
    assert driver.messages[-1].error_name == "E_INVALID"
    assert driver.dissector.identity.close_reason == "protocol error"


@pytest.mark.parametrize(("there", "errors"), [(4, None), (5, None), (6, 1), (20, 1)])
def test_a_cut_reply_is_no_success_before_its_first_word_is_there(there, errors):
    said = sized(b"E_INVALID cannot do that")
    dialogue = [client(MAGIC, line("PING")), server(said, sized(b"OK"))]
    replies = Driver(Nsqlookupd).run(chunks(dialogue, holes=([], [(there, len(said))]))).messages[2:]
    assert [message.error_count for message in replies] == [errors, 0]


def test_a_bad_opening_is_what_the_server_refuses():
    driver = run(client(b"  V2"), server(sized(b"E_BAD_PROTOCOL")))
    assert [(a.context, a.status) for m in driver.messages for a in m.pending] == [("MAGIC", "error")]
    assert [problem.kind for problem in driver.problems] == ["format"]


def test_an_nsqd_that_was_taken_for_an_nsqlookupd_is_understood():
    driver = run(client(MAGIC, line("PING")), server(nsqcraft.error("E_BAD_PROTOCOL")))
    error = driver.messages[-1]
    assert (error.name, error.error_name, [p.kind for p in error.problems]) == ("ERROR", "E_BAD_PROTOCOL", ["format"])


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([line("REGISTER", "t")], [("format", "")]),
        ([HELLO, HELLO], [("format", "")]),
        ([HELLO, line("REGISTER")], [("missing_field", "topic")]),
        ([HELLO, line("REGISTER", "b/d")], [("format", "topic")]),
        ([HELLO, line("REGISTER", "t", "c", "x")], [("format", "extra_params")]),
        (
            [line("IDENTIFY") + sized(b'{"version":"1","tcp_port":1,"http_port":0}')],
            [("missing_field", "broadcast_address"), ("missing_field", "http_port")],
        ),
        ([line("IDENTIFY") + sized(b"no json")], [("format", "")]),
        ([line("IDENTIFY") + b"\x00\x00\x00\x00"], [("out_of_range", "body")]),
        ([line("SUB", "t", "c")], [("unknown_code", "")]),
    ],
)
def test_a_rule_that_is_bent_is_told(parts, expected):
    assert [(p.kind, p.path) for p in run(client(MAGIC), client(*parts)).problems] == expected


def test_a_search_finds_the_way_again_on_both_sides():
    dialogue = [client(MAGIC, HELLO), server(WELCOME)]
    for _ in range(4):
        dialogue += [client(line("PING")), server(sized(b"OK"))]
    whole = Driver(Nsqlookupd).run(chunks(dialogue))
    spoiled = Driver(Nsqlookupd).run(chunks(dialogue, holes=([(60, 70)], [(90, 108)])))
    pings = [m.frame.offset for m in spoiled.messages if m.name == "PING"]
    assert pings == [m.frame.offset for m in whole.messages if m.name == "PING"]
    assert [m.frame.offset for m in spoiled.messages if m.frame.side is Side.SERVER][-3:] == [
        m.frame.offset for m in whole.messages if m.frame.side is Side.SERVER
    ][-3:]


@pytest.mark.parametrize("count", [200, 2_000])
def test_of_unknown_commands_in_a_row_a_limited_number_are_messages(count):
    driver = run(client(b"  V1"), client(b"XYZ\n" * count, line("PING"), line("PING")))
    assert [message.name for message in driver.messages] == ["MAGIC", *["unknown(XYZ)"] * 64, "PING", "PING"]
    assert sum(skipped.length for skipped in driver.skipped) == (count - 64) * 4
