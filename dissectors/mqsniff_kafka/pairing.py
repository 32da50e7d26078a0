"""Responses and the requests that are open in; the request that each answers out, or that it cannot be told.

1. A response goes by its correlation id, and of several open requests with this id it answers the oldest: brokers
   answer in order, and clients may use an id again (a Java client's logins do, some clients always do).
2. Where responses were lost, open requests may be over. A request before one that was answered is; so is one that the
   response cannot be for, by its body; and, of a client that waits for each answer, every one but the last.
3. Where more than one is left, the oldest of them ends as lost and the response answers none: a wrong guess would shift
   all pairs behind it. The same holds where a request that was lost may have had the id.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from mqsniff.framing import FramedDissector
from mqsniff.model import Frame, Pending
from mqsniff_kafka.contexts import RequestContext

LOOK_BACK: Final = 64
"""Open requests of one id that a response is held against: a hostile queue must not cost more."""
NONE_OPEN: Final = -1

Fits = Callable[[Pending, Frame], bool]
"""Whether a response can answer a request."""


class ResponsePairing:
    """Which requests of one connection may still be answered."""

    def __init__(self, owner: FramedDissector, fits: Fits) -> None:
        self._owner = owner
        self._fits = fits
        self._losses = 0
        """How often responses may have been lost."""
        self._open_since = NONE_OPEN
        """The losses at the latest request; NONE_OPEN once a response has come behind it, or may have."""
        self._latest: int | None = None
        self._waits = True
        """Whether the client has always waited for a response before its next request."""
        self._repeats = False
        """Whether it has used an id twice in a row."""
        self._seen_from = 0
        """Stream offset from which on all requests were seen."""
        self._answered_at = -1
        """Stream offset of the latest request that was answered."""
        self.all_seen = True
        """Whether every request was seen that the server has still to answer."""
        self.in_doubt: tuple[Pending, ...] = ()
        """What the latest response may answer, where that cannot be told."""

    def lost_bytes(self) -> None:
        """Take note that bytes of the server were lost: the latest request may have been answered."""
        self._open_since = NONE_OPEN

    def lost_responses(self) -> None:
        """Take note that responses may have been lost."""
        self._losses += 1

    def lost_requests(self, stop: int) -> None:
        """Take note that requests were lost, or may have been, up to a stream offset."""
        self.all_seen, self._seen_from, self._latest = False, stop, None

    def add_request(self, correlation: int, request: RequestContext) -> None:
        """Take note of a request that waits for its answer. Hot."""
        if self._open_since == self._losses:
            self._waits = False
        if correlation == self._latest:
            self._repeats = True
        self._open_since, self._latest = self._losses, correlation
        request.losses = self._losses

    def reply_to(self, correlation: int, frame: Frame) -> Pending | None:
        """The request that a response answers; None where there is none, or where that cannot be told. Hot."""
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
        """End the requests that are over; whether it cannot be told then which one the response answers (rule 3)."""
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
        """The requests that the response may be for; those before them end (rule 2)."""
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
