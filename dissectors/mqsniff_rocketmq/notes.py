"""What was odd in one message, and how much room is left for what it makes us keep."""

from __future__ import annotations

from mqsniff.limits import Limits
from mqsniff.model import Problem, ProblemKind, Severity
from mqsniff.spec.wire import Malformed


class ProblemNotes:
    """Problems of one message, at most ``message_problems_max``, and its budget of ``elements_max`` values."""

    __slots__ = ("_left", "problems", "room")

    def __init__(self, limits: Limits) -> None:
        self.problems: list[Problem] = []
        self.room = limits.elements_max
        """Values that the message may still become: a few bytes may buy an object."""
        self._left = limits.message_problems_max

    def note(self, kind: ProblemKind, severity: Severity, detail: str, path: str = "") -> None:
        """Note a problem."""
        self._left -= 1
        if self._left > 0:
            self.problems.append(Problem(kind, severity, detail, path))
        elif self._left == 0:
            self.problems.append(Problem("limit", "warning", "more problems in this message than are noted"))

    def take(self, count: int) -> None:
        """Use room up; Malformed where there is not so much left."""
        if count > self.room:
            raise Malformed("more values than elements_max")
        self.room -= count
