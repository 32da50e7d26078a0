"""The laws that every dissector keeps, as tests to inherit.

    class TestMine(DissectorLaws):
        dissector = Mine
        conversations = {"a client logs in": [client(b"..."), server(b"...")]}
        counts = {"a client logs in": (2, 0, {})}

1. Each law runs on each conversation: whole, cut anywhere, with bytes changed, with gaps, with the sides interleaved.
2. A law that fails names the conversation and shows the smallest input that breaks it (Hypothesis). MQSNIFF_EXAMPLES
   sets how many inputs each law tries (20 unless it is set).
3. What a table would leave empty without a word is a failure here: columns with names that no table has, columns that
   have to be filled, links that do not go with the kind of message.
"""

from __future__ import annotations

import os
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, Final, TypeAlias, cast

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqsniff.dissector import NEED, Dissector, Sample, Verdict
from mqsniff.framing import FramedDissector
from mqsniff.limits import KIB, MIB, Limits
from mqsniff.model import Chunk, Event, Frame, Gap, Message, RecordBatch, Side, Skipped
from mqsniff.tables.schemas import names_of
from mqsniff.testing.conversations import Say, chunks, known, streams
from mqsniff.testing.driver import Driver, shown
from mqsniff.testing.foreign import OPENINGS

Dialogue: TypeAlias = Sequence[Say]
Holes: TypeAlias = tuple[list[tuple[int, int]], list[tuple[int, int]]]
Count: TypeAlias = tuple[int, int, Mapping[str, int]]
"""Messages, undecoded bytes, and problems of each kind."""

quick: Final = settings(
    max_examples=int(os.environ.get("MQSNIFF_EXAMPLES", "20")),
    deadline=None,
    suppress_health_check=[HealthCheck.differing_executors],  # a law runs in every class that inherits it
)

LIES: Final = (b"\x7f\xff\xff\xff", b"\x00\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x01")
"""Lengths that promise more than there is, or less."""
MEMORY_MAX: Final = 2 * MIB
"""What a dissector may take at ``SMALL`` limits, whatever lengths the bytes promise."""
SMALL: Final = Limits(frame_max=64 * KIB, search_max=64 * KIB, wait_max=64 * KIB, pending_max=1000, elements_max=1000)

PARTITION_COLUMNS: Final = frozenset(names_of("partitions"))
RECORD_COLUMNS: Final = frozenset(names_of("records"))
RECORD_PAYLOAD: Final = frozenset(("key", "value"))
"""Columns of ``records`` that a batch gives as ``keys`` and ``values``."""
RECORD_REQUIRED: Final = ("direction",)
"""Columns of ``records`` that each record has, whatever the protocol."""


