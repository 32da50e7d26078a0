"""Open questions of one connection: asked by a frame, ended by another or by the end.

1. One first-in-first-out queue per key, since ids repeat on real wires.
2. A question that expects nothing (``expects`` 0) ends as ``oneway`` when a later one of its key is answered, when
   more than ``unanswered_max`` of them stand in its queue, or at the end.
3. At most ``questions_max`` are open; beyond that the oldest one ends without an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from mqsniff.limits import Limits
from mqsniff.model import Asked, Frame, Link, Message, Status


class Questions:
    """The table of open questions, and what the frame being decoded did to it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queues: dict[Any, deque[Asked]] = {}
        self._count = 0
        self._frame: Frame | None = None
        self._asked: list[Asked] = []
        self._answered: list[Asked] = []
        self._closed: list[Asked] = []
        self.gaps = [0, 0]
        """Gaps seen so far, by side."""

    def begin(self, frame: Frame) -> None:
        """A frame is going to be decoded."""
        self._frame = frame
        self._asked, self._answered, self._closed = [], [], []

    def finish(self, message: Message) -> None:
        """The frame became this message: hang its questions and answers on it."""
        for asked in self._asked:
            asked.message = message
        for asked in self._answered:
            asked.answer = asked.answer or message
            asked.last_answer = message
        message.answers = len(self._answered)
        if self._asked:
            message.asked = tuple(self._asked)
        if self._closed:
            message.closed = tuple(self._closed)
        self._asked, self._answered, self._closed = [], [], []

    def ask(
        self, key: Any, context: Any, expects: int, link: Link, wait_limit_ns: int | None, *, in_order: bool
    ) -> Asked:
        """Open a question of the frame being decoded."""
        assert self._frame is not None
        asked = Asked(key, link, self._frame, context, expects, wait_limit_ns, in_order)
        asked.gaps_before = self.gaps[self._frame.side.peer]
        queue = self._queues.setdefault(key, deque())
        queue.append(asked)
        self._count += 1
        self._asked.append(asked)
        if expects == 0 and len(queue) > self._limits.unanswered_max and queue[0].expects == 0:
            self.settle(queue[0], "oneway")
        if self._count > self._limits.questions_max:
            self._end_oldest()
        return asked

    def answer(self, key: Any) -> Asked | None:
        """The oldest question of the key that expects an answer; those before it that expect none end."""
        queue = self._queues.get(key)
        if not queue:
            return None
        while queue and queue[0].expects == 0:
            self.settle(queue[0], "oneway")
        if not queue:
            return None
        asked = queue[0]
        self.settle(asked, answered=True)
        return asked

    def open(self, key: Any) -> Sequence[Asked]:
        """The open questions of a key, oldest first: a live view, not to be walked while they are settled."""
        return self._queues.get(key, ())

    def settle(self, asked: Asked, status: Status | None = None, *, answered: bool = False) -> None:
        """Count one answer, or end the question without; it leaves its queue when nothing more is expected."""
        if answered:
            self._answered.append(asked)
            asked.expects -= 1
            if asked.expects > 0:
                return
        asked.status = status or asked.status
        self._remove(asked)
        self._closed.append(asked)

    def _remove(self, asked: Asked) -> None:
        queue = self._queues[asked.key]
        queue.remove(asked)
        self._count -= 1
        if not queue:
            del self._queues[asked.key]

    def _end_oldest(self) -> None:
        """A peer that never answers: the first question of the first queue ends here."""
        oldest = next(iter(self._queues.values()))[0]
        self.settle(oldest, "unanswered" if oldest.expects else "oneway")

    def left(self) -> Iterator[Asked]:
        """Everything still open, in the order it was asked."""
        rest = [asked for queue in self._queues.values() for asked in queue]
        self._queues.clear()
        self._count = 0
        yield from sorted(rest, key=lambda asked: asked.frame.release)
