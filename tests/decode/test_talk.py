"""A connection that talks: layers, upgrades and exchanges around a toy dissector."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toymq import ToyMq, chunk, flip, gap

from mqsniff.decode.talk import Talk
from mqsniff.dissector import Settings
from mqsniff.model import Chunk, ConnectionInfo, Decoded, Exchanged, Gap, Mark, Noticed, Side


def talk() -> tuple[Talk, ConnectionInfo]:
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 7777, 0, 1)
    talking = Talk(ToyMq(Settings()), Settings(), info)
    talking.begin(in_step=True)
    return talking, info


def told(items) -> list:
    out = []
    for item in items:
        match item:
            case Decoded():
                out.append((item.message.name, item.message.frame.offset, item.message.body["data"]))
            case Exchanged():
                out.append(("exchange", item.exchange.status))
            case Noticed():
                out.append((item.problem.kind, item.problem.size))
    return out


def run(*events: Chunk | Gap) -> tuple[list, ConnectionInfo]:
    talking, info = talk()
    out = [row for event in events for row in told(talking.take(event))]
    for side in Side:
        out += told(talking.close(side))
    return out + told(talking.end(open_at_end=False, seen=(True, True))), info


def test_questions_and_answers_become_exchanges():
    out, _ = run(chunk(b"F\x01q"), chunk(b"F\x01a", side=Side.SERVER, packet=1))
    assert out == [("F", 0, b"q"), ("F", 0, b"a"), ("exchange", "ok")]


def test_an_upgrade_takes_back_what_was_fed_already():
    out, _ = run(chunk(b"U\x00" + flip(b"F\x01xF\x00")))
    assert out[:3] == [("U", 0, b""), ("F", 2, b"x"), ("F", 5, b"")]


def test_layers_stack_within_one_packet():
    out, _ = run(chunk(b"U\x00" + flip(b"U\x00" + flip(b"F\x01y"))))
    assert out[:3] == [("U", 0, b""), ("U", 2, b""), ("F", 4, b"y")]


@given(cuts=st.sets(st.integers(1, 20)))
def test_any_cut_of_an_upgraded_stream_gives_the_same(cuts):
    data = b"F\x01aU\x00" + flip(b"F\x02bcU\x00" + flip(b"F\x03def"))
    events, at = [], 0
    for stop in sorted({*(cut for cut in cuts if cut < len(data)), len(data)}):
        events.append(Chunk(Side.CLIENT, at, data[at:stop], [Mark(n, n, n, n) for n in range(at, stop)]))
        at = stop
    out, _ = run(*events)
    assert [row for row in out if row[0] in "FU"] == [
        ("F", 0, b"a"),
        ("U", 3, b""),
        ("F", 5, b"bc"),
        ("U", 9, b""),
        ("F", 11, b"def"),
    ]


def test_plain_bytes_keep_the_packet_they_came_with():
    talking, _ = talk()
    data = b"U\x00" + flip(b"F\x00F\x00")
    marks = [Mark(0, 10, 1, 1), Mark(4, 20, 2, 2)]
    frames = [i.message.frame for i in talking.take(Chunk(Side.CLIENT, 0, data, marks)) if isinstance(i, Decoded)]
    assert [(f.first_packet, f.first_ts_ns) for f in frames] == [(1, 10), (1, 10), (2, 20)]


def test_a_loss_below_a_layer_is_a_gap_above_it():
    out, info = run(chunk(b"U\x00" + flip(b"F\x05ab")), gap(6, 2), chunk(flip(b"eF\x00"), 8))
    assert out[:4] == [("U", 0, b""), ("gap", 0), ("F", 2, b"ab"), ("truncated", 3)]
    assert out[4] == ("F", 9, b"")
    assert info.undecoded_bytes == 0


def test_a_dark_layer_says_how_much_stayed_dark():
    out, info = run(chunk(b"U\x00" + flip(b"F\x00") + b"\xffxyz"), chunk(b"more", 8))
    assert ("F", 2, b"") in out
    assert ("codec", 8) in out
    assert info.undecoded_bytes == 8


def test_tls_is_dark_until_clear_text_follows_an_alert():
    record, alert = bytes.fromhex("160303000401020304"), bytes.fromhex("15030300020228")
    out, info = run(chunk(b"T\x00" + record + alert + b"F\x01z"))
    assert out[:2] == [("T", 0, b""), ("F", 2, b"z")]
    assert ("tls", len(record + alert)) in out
    assert info.undecoded_bytes == len(record + alert)


def test_skipped_bytes_are_undecoded():
    out, info = run(chunk(b"F\x00???F\x00F\x00"))
    assert out[:2] == [("F", 0, b""), ("undecoded", 3)]
    assert info.undecoded_bytes == 3


def test_an_answer_to_nothing_is_unmatched():
    out, _ = run(chunk(b"F\x00", side=Side.SERVER))
    assert out == [("F", 0, b""), ("unmatched", None), ("exchange", "unasked")]


@pytest.mark.parametrize(
    ("open_at_end", "seen", "status"), [(True, True, "pending"), (False, True, "unanswered"), (True, False, "unseen")]
)
def test_what_was_never_answered_says_why(open_at_end, seen, status):
    talking, _ = talk()
    list(talking.take(chunk(b"F\x00")))
    assert told(talking.end(open_at_end=open_at_end, seen=(True, seen))) == [("exchange", status)]
