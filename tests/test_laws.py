"""The laws that every dissector keeps (DESIGN section 4), on scripted conversations and, where asked, on captures."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import orjson
import pytest
from driver import Driver, shown
from hypothesis import given, settings
from hypothesis import strategies as st
from lawsamples import CONVERSATIONS, PCAPS, UNTRIED, captured, connections_in, dissectors
from wirecraft import Conversation, Say, chunks, known, streams

from mqsniff.dissector import NEED, Sample, Verdict
from mqsniff.framing import FramedDissector
from mqsniff.limits import KIB, MIB, Limits
from mqsniff.model import Chunk, Event, Gap, Message, Side, Skipped

quick = settings(max_examples=int(os.environ.get("MQSNIFF_EXAMPLES", "20")), deadline=None)

DISSECTORS = dissectors()
CASES = {
    f"{protocol}-{name}": (DISSECTORS[protocol], dialogue)
    for protocol, named in CONVERSATIONS.items()
    for name, dialogue in named.items()
}
CAPTURED = captured()
FOREIGN = connections_in(PCAPS / "foreign")

every_conversation = pytest.mark.parametrize(("dissector", "dialogue"), CASES.values(), ids=CASES)


def test_every_dissector_has_conversations_to_be_tried_on_or_a_reason():
    assert set(CONVERSATIONS) | {name for name, why in UNTRIED.items() if why} >= set(DISSECTORS)
    assert not set(CONVERSATIONS) & set(UNTRIED)


# ---- how the input is spoiled and cut

chances = st.integers(0, 1 << 32).map(random.Random)


@st.composite
def mutated(draw, dialogue: Sequence[Say]) -> list[Say]:
    """The conversation with up to three places where bytes were changed, put in or taken out."""
    out = list(dialogue)
    for _ in range(draw(st.integers(0, 3))):
        index = draw(st.integers(0, len(out) - 1))
        data = out[index].data
        at = draw(st.integers(0, len(data)))
        new, old = draw(st.binary(max_size=5)), draw(st.integers(0, 5))
        out[index] = out[index]._replace(data=data[:at] + new + data[at + old :])
    return [say for say in out if say.data]


def recut(events: Sequence[Chunk | Gap], chance: random.Random) -> list[Chunk | Gap]:
    """The same events with chunks cut anywhere, and joined where the peer does not speak between them."""
    out: list[Chunk | Gap] = []
    for event in events:
        previous = out[-1] if out else None
        joinable = isinstance(previous, Chunk) and previous.side is event.side and isinstance(event, Chunk)
        if joinable and chance.random() < 0.5:
            out[-1] = Chunk(event.side, previous.offset, previous.data + event.data, [*previous.marks, *event.marks])
        else:
            out.append(event)
    return [piece for event in out for piece in (_cut(event, chance) if isinstance(event, Chunk) else [event])]


def _cut(chunk: Chunk, chance: random.Random) -> list[Chunk]:
    places = {chance.randrange(1, len(chunk.data) + 1) for _ in range(chance.choice((0, 1, 2, 6)))}
    return [_part(chunk, start, stop) for start, stop in pairwise(sorted({0, *places, len(chunk.data)}))]


def _part(chunk: Chunk, start: int, stop: int) -> Chunk:
    offset = chunk.offset + start
    first = [mark for mark in chunk.marks if mark.offset <= offset][-1]
    rest = [mark for mark in chunk.marks if offset < mark.offset < chunk.offset + stop]
    return Chunk(chunk.side, offset, chunk.data[start:stop], [first, *rest])


def bytewise(events: Iterable[Chunk | Gap]) -> list[Chunk | Gap]:
    """Every byte by itself."""
    return [
        piece
        for event in events
        for piece in (
            [_part(event, at, at + 1) for at in range(len(event.data))] if isinstance(event, Chunk) else [event]
        )
    ]


def told(driver: Driver) -> list:
    return [(now, shown(event)) for now, event in driver.told]


# ---- any cut


@every_conversation
def test_byte_by_byte_tells_the_same_at_the_same_time(dissector, dialogue):
    assert told(Driver(dissector).run(chunks(dialogue))) == told(Driver(dissector).run(bytewise(chunks(dialogue))))


@every_conversation
@quick
@given(data=st.data())
def test_any_cuts_tell_the_same_at_the_same_time(dissector, dialogue, data):
    events = chunks(data.draw(mutated(dialogue)), holes=data.draw(holes_of(dialogue)))
    in_step = data.draw(st.booleans())
    whole = Driver(dissector, in_step=in_step).run(events)
    assert told(whole) == told(Driver(dissector, in_step=in_step).run(recut(events, data.draw(chances))))


@every_conversation
@quick
@given(data=st.data())
def test_answers_are_final(dissector, dialogue, data):
    if FramedDissector not in dissector.__mro__:
        return
    side = data.draw(st.sampled_from(Side))
    stream = streams(data.draw(mutated(dialogue)))[side]
    start = data.draw(st.integers(0, len(stream)))
    stop = data.draw(st.integers(start, len(stream)))
    early = dissector.probe(side, stream[start:stop])
    assert early is NEED or early == dissector.probe(side, stream[start:])


# ---- any interleaving


def interleaved(dialogue: Sequence[Say], chance: random.Random) -> list[Chunk]:
    """The conversation in any order in which each side still knew what it knew, packets keeping their numbers."""
    events = chunks(dialogue)
    says = [
        [(say.knows, event) for say, event in zip(known(dialogue), events, strict=True) if say.side is side]
        for side in Side
    ]
    taken, fed, out = [0, 0], [0, 0], []
    while len(out) < len(events):
        able = [s for s in Side if taken[s] < len(says[s]) and says[s][taken[s]][0] <= fed[s.peer]]
        side = chance.choice(able)
        event = says[side][taken[side]][1]
        assert isinstance(event, Chunk)
        out.append(replace(event, marks=[mark._replace(release=len(out)) for mark in event.marks]))
        taken[side] += 1
        fed[side] += len(event.data)
    return out


def by_side(driver: Driver) -> list[list]:
    return [[shown(message, timed=False) for message in driver.messages if message.frame.side is side] for side in Side]


def endings(driver: Driver) -> list:
    """What became of every question, wherever it ended; commands without a reply end with whatever comes later."""
    return sorted(
        (*key, asked.status, asked.answer and asked.answer.frame.offset, asked.message is not None)
        for key, asked in driver.asked().items()
        if asked.status != "oneway" and asked.expects == 0 and asked.answer is not None
    )


@every_conversation
@quick
@given(data=st.data())
def test_any_interleaving_gives_the_same_messages(dissector, dialogue, data):
    first = Driver(dissector).run(chunks(dialogue))
    other = Driver(dissector).run(interleaved(dialogue, data.draw(chances)))
    assert [[_unlinked(row) for row in side] for side in by_side(first)] == [
        [_unlinked(row) for row in side] for side in by_side(other)
    ]
    assert endings(first) == endings(other)


def _unlinked(row: tuple) -> tuple:
    """A message without its links: which later message a question ends with may depend on the order."""
    return row[:-2]


# ---- gaps


@st.composite
def holes_of(draw, dialogue: Sequence[Say], most: int = 2) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Ranges of each side's stream that were lost."""
    found: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for side, stream in zip(Side, streams(dialogue), strict=True):
        for _ in range(draw(st.integers(0, most))):
            start = draw(st.integers(0, max(0, len(stream) - 1)))
            found[side].append((start, start + draw(st.integers(1, 60))))
    return found


