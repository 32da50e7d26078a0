"""Finds the request of each response, or says that it cannot be known.

1. A response answers the oldest pending request with its correlation id: brokers answer in order, and clients may
   reuse ids (the logins of a Java client do, some clients always do).
2. If responses were lost, some pending requests will never be answered: those before a request that was answered; those
   that the response's body does not fit; and, if the client waits for each response, all but the last one.
3. If more than one is still possible, the oldest ends as ``lost`` and the response is not paired: a wrong guess would
   shift all later pairs. The same holds if a lost request may have had this id.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from mqsniff.framing import FramedDissector
from mqsniff.model import Frame, Pending
from mqsniff_kafka.contexts import RequestContext

LOOK_BACK: Final = 64
"""Pending requests of one id that are compared with a response: bounds the cost of a hostile queue."""
NONE_OPEN: Final = -1

Fits = Callable[[Pending, Frame], bool]
"""Whether a response can answer a request."""


class ResponsePairing:
    """The pairs of one connection."""

    def __init__(self, owner: FramedDissector, fits: Fits) -> None:
        self._owner = owner
        self._fits = fits
        self._losses = 0
        """How often responses may have been lost."""
        self._open_since = NONE_OPEN
        """``_losses`` at the latest request; NONE_OPEN once it may have been answered."""
        self._latest: int | None = None
        self._waits = True
        """Whether the client has always waited for a response before its next request."""
        self._repeats = False
        """Whether the client has used an id twice in a row."""
        self._seen_from = 0
        """Stream offset after the last lost request."""
        self._answered_at = -1
        """Stream offset of the latest answered request."""
        self.all_seen = True
        """Whether every request that is still unanswered was seen."""
        self.in_doubt: tuple[Pending, ...] = ()
        """Requests that the latest response may answer, if that is not known."""

    def lost_bytes(self) -> None:
        """Bytes of the server were lost: the latest request may have been answered."""
        self._open_since = NONE_OPEN

    def lost_responses(self) -> None:
        """Responses may have been lost."""
        self._losses += 1

    def lost_requests(self, stop: int) -> None:
        """Requests may have been lost up to a stream offset."""
        self.all_seen, self._seen_from, self._latest = False, stop, None

    def add_request(self, correlation: int, request: RequestContext) -> None:
        """A request was sent that expects a response. Hot."""
        if self._open_since == self._losses:
            self._waits = False
        if correlation == self._latest:
            self._repeats = True
        self._open_since, self._latest = self._losses, correlation
        request.losses = self._losses

    def reply_to(self, correlation: int, frame: Frame) -> Pending | None:
        """Resolve the request of a response; None if there is none, or if it is not known which. Hot."""
        self._open_since = NONE_OPEN
        self.in_doubt = ()
        if (self._losses or not self.all_seen) and self._doubts(correlation, frame):
            return None
        pending = self._owner.reply_to(correlation)
        if pending is not None:
            self._answered_at = max(self._answered_at, pending.frame.offset)
            self.all_seen = self.all_seen or self._answered_at >= self._seen_from
        return pending

    def _doubts(self, correlation: int, frame: Frame) -> bool:
        """End the requests that will never be answered; whether more than one is possible then (rule 3)."""
        unseen = self._repeats and not (self._waits or self.all_seen)
        if len(self._owner.pending(correlation)) + unseen < 2:
            return False
        possible = self._possible(correlation, frame)
        if not possible or len(possible) + unseen < 2:
            return False
        for pending in possible:
            pending.context.losses = pending.gaps_before = NONE_OPEN  # it may be over from here on
        self._owner.resolve(possible[0], "lost")
        self.in_doubt = tuple(possible)
        return True

    def _possible(self, correlation: int, frame: Frame) -> list[Pending]:
        """The requests that the response may answer; those before them end (rule 2)."""
        over: list[Pending] = []
        left: list[Pending] = []
        for pending in islice(self._owner.pending(correlation), LOOK_BACK):
            if pending.frame.offset < self._answered_at:
                over.append(pending)
                continue
            left.append(pending)
            if pending.context.losses == self._losses:
                break
        possible = [pending for pending in left if self._fits(pending, frame)] or left[:1]
        if self._waits:
            possible = possible[-1:]
        if possible:
            over += left[: left.index(possible[0])]
        for pending in over:
            self._owner.resolve(pending, "lost")
        return possible
