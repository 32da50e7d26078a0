"""nsqd's protocol V2: detection, framing, losses and the end of a connection.

1. A client that requested a layer waits for the reply to IDENTIFY (negotiation.py).
2. If the capture lost replies, their commands end unanswered, so that later replies find the right commands.
3. If the capture begins inside the connection, the first packets decide in which layer it is (joining.py).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from mqsniff.codecs.snappy_chunks import IDENTIFIER
from mqsniff.dissector import NEED, WAIT_PEER, IncrementalSize, Probed, Sample, Settings, Sized, Table, Verdict, Walked
from mqsniff.framing import FramedDissector
from mqsniff.model import Act, Chunk, Event, Frame, Gap, MemberNews, Message, News, Pending, Side, Span, Upgrade
from mqsniff_nsq import commands, frames
from mqsniff_nsq.client import ClientSide
from mqsniff_nsq.joining import PLAIN, Joining, begins_in_snappy, packets_of, probe_identifier
from mqsniff_nsq.lines import HEAD_MAX, size_of
from mqsniff_nsq.server import ServerSide
from mqsniff_nsq.session import NsqSession
from mqsniff_nsq.tables import COMMANDS, MAGIC_SIZE, MAGIC_V2

BAD_PROTOCOL: Final = b"\x00\x00\x00\x12\x00\x00\x00\x01E_BAD_PROTOCOL"
"""nsqd's reply to a wrong magic."""

_NEGOTIATED: Final = re.compile(rb"\x00\x00[\x00-\xff]{2}\x00{4}\{[^{}]*\"max_rdy_count\":")
"""The reply to IDENTIFY at the start of a server's stream; another layer may follow."""


