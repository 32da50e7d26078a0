"""What a client of nsqd says: every command with its fields, sizes that lie, and rules that are bent."""

from __future__ import annotations

import struct

import nsqcraft
import pytest
from nsqcraft import MAGIC, OK, auth, dpub, identify, line, mpub, negotiated, pub, sized

from mqsniff.dissector import Settings
from mqsniff.limits import Limits
from mqsniff.model import Message, Secret, Side, Undecoded
from mqsniff.testing.conversations import chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_nsq import Nsq

ID = "18a2f48040acf000"


def said(*parts: bytes) -> Driver:
    """A client that opens with the magic and says this."""
    return Driver(Nsq).run(chunks([client(MAGIC), client(*parts)]))


def last(*parts: bytes) -> Message:
    return said(*parts).messages[-1]


COMMANDS = [
    (line("SUB", "orders", "billing"), "SUB", "request", {"topic": "orders", "channel": "billing"}),
    (pub("orders", b"first"), "PUB", "request", {"topic": "orders", "body": {"size": 5}}),
    (dpub("orders", 1500, b"x"), "DPUB", "request", {"topic": "orders", "defer_ms": 1500, "body": {"size": 1}}),
    (
        mpub("orders", b"a", b"bb"),
        "MPUB",
        "request",
        {"topic": "orders", "body_size": 15, "num_messages": 2, "messages": [{"size": 1}, {"size": 2}]},
    ),
    (line("RDY", "5"), "RDY", "oneway", {"count": 5}),
    (line("RDY"), "RDY", "oneway", {}),
    (line("FIN", ID), "FIN", "oneway", {"message_id": ID}),
    (line("REQ", ID, "250"), "REQ", "oneway", {"message_id": ID, "timeout_ms": 250}),
    (line("TOUCH", ID), "TOUCH", "oneway", {"message_id": ID}),
    (line("CLS"), "CLS", "request", {}),
    (line("NOP"), "NOP", "oneway", {}),
    (auth(b"open sesame"), "AUTH", "request", {"secret": Secret(b"open sesame")}),
    (
        line("IDENTIFY") + sized(b'{"client_id":"c","snappy":true}'),
        "IDENTIFY",
        "request",
        {"client_id": "c", "snappy": True},
    ),
    (line("HELLO", "world", "2"), "unknown(HELLO)", "request", {"params": ["world", "2"]}),
    (b"\n", "unknown()", "request", {}),
    (
        line("my-s3cretPUB", "orders"),  # an AUTH whose line was lost, and the command after it
        "unknown",
        "request",
        {"command": Undecoded(b"my-s3cretPUB"), "params": [Undecoded(b"orders")]},
    ),
]


@pytest.mark.parametrize(("data", "name", "kind", "body"), COMMANDS, ids=[row[1] for row in COMMANDS])
def test_a_command_has_its_parameters_by_name(data, name, kind, body):
    message = last(data)
    assert (message.name, message.kind, message.body) == (name, kind, body)
    assert (message.frame.offset, message.frame.size) == (4, len(data))
    assert (message.error_code, message.error_name, message.error_count) == (None, None, None)


@pytest.mark.parametrize(("data", "name", "kind", "body"), COMMANDS[:-2], ids=[row[1] for row in COMMANDS[:-2]])
def test_a_line_may_end_with_carriage_return(data, name, kind, body):
    end = data.index(b"\n")
    message = last(data[:end] + b"\r" + data[end:])
    assert (message.name, message.kind, message.body) == (name, kind, body)


def test_the_opening_is_a_message_of_its_own():
    (message,) = Driver(Nsq).run(chunks([client(MAGIC)])).messages
    assert (message.name, message.kind, message.body) == ("MAGIC", "oneway", {"magic": "  V2"})


@pytest.mark.parametrize("word", ["FIN", "REQ", "TOUCH"])
def test_the_message_id_is_the_correlation_of_what_it_is_about(word):
    assert last(line(word, ID, "0")).correlation == ID


def test_topic_and_channel_stand_in_their_columns():
    message = last(line("SUB", "orders", "billing"))
    assert (message.topics, message.group) == (("orders",), "billing")
    assert last(pub("orders", b"x")).topics == ("orders",)


def test_a_secret_is_wrapped_wherever_it_stands():
    inline = last(line("AUTH", "open-sesame") + sized(b"x"))
    assert inline.body == {"extra_params": [Secret(b"open-sesame")], "secret": Secret(b"x")}
    assert inline.notes == ()


