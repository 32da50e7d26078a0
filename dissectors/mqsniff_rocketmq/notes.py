"""Problems of one message, and its budget of values."""

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
        """Values that may still be decoded: a few bytes may become an object."""
        self._left = limits.message_problems_max

    def note(self, kind: ProblemKind, severity: Severity, detail: str, path: str = "") -> None:
        """Note a problem."""
        self._left -= 1
        if self._left > 0:
            self.problems.append(Problem(kind, severity, detail, path))
        elif self._left == 0:
            self.problems.append(Problem("limit", "warning", "more problems in this message than are noted"))

    def take(self, count: int) -> None:
        """Take ``count`` values from the budget; Malformed if too few are left."""
        if count > self.room:
            raise Malformed("more values than elements_max")
        self.room -= count
