"""NSQ connections that the capture joined in the middle: the layer that they are in, and nothing lost on the way."""

from __future__ import annotations

from collections.abc import Sequence

import nsqcraft
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nsqcraft import HEARTBEAT, OK, consuming, ids, inside, line, message, mpub, opening, publishing, snappy_chunk

from mqsniff.codecs.snappy_chunks import IDENTIFIER
from mqsniff.dissector import Sample, Verdict
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Mark, Side, Upgrade
from mqsniff.testing.conversations import Say, chunks, client, server, streams
from mqsniff.testing.driver import Driver, shown
from mqsniff_nsq import Nsq
from mqsniff_nsq.joining import PLAIN, Joining, packets_of

ONE, TWO, THREE = ids(3)
FOREIGN = snappy_chunk(b"GET / HTTP/1.1\r\nHost: elsewhere\r\n\r\n")


def joined(dialogue: Sequence[Say], limits: Limits | None = None, **cuts) -> Driver:
    return Driver(Nsq, limits, in_step=False).run(chunks(dialogue, **cuts))


def names(driver: Driver) -> list[str]:
    return [m.name for m in driver.messages]


def upgrades(driver: Driver) -> list[dict[Side, int]]:
    return [event.at for _, event in driver.told if isinstance(event, Upgrade)]


def in_middle(dialogue: Sequence[Say], first: int = 0) -> list[Say]:
    """What is said inside Snappy from some Say on: the identifiers are never seen."""
    return [say._replace(data=say.data.removeprefix(IDENTIFIER)) for say in inside(nsqcraft.snappy, dialogue)[first:]]


TALK = [*publishing(), *consuming()]
PLAIN_NAMES = names(Driver(Nsq, in_step=False).run(chunks(TALK)))


def apart(dialogue: Sequence[Say]) -> list[Say]:
    """Chunks that are not compressed, their heads in packets of their own, as golang/snappy writes them."""
    said = []
    for say in dialogue:
        chunk = snappy_chunk(say.data, compressed=False)
        said += [say._replace(data=chunk[:8]), say._replace(data=chunk[8:])]
    return said


@pytest.mark.parametrize("wrap", [in_middle, apart], ids=["mixed", "heads apart"])
def test_a_connection_joined_in_snappy_tells_what_one_in_clear_text_does(wrap):
    driver = joined(wrap(TALK))
    assert names(driver) == PLAIN_NAMES
    assert upgrades(driver) == [{Side.CLIENT: 0, Side.SERVER: 0}]
    assert driver.skipped == []


@pytest.mark.parametrize("first", range(1, len(TALK)))
def test_it_may_be_joined_between_any_two_packets(first):
    driver = joined(in_middle(TALK, first))
    assert names(driver) == names(joined(TALK[first:]))
    assert driver.skipped == []


@pytest.mark.parametrize("first", range(1, 2 * len(TALK) - 8, 2))
def test_and_between_the_head_of_a_chunk_and_what_looks_like_a_plain_frame(first):
    assert names(joined(apart(TALK)[first:]))[-4:] == PLAIN_NAMES[-4:]


def test_inside_a_chunk_it_is_joined_at_the_next_one():
    said = in_middle([client(mpub("t", b"x" * 500)), *TALK])
    said[0] = said[0]._replace(data=said[0].data[7:])
    driver = joined(said)
    assert names(driver) == PLAIN_NAMES
    assert [(lost.kind, lost.size) for layer in driver.layers._stacks for lost in _losses(layer)] == [
        ("undecoded", len(said[0].data))
    ]


def _losses(stack):
    return [problem for layer in stack for problem, _ in layer.notices]


@pytest.mark.parametrize("wrap", [in_middle, apart, list], ids=["mixed", "heads apart", "clear text"])
def test_cuts_and_single_bytes_tell_the_same_at_the_same_time(wrap):
    said = wrap(TALK)
    whole = [(now, shown(event)) for now, event in joined(said).told]
    assert [(now, shown(event)) for now, event in joined(said, every=1).told] == whole
    assert [(now, shown(event)) for now, event in joined(said, every=7).told] == whole


@given(data=st.data())
def test_joined_anywhere_nothing_raises_and_every_byte_has_its_place(data):
    said = data.draw(st.sampled_from([in_middle, apart, list]))(TALK)
    cut = data.draw(st.integers(0, len(said) - 1))
    head = data.draw(st.integers(0, len(said[cut].data) - 1))
    said = [said[cut]._replace(data=said[cut].data[head:]), *said[cut + 1 :]]
    driver = joined(said)
    assert [problem for problem in driver.problems if problem.kind == "internal"] == []


def test_a_gap_while_it_is_joined_costs_the_chunk_it_lies_in():
    said = in_middle(TALK)
    size = len(said[0].data)
    driver = joined(said, holes=([(5, size + 3)], []))
    assert names(driver)[-8:] == PLAIN_NAMES[-8:]
    assert len(upgrades(driver)) == 1


