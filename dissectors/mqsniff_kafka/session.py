"""The state of one connection: framing, searches, and the message of each frame.

1. Raw SASL tokens have no header: ``logins`` recognises them. Every other frame is a request or a response.
2. The head of a response proves little: 58,000 places in a megabyte of Kafka traffic look like one. A response that was
   found by a search must answer a request that was seen before it, and its body must decode by that request.
   If requests were lost, it may answer a lost one, until a later request is answered (brokers answer in order). Clients
   count, so its correlation id must be near those that were seen, below that of the next response, and not 0. It must
   also be a whole packet, or begin a packet with another response after it, or begin a run of responses whose ids rise
   by one.
3. If no request was seen so far, the search waits for one, since a capture may begin inside a large response. It does
   not wait if responses follow whose ids count up: the capture may have the server's side only.
4. The body of a request that was found by a search must decode to its end.
"""

from __future__ import annotations

from typing import Final

from mqsniff.dissector import NEED, NO_FRAME, WAIT_PEER, Candidate, LayerChange, Sized, Verdict
from mqsniff.framing import FramedDissector
from mqsniff.model import Frame, Message, Side, Skipped
from mqsniff.spec.layout import Layout
from mqsniff_kafka import detection, heads
from mqsniff_kafka.bodies import Version
from mqsniff_kafka.requests import Requests
from mqsniff_kafka.responses import CORRELATION, UNASKED, Responses
from mqsniff_kafka.shared import SharedParts

IDS_NEAR: Final = 64
"""How far the id of a lost request may be from ids that were seen; connections of a Java client share a counter."""
COUNTED: Final = 3
"""Responses in a row whose ids count up: so many prove the first one without its request."""
SPOKE_PLAIN: Final = "protocol error"
"""Close reason if a TLS port refuses a client without TLS by an alert."""


class KafkaSession:
    """One connection."""

    __slots__ = (
        "_first_id",
        "_identity",
        "_logins",
        "_owner",
        "_pairing",
        "_requests",
        "_responses",
        "_token_at",
        "_unsure",
    )

    def __init__(self, owner: FramedDissector) -> None:
        self._owner = owner
        self._identity = owner.identity
        shared = SharedParts(owner)
        self._logins = shared.logins
        self._responses = Responses(owner, shared)
        self._pairing = self._responses.pairing
        self._requests = Requests(owner, shared, pairing=self._pairing)
        self._unsure = False
        """Whether a search found the server's frames and none of them has answered a request so far."""
        self._token_at = [-1, -1]
        """Stream offset of the last token of each side."""
        self._first_id: int | None = None
        """Correlation id of the first request after lost ones."""

    # ---- framing

    def lost(self, side: Side, stop: int) -> None:
        """Frames of a side may have been lost up to a stream offset."""
        if side is Side.CLIENT:
            self._pairing.lost_requests(stop)
            self._first_id = None
        else:
            self._pairing.lost_bytes()

    def found(self, side: Side) -> None:
        """A search has found a frame of a side."""
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
        """Size of the server's next frame; rule 2 if a search found it."""
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
        """Whether a frame that a search found fits the connection (rules 2 to 4)."""
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
            self._token_at[Side.CLIENT] = frame.offset
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
            self._token_at[Side.SERVER] = frame.offset
            return self._logins.server_token(frame)
        if len(frame.data) < 8:
            self._pairing.lost_responses()
            return _cut_head(frame)
        message = self._responses.message_of(frame)
        self._unsure = unsure and message.name == UNASKED
        return message

    def is_token(self, frame: Frame) -> bool:
        """Whether a frame that was decoded a while ago is a token without a header."""
        return self._token_at[frame.side] == frame.offset

    def forwarded_of(self, frame: Frame) -> Version | None:
        """The request whose response an envelope, decoded a while ago, forwards."""
        return self._responses.forwarded_of(frame) if frame.side is Side.SERVER else None

    def layout_of(self, frame: Frame) -> Layout | None:
        """The layout of a recent response; None unless spans are wanted."""
        return self._responses.layout_of(frame) if frame.side is Side.SERVER else None


def _is_request(candidate: Candidate) -> Verdict:
    """Whether the body of a candidate decodes to its end (rule 4); YES if it is not whole: it cannot be checked."""
    frame = candidate.frame
    if len(frame) < candidate.size:
        return Verdict.YES
    fit = detection.request_fit(frame, candidate.size)
    if fit is Verdict.MAYBE:
        return Verdict.YES if candidate.begins_packet else Verdict.NO
    return fit


def _counted(candidate: Candidate, step: int) -> int:
    """Number of responses from here on whose ids rise by at most ``step``, up to COUNTED; 0 if the next one's does not.

    The size of record data and half of the first offset also read as a response, of id 0, which ends where the real one
    does.
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
    """A frame whose header was cut."""
    return Skipped(
        frame.side,
        frame.offset,
        frame.size,
        "the header of a frame was cut",
        "truncated",
        frame.first_ts_ns,
        frame.first_packet,
    )
