"""Base class for framed protocols: authors write ``probe``, ``frame_size`` and ``decode``, the rest is done here.

1. A frame goes to ``decode`` once, when no more bytes of it can come (``machine``).
2. Requests are opened and resolved by the frame that is being decoded (``pending``).
3. Detection calls ``probe`` on the first bytes of both sides (``confirmation``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from mqsniff.dissector import Candidate, Dissector, IncrementalSize, Probed, Sample, Settings, Sized, Verdict, Walked
from mqsniff.framing.confirmation import verdict_of
from mqsniff.framing.machine import Machine
from mqsniff.framing.pending import PendingRequests
from mqsniff.model import Chunk, Event, ExchangeStatus, Frame, Gap, Link, Pending, Side


class FramedDissector(Dissector):
    """A protocol of frames; authors write ``probe``, ``frame_size`` and ``decode``."""

    head_max: ClassVar[int]
    """``probe`` and ``frame_size`` never need more bytes than this."""
    probe_max: ClassVar[int] = 0
    """``probe`` alone never needs more than this; 0: no less than ``head_max``."""
    head_usual: ClassVar[int] = 64
    """Size that nearly every head has: ``frame_size`` first gets no more than this, to copy less."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._requests = PendingRequests(settings.limits)
        self._machine = Machine(self, settings.limits, self._requests, settings.work)

    # ---- what authors write

    @classmethod
    @abstractmethod
    def probe(cls, side: Side, head: bytes) -> Probed:
        """Size of the frame that must start here; strict and stateless, for detection and resynchronisation."""

    @abstractmethod
    def frame_size(self, side: Side, head: bytes) -> Sized:
        """Size of the frame that starts here on a side that is in step; may use the connection's state.

        WAIT_PEER is NO_FRAME once ``may_wait`` is false.
        """

    @abstractmethod
    def decode(self, frame: Frame) -> Iterable[Event]:
        """Give the events of a frame; may raise Malformed. ``frame.data`` may be shorter than ``frame.size``."""

    def walk(self, side: Side, walk: IncrementalSize, data: bytes) -> Walked:  # noqa: ARG002  # part of the contract
        """Continue an IncrementalSize; ``data`` are bytes (at least one) from ``walk.size`` on. The result is final."""
        return walk.promised

    def missed(self, side: Side, length: int | None) -> None:
        """Framing resumed after ``length`` bytes that gave no frame (None: unknown)."""

    @classmethod
    def scan(cls, side: Side, data: bytes, start: int) -> int:  # noqa: ARG003  # part of the contract
        """First offset >= ``start`` where ``probe`` may find a frame; speeds a search up, never decides."""
        return start

    def confirm(self, side: Side, candidate: Candidate) -> Verdict:  # noqa: ARG002  # part of the contract
        """Whether a frame that a search found fits the state of the connection: YES, NO or MORE.

        After MORE this is called again when more bytes of the side have come, or when the side ends.
        """
        return Verdict.YES

    # ---- requests and replies

    def expect_reply(
        self,
        key: Any,
        context: Any = None,
        *,
        expects: int = 1,
        link: Link = "answer",
        wait_limit_ns: int | None = None,
        in_order: bool = True,
    ) -> Pending:
        """Open a request for the frame being decoded; ``expects`` 0: no reply unless it fails."""
        return self._requests.expect_reply(key, context, expects, link, wait_limit_ns, in_order=in_order)

    def reply_to(self, key: Any) -> Pending | None:
        """Resolve the oldest request of this key with the frame being decoded; None when there is none."""
        return self._requests.reply_to(key)

    def pending(self, key: Any) -> Sequence[Pending]:
        """The pending requests of a key, oldest first."""
        return self._requests.open(key)

    def resolve(
        self,
        pending: Pending,
        status: ExchangeStatus | None = None,
        *,
        answered: bool = False,
        awaits: Pending | None = None,
    ) -> None:
        """End one request wherever it stands in its queue: answered by this frame, or known to get no reply.

        ``awaits`` is the earlier request of the command that settles a delivery: the delivery ends with it.
        """
        self._requests.resolve(pending, status, answered=answered, awaits=awaits)

    def unanswered(self) -> Iterator[Pending]:
        """Requests that got no reply, oldest first."""
        return self._requests.left()

    def fed(self, side: Side) -> int:
        """Stream offset after the last fed byte of a side, bytes held after a gap not counted."""
        return self._machine.streams[side].end

    def passed(self, side: Side) -> int:
        """Stream offset after the last frame of a side: no layer can begin before it."""
        return self._machine.streams[side].position

    def may_wait(self, side: Side) -> bool:
        """Whether WAIT_PEER can still help a side: not when the peer has closed or too much has waited already."""
        return self._machine.may_wait(side)

    def gaps_of(self, side: Side) -> int:
        """How many gaps of a side were seen so far."""
        return self._requests.gaps[side]

    @property
    def state_size(self) -> int:
        """Bytes that wait for the rest of their frame or for the peer, and those of pending requests, nearly."""
        one, two = self._machine.streams
        return one.waiting_bytes + two.waiting_bytes + self._requests.state_size

    # ---- detection

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        """Judge both sides with ``probe``: YES on one side is enough, unless the other side says NO."""
        samples = zip(Side, (client, server), strict=True)
        verdicts = [cls.detect_side(side, sample) for side, sample in samples if sample.data]
        if not verdicts:
            return Verdict.MORE
        return Verdict.NO if Verdict.NO in verdicts else max(verdicts)

    @classmethod
    def detect_side(cls, side: Side, sample: Sample) -> Verdict:
        """YES if two frames follow each other at any likely start, MAYBE for a single frame.

        A side joined in the middle never says NO: it may have been joined inside a long frame.
        """
        return verdict_of(cls, side, sample)

    # ---- what the engine calls

    def start(self, side: Side, *, in_step: bool) -> None:
        """Say before the first byte of a side whether the stream was seen from its beginning."""
        if not in_step:
            self._machine.join_late(side)

    def feed(self, chunk: Chunk) -> Iterable[Event]:
        """Take the next bytes of a side."""
        return self._machine.feed(chunk)

    def gap(self, gap: Gap) -> Iterable[Event]:
        """Take note of lost bytes of a side."""
        return self._machine.gap(gap)

    def close(self, side: Side) -> Iterable[Event]:
        """No more bytes of a side will come: give what still waits."""
        return self._machine.close(side)

    def hand_back(self, side: Side, offset: int) -> list[Chunk | Gap]:
        """Hand back what was fed of a side from this offset on and not decoded yet."""
        return self._machine.hand_back(side, offset)