def is_plain(dissector, dialogue: Sequence[Say]) -> bool:
    """Whether a search could find every frame: one layer only, and nothing that a strict probe refuses."""
    driver = Driver(dissector).run(chunks(dialogue))
    both = streams(dialogue)
    return all(
        dissector.probe(message.frame.side, both[message.frame.side][message.frame.offset :]) == message.frame.size
        for message in driver.messages
        if message.name != "MAGIC"
    )


def frames(driver: Driver, side: Side) -> list[tuple]:
    return [
        (message.frame.offset, message.frame.size, message.name, orjson.dumps(message.body, default=repr))
        for message in driver.messages
        if message.frame.side is side
    ]


ANSWERS_SAY_NOTHING = {
    "kafka": "a response is read by its request: where that is lost, its place and size are left",
    "rocketmq": "the same, and only the request's code gives a response its name",
}
"""Protocols whose frames depend on frames of the peer, and how."""


def places(found: list[tuple]) -> list[tuple]:
    """Where frames stand."""
    return [frame[:2] for frame in found]


@every_conversation
@quick
@given(data=st.data())
def test_a_gap_loses_no_whole_frame_outside_it(dissector, dialogue, data):
    if not is_plain(dissector, dialogue):
        return
    whole = Driver(dissector).run(chunks(dialogue))
    side = data.draw(st.sampled_from(Side))
    start = data.draw(st.integers(0, len(streams(dialogue)[side]) - 1))
    stop = start + data.draw(st.integers(1, 120))
    holes: list[list[tuple[int, int]]] = [[], []]
    holes[side].append((start, stop))
    spoiled = Driver(dissector).run(chunks(dialogue, holes=(holes[0], holes[1])))
    seen = places if whole.dissector.names[0] in ANSWERS_SAY_NOTHING else list
    outside = [frame for frame in frames(whole, side) if frame[0] + frame[1] <= start or frame[0] >= stop]
    assert set(seen(outside)) <= set(seen(frames(spoiled, side)))
    assert seen(frames(whole, side.peer)) == seen(frames(spoiled, side.peer))