def test_a_name_that_is_no_utf8_is_kept_as_bytes_and_shown_with_backslashes():
    message = last(b"PUB caf\xe9\n" + sized(b"x"))
    assert message.body["topic"] == b"caf\xe9"
    assert message.topics == ("caf\\xe9",)


def test_identify_tells_who_the_client_is():
    identity = said(identify(client_id="c7", user_agent="go-nsq/1.1.0")).dissector.identity
    assert (identity.client_software, identity.client_id) == ("go-nsq/1.1.0", "c7")


def test_identify_that_is_no_json_is_kept_undecoded():
    message = last(line("IDENTIFY") + sized(b"{no json"))
    assert message.body == {"data": Undecoded(b"{no json")}
    assert [problem.kind for problem in message.problems] == ["format"]


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b'{"n":' + b"9" * 5000 + b"}", b"\xff{}", b"5"]
)
def test_hostile_json_is_no_more_than_a_format_problem(text):
    message = last(line("IDENTIFY") + sized(text))
    assert message.name == "IDENTIFY"
    assert {problem.kind for problem in message.problems} <= {"format"}


# ---- sizes


@pytest.mark.parametrize("size", [0, -1, -(2**31)])
@pytest.mark.parametrize("word", ["PUB t", "DPUB t 1", "MPUB t", "IDENTIFY", "AUTH"])
def test_a_size_below_one_has_no_body_and_framing_goes_on(word, size):
    driver = said(word.encode() + b"\n" + struct.pack(">i", size), line("NOP"))
    assert [message.name for message in driver.messages] == ["MAGIC", word.split()[0], "NOP"]
    assert [problem.kind for problem in driver.messages[1].problems] == ["out_of_range"]


def test_the_inner_sizes_of_mpub_rule_where_the_size_of_the_body_is_too_large():
    driver = said(mpub("t", b"a", b"bb", body_size=100), line("NOP"), pub("t", b"after"))
    assert [(m.name, m.frame.size) for m in driver.messages[1:]] == [("MPUB", 26), ("NOP", 4), ("PUB", 15)]
    assert [problem.path for problem in driver.messages[1].problems] == ["body_size"]


def test_the_inner_sizes_of_mpub_rule_where_the_size_of_the_body_is_too_small():
    driver = said(mpub("t", b"a" * 50, b"b" * 60, body_size=9), line("NOP"))
    mpub_message = driver.messages[1]
    assert [message.name for message in driver.messages] == ["MAGIC", "MPUB", "NOP"]
    assert mpub_message.body["messages"] == [{"size": 50}, {"size": 60}]


@pytest.mark.parametrize(
    "content",
    [struct.pack(">i", 0), struct.pack(">i", -3), struct.pack(">ii", 1, 0), struct.pack(">ii", 2, 0x7FFFFFFF)],
)
def test_an_mpub_that_nsqd_would_refuse_has_the_size_that_it_claims(content):
    driver = said(line("MPUB", "t") + struct.pack(">i", len(content)) + content, line("NOP"))
    assert [(m.name, m.frame.size) for m in driver.messages[1:]] == [("MPUB", 11 + len(content)), ("NOP", 4)]
    assert [problem.kind for problem in driver.messages[1].problems] == ["out_of_range"]


def test_a_count_of_mpub_that_promises_more_ends_where_no_message_can_be():
    content = struct.pack(">i", 3) + sized(b"a") + sized(b"b")
    driver = said(line("MPUB", "t") + struct.pack(">i", len(content)) + content, pub("t", b"x"))
    assert [(m.name, m.frame.size) for m in driver.messages[1:]] == [("MPUB", 11 + len(content)), ("PUB", 11)]


def test_only_so_many_messages_of_an_mpub_are_shown():
    driver = Driver(Nsq, Limits(elements_max=3))
    message = driver.run(chunks([client(MAGIC, mpub("t", *[b"x"] * 5))])).messages[-1]
    assert message.body["num_messages"] == 5
    assert len(message.body["messages"]) == 3
    assert [problem.kind for problem in message.problems] == ["limit"]


def test_a_line_longer_than_nsqd_reads_is_no_command():
    driver = said(b"SUB " + b"z" * 20_000 + b" c\n", line("NOP"), line("NOP"))
    assert [message.name for message in driver.messages] == ["MAGIC", "NOP", "NOP"]
    assert [skipped.length for skipped in driver.skipped] == [20_007]


def test_a_foreign_opening_is_named_and_only_sure_commands_are_taken_behind_it():
    driver = Driver(Nsq).run(chunks([client(b"GET / HTTP/1.1\r\n\r\n"), client(line("NOP"), line("NOP"))]))
    assert [message.name for message in driver.messages] == ["MAGIC", "NOP", "NOP"]
    assert [problem.kind for problem in driver.messages[0].problems] == ["format"]


