"""Frames of one connection in, messages out that know what the connection said before.

1. Raw tokens of a login have no header: ``logins`` tells them apart, everything else is a request or a response.
2. A response proves little by its head (58,000 places of a megabyte of Kafka's own traffic look like one). One that was
   found by a search has to answer a request that was seen. Where requests were lost it may answer one of those, until
   the first answer to a later one, as brokers answer in order; but clients count: its id is near those that were seen.
"""

from __future__ import annotations

from typing import Final

from dissectors.kafka import heads
from dissectors.kafka.fetching import Sessions
from dissectors.kafka.logins import Logins
from dissectors.kafka.membership import Membership
from dissectors.kafka.records.data import RecordData
from dissectors.kafka.requests import Requests
from dissectors.kafka.responses import CORRELATION, Responses
from mqsniff.dissector import NO_FRAME, WAIT_PEER, Sized, Switch
from mqsniff.framing import FramedDissector
from mqsniff.model import Frame, Message, Side, Skipped
from mqsniff.spec.layout import Layout

IDS_NEAR: Final = 64
"""How far back the ids of requests may be that wait for their answers; a Java client's connections count together."""
SPOKE_PLAIN: Final = "protocol error"
"""Why a server on a TLS port ends a connection on which the client does not speak TLS: it says so by an alert."""


class Session:
    """What one connection has said so far."""

    def __init__(self, owner: FramedDissector) -> None:
        self._owner = owner
        self._identity = owner.identity
        self._logins = Logins(owner)
        shared = (self._logins, Membership(), Sessions(owner.settings.limits.handles_max), RecordData(owner.settings))
        self._requests = Requests(owner, *shared)
        self._responses = Responses(owner, *shared)
        self._unsure = False
        """Whether the server's next frame was found by a search."""
        self._all_seen = True
        """Whether every request was seen that the server has still to answer."""
        self._seen_from = 0
        """Stream offset from which on all requests were seen."""
        self._first_id: int | None = None
        """Correlation id of the first of them."""

    # ---- framing

    def lost(self, side: Side, stop: int) -> None:
        """Frames of a side were missed, or may have been, up to a stream offset."""
        if side is Side.CLIENT:
            self._all_seen, self._first_id, self._seen_from = False, None, stop

    def found(self, side: Side) -> None:
        """A side is in step again, on a frame that was searched for."""
        self.lost(side, self._owner.passed(side))
        self._unsure = self._unsure or side is Side.SERVER

    def closed(self, side: Side) -> None:
        """No more bytes of a side come."""
        self._logins.closed(side)

    def client_size(self, head: bytes) -> Sized:
        """Size of the client's next frame."""
        if self._logins.must_wait():
            return WAIT_PEER
        return heads.follow_sized(head, 0) if self._logins.is_token(head) else heads.follow_request(head)

    def server_size(self, head: bytes) -> Sized:
        """Size of the server's next frame; where a search found it, rule 2."""
        if self._logins.expects_token():
            return heads.follow_sized(head, 0)
        size = heads.follow_sized(head, heads.RESPONSE_MIN)
        if isinstance(size, Switch):
            self._identity.close_reason = SPOKE_PLAIN
            return size
        if not self._unsure or not isinstance(size, int) or len(head) < 8:
            return size
        return size if self._may_answer(CORRELATION.unpack_from(head, 4)[0]) else NO_FRAME

    def _may_answer(self, correlation: int) -> bool:
        """Whether a response with this id may come now."""
        if self._owner.questions(correlation) or not self._owner.fed(Side.CLIENT):
            return True
        first = self._first_id
        return not self._all_seen and (first is None or first - IDS_NEAR <= correlation < first)

    # ---- frames

    def client_frame(self, frame: Frame) -> Message | Skipped:
        """The message of a client's frame."""
        data = frame.data
        if self._logins.is_token(data):
            return self._logins.client_token(frame)
        self._logins.request_seen()
        if len(data) < 12:
            return _cut_head(frame)
        if self._first_id is None:
            self._first_id = CORRELATION.unpack_from(data, 8)[0]
        return self._requests.message_of(frame)

    def server_frame(self, frame: Frame) -> Message | Skipped:
        """The message of a server's frame."""
        self._unsure = False
        if self._logins.expects_token():
            return self._logins.server_token(frame)
        if len(frame.data) < 8:
            return _cut_head(frame)
        message = self._responses.message_of(frame)
        self._all_seen = self._all_seen or self._responses.answered_at >= self._seen_from
        return message

    def layout_of(self, frame: Frame) -> Layout | None:
        """The layout by which a response was decoded a while ago; None where nobody explains frames."""
        return self._responses.layout_of(frame) if frame.side is Side.SERVER else None


def _cut_head(frame: Frame) -> Skipped:
    """A frame of which not even the header is there."""
    return Skipped(
        frame.side,
        frame.offset,
        frame.size,
        "the header of a frame was cut",
        "truncated",
        frame.first_ts_ns,
        frame.first_packet,
    )