class Nsq(FramedDissector):
    """nsqd's TCP protocol, version 2."""

    names = ("nsq",)
    ports = frozenset({4150})
    head_max = HEAD_MAX
    probe_max = 256
    telling = frozenset(("SUB", "CLS"))

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._session = NsqSession(self)
        self._client = ClientSide(self._session)
        self._server = ServerSide(self._session)
        self._closed: list[Side] = []
        self._joining: Joining | None = None
        self._held: deque[Chunk | Gap] = deque()
        """Events that were held until the layer was known and are not decoded yet."""

    @classmethod
    def acts(cls, message: Message) -> Iterable[Act]:
        """What a command does to messages that were delivered."""
        from mqsniff_nsq.acts import acts_of  # noqa: PLC0415  # for ``mqsniff trace`` alone

        return acts_of(message)

    @classmethod
    def news(cls, request: Message | None, answer: Message | None) -> Iterator[News]:
        """Consumers of channels: one a connection."""
        if request is not None and request.group is not None and answer is not None and not answer.error_count:
            yield MemberNews(request.group, "joined" if request.name == "SUB" else "left")

    @classmethod
    def message_names(cls) -> tuple[str, ...]:
        """The magic, commands and frames."""
        from mqsniff_nsq.description import message_names  # noqa: PLC0415  # wanted by one command

        return message_names()

    @classmethod
    def describe(cls) -> dict[str, Table]:
        """What is known of the protocol, as tables."""
        from mqsniff_nsq.description import describe_nsqd  # noqa: PLC0415  # wanted by one command

        return describe_nsqd()

    # ---- detection and framing

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        """Both sides; a magic with any line after it and frames of the server are enough together."""
        if server.from_start and server.data == BAD_PROTOCOL:
            return Verdict.YES
        for side, sample in zip(Side, (client, server), strict=True):
            if not sample.from_start and begins_in_snappy(side, sample):
                return Verdict.YES
        verdicts = [cls.detect_side(side, sample) for side, sample in zip(Side, (client, server), strict=True)]
        return Verdict.YES if min(verdicts) >= Verdict.MAYBE else super().detect(client, server)

    @classmethod
    def detect_side(cls, side: Side, sample: Sample) -> Verdict:
        """As in the base class, but a client begins with the magic, and short commands prove little."""
        if side is Side.CLIENT and sample.from_start:
            return cls._detect_opening(sample.data)
        verdict = super().detect_side(side, sample)
        if not sample.from_start and any(cls._is_proof(side, sample.data, start) for start in sample.starts):
            return Verdict.YES
        if side is Side.SERVER:
            return Verdict.YES if _NEGOTIATED.match(sample.data) else verdict
        heads = (sample.data[start : start + cls.probe_max] for start in sample.starts)
        strong = any(isinstance(cls.probe(side, head), int) and not commands.is_weak(head) for head in heads)
        return verdict if strong else min(verdict, Verdict.MAYBE)

    @classmethod
    def _is_proof(cls, side: Side, data: bytes, start: int) -> bool:
        """Whether the bytes from ``start`` on are one frame that proves the protocol."""
        if cls.probe(side, data[start : start + cls.probe_max]) != len(data) - start:
            return False
        return commands.is_proof(data[start:]) if side is Side.CLIENT else frames.is_proof(data[start:])

    @classmethod
    def _detect_opening(cls, data: bytes) -> Verdict:
        if not data.startswith(MAGIC_V2):
            return Verdict.MORE if MAGIC_V2.startswith(data) else Verdict.NO
        behind = commands.probe(data[MAGIC_SIZE : MAGIC_SIZE + cls.head_max])
        return Verdict.YES if isinstance(behind, int) else Verdict.MAYBE

    @classmethod
    def probe(cls, side: Side, head: bytes) -> Probed:
        """Size of the frame that must start here, or of the identifier that opens a Snappy layer."""
        if head[:1] == IDENTIFIER[:1]:
            return probe_identifier(head)
        return commands.probe(head) if side is Side.CLIENT else frames.probe(head)

    @classmethod
    def scan(cls, side: Side, data: bytes, start: int) -> int:
        """First offset where a frame may start."""
        found = commands.scan(data, start) if side is Side.CLIENT else frames.scan(data, start)
        whole = data.find(IDENTIFIER, start, found + len(IDENTIFIER))
        return whole if whole >= 0 else max(start, min(found, len(data) - len(IDENTIFIER) + 1))

    def start(self, side: Side, *, in_step: bool) -> None:
        """Say before the first byte of a side whether the stream was seen from its beginning."""
        super().start(side, in_step=in_step)
        if side is Side.CLIENT:
            self._client.opening = self._session.state.whole = in_step
        if not in_step and self._joining is None:
            self._joining = Joining(self.settings.limits)

    def frame_size(self, side: Side, head: bytes) -> Sized:
        """Size of the frame that starts here."""
        negotiation = self._session.negotiation
        if side is Side.CLIENT:
            if self._client.opening:
                return MAGIC_SIZE if len(head) >= MAGIC_SIZE else NEED
            if self._client.foreign or self._client.unknown.spent:
                return commands.probe(head)
            if negotiation.waiting and self.may_wait(side):
                return WAIT_PEER
            if head[:3] == b"NOP" and (run := self._client.nops.size(head)) is not None:
                return run
        if negotiation.must_detect(side):
            layer = negotiation.layer_of(side, head, commands.may_begin if side is Side.CLIENT else frames.may_begin)
            if layer is not None:
                return layer
        return size_of(head, COMMANDS) if side is Side.CLIENT else frames.size_of(head)

    def walk(self, side: Side, walk: IncrementalSize, data: bytes) -> Walked:  # noqa: ARG002  # only MPUB is walked
        """Continue through the messages of an MPUB."""
        return commands.walk_messages(walk, data)

    # ---- joined in the middle

    def feed(self, chunk: Chunk) -> Iterable[Event]:
        """Take the next bytes of a side. Hot: once a packet."""
        return self._machine.feed(chunk) if self._joining is None else self._feed_joined(self._joining, chunk)

    def _feed_joined(self, joining: Joining, chunk: Chunk) -> Iterator[Event]:
        """Hold bytes until their layer is known."""
        packets = packets_of(chunk)
        for packet in packets:
            layer = joining.verdict_before(packet.side, packet.marks[0].packet)
            if layer is None:
                joining.hold(packet)
                continue
            self.now = max(self.now, packet.marks[0].release)
            joining.held += [packet, *packets]
            yield from self._join(joining, layer)

    def _gap_joined(self, joining: Joining, gap: Gap) -> Iterator[Event]:
        layer = joining.verdict()
        joining.lose(gap)
        if layer is not None:
            self.now = max(self.now, gap.mark.release)
            yield from self._join(joining, layer)

    def _join(self, joining: Joining, layer: str) -> Iterator[Event]:
        """The layer is known: decode the held events, or send them into that layer."""
        self._joining = None
        held = self._held = deque(joining.held)
        if layer == PLAIN:
            while held:  # a layer that begins meanwhile takes the rest back
                event = held.popleft()
                yield from self.gap(event) if isinstance(event, Gap) else super().feed(event)
            return
        at = {side: self.passed(side) for side in Side}
        yield Upgrade(at | {event.side: event.offset for event in reversed(held)}, layer)

    def hand_back(self, side: Side, offset: int) -> list[Chunk | Gap]:
        """Hand back what was not decoded yet, with the held events of both sides."""
        back = [*super().hand_back(side, offset), *self._held]
        self._held.clear()
        return back

    # ---- losses and the end

    def gap(self, gap: Gap) -> Iterator[Event]:
        """Take note of lost bytes of a side."""
        if self._joining is not None:
            yield from self._gap_joined(self._joining, gap)
            return
        session = self._session
        if gap.side is Side.CLIENT:
            session.state.whole = False
            session.unanswered_heartbeats = 0
        elif session.negotiation.waiting:
            session.negotiation.lose_answer()
        yield from super().gap(gap)

    def missed(self, side: Side, length: int | None) -> None:
        """Frames of a side may be lost."""
        if side is Side.CLIENT:
            self._client.opening = False
        elif length is not None:
            self._session.lose_replies(length)

    def close(self, side: Side) -> Iterator[Event]:
        """No more bytes of a side will come."""
        if self._joining is not None:
            yield from self._join(self._joining, self._joining.verdict() or PLAIN)
        yield from super().close(side)
        if side is Side.SERVER and not self._closed:
            self._session.server_closed()
        self._closed.append(side)

    def unanswered(self) -> Iterator[Pending]:
        """Requests that got no reply, oldest first."""
        self._session.end()
        return super().unanswered()

    # ---- decoding

    def decode(self, frame: Frame) -> Iterator[Event]:
        """Give the events of a frame."""
        self._session.now_ns = frame.last_ts_ns
        self._session.negotiation.undecided[frame.side] = False
        return (self._client if frame.side is Side.CLIENT else self._server).decode(frame)

    def spans(self, frame: Frame) -> Iterator[Span]:
        """Every field of a frame beside its bytes."""
        from mqsniff_nsq.explain import nsqd_spans  # noqa: PLC0415  # for ``mqsniff explain`` alone

        return nsqd_spans(frame, is_magic=frame.offset == self._client.magic_at)