# ---- every byte


def twice_or_never(driver: Driver, side: Side) -> dict[int, int]:
    """Bytes of a side that were not claimed once, and how often they were."""
    fed = {offset for start, stop in driver.fed[side] for offset in range(start, stop)}
    end = max(fed, default=-1) + 1
    found: Counter[int] = Counter()
    for _, event in driver.told:
        if isinstance(event, Message) and event.frame.side is side:
            found.update(range(event.frame.offset, min(end, event.frame.offset + event.frame.size)))
        elif isinstance(event, Skipped) and event.side is side:
            found.update(range(event.offset, min(end, event.offset + event.length)))
    return {offset: found[offset] for offset in fed if found[offset] != 1}


@every_conversation
@quick
@given(data=st.data())
def test_every_byte_is_claimed_once(dissector, dialogue, data):
    spoiled = data.draw(mutated(dialogue))
    events = chunks(spoiled, holes=data.draw(holes_of(spoiled)))
    driver = Driver(dissector, in_step=data.draw(st.booleans())).run(events)
    for side in Side:
        assert twice_or_never(driver, side) == {}
        assert claimed_bytes(driver, side) == sum(stop - start for start, stop in driver.fed[side])


def claimed_bytes(driver: Driver, side: Side) -> int:
    """Captured bytes of a side that its events say they account for."""
    messages = sum(message.frame.captured for message in driver.messages if message.frame.side is side)
    return messages + sum(skipped.length - skipped.lost for skipped in driver.skipped if skipped.side is side)


COUNTS = {
    "kafka-consumer": (20, 0, {}),
    "kafka-producer": (15, 0, {"trailing_bytes": 1}),
    "kafka-fallback": (8, 0, {"unknown_version": 1, "unknown_code": 1}),
    "kafka-login by SaslAuthenticate": (10, 0, {}),
    "kafka-login by raw tokens": (8, 0, {}),
    "nsq-producer": (17, 0, {}),
    "nsq-consumer": (32, 0, {}),
    "nsq-without IDENTIFY": (44, 0, {}),
    "nsq-authorized": (19, 0, {}),
    "nsq-crossing": (26, 0, {}),
    "nsq-refused": (5, 0, {"format": 1}),
    "nsq-a lying MPUB": (22, 0, {"format": 2}),
    "nsq-snappy": (47, 0, {}),
    "nsq-deflate": (47, 0, {}),
    "nsqlookupd-registering": (15, 0, {"format": 1}),
    "pulsar-producer": (24, 0, {}),
    "pulsar-consumer": (21, 0, {}),
    "pulsar-crossing": (16, 0, {}),
    "pulsar-watches and transactions": (15, 0, {}),
    "rocketmq-producer": (13, 0, {"missing_field": 7}),
    "rocketmq-consumer": (12, 0, {}),
    "rocketmq-binary headers": (6, 0, {"out_of_range": 1}),
    "rocketmq-pop": (10, 0, {}),
    "rocketmq-transaction": (7, 0, {}),
    "rocketmq-name server": (7, 0, {}),
    "rocketmq-controllers": (4, 0, {}),
    "rocketmq-odd": (7, 0, {"unknown_code": 2, "format": 5, "out_of_range": 1, "malformed": 1}),
    "rocketmq-ha-a slave catches up": (0, 260, {}),
}
"""Messages, undecoded bytes and problems of each kind: skipping more must be seen in a diff."""


@every_conversation
def test_nothing_is_skipped_that_was_not_skipped_before(dissector, dialogue, request):
    driver = Driver(dissector).run(chunks(dialogue))
    undecoded = sum(skipped.length for skipped in driver.skipped)
    kinds = Counter(problem.kind for problem in driver.problems)
    assert (len(driver.messages), undecoded, dict(kinds)) == COUNTS[request.node.callspec.id]


# ---- hostile input


