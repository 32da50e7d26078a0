"""SYN, SYN/ACK and the first segments after them in; the client, the outcome and the round-trip times out.

1. The sender of a SYN is the client, the sender of a SYN/ACK is the server.
2. A connection is established once its client acknowledges, or either side sends payload, after a SYN or SYN/ACK.
3. Round-trip times are measured at the point of capture, from the last SYN (or SYN/ACK) that was no duplicate by the
   tap.
"""

from __future__ import annotations

from collections.abc import Sequence

from mqsniff.model import ConnectionOutcome
from mqsniff.streams.segment import ACK, RST, SYN, Segment


class Handshake:
    """The handshake of one connection, as far as it was captured."""

    __slots__ = ("_ack_ns", "_answer_ns", "_done", "_refused", "_server_rtt_ns", "_syn_ns", "client")

    def __init__(self) -> None:
        self.client: int | None = None
        """Direction of the client; None until a SYN or SYN/ACK was seen."""
        self._syn_ns: int | None = None
        self._answer_ns: int | None = None
        self._ack_ns: int | None = None
        self._server_rtt_ns: int | None = None
        self._done = False
        self._refused = False

    @property
    def fields(self) -> tuple[int | None, ...]:
        """All that it knows, for ``restore``."""
        times = self._syn_ns, self._answer_ns, self._ack_ns, self._server_rtt_ns
        return self.client, *times, int(self._done), int(self._refused)

    def restore(self, fields: Sequence[int | None]) -> None:
        """Know again what another handshake knew."""
        self.client, self._syn_ns, self._answer_ns, self._ack_ns, self._server_rtt_ns, done, refused = fields
        self._done, self._refused = bool(done), bool(refused)

    @property
    def pending(self) -> bool:
        """Whether the next segments may belong to it."""
        return self.client is not None and not self._done

    @property
    def seen(self) -> bool:
        """Whether both SYN and SYN/ACK were captured."""
        return self._syn_ns is not None and self._answer_ns is not None

    @property
    def syn_ns(self) -> int | None:
        """Time of the last SYN."""
        return self._syn_ns

    def take(self, segment: Segment, *, copy: bool) -> None:
        """Process the next segment; ``copy``: it is a duplicate by the tap."""
        flags = segment.flags
        if flags & SYN:
            if not copy:
                self._take_syn(segment, answer=bool(flags & ACK))
        elif flags & RST:
            self._refused |= self.pending and segment.direction != self.client
        elif self.pending and (segment.size or segment.direction == self.client):
            self._done = True
            if segment.direction == self.client:
                self._ack_ns = segment.ts_ns

    def _take_syn(self, segment: Segment, *, answer: bool) -> None:
        if self.client is None:
            self.client = 1 - segment.direction if answer else segment.direction
        if answer:
            first, self._answer_ns = self._answer_ns is None, segment.ts_ns
        elif self._answer_ns is None or self._syn_ns is None:
            first, self._syn_ns = self._answer_ns is not None, segment.ts_ns
        else:
            return
        if first and self._syn_ns is not None and self._answer_ns is not None:
            self._server_rtt_ns = self._answer_ns - self._syn_ns

    @property
    def outcome(self) -> ConnectionOutcome:
        """Its outcome, by the segments so far."""
        if self.client is None:
            return "mid-stream"
        if self._done:
            return "established"
        return "refused" if self._refused else "no answer"

    @property
    def server_rtt_ns(self) -> int | None:
        """Time from SYN to SYN/ACK."""
        return _positive(self._server_rtt_ns)

    @property
    def client_rtt_ns(self) -> int | None:
        """Time from SYN/ACK to the client's next segment."""
        if self._ack_ns is None or self._answer_ns is None:
            return None
        return _positive(self._ack_ns - self._answer_ns)


def _positive(ns: int | None) -> int | None:
    return ns if ns is not None and ns >= 0 else None
