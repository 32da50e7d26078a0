"""Every field of an NSQ frame beside its bytes."""

from __future__ import annotations

import nsqcraft
import pytest
from nsqcraft import MAGIC, OK, auth, error, frame, identify, line, message, mpub, negotiated, pub

from mqsniff.model import Secret, Side, Span, Undecoded
from mqsniff.testing.conversations import Say, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_nsq import Nsq, Nsqlookupd

ID = "18a2f48040acf000"
EVERYTHING = [
    *((Nsq, dialogue) for dialogue in nsqcraft.CONVERSATIONS.values()),
    *((Nsqlookupd, dialogue) for dialogue in nsqcraft.LOOKUPD_CONVERSATIONS.values()),
]


def spans(*dialogue: Say) -> list[Span]:
    """Spans of the last message."""
    driver = Driver(Nsq).run(chunks(dialogue))
    return list(driver.dissector.spans(driver.messages[-1].frame))


def fields(*dialogue: Say) -> list[tuple[str, bytes, object]]:
    data = dialogue[-1].data
    return [(span.path, data[span.start : span.stop], span.value) for span in spans(*dialogue)]


@pytest.mark.parametrize(("dissector", "dialogue"), EVERYTHING)
def test_spans_tile_every_frame(dissector, dialogue):
    driver = Driver(dissector).run(chunks(dialogue))
    for told in driver.messages:
        found = list(driver.dissector.spans(told.frame))
        edges = [0, *(span.stop for span in found)]
        assert [span.start for span in found] == edges[:-1]
        assert edges[-1] == len(told.frame.data)
        assert "undecoded" not in {span.path for span in found}


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("stop", range(8, 60))
def test_spans_tile_what_there_is_of_a_cut_frame(side, stop):
    whole = mpub("orders", b"aaaa", b"bbbb", b"cccc" * 9) if side is Side.CLIENT else message(ID, b"x" * 40)
    opening = client(MAGIC, line("SUB", "t", "c"))
    driver = Driver(Nsq).run(chunks([opening, Say(side, whole)], holes=_hole(side, opening, stop, len(whole))))
    for told in driver.messages:
        edges = [0, *(span.stop for span in driver.dissector.spans(told.frame))]
        assert edges == sorted(set(edges))
        assert edges[-1] == len(told.frame.data)


def _hole(side: Side, opening: Say, start: int, stop: int) -> tuple[list, list]:
    at = len(opening.data) if side is Side.CLIENT else 0
    hole = [(at + start, at + stop)]
    return (hole, []) if side is Side.CLIENT else ([], hole)


def test_a_command_is_taken_apart_by_its_parameters():
    assert fields(client(MAGIC), client(b"REQ 18a2f48040acf000 250\r\n")) == [
        ("command", b"REQ ", "REQ"),
        ("message_id", b"18a2f48040acf000 ", ID),
        ("timeout_ms", b"250\r\n", 250),
    ]


def test_a_body_follows_its_size():
    assert fields(client(MAGIC), client(pub("t", b"hello"))) == [
        ("command", b"PUB ", "PUB"),
        ("topic", b"t\n", "t"),
        ("size", b"\x00\x00\x00\x05", 5),
        ("body", b"hello", b"hello"),
    ]


def test_the_messages_of_an_mpub_stand_one_by_one():
    assert [span[:1] + span[2:] for span in fields(client(MAGIC), client(mpub("t", b"a", b"bb")))][3:] == [
        ("num_messages", 2),
        ("messages[0].size", 1),
        ("messages[0].body", b"a"),
        ("messages[1].size", 2),
        ("messages[1].body", b"bb"),
    ]


def test_a_secret_is_wrapped_in_its_span():
    (secret,) = [value for path, _, value in fields(client(MAGIC), client(auth(b"open sesame"))) if path == "secret"]
    assert secret == Secret(b"open sesame")
    inline = fields(client(MAGIC), client(line("AUTH", "sesame") + b"\x00\x00\x00\x01x"))
    assert [value for _, _, value in inline] == ["AUTH", Secret(b"sesame"), 1, Secret(b"x")]


def test_json_is_one_span_with_its_fields():
    opening = [client(MAGIC), client(identify(client_id="c"))]
    assert spans(*opening)[-1].value["client_id"] == "c"
    assert spans(*opening, server(negotiated(version="9")))[-1].value["version"] == "9"


def test_a_delivery_has_its_head_before_its_body():
    subscribed = client(MAGIC, line("SUB", "t", "c"))
    assert [span[:1] + span[2:] for span in fields(subscribed, server(message(ID, b"hello", 3, 5)))] == [
        ("size", 35),
        ("frame_type", 2),
        ("timestamp", 5),
        ("attempts", 3),
        ("message_id", ID),
        ("body", b"hello"),
    ]


def test_an_error_has_its_code_and_what_it_means():
    found = spans(client(MAGIC), server(error("E_BAD_TOPIC PUB topic name is not valid")))
    assert [(span.path, span.value, span.meaning) for span in found[2:]] == [
        ("code", "E_BAD_TOPIC", "the topic's name is not valid"),
        ("description", "PUB topic name is not valid", "text"),
    ]


def test_what_nobody_knows_is_undecoded():
    assert spans(client(MAGIC), server(OK, frame(7, b"new")))[-1].value == Undecoded(b"new")


def test_the_opening_is_one_span():
    assert fields(client(MAGIC)) == [("magic", b"  V2", "  V2")]
