"""A dissector driven without detection: events of a connection through the engine's layers, and what it told."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from mqsniff.decode.layers import Layers
from mqsniff.dissector import WITH_RECORDS, Dissector, Settings
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Event, Gap, Message, Pending, Problem, Side, Skipped, Upgrade
from mqsniff.tables.values import Redaction
from mqsniff.testing.typed import wrong_identity, wrong_types


class Driver:
    """One instance of a dissector at work; ``told`` are its events with the ordinal that released each."""

    def __init__(
        self,
        dissector: type[Dissector],
        limits: Limits | None = None,
        *,
        in_step: bool = True,
        explain: bool = True,
    ) -> None:
        settings = Settings(limits or Limits(), WITH_RECORDS | {"spans"} if explain else WITH_RECORDS)
        self.dissector = dissector(settings)
        self.layers = Layers(settings.limits)
        self.told: list[tuple[int, Event]] = []
        self.fed: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        """(start, stop) of the bytes of each side that the dissector got and kept."""
        self.lost: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        self._closed: list[Side] = []
        self._again: list[tuple[Chunk | Gap, int]] = []
        for side in Side:
            self.dissector.start(side, in_step=in_step)

    def run(self, events: Iterable[Chunk | Gap], closes: Iterable[Side] = Side) -> Driver:
        """Feed all events, then close the sides."""
        for event in events:
            self._up(event, 0)
        for side in closes:
            self._close(side)
        assert wrong_identity(self.dissector.identity) == []
        return self

    def _close(self, side: Side) -> None:
        """End a side; a side that waited until now may go on in another layer, and then ends once more."""
        self._closed.append(side)
        for above in self.layers.close(side):
            self._give(above)
        self._take(self.dissector.close(side))
        late = {event.side for event, _ in self._again}
        self._catch_up()
        for other in late & set(self._closed):
            self._close(other)

    def _up(self, event: Chunk | Gap, level: int) -> None:
        for above in self.layers.through(event, level):
            self._give(above)
            self._catch_up()

    def _catch_up(self) -> None:
        """What an Upgrade took back, one event after the other: none may enter a layer while another is inside."""
        while self._again:
            back, self._again = self._again, []
            for event, level in back:
                self._up(event, level)

    def _give(self, event: Chunk | Gap) -> None:
        if isinstance(event, Chunk):
            self.fed[event.side].append((event.offset, event.offset + len(event.data)))
            self._take(self.dissector.feed(event))
        else:
            self.lost[event.side].append((event.offset, event.offset + event.length))
            self._take(self.dissector.gap(event))

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            self.told.append((self.dissector.now, event))
            assert wrong_types(event) == []
            if isinstance(event, Upgrade):
                levels = [self.layers.top(side) for side in Side]
                self.layers.push(event)
                taken = [self.dissector.hand_back(side, offset) for side, offset in event.at.items()]
                for back in sorted(chain.from_iterable(taken), key=_release):
                    _take_back((self.fed if isinstance(back, Chunk) else self.lost)[back.side], back.offset)
                    self._again.append((back, levels[back.side]))

    @property
    def messages(self) -> list[Message]:
        """Every message, in order."""
        return [event for _, event in self.told if isinstance(event, Message)]

    @property
    def problems(self) -> list[Problem]:
        """Every problem, in or beside a message."""
        return [
            problem
            for _, event in self.told
            for problem in (event.problems if isinstance(event, Message) else [event])
            if isinstance(problem, Problem)
        ]

    @property
    def skipped(self) -> list[Skipped]:
        """Every byte range that was passed over."""
        return [event for _, event in self.told if isinstance(event, Skipped)]

    def pending(self) -> dict[tuple[Side, int, str], Pending]:
        """Every question, by side, offset and link."""
        return {(a.frame.side, a.frame.offset, a.link): a for message in self.messages for a in message.pending}


def _release(event: Chunk | Gap) -> int:
    return event.mark.release if isinstance(event, Gap) else event.marks[0].release


def _take_back(ranges: list[tuple[int, int]], offset: int) -> None:
    """Forget what lies after an offset."""
    ranges[:] = [(start, min(stop, offset)) for start, stop in ranges if start < offset]


def shown(event: Event, *, timed: bool = True) -> Any:
    """An event as plain data: everything that a row could show of it. ``timed``: with what depends on the order."""
    match event:
        case Message():
            frame = event.frame
            place = (frame.side, frame.offset, frame.size, frame.data, frame.holes)
            packets = (frame.first_packet, frame.last_packet)
            said = (event.protocol, event.name, event.kind, event.version, event.correlation, event.topics, event.group)
            error = (event.error_code, event.error_name, event.error_count)
            body = Redaction(secrets=True, raw=True).json(event.body)
            problems = [(p.kind, p.severity, p.detail, p.path) for p in event.problems]
            records = [(b.count, b.constant, b.columns, b.values) for b in event.records]
            links = (
                [(a.link, a.key, a.expects) for a in event.pending],
                [_ended(a, timed=timed) for a in event.resolved],
            )
            order = (frame.first_ts_ns, frame.last_ts_ns, frame.release) if timed else ()
            return (place, packets, said, error, body, event.notes, event.partitions, problems, records, links, order)
        case Skipped():
            return ("skipped", event.side, event.offset, event.length, event.why, event.kind, event.first_packet)
        case Upgrade():
            return ("upgrade", sorted(event.at.items()), event.to)
    return ("problem", event.kind, event.severity, event.detail, event.side, event.offset, event.size)


def _ended(pending: Pending, *, timed: bool) -> Any:
    both = (pending.answer, pending.last_answer)
    answers = [None if answer is None else (answer.frame.side, answer.frame.offset) for answer in both]
    return (pending.link, pending.frame.offset, pending.status, answers, pending.extra if timed else None)
