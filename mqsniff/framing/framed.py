"""What authors of framed protocols write on: ``probe``, ``frame_size`` and ``decode`` theirs, all else done here.

1. A frame goes to ``decode`` once, when all of it that will ever come is there (``machine``).
2. Questions are opened and answered by the frame that is being decoded (``questions``).
3. Detection is ``probe`` on the first bytes of both sides (``belief``).
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
    """As many as nearly every head has: ``frame_size`` is asked with no more at first, to copy less."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._questions = PendingRequests(settings.limits)
        self._machine = Machine(self, settings.limits, self._questions)

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
    def decode(self, frame: Frame) -> Iterator[Event]:
        """Give the events of a frame; may raise Malformed. ``frame.data`` may be shorter than ``frame.size``."""

    def walk(self, side: Side, walk: IncrementalSize, data: bytes) -> Walked:  # noqa: ARG002  # part of the contract
        """Go on where ``frame_size`` said Walk; ``data`` are bytes (at least one) from ``walk.size`` on. Final too."""
        return walk.promised

    def missed(self, side: Side, length: int | None) -> None:
        """A side is in step again: so many bytes before the next frame gave none (None: nobody knows how many)."""

    @classmethod
    def scan(cls, side: Side, data: bytes, start: int) -> int:  # noqa: ARG003  # part of the contract
        """First offset >= ``start`` where ``probe`` is worth asking; speeds a search up, never decides."""
        return start

    def confirm(self, side: Side, candidate: Candidate) -> Verdict:  # noqa: ARG002  # part of the contract
        """Whether a frame that a search believes fits what the connection knows; YES or NO, or MORE: ask again later.

        MORE is asked again when more bytes of the side are there, or when it ends.
        """
        return Verdict.YES

    # ---- questions and answers

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
        """Open a question that belongs to the frame being decoded; ``expects`` 0: no answer unless it fails."""
        return self._questions.expect_reply(key, context, expects, link, wait_limit_ns, in_order=in_order)

    def reply_to(self, key: Any) -> Pending | None:
        """The oldest question of this key, now answered by the frame being decoded; None when there is none."""
        return self._questions.reply_to(key)

    def pending(self, key: Any) -> Sequence[Pending]:
        """The open questions of a key, oldest first."""
        return self._questions.open(key)

    def resolve(
        self,
        pending: Pending,
        status: ExchangeStatus | None = None,
        *,
        answered: bool = False,
        awaits: Pending | None = None,
    ) -> None:
        """End one question wherever it stands in its queue: answered by this frame, or known to stay without answer.

        ``awaits`` is the question of the command that settles a delivery, asked before: the delivery ends with it.
        """
        self._questions.resolve(pending, status, answered=answered, awaits=awaits)

    def unanswered(self) -> Iterator[Pending]:
        """Questions that nobody answered, oldest first."""
        return self._questions.left()

    def fed(self, side: Side) -> int:
        """Stream offset behind the last byte of a side that was fed and does not wait behind a gap."""
        return self._machine.streams[side].end

    def passed(self, side: Side) -> int:
        """Stream offset behind the last frame of a side: no layer can begin before it."""
        return self._machine.streams[side].position

    def may_wait(self, side: Side) -> bool:
        """Whether WAIT_PEER can still help a side: not when the peer has closed or too much has waited already."""
        return self._machine.may_wait(side)

    def gaps_of(self, side: Side) -> int:
        """How many gaps of a side were seen so far."""
        return self._questions.gaps[side]

    # ---- detection

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        """Both sides by ``probe``: one sure side is enough unless the other refutes it."""
        samples = zip(Side, (client, server), strict=True)
        verdicts = [cls.detect_side(side, sample) for side, sample in samples if sample.data]
        if not verdicts:
            return Verdict.MORE
        return Verdict.NO if Verdict.NO in verdicts else max(verdicts)

    @classmethod
    def detect_side(cls, side: Side, sample: Sample) -> Verdict:
        """YES where a frame and a second one behind it start, MAYBE for a lone frame, at any likely start.

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

    def gap(self, gap: Gap) -> Iterator[Event]:
        """Take note of lost bytes of a side."""
        return self._machine.gap(gap)

    def close(self, side: Side) -> Iterator[Event]:
        """No more bytes of a side will come: give what still waits."""
        return self._machine.close(side)

    def hand_back(self, side: Side, offset: int) -> list[Chunk | Gap]:
        """Hand back what was fed of a side from this offset on and not decoded yet."""
        return self._machine.hand_back(side, offset)