class DissectorLaws:
    """All laws; a class that inherits says which dissector they judge, and on which conversations."""

    dissector: ClassVar[type[Dissector]]
    conversations: ClassVar[Mapping[str, Dialogue]]
    """Name -> what both sides say, from the first byte of the connection on. At least one server message in each."""
    counts: ClassVar[Mapping[str, Count]]
    """Name -> what a conversation comes to: a change that skips more bytes has to change this table."""
    decodes: ClassVar[bool] = True
    """Whether it gives messages: one that only names a protocol and counts its bytes gives none."""
    peer_gives_meaning: ClassVar[str] = ""
    """Why a frame cannot be read without a frame of the peer (a response without its request), where that is so.
    Then a gap may change what frames on the other side of it say, but not where they stand."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each law once for each conversation."""
        if "dialogue" in metafunc.fixturenames:
            metafunc.parametrize("dialogue", list(self.conversations.values()), ids=list(self.conversations))
        if "expected" in metafunc.fixturenames:
            given_, needed = set(self.counts), set(self.conversations)
            assert given_ == needed, f"counts and conversations differ in {sorted(given_ ^ needed)}"
            cases = [(self.conversations[name], self.counts[name]) for name in self.conversations]
            metafunc.parametrize(("conversation", "expected"), cases, ids=list(self.conversations))

    # ---- any cut of the stream

    def test_byte_by_byte_gives_the_same_events_at_the_same_time(self, dialogue: Dialogue) -> None:
        """One byte at a time gives what the whole gives, released by the same packets."""
        whole = Driver(self.dissector).run(chunks(dialogue))
        assert told(whole) == told(Driver(self.dissector).run(bytewise(chunks(dialogue))))

    @quick
    @given(data=st.data())
    def test_any_cuts_give_the_same_events_at_the_same_time(self, dialogue: Dialogue, data: st.DataObject) -> None:
        """Any cuts of the stream give what the whole gives, also of damaged bytes and around gaps."""
        events = chunks(data.draw(mutated(dialogue)), holes=data.draw(holes_of(dialogue)))
        in_step = data.draw(st.booleans())
        whole = Driver(self.dissector, in_step=in_step).run(events)
        again = Driver(self.dissector, in_step=in_step).run(recut(events, data.draw(CHANCES)))
        assert told(whole) == told(again)

    @quick
    @given(data=st.data())
    def test_answers_of_probe_are_final(self, dialogue: Dialogue, data: st.DataObject) -> None:
        """What ``probe`` says of some bytes, other than NEED, it also says when more bytes follow."""
        dissector = _framed(self.dissector)
        if dissector is None:
            return
        side = data.draw(st.sampled_from(Side))
        stream = streams(data.draw(mutated(dialogue)))[side]
        start = data.draw(st.integers(0, len(stream)))
        stop = data.draw(st.integers(start, len(stream)))
        early = dissector.probe(side, stream[start:stop])
        assert early is NEED or early == dissector.probe(side, stream[start:])

    def test_probe_needs_no_more_than_head_max(self, dialogue: Dialogue) -> None:
        """An empty head is NEED, and ``head_max`` bytes are enough to answer."""
        dissector = _framed(self.dissector)
        if dissector is None:
            return
        most = dissector.probe_max or dissector.head_max
        for side, stream in zip(Side, streams(dialogue), strict=True):
            assert dissector.probe(side, b"") is NEED, "probe is asked with no bytes at all, too: the answer is NEED"
            for start in range(len(stream) - most):
                answer = dissector.probe(side, stream[start : start + most])
                assert answer is not NEED, f"probe wants more than {most} bytes at offset {start} of the {side.text}"

    # ---- any interleaving of the sides

    @quick
    @given(data=st.data())
    def test_any_interleaving_gives_the_same_messages(self, dialogue: Dialogue, data: st.DataObject) -> None:
        """Packets of both sides in any order that a capture can show give the same messages and answers."""
        first = Driver(self.dissector).run(chunks(dialogue))
        other = Driver(self.dissector).run(interleaved(dialogue, data.draw(CHANCES)))
        assert _messages_by_side(first) == _messages_by_side(other)
        assert _endings(first) == _endings(other)

    # ---- gaps

    @quick
    @given(data=st.data())
    def test_a_gap_loses_no_whole_frame_outside_it(self, dialogue: Dialogue, data: st.DataObject) -> None:
        """Every frame that lies outside a gap is found again."""
        if not _is_plain(self.dissector, dialogue):
            return
        whole = Driver(self.dissector).run(chunks(dialogue))
        side = data.draw(st.sampled_from(Side))
        start = data.draw(st.integers(0, len(streams(dialogue)[side]) - 1))
        stop = start + data.draw(st.integers(1, 120))
        holes: Holes = ([], [])
        holes[side].append((start, stop))
        spoiled = Driver(self.dissector).run(chunks(dialogue, holes=holes))
        seen = _places if self.peer_gives_meaning else list
        outside = [frame for frame in _frames(whole, side) if frame[0] + frame[1] <= start or frame[0] >= stop]
        assert set(seen(outside)) <= set(seen(_frames(spoiled, side)))
        assert seen(_frames(whole, side.peer)) == seen(_frames(spoiled, side.peer))

    # ---- every byte

    @quick
    @given(data=st.data())
    def test_every_byte_is_claimed_once(self, dialogue: Dialogue, data: st.DataObject) -> None:
        """Each byte that was fed belongs to one message or to one Skipped."""
        spoiled = data.draw(mutated(dialogue))
        events = chunks(spoiled, holes=data.draw(holes_of(spoiled)))
        driver = Driver(self.dissector, in_step=data.draw(st.booleans())).run(events)
        for side in Side:
            assert claimed_twice_or_never(driver, side) == {}
            assert claimed_bytes(driver, side) == sum(stop - start for start, stop in driver.fed[side])

    def test_nothing_is_skipped_that_was_not_skipped_before(self, conversation: Dialogue, expected: Count) -> None:
        """Messages, undecoded bytes and problems are those of ``counts``."""
        driver = Driver(self.dissector).run(chunks(conversation))
        undecoded = sum(skipped.length for skipped in driver.skipped)
        kinds = Counter(problem.kind for problem in driver.problems)
        found = len(driver.messages), undecoded, dict(kinds)
        assert found == expected, f"counts says {expected}, the conversation comes to {found}"

    # ---- what tables show

    def test_messages_fill_their_columns(self, dialogue: Dialogue) -> None:
        """Protocol, name, kind, links, partitions and records are such as the tables can show."""
        driver = Driver(self.dissector).run(chunks(dialogue))
        assert bool(driver.messages) is self.decodes, "a conversation without a message proves nothing"
        for message in driver.messages:
            where = f"{message.name} at byte {message.frame.offset} of the {message.frame.side.text}"
            assert message.protocol in self.dissector.names, f"{where}: protocol {message.protocol!r} is not in names"
            wrong = _wrong_links(message)
            for row in message.partitions:
                wrong += [f"the table partitions has no column {name!r}" for name in set(row) - PARTITION_COLUMNS]
            for batch in message.records:
                wrong += wrong_columns(batch)
            assert not wrong, f"{where}: {'; '.join(wrong)}"

    # ---- hostile input

    @quick
    @given(data=st.data())
    def test_nothing_raises_and_every_body_can_be_written(self, dialogue: Dialogue, data: st.DataObject) -> None:
        """Damaged and foreign bytes raise nothing, and bodies stay serialisable."""
        noise = [Say(data.draw(st.sampled_from(Side)), data.draw(st.binary(min_size=1, max_size=40))) for _ in range(3)]
        spoiled = data.draw(st.permutations([*data.draw(mutated(dialogue)), *noise]))
        driver = Driver(self.dissector, in_step=data.draw(st.booleans())).run(chunks(spoiled))
        assert [problem.detail for problem in driver.problems if problem.kind == "internal"] == []
        for message in driver.messages:
            orjson.loads(shown(message)[4])

    def test_lying_lengths_take_no_memory(self, dialogue: Dialogue) -> None:
        """Lengths that promise more than there is take no more memory than the limits allow."""
        chance = random.Random(1)  # noqa: S311  # a fixed choice of places, no secret
        Driver(self.dissector, SMALL).run(chunks(dialogue))  # what is loaded at first use is not counted
        for lie in LIES:
            spoiled = list(dialogue)
            index = chance.randrange(len(spoiled))
            at = chance.randrange(len(spoiled[index].data))
            spoiled[index] = spoiled[index]._replace(
                data=spoiled[index].data[:at] + lie + spoiled[index].data[at + 4 :]
            )
            filler = chance.randbytes(16 * KIB) + b"".join(streams(dialogue)) * 4
            events = chunks([*spoiled, *(Say(side, filler) for _ in range(12) for side in Side)])
            driver = Driver(self.dissector, SMALL)
            driver.told = _Forgetful()
            tracemalloc.start()
            driver.run(events)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < MEMORY_MAX

    # ---- claimed or not

    def test_own_conversations_are_claimed_from_their_first_exchange_on(self, dialogue: Dialogue) -> None:
        """The first bytes of both sides are enough to be sure of the protocol."""
        begun = dialogue[: next(n for n, say in enumerate(dialogue) if say.side is Side.SERVER) + 1]
        for seen in (begun, dialogue):
            assert self.dissector.detect(*samples(seen, from_start=True)) is Verdict.YES

    @pytest.mark.parametrize("name", OPENINGS)
    def test_the_openings_of_other_protocols_are_not_claimed(self, name: str) -> None:
        """First bytes of well-known other protocols are not taken for this one."""
        client, server = OPENINGS[name]
        if self.dissector.names[0] in name.split():
            return
        for one, other in ((client, server), (server, client)):
            for from_start in (True, False):
                seen = Sample(one, (0,), from_start), Sample(other, (0,), from_start)
                assert self.dissector.detect(*seen) is not Verdict.YES


