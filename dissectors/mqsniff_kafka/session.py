"""Frames of one connection in, messages out that know what the connection said before.

1. Raw tokens of a login have no header: ``logins`` tells them apart, everything else is a request or a response.
2. A response proves little by its head (58,000 places of a megabyte of Kafka's own traffic look like one). One that a
   search found must answer a request that was seen before it, and its body must decode by that request.
   Where requests were lost it may answer one of those, until the first answer to a later request, as brokers answer in
   order. Clients count, so its id must be near those that were seen, below that of the response behind it, and not 0.
   It must also be a whole packet, or begin a packet with another response behind it, or begin a row of responses whose
   ids count one by one.
3. Where no request was seen so far, the search waits for one (a capture may begin inside a large answer, whose bytes
   look like anything), unless responses follow that count up as clients do: a capture may have this side only.
4. A request that was found by a search has a body that decodes to its end.
"""

from __future__ import annotations

from typing import Final

from mqsniff.dissector import NEED, NO_FRAME, WAIT_PEER, Candidate, LayerChange, Sized, Verdict
from mqsniff.framing import FramedDissector
from mqsniff.model import Frame, Message, Side, Skipped
from mqsniff.spec.layout import Layout
from mqsniff_kafka import detection, heads
from mqsniff_kafka.fetching import FetchSessions
from mqsniff_kafka.logins import Logins
from mqsniff_kafka.membership import Membership
from mqsniff_kafka.records.data import RecordData
from mqsniff_kafka.requests import Requests
from mqsniff_kafka.responses import CORRELATION, UNASKED, Responses

IDS_NEAR: Final = 64
"""How far back the ids of requests may be that wait for their answers; a Java client's connections count together."""
COUNTED: Final = 3
"""Responses in a row that count up: enough to believe the first of them without a request."""
SPOKE_PLAIN: Final = "protocol error"
"""Why a server on a TLS port ends a connection on which the client does not speak TLS: it says so by an alert."""