# ---- rules


def bent(*parts: bytes) -> list[tuple[str, str, str]]:
    return [(problem.severity, problem.kind, problem.path) for problem in said(*parts).problems]


SUB = line("SUB", "t", "c")
ODD_IDS = [("FIN", "18a2f48040acf00g"), ("TOUCH", "18A2F48040ACF000"), ("REQ", "18a2f48040acf-00", "0")]
BENT = [
    (line("SUB", "bad/topic!", "c"), [("info", "format", "topic")]),
    (line("SUB", "t" * 65, "c"), [("info", "out_of_range", "topic")]),
    (line("SUB", "t" * 54 + "#ephemeral", "c"), []),
    (line("SUB", "t", "c#eph"), [("info", "format", "channel")]),
    (line("SUB", "", "c"), [("info", "out_of_range", "topic")]),
    (line("SUB", "t"), [("info", "missing_field", "channel")]),
    (line("SUB", "t", "c", "short", "long"), [("info", "format", "extra_params")]),
    (pub("t", b"x" * 1_048_577), [("info", "out_of_range", "body")]),
    (
        line("MPUB", "t") + sized(struct.pack(">i", 1) + sized(b"x" * 1_048_577)),
        [("info", "out_of_range", "messages[0]")],
    ),
    (dpub("t", 3_600_000, b"x"), []),
    (dpub("t", 3_600_001, b"x"), [("info", "out_of_range", "defer_ms")]),
    (line("DPUB", "t", "later") + sized(b"x"), [("info", "format", "defer_ms")]),
    (SUB + line("RDY", "2500"), []),
    (SUB + line("RDY", "2501"), [("info", "out_of_range", "count")]),
    (SUB + line("RDY", "-1"), [("info", "out_of_range", "count")]),
    (SUB + line("RDY", "many"), [("info", "format", "count")]),
    (SUB + line("REQ", ID, "3600001"), [("info", "out_of_range", "timeout_ms")]),
    (SUB + line("REQ", ID), [("info", "missing_field", "timeout_ms")]),
    (SUB + line("FIN", "abc"), [("info", "format", "message_id")]),
    *[(SUB + line(*words), [("info", "format", "message_id")]) for words in ODD_IDS],
    (SUB + SUB, [("info", "format", "")]),
    (SUB + auth(b"x"), [("info", "format", "")]),
    (line("FIN", ID), [("info", "format", "")]),
    (line("CLS"), [("info", "format", "")]),
    (line("HELLO"), [("warning", "unknown_code", "")]),
    (identify(heartbeat_interval=-1) + SUB, [("info", "format", "")]),
    (identify(heartbeat_interval=999), [("info", "out_of_range", "heartbeat_interval")]),
    (identify(heartbeat_interval=60_000), []),
    (identify(heartbeat_interval="1s"), [("info", "format", "heartbeat_interval")]),
    (identify(output_buffer_size=63), [("info", "out_of_range", "output_buffer_size")]),
    (identify(output_buffer_timeout=-1), []),
    (identify(output_buffer_timeout=30_001), [("info", "out_of_range", "output_buffer_timeout")]),
    (identify(sample_rate=100), [("info", "out_of_range", "sample_rate")]),
    (identify(msg_timeout=1), [("info", "out_of_range", "msg_timeout")]),
    (identify(deflate_level=9), [("info", "out_of_range", "deflate_level")]),
    (identify(snappy=True, deflate=True), [("info", "format", "")]),
]


@pytest.mark.parametrize(("data", "expected"), BENT, ids=[row[0][:40].decode() for row in BENT])
def test_a_rule_that_is_bent_is_told_and_nothing_is_refused(data, expected):
    assert bent(data) == expected


def test_a_rule_about_a_state_needs_the_whole_stream():
    events = chunks([client(MAGIC, line("SUB", "t", "c")), client(line("FIN", ID), line("NOP"))], holes=([(0, 12)], []))
    assert Driver(Nsq).run(events).problems == []


def test_publishing_before_auth_is_told_where_the_server_requires_it():
    opening = [client(MAGIC), client(identify()), server(negotiated(auth_required=True))]
    refused = Driver(Nsq).run(chunks([*opening, client(pub("t", b"x"))]))
    assert [problem.detail for problem in refused.problems] == ["PUB before AUTH, which the server requires"]
    granted = server(nsqcraft.response({"identity": "bob", "permission_count": 1}))
    allowed = Driver(Nsq).run(chunks([*opening, client(auth(b"s")), granted, client(pub("t", b"x")), server(OK)]))
    assert allowed.problems == []