# ---- how the input is spoiled and cut

CHANCES: Final = st.integers(0, 1 << 32).map(random.Random)


@st.composite
def mutated(draw: st.DrawFn, dialogue: Dialogue) -> list[Say]:
    """The conversation with up to three places where bytes were changed, put in or taken out."""
    out = list(dialogue)
    for _ in range(draw(st.integers(0, 3))):
        index = draw(st.integers(0, len(out) - 1))
        data = out[index].data
        at = draw(st.integers(0, len(data)))
        new, old = draw(st.binary(max_size=5)), draw(st.integers(0, 5))
        out[index] = out[index]._replace(data=data[:at] + new + data[at + old :])
    return [say for say in out if say.data]


@st.composite
def holes_of(draw: st.DrawFn, dialogue: Dialogue, most: int = 2) -> Holes:
    """Ranges of each side's stream that were lost."""
    found: Holes = ([], [])
    for side, stream in zip(Side, streams(dialogue), strict=True):
        for _ in range(draw(st.integers(0, most))):
            start = draw(st.integers(0, max(0, len(stream) - 1)))
            found[side].append((start, start + draw(st.integers(1, 60))))
    return found


def recut(events: Sequence[Chunk | Gap], chance: random.Random) -> list[Chunk | Gap]:
    """The same events with chunks cut anywhere, and joined where the peer does not speak between them."""
    out: list[Chunk | Gap] = []
    for event in events:
        previous = out[-1] if out else None
        if (
            isinstance(previous, Chunk)
            and isinstance(event, Chunk)
            and previous.side is event.side
            and chance.random() < 0.5
        ):
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


