"""Questions and answers of a dissector, under the toy protocol."""

from __future__ import annotations

from dataclasses import replace

from toyframes import chunk, gap, toy

from mqsniff.limits import Limits
from mqsniff.model import Side


def test_questions_find_their_answers_in_order():
    dissector = toy()
    list(dissector.feed(chunk(b"F\x00")))
    first, second = dissector.expect_reply("k", 1), dissector.expect_reply("k", 2)
    optional = dissector.expect_reply("k", 3, expects=0)
    assert dissector.reply_to("k") is first
    assert dissector.reply_to("k") is second
    assert dissector.reply_to("k") is None
    assert optional.status == "oneway"


def test_more_questions_than_the_cap_end_the_oldest():
    dissector = toy(replace(Limits(), pending_max=2))
    list(dissector.feed(chunk(b"F\x00")))
    pending = [dissector.expect_reply(n) for n in range(3)]
    assert [a.status for a in pending] == ["unanswered", None, None]


def test_a_dissector_knows_its_open_requests_and_how_far_its_sides_are():
    dissector = toy()
    list(dissector.feed(chunk(b"F\x00")))
    assert (dissector.fed(Side.CLIENT), dissector.passed(Side.CLIENT)) == (2, 2)
    list(dissector.feed(chunk(b"F\x05ab", 2)))
    asked = dissector.expect_reply("k")
    assert list(dissector.pending("k")) == list(dissector.unanswered()) == [asked]
    assert (dissector.fed(Side.CLIENT), dissector.passed(Side.CLIENT), dissector.fed(Side.SERVER)) == (6, 2, 0)
    assert dissector.state_size == len(b"F\x05ab")
    list(dissector.gap(gap(6, 3)))
    assert (dissector.gaps_of(Side.CLIENT), dissector.gaps_of(Side.SERVER)) == (1, 0)