def test_a_connection_that_ends_while_it_is_joined_tells_what_there_is():
    assert names(joined(in_middle([client(line("FIN", ONE), line("FIN", TWO))]))) == ["FIN", "FIN"]
    assert names(joined([client(line("FIN", ONE), line("FIN", TWO))])) == ["FIN", "FIN"]
    driver = joined([client(b"\x00\x01\x02" * 50)])
    assert (names(driver), [s.length for s in driver.skipped]) == ([], [150])


def test_what_both_sides_said_stays_in_order():
    driver = joined(in_middle([server(message(ONE, b"x")), client(line("FIN", ONE)), server(HEARTBEAT)]))
    settled = [a for m in driver.messages for a in m.answered]
    assert [(m.name, m.frame.side) for m in driver.messages] == [
        ("MESSAGE", Side.SERVER),
        ("FIN", Side.CLIENT),
        ("HEARTBEAT", Side.SERVER),
    ]
    assert [pending.link for pending in settled] == ["settlement"]


@pytest.mark.parametrize("first", [1, 2])
def test_a_connection_joined_before_its_layer_begins_there(first):
    dialogue = opening(snappy=True)
    said = [*dialogue, *inside(nsqcraft.snappy, [server(OK), *TALK])][first:]
    driver = joined(said)
    assert names(driver) == [*(["IDENTIFY"] if first == 1 else []), "RESPONSE", "RESPONSE", *PLAIN_NAMES]
    sizes = streams(dialogue[first:])
    assert upgrades(driver) == [{Side.CLIENT: len(sizes[0]), Side.SERVER: len(sizes[1])}]


def test_an_answer_to_identify_is_believed_in_front_of_a_snappy_stream():
    dialogue = opening(snappy=True)[2:]
    first = server(dialogue[0].data + IDENTIFIER + snappy_chunk(OK, compressed=False))
    assert names(joined([first, server(snappy_chunk(HEARTBEAT, compressed=False))])) == [
        "RESPONSE",
        "RESPONSE",
        "HEARTBEAT",
    ]


def test_clear_text_is_held_for_so_many_bytes_at_most():
    limits = Limits(detect_max=1000)
    said = [client(mpub("t", b"x" * 300)[9:] + line("FIN", ONE)[:10]), *[server(b"\x05" * 40)] * 60, client(b"")]
    events = chunks([say for say in said if say.data])
    driver = Driver(Nsq, limits, in_step=False).run(events, closes=())
    assert driver.dissector._joining is None


# ---- detection


def middle(data: bytes, *starts: int) -> Sample:
    return Sample(data, starts or (0,), from_start=False)


@pytest.mark.parametrize(
    ("client_says", "server_says", "verdict"),
    [
        (middle(snappy_chunk(mpub("t", b"x" * 300))), Sample(), Verdict.YES),
        (middle(snappy_chunk(line("FIN", ONE), compressed=False)), Sample(), Verdict.YES),
        (Sample(), middle(snappy_chunk(HEARTBEAT, compressed=False)), Verdict.YES),
        (Sample(), middle(b"rest" + snappy_chunk(message(ONE, b"x" * 90)), 0, 4), Verdict.YES),
        (middle(snappy_chunk(mpub("t", b"x" * 300))[:-1]), Sample(), Verdict.MORE),
        (middle(snappy_chunk(mpub("t", b"x" * 300))[:-1] + b"?"), Sample(), Verdict.MORE),
        (middle(FOREIGN), middle(FOREIGN), Verdict.MORE),
        (middle(b"\xfe\x04\x00\x00padd" * 4), Sample(), Verdict.MORE),
        (Sample(snappy_chunk(mpub("t", b"x" * 300))), Sample(), Verdict.NO),
    ],
)
def test_a_middle_in_snappy_is_claimed_by_a_chunk_that_holds_a_frame(client_says, server_says, verdict):
    assert Nsq.detect(client_says, server_says) is verdict


def test_a_chunk_falls_apart_into_its_packets():
    marks = [Mark(7, 1, 1, 1), Mark(12, 2, 2, 2), Mark(14, 3, 3, 3)]
    parts = packets_of(Chunk(Side.CLIENT, 10, b"abcdef", marks))
    assert [(c.offset, c.data, c.marks[0].packet) for c in parts] == [
        (10, b"ab", 1),
        (12, b"cd", 2),
        (14, b"ef", 3),
    ]


@pytest.mark.parametrize("side", Side)
def test_a_side_is_held_as_long_as_it_says_no_more_than_detect_max(side):
    joining = Joining(Limits(detect_max=4096))
    for packet, (at, size) in enumerate([(0, 4000), (4000, 96)]):
        joining.hold(Chunk(side, at, b"?" * size, [Mark(at, packet, packet, packet)]))
        assert joining.verdict() is None
    joining.hold(Chunk(side, 4096, b"?", [Mark(4096, 2, 2, 2)]))
    assert joining.verdict() == PLAIN