def interleaved(dialogue: Dialogue, chance: random.Random) -> list[Chunk]:
    """The conversation in any order in which each side still knew what it knew, packets keeping their numbers."""
    events = chunks(dialogue)
    says = [
        [(say.knows or 0, event) for say, event in zip(known(dialogue), events, strict=True) if say.side is side]
        for side in Side
    ]
    taken, fed = [0, 0], [0, 0]
    out: list[Chunk] = []
    while len(out) < len(events):
        able = [s for s in Side if taken[s] < len(says[s]) and says[s][taken[s]][0] <= fed[s.peer]]
        side = chance.choice(able)
        event = says[side][taken[side]][1]
        assert isinstance(event, Chunk)
        out.append(replace(event, marks=[mark._replace(release=len(out)) for mark in event.marks]))
        taken[side] += 1
        fed[side] += len(event.data)
    return out


def samples(dialogue: Dialogue, *, from_start: bool) -> tuple[Sample, Sample]:
    """What detection sees of a conversation: the client's bytes and the server's."""
    first, second = (
        Sample(stream, tuple(starts_of(dialogue, side)), from_start)
        for side, stream in zip(Side, streams(dialogue), strict=True)
    )
    return first, second


def starts_of(dialogue: Dialogue, side: Side) -> list[int]:
    """Offsets in a side's stream at which its packets begin."""
    starts, at = [], 0
    for say in dialogue:
        if say.side is side:
            starts.append(at)
            at += len(say.data)
    return starts or [0]


# ---- what is compared


def told(driver: Driver) -> list[tuple[int, Any]]:
    """All events as plain data, each with the ordinal that released it."""
    return [(now, shown(event)) for now, event in driver.told]


def _messages_by_side(driver: Driver) -> list[list[Any]]:
    """Messages without their links: which later message a request ends with may depend on the order."""
    return [
        [shown(message, timed=False)[:-2] for message in driver.messages if message.frame.side is side] for side in Side
    ]


def _endings(driver: Driver) -> list[tuple[Any, ...]]:
    """What became of every request, wherever it ended; commands without a reply end with whatever comes later."""
    return sorted(
        (*key, pending.status, pending.answer and pending.answer.frame.offset, pending.message is not None)
        for key, pending in driver.pending().items()
        if pending.status != "oneway" and pending.expects == 0 and pending.answer is not None
    )


def _framed(dissector: type[Dissector]) -> type[FramedDissector] | None:
    """The class where it is a framed one; not by ``issubclass``, whose caches compiled abstract classes share."""
    return cast("type[FramedDissector]", dissector) if FramedDissector in dissector.__mro__ else None


