"""Questions and answers of a dissector, under the toy protocol."""

from __future__ import annotations

from dataclasses import replace

from toyframes import chunk, toy

from mqsniff.limits import Limits


def test_questions_find_their_answers_in_order():
    dissector = toy()
    list(dissector.feed(chunk(b"F\x00")))
    first, second = dissector.ask("k", 1), dissector.ask("k", 2)
    optional = dissector.ask("k", 3, expects=0)
    assert dissector.answer("k") is first
    assert dissector.answer("k") is second
    assert dissector.answer("k") is None
    assert optional.status == "oneway"


def test_more_questions_than_the_cap_end_the_oldest():
    dissector = toy(replace(Limits(), questions_max=2))
    list(dissector.feed(chunk(b"F\x00")))
    asked = [dissector.ask(n) for n in range(3)]
    assert [a.status for a in asked] == ["unanswered", None, None]
