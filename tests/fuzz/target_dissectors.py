"""Conversations of one protocol, with losses: frames, record decoders, explanations, and what is made of messages."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Iterator

import lawsamples
import orjson

from mqsniff.dissector import Dissector
from mqsniff.limits import KIB, Limits
from mqsniff.model import Chunk, Event, Gap, Message, RecordBatch, Side
from mqsniff.tables.values import Redaction
from mqsniff.testing.driver import Driver, shown
from mqsniff.testing.laws import claimed_bytes, claimed_twice_or_never, recut, told, wrong_columns

from . import dialogues
from .judging import Target

SMALL = Limits(
    frame_max=64 * KIB,
    search_max=64 * KIB,
    wait_max=64 * KIB,
    pending_max=1000,
    elements_max=1000,
    decompress_max=64 * KIB,
    inflate_start=64 * KIB,
    inflate_free=64 * KIB,
    records_free=1000,
)
"""Small enough that a short input cannot ask for much work and be right."""
LATE, EXPLAIN, RECUT = 1, 2, 4
"""Bits of the options: joined late, explain, compare with other cuts."""
TOPICS = ("__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state", "connect-offsets")
HIDDEN = Redaction()


class LookingDriver(Driver):
    """A driver that asks for everything that is asked of messages."""

    def _take(self, events: Iterable[Event]) -> None:
        super()._take(self._looked_at(events))

    def _looked_at(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Message):
                look_at(self.dissector, event)
            yield event


def look_at(dissector: Dissector, message: Message) -> None:
    """Ask for what tables, ``explain``, ``trace`` and ``stats`` ask of a message, and check what has a rule."""
    orjson.loads(shown(message)[4])
    orjson.loads(HIDDEN.json(message.body))
    list(dissector.acts(message))
    for request, answer in ((message, None), (None, message), (message, message)):
        list(dissector.news(request, answer))
    for field, value in message.body.items():
        if isinstance(value, int):
            dissector.code_name(message, field, value)
    for topic in message.topics:
        dissector.topic_role(topic)
    for batch in message.records:
        assert wrong_columns(batch) == []
        look_at_records(dissector, batch)
    if "spans" in dissector.settings.wanted:
        check_spans(dissector, message)


def look_at_records(dissector: Dissector, batch: RecordBatch) -> None:
    """Read all records, as formats of internal topics too."""
    for index in range(min(batch.count, 32)):
        key, value = (_part(batch, spans, index) for spans in (batch.keys, batch.values))
        for topic in TOPICS:
            dissector.decode_record(topic, key, value)
        if batch.headers is not None:
            dissector.origin(dict(batch.headers[index]))


def _part(batch: RecordBatch, spans: object, index: int) -> bytes | None:
    if spans is None or spans[0][index] < 0:
        return None
    start, stop = spans[0][index], spans[1][index]
    assert 0 <= start <= stop <= len(batch.data)
    return bytes(batch.data[start:stop])


def check_spans(dissector: Dissector, message: Message) -> None:
    """No captured byte of a frame is explained twice; those that are left out are told as undecoded."""
    at = 0
    for span in dissector.spans(message.frame):
        assert at <= span.start <= span.stop, "spans overlap"
        at = span.stop
    assert at <= len(message.frame.data), "spans end late"


def converse(cls: type[Dissector], data: bytes) -> None:
    """A conversation: nothing raises, every byte is claimed once, other cuts give the same."""
    options, steps = dialogues.read(data)
    events = dialogues.events(steps)
    driver = _run(cls, options, events)
    assert [problem.detail for problem in driver.problems if problem.kind == "internal"] == []
    for side in Side:
        assert claimed_twice_or_never(driver, side) == {}
        assert claimed_bytes(driver, side) == sum(stop - start for start, stop in driver.fed[side])
    if options & RECUT:
        again = _run(cls, options & ~EXPLAIN, recut(events, random.Random(options)))
        assert told(driver) == told(again), "other cuts of the stream give other events"


def _run(cls: type[Dissector], options: int, events: list[Chunk | Gap]) -> Driver:
    return LookingDriver(cls, SMALL, in_step=not options & LATE, explain=bool(options & EXPLAIN)).run(events)


def seeds(protocol: str) -> Iterator[bytes]:
    """The conversations of the laws, and small ones of captures."""
    for number, says in enumerate(lawsamples.CONVERSATIONS[protocol].values()):
        yield dialogues.written(says, number % 8)
    folder = lawsamples.PCAPS / ("nsq" if protocol == "nsqlookupd" else protocol.partition("-")[0])
    for number, found in enumerate(lawsamples.connections_in(folder).values()):
        if sum(len(say.data) for say in found.says) < 8 * KIB:
            yield dialogues.written(found.says, number % 8)


ROOMS = {
    "kafka": ("dissectors/mqsniff_kafka/*",),
    "nsq": ("dissectors/mqsniff_nsq/*",),
    "nsqlookupd": ("dissectors/mqsniff_nsq/*",),
    "pulsar": ("dissectors/mqsniff_pulsar/*",),
    "rocketmq": ("dissectors/mqsniff_rocketmq/*",),
    "rocketmq-ha": ("dissectors/mqsniff_rocketmq/*",),
}


def targets() -> Iterator[Target]:
    """One for each dissector."""
    for protocol, cls in lawsamples.dissectors().items():
        yield Target(
            protocol,
            f"conversations of {protocol}, with losses",
            functools.partial(converse, cls),
            functools.partial(seeds, protocol),
            (*ROOMS[protocol], "mqsniff/framing/*"),
            size_max=8 * KIB,
        )