def _is_plain(dissector: type[Dissector], dialogue: Dialogue) -> bool:
    """Whether a search can find every frame: one layer only, and nothing that a strict probe refuses."""
    framed = _framed(dissector)
    if framed is None:
        return False
    driver = Driver(framed).run(chunks(dialogue))
    both = streams(dialogue)
    openings = {(Side.CLIENT, 0), (Side.SERVER, 0)}  # a stream's first frame may be one that no search can find
    return all(
        framed.probe(side, both[side][offset:]) == message.frame.size
        for message in driver.messages
        if ((side := message.frame.side), (offset := message.frame.offset)) not in openings
    )


def _frames(driver: Driver, side: Side) -> list[tuple[Any, ...]]:
    return [
        (message.frame.offset, message.frame.size, message.name, orjson.dumps(message.body, default=repr))
        for message in driver.messages
        if message.frame.side is side
    ]


def _places(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Where frames stand."""
    return [frame[:2] for frame in found]


def claimed_twice_or_never(driver: Driver, side: Side) -> dict[int, int]:
    """Bytes of a side that were not claimed once, and how often they were."""
    fed = {offset for start, stop in driver.fed[side] for offset in range(start, stop)}
    end = max(fed, default=-1) + 1
    found: Counter[int] = Counter()
    for _, event in driver.told:
        if isinstance(event, Message) and event.frame.side is side:
            found.update(range(event.frame.offset, min(end, event.frame.offset + _reach(event.frame))))
        elif isinstance(event, Skipped) and event.side is side:
            found.update(range(event.offset, min(end, event.offset + event.length)))
    return {offset: found[offset] for offset in fed if found[offset] != 1}


def _reach(frame: Frame) -> int:
    """How far a frame claims the stream: to a loss of unknown size (a hole without length), else to its end."""
    return next((start for start, stop in frame.holes if start == stop), frame.size)


def claimed_bytes(driver: Driver, side: Side) -> int:
    """Captured bytes of a side that its events say they account for."""
    messages = sum(message.frame.captured for message in driver.messages if message.frame.side is side)
    return messages + sum(skipped.length - skipped.lost for skipped in driver.skipped if skipped.side is side)


def _wrong_links(message: Message) -> list[str]:
    """What does not go together in the kind of a message and the links that it opens, in words."""
    waits = [pending for pending in message.pending if pending.link == "answer"]
    match message.kind:
        case "request" if not waits:
            return ["kind 'request' opens no link 'answer': ask for one, or say kind 'oneway' or 'push'"]
        case "oneway" if any(pending.expects for pending in waits):
            return ["kind 'oneway' expects an answer: say kind 'request', or ask with expects=0"]
    return []


def wrong_columns(batch: RecordBatch) -> list[str]:
    """What is wrong with the columns of a record batch, in words: a table would show null instead."""
    columns = {*batch.constant, *batch.columns}
    wrong = [f"the table records has no column {name!r}" for name in sorted(columns - RECORD_COLUMNS)]
    wrong += [f"{name!r} is given by the batch's spans, not as a column" for name in sorted(columns & RECORD_PAYLOAD)]
    wrong += [f"column {name!r} is not filled" for name in RECORD_REQUIRED if name not in columns]
    if not columns & {"topic", "topic_id"}:
        wrong.append("neither 'topic' nor 'topic_id' is filled")
    spans = {"keys": batch.keys, "values": batch.values}
    lengths = {name: len(column) for name, column in batch.columns.items()}
    lengths |= {name: len(each) for name, span in spans.items() if span is not None for each in span}
    if batch.headers is not None:
        lengths["headers"] = len(batch.headers)
    wrong += [
        f"{name!r} has {length} entries for {batch.count} records"
        for name, length in lengths.items()
        if length != batch.count
    ]
    for name, span in spans.items():
        for start, stop in zip(*(map(int, each) for each in span), strict=False) if span is not None else ():
            if start >= 0 and not start <= stop:
                wrong.append(f"{name} has a span from {start} to {stop}")
    if batch.values is None and "value_size" not in columns:
        wrong.append("neither values nor 'value_size' is given")
    return wrong


class _Forgetful(list[tuple[int, Event]]):
    """What a driver was told, not kept: its links are cut as the engine does, or messages would keep each other."""

    def append(self, told: tuple[int, Event]) -> None:
        """Nothing is kept."""
        event = told[1]
        if isinstance(event, Message):
            event.pending = event.resolved = event.answered = ()