@every_conversation
@quick
@given(data=st.data())
def test_nothing_raises_and_every_body_can_be_written(dissector, dialogue, data):
    noise = [Say(data.draw(st.sampled_from(Side)), data.draw(st.binary(min_size=1, max_size=40))) for _ in range(3)]
    spoiled = data.draw(st.permutations([*data.draw(mutated(dialogue)), *noise]))
    driver = Driver(dissector, in_step=data.draw(st.booleans())).run(chunks(spoiled))
    assert [problem.detail for problem in driver.problems if problem.kind == "internal"] == []
    for message in driver.messages:
        orjson.loads(shown(message)[4])


LIES = (b"\x7f\xff\xff\xff", b"\x00\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x01")


@every_conversation
def test_lying_lengths_buy_no_memory(dissector, dialogue):
    small = Limits(frame_max=64 * KIB, search_max=64 * KIB, wait_max=64 * KIB, questions_max=1000, elements_max=1000)
    chance = random.Random(1)
    for lie in LIES:
        spoiled = list(dialogue)
        index = chance.randrange(len(spoiled))
        at = chance.randrange(len(spoiled[index].data))
        spoiled[index] = spoiled[index]._replace(data=spoiled[index].data[:at] + lie + spoiled[index].data[at + 4 :])
        filler = chance.randbytes(16 * KIB) + b"".join(streams(dialogue)) * 4
        tail = [Say(side, filler) for _ in range(12) for side in Side]
        events = chunks([*spoiled, *tail])
        driver = Driver(dissector, small)
        driver.told = _Forgetful()
        tracemalloc.start()
        driver.run(events)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2 * MIB


class _Forgetful(list):
    """What a driver was told, not kept: its links are cut as the engine does, or messages would keep each other."""

    def append(self, told: tuple[int, Event]) -> None:
        """Nothing is kept."""
        event = told[1]
        if isinstance(event, Message):
            event.asked = event.closed = event.answered = ()


# ---- claimed or not


def samples(dialogue: Sequence[Say], *, from_start: bool) -> tuple[Sample, Sample]:
    first, second = (
        Sample(stream, tuple(_starts(dialogue, side)), from_start)
        for side, stream in zip(Side, streams(dialogue), strict=True)
    )
    return first, second


def _starts(dialogue: Sequence[Say], side: Side) -> list[int]:
    starts, at = [], 0
    for say in dialogue:
        if say.side is side:
            starts.append(at)
            at += len(say.data)
    return starts or [0]


@every_conversation
def test_own_conversations_are_claimed_from_their_first_exchange_on(dissector, dialogue):
    begun = dialogue[: next(n for n, say in enumerate(dialogue) if say.side is Side.SERVER) + 1]
    for seen in (begun, dialogue):
        assert dissector.detect(*samples(seen, from_start=True)) is Verdict.YES


@every_conversation
def test_nobody_else_claims_a_conversation(dissector, dialogue):
    for other in set(DISSECTORS.values()) - {dissector}:
        for from_start in (True, False):
            client, server = samples(dialogue, from_start=from_start)
            assert other.detect(client, server) is not Verdict.YES
            assert other.detect(server, client) is not Verdict.YES


# ---- captures


@pytest.mark.parametrize("conversation", CAPTURED.values(), ids=CAPTURED)
def test_the_laws_hold_on_captures(conversation: Conversation):
    dissector = next((cls for cls in DISSECTORS.values() if _verdict(cls, conversation) is Verdict.YES), None)
    if dissector is None:
        return
    in_step = all(conversation.in_step)
    whole = Driver(dissector, in_step=in_step).run(conversation.events)
    assert told(whole) == told(Driver(dissector, in_step=in_step).run(bytewise(conversation.events)))
    assert [problem.detail for problem in whole.problems if problem.kind == "internal"] == []
    for side in Side:
        assert twice_or_never(whole, side) == {}


@pytest.mark.parametrize("dissector", DISSECTORS.values(), ids=DISSECTORS)
@pytest.mark.parametrize("conversation", FOREIGN.values(), ids=FOREIGN)
def test_nobody_claims_what_other_protocols_say(conversation: Conversation, dissector):
    for from_start in (True, False):
        seen = replace(conversation, in_step=(from_start, from_start))
        for flipped in (False, True):
            assert _verdict(dissector, seen, flipped=flipped) is not Verdict.YES


def _verdict(dissector, conversation: Conversation, *, flipped: bool = False) -> Verdict:
    says = conversation.says
    seen = [
        Sample(data, tuple(_starts(says, side)), conversation.in_step[side])
        for side, data in zip(Side, streams(says), strict=True)
    ]
    return dissector.detect(*(reversed(seen) if flipped else seen))