class KafkaSession:
    """What one connection has said so far."""

    def __init__(self, owner: FramedDissector) -> None:
        self._owner = owner
        self._identity = owner.identity
        self._logins = Logins(owner)
        shared = (
            self._logins,
            Membership(),
            FetchSessions(owner.settings.limits.handles_max),
            RecordData(owner.settings),
        )
        self._responses = Responses(owner, *shared)
        self._pairing = self._responses.pairing
        self._requests = Requests(owner, *shared, pairing=self._pairing)
        self._unsure = False
        """Whether a search found the server's frames, none of which has answered a request so far."""
        self._first_id: int | None = None
        """Correlation id of the first request since requests were lost."""

    # ---- framing

    def lost(self, side: Side, stop: int) -> None:
        """Frames of a side were missed, or may have been, up to a stream offset."""
        if side is Side.CLIENT:
            self._pairing.lost_requests(stop)
            self._first_id = None
        else:
            self._pairing.lost_bytes()

    def found(self, side: Side) -> None:
        """A side is in step again, on a frame that was searched for."""
        self.lost(side, self._owner.passed(side))
        if side is Side.SERVER:
            self._pairing.lost_responses()
            self._unsure = True

    def closed(self, side: Side) -> None:
        """No more bytes of a side come."""
        self._logins.closed(side)

    def client_size(self, head: bytes) -> Sized:
        """Size of the client's next frame."""
        if self._logins.must_wait():
            return WAIT_PEER
        return heads.follow_token(head) if self._logins.is_token(head) else heads.follow_request(head)

    def server_size(self, head: bytes) -> Sized:
        """Size of the server's next frame; where a search found it, rule 2."""
        if self._logins.expects_token():
            return heads.follow_token(head)
        size = heads.follow_response(head)
        if isinstance(size, LayerChange):
            self._identity.close_reason = SPOKE_PLAIN
            return size
        if not self._unsure or not isinstance(size, int) or len(head) < 8:
            return size
        return size if self._may_answer(CORRELATION.unpack_from(head, 4)[0]) else NO_FRAME

    def _may_answer(self, correlation: int) -> bool:
        """Whether a response with this id may come now."""
        if self._owner.pending(correlation) or not self._owner.fed(Side.CLIENT):
            return True
        return self._may_be_older(correlation)

    def _may_be_older(self, correlation: int) -> bool:
        """Whether it may answer a request that was not seen; not the first one of a connection, as zeros are many."""
        first = self._first_id
        return not self._pairing.all_seen and (
            correlation > 0 if first is None else max(0, first - IDS_NEAR) < correlation < first
        )

    # ---- searches

    def confirm(self, side: Side, candidate: Candidate) -> Verdict:
        """Whether a frame that a search believes is one (rules 2 to 4)."""
        if side is Side.CLIENT:
            return _is_request(candidate)
        if self._logins.expects_token():
            return Verdict.YES
        head = candidate.frame
        if len(head) < 8:
            return Verdict.YES if candidate.begins_packet else Verdict.NO
        (correlation,) = CORRELATION.unpack_from(head, 4)
        if self._responses.may_be(correlation, candidate):
            return Verdict.YES
        counted = _counted(candidate, IDS_NEAR) if self._may_be_older(correlation) else 0
        if self._first_id is None and counted < COUNTED and not candidate.final:
            return Verdict.MORE
        alone = candidate.ends_packet and self._first_id is not None
        if candidate.begins_packet and counted >= (1 if alone else 2):
            return Verdict.YES
        return Verdict.YES if counted == COUNTED == _counted(candidate, 1) else Verdict.NO

    # ---- frames

    def client_frame(self, frame: Frame) -> Message | Skipped:
        """The message of a client's frame."""
        data = frame.data
        if self._logins.is_token(data):
            return self._logins.client_token(frame)
        self._logins.request_seen()
        if len(data) < 12:
            self.lost(Side.CLIENT, frame.offset + frame.size)
            return _cut_head(frame)
        if self._first_id is None:
            self._first_id = CORRELATION.unpack_from(data, 8)[0]
        return self._requests.message_of(frame)

    def server_frame(self, frame: Frame) -> Message | Skipped:
        """The message of a server's frame."""
        unsure, self._unsure = self._unsure, False
        if self._logins.expects_token():
            return self._logins.server_token(frame)
        if len(frame.data) < 8:
            self._pairing.lost_responses()
            return _cut_head(frame)
        message = self._responses.message_of(frame)
        self._unsure = unsure and message.name == UNASKED
        return message

    def layout_of(self, frame: Frame) -> Layout | None:
        """The layout by which a response was decoded a while ago; None where nobody explains frames."""
        return self._responses.layout_of(frame) if frame.side is Side.SERVER else None


def _is_request(candidate: Candidate) -> Verdict:
    """Whether the body of a candidate decodes to its end (rule 4); YES for one that is not whole: nothing to check."""
    frame = candidate.frame
    if len(frame) < candidate.size:
        return Verdict.YES
    fit = detection.request_fit(frame, candidate.size)
    if fit is Verdict.MAYBE:
        return Verdict.YES if candidate.begins_packet else Verdict.NO
    return fit


def _counted(candidate: Candidate, step: int) -> int:
    """How many responses stand here whose ids rise by ``step`` at most, up to COUNTED; 0 where the next one does not.

    The size of record data, with half of the first offset behind it, is a response of id 0 that ends where the true one
    does: right before the next.
    """
    data, at, before = candidate.data, candidate.start, -1
    for number in range(COUNTED):
        size = heads.probe_response(data[at : min(at + heads.PROBED, candidate.stop)])
        if not isinstance(size, int):
            return number if size is NEED else 0
        (correlation,) = CORRELATION.unpack_from(data, at + 4)
        if before >= 0 and not before < correlation <= before + step:
            return 0
        at, before = at + size, correlation
    return COUNTED


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