def test_the_limit_that_the_server_tells_is_the_one_that_counts():
    opening = [client(MAGIC), client(identify()), server(negotiated(max_rdy_count=10))]
    (problem,) = Driver(Nsq).run(chunks([*opening, client(SUB, line("RDY", "11"))])).problems
    assert problem.detail == "11 is not within 0 to 10 (told by the server)"


def test_details_of_problems_hold_nothing_of_the_traffic():
    for data, _ in BENT:
        for problem in said(data).problems:
            assert "bad/topic!" not in problem.detail
            assert "later" not in problem.detail


# ---- truncation


@pytest.mark.parametrize("lost_from", range(20, 35))
def test_a_body_with_a_hole_keeps_its_head_and_what_there_is_of_the_record(lost_from):
    data = pub("orders", b"0123456789" * 4)
    events = chunks([client(MAGIC), client(data), client(line("NOP"))], holes=([(4 + lost_from, 4 + 40)], []))
    driver = Driver(Nsq).run(events)
    message = driver.messages[1]
    assert (message.name, message.body) == ("PUB", {"topic": "orders", "body": {"size": 40}})
    assert [problem.kind for problem in message.problems] == ["truncated"]
    (batch,) = message.records
    (start,), (stop,) = batch.values
    assert batch.data[start:stop] == (b"0123456789" * 4)[: lost_from - 15]
    assert batch.columns["value_size"] == [40]
    assert driver.messages[2].name == "NOP"


def test_an_mpub_with_a_hole_shows_the_messages_before_it():
    data = mpub("t", b"aaaa", b"bbbb", b"cccc")
    events = chunks([client(MAGIC), client(data), client(line("NOP"))], holes=([(4 + 29, 4 + 33)], []))
    driver = Driver(Nsq).run(events)
    message = driver.messages[1]
    assert message.body["messages"] == [{"size": 4}, {"size": 4}]
    (batch,) = message.records
    assert [batch.data[a:b] for a, b in zip(*batch.values, strict=True)] == [b"aaaa", b"bb"]
    assert [m.name for m in driver.messages] == ["MAGIC", "MPUB", "NOP"]


def test_a_wait_for_an_answer_does_not_hold_up_a_client_that_asked_for_no_layer():
    driver = Driver(Nsq)
    driver.run(chunks([client(MAGIC), client(identify(), pub("t", b"x"))]), closes=())
    assert [message.name for message in driver.messages] == ["MAGIC", "IDENTIFY", "PUB"]


def test_records_are_built_only_when_they_are_asked_for():
    dissector = Nsq(Settings())
    for side in Side:
        dissector.start(side, in_step=True)
    events = [e for chunk in chunks([client(MAGIC, pub("t", b"x"))]) for e in dissector.feed(chunk)]
    assert [event.records for event in events] == [(), ()]


@pytest.mark.parametrize("count", [200, 2_000])
def test_of_unknown_commands_in_a_row_a_limited_number_are_messages(count):
    driver = said(b"XYZ\n" * count, line("NOP"), line("CLS"), b"XYZ\n")
    names = [message.name for message in driver.messages]
    assert names == ["MAGIC", *["unknown(XYZ)"] * 64, "NOP", "CLS", "unknown(XYZ)"]
    assert sum(skipped.length for skipped in driver.skipped) == (count - 64) * 4
    (limit,) = (problem for message in driver.messages for problem in message.problems if problem.kind == "limit")
    assert "unknown_max" in limit.detail


@pytest.mark.parametrize("count", [200, 2_000])
def test_of_nops_in_one_packet_a_limited_number_are_messages(count):
    driver = said(b"NOP\n" * count, line("CLS"), line("NOP"))
    names = [message.name for message in driver.messages]
    rest = (count - 64) % 16
    assert names == ["MAGIC", *["NOP"] * (64 + rest), "CLS", "NOP"]
    assert {skipped.length for skipped in driver.skipped} == {64}
    assert sum(skipped.length for skipped in driver.skipped) == (count - 64 - rest) * 4
    (limit,) = (problem for message in driver.messages for problem in message.problems if problem.kind == "limit")
    assert "nops_max" in limit.detail


def test_nops_of_their_own_packets_are_messages_however_many_they_are():
    driver = Driver(Nsq).run(chunks([client(MAGIC), *(client(line("NOP")) for _ in range(300))]))
    assert [message.name for message in driver.messages] == ["MAGIC", *["NOP"] * 300]
    assert not driver.skipped
