"""Which names of topics a flow knows when, as one process that reads everything in order knows them.

1. ``--topic`` chooses by the names that the traffic taught before. A task sees its own flows only, so where names
   decide, a first pass over all flows collects who taught them, and when: ``Learner``.
2. When is the packet that released a message, by its time, then by its number. One process orders packets by the
   largest time so far in their file: the same, as long as clocks do not step back.
3. A topic id keeps the name that was taught first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter
from typing import Final, TypeAlias

from mqsniff.batch.bundles import Bundle, PiecePlaces
from mqsniff.batch.flowitems import Order, When, items_of
from mqsniff.batch.job import JobOptions
from mqsniff.decode.conversation import RunContext
from mqsniff.decode.names import TopicNames
from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.dissector import Settings
from mqsniff.limits import Limits
from mqsniff.model import Message, MessageItem

Lesson: TypeAlias = tuple[str, str, str, int, int]
"""(protocol, topic id, name, time and number of the packet that released the message which taught it)."""

IDS_MAX: Final = Limits().topics_max


@dataclass(slots=True)
class Lessons:
    """The first name of every topic id, in whatever order they are added."""

    first: dict[tuple[str, str], tuple[When, str]]

    @classmethod
    def of(cls, rows: Iterable[Lesson]) -> Lessons:
        """All of them together."""
        lessons = cls({})
        lessons.add(rows)
        return lessons

    def add(self, rows: Iterable[Lesson]) -> None:
        """Take in what somebody learned."""
        for protocol, topic_id, name, ts_ns, packet in rows:
            key, told = (protocol, topic_id), ((ts_ns, packet), name)
            if key in self.first or len(self.first) < IDS_MAX:
                self.first[key] = min(self.first.get(key, told), told)

    def rows(self) -> Iterator[Lesson]:
        """All of it, for ``add``."""
        for (protocol, topic_id), ((ts_ns, packet), name) in self.first.items():
            yield protocol, topic_id, name, ts_ns, packet


class Learner:
    """The first pass of one task: the names that its flows teach."""

    def __init__(self, placing: PiecePlaces, options: JobOptions) -> None:
        settings = Settings(options.limits, frozenset(("partitions", "notes")))
        self._context = RunContext(Registry(load_dissectors(), options.decode_as), settings)
        self._placing = placing

    def run(self, bundles: Iterable[Bundle]) -> Iterator[Lesson]:
        """Everything that is taught; raises what fails the attempt."""
        lessons = Lessons({})
        for _, flow in groupby(bundles, key=attrgetter("flow")):
            first = next(flow)
            if not first.key:
                continue
            order = Order()
            for item in items_of(chain((first,), flow), self._placing, self._context, order):
                if isinstance(item, MessageItem) and item.message.teaches:
                    lessons.add(_taught(item.message, order.now))
        return lessons.rows()


def _taught(message: Message, when: When) -> Iterator[Lesson]:
    for topic_id, name in message.teaches:
        yield message.protocol, topic_id, name, *when


class FlowNames:
    """The names that a flow knows: its own so far, and those of others that were taught before."""

    def __init__(self, lessons: Mapping[tuple[str, str], tuple[When, str]], order: Order) -> None:
        self._lessons = lessons
        self._order = order
        self._own = TopicNames()

    def learn(self, message: Message) -> None:
        """Take in what a message of the flow teaches."""
        for _ in self._own.learn(message):
            """What is new to the flow is in the lessons already."""

    def at(self, protocol: str, topic_ids: Iterable[str]) -> TopicNames:
        """What is known of some topic ids when the last item was released."""
        known, now = TopicNames(), self._order.now
        for topic_id in topic_ids:
            when, name = self._lessons.get((protocol, topic_id), (now, ""))
            found = name if when < now else self._own.name(protocol, topic_id)
            if found is not None:
                known.know(protocol, topic_id, found)
        return known
