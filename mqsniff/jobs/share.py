"""The share of one worker in a run: which segments are its own, and the topic names that the other workers learned.

1. An item shows the names that were taught before it, in the order of one process. Where an item names a topic id whose
   name is not known, the worker waits until all others have passed this place; then what they taught before it is read.
2. A name that is known stays the one that counts, unless the traffic teaches two names for an id. Who puts the rows in
   order notices that, and lets one process do the run (``RunTogether``).
3. No two workers wait for each other: one that waits has published its place, and waits for places before it only.
4. Finished tables get their names at the end, so that their workers do not wait long for one id (``exact``).
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NoReturn

from mqsniff.jobs.places import BEFORE, Place, SharedPlaces
from mqsniff.jobs.shares import ConnectionShares
from mqsniff.jobs.teachinglog import PlacedTeaching, TeachingLog
from mqsniff.limits import Limits
from mqsniff.model import FlowKey, MessageItem, RecordItem, SegmentBatch
from mqsniff.topics import TopicDirectory, TopicKey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mqsniff.decode.conversation import Placed
    from mqsniff.model import Message

PATIENCE: Final = 8
"""Waits for the name of one topic id, where names are filled in at the end too."""
_EAGER: Final = 100
"""Looks before a wait sleeps between them."""
_PAUSE_S: Final = 0.0005


class ShareExceeded(Exception):  # noqa: N818  # it says what happened
    """A worker holds more than its share of what a run may hold: one process has to do the run."""


class Orphaned(Exception):  # noqa: N818  # likewise
    """The process that puts the rows in order is gone."""


class CommonState:
    """What all workers have in common; to be made before they are."""

    def __init__(self, jobs: int, owners: Mapping[FlowKey, int] | None = None) -> None:
        """``owners``: the workers of flows that are divided already."""
        self.places = SharedPlaces(jobs)
        self.logs = [TeachingLog() for _ in range(jobs)]
        self.owners = owners
        self.parent = os.getpid()
        """The process that puts the rows in order."""

    def close(self) -> None:
        """Let go of files."""
        for log in self.logs:
            log.close()


class Share:
    """What one worker does."""

    def __init__(self, job: int, common: CommonState, limits: Limits) -> None:
        self.jobs = len(common.logs)
        self.tells_rest = job == 0
        self.place: Place = BEFORE
        """That of the item that was given last."""
        self.exact = True
        self.on_wait: Callable[[], None] = lambda: None
        """Called before a wait: what is complete has to go out, so that no one waits for it."""
        self._job = job
        self._places = common.places
        self._logs = logs = common.logs
        self._others = [other for other in range(len(logs)) if other != job]
        self._shares = ConnectionShares(len(logs), job, common.owners)
        self._connections_max = limits.connections_max // len(logs)
        self._state_max = limits.state_max // len(logs)
        self._stage = -1
        self._at_end = False
        self._topics = TopicDirectory()
        self._told: dict[tuple[str, str, str], int] = {}
        self._ahead: list[PlacedTeaching] = []
        """What others taught at places that this worker has not reached; a heap."""
        self._waits: Counter[TopicKey] = Counter()
        self.news: deque[PlacedTeaching] = deque()
        """What this worker learned, for who puts the rows in order."""
        self._parent = common.parent

    # ---- what the pipeline asks

    def bind(self, topics: TopicDirectory) -> None:
        """See ``WorkShare``."""
        self._topics = topics

    def own(self, segments: SegmentBatch) -> NDArray[np.bool_]:
        """See ``WorkShare``."""
        return self._shares.own(segments)

    def begin(self, *, at_end: bool = False) -> None:
        """See ``WorkShare``."""
        self._stage += 1
        self._at_end = at_end
        self._move((self._stage, -1, -1))
        self.publish()
        self._read_logs()
        self._catch_up()

    def in_order(self, placed: Iterator[Placed]) -> Iterator[Placed]:
        """See ``WorkShare``; places never go back."""
        stage, at_end = self._stage, self._at_end
        for each in placed:
            release, first, item = each
            place = (stage, 0 if at_end else release, first)
            self.place = max(self.place, place)
            if isinstance(item, MessageItem):
                message = item.message
                if message.topic_ids:
                    self._know(message.protocol, message.topic_ids)
                if message.teaches:
                    self._know(message.protocol, [topic_id for topic_id, _ in message.teaches])
                    self._teach(message)
            elif isinstance(item, RecordItem):
                constant = item.batch.constant
                if constant.get("topic") is None and (topic_id := constant.get("topic_id")) is not None:
                    self._know(item.message.protocol, (topic_id,))
            yield each

    def check_limits(self, connections: int, state: int) -> None:
        """See ``WorkShare``; raises ShareExceeded."""
        if connections > self._connections_max or state > self._state_max:
            self.exceed()

    def exceed(self) -> NoReturn:
        """See ``WorkShare``; raises ShareExceeded."""
        raise ShareExceeded

    # ---- topic names

    def publish(self) -> None:
        """Say that everything before the current place is complete."""
        self._places.publish(self._job, self.place)

    def _move(self, place: Place) -> None:
        self.place = max(self.place, place)

    def _know(self, protocol: str, topic_ids: Sequence[str]) -> None:
        """Learn what others taught before this place, as far as these ids need it."""
        if self._ahead:
            self._catch_up()
        names = self._topics.names
        unknown = [key for topic_id in topic_ids if (key := (protocol, topic_id)) not in names]
        if unknown and (self.exact or min(self._waits[key] for key in unknown) < PATIENCE):
            self._waits.update(unknown) if not self.exact else None
            self._await_others()

    def _await_others(self) -> None:
        """Wait until the others are at this place or beyond it, and learn what they taught before it."""
        place, looks = self.place, 0
        while any(self._places.of(other) < place for other in self._others):
            if not looks:
                self.publish()
                self.on_wait()
            looks += 1
            if looks < _EAGER:
                os.sched_yield()
            else:
                time.sleep(_PAUSE_S)
                if os.getppid() != self._parent:
                    raise Orphaned
        self._read_logs()
        self._catch_up()

    def _read_logs(self) -> None:
        for other in self._others:
            for teaching in self._logs[other].news():
                heappush(self._ahead, teaching)

    def _catch_up(self) -> None:
        """Learn what others taught before this place."""
        while self._ahead and self._ahead[0].place < self.place:
            taught = heappop(self._ahead).taught
            self._topics.merge((taught,))
            self._note(taught)

    def _teach(self, message: Message) -> None:
        """Tell the others what a message teaches, unless they know it."""
        for topic_id, name in message.teaches:
            taught = message.protocol, topic_id, name, message.frame.first_ts_ns
            if self._note(taught):
                teaching = PlacedTeaching(self.place, taught)
                self._logs[self._job].write(teaching)
                self.news.append(teaching)

    def _note(self, taught: tuple[str, str, str, int]) -> bool:
        """Whether this was not known, or is older than what was."""
        protocol, topic_id, name, ts_ns = taught
        key = (protocol, topic_id, name)
        if self._told.get(key, ts_ns + 1) <= ts_ns:
            return False
        self._told[key] = ts_ns
        return True
