"""Apache RocketMQ: finds frames of remoting, and the replication stream; the rest is loaded when it is needed.

1. Both sides send frames of the same form. One head that ``probe`` accepts is proof: no other protocol has such heads.
2. Clients send requests and servers responses: if a guess has swapped the sides, detection says NO, so that the other
   order is tried.

The modules in the order in which a frame passes them: ``heads`` (sizes), ``headers``, ``extfields`` (typed by
``tables``), ``bodies`` and ``messages`` (with ``stored`` and ``records``), ``settlements``; ``session`` calls them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from mqsniff.dissector import Probed, Sample, Settings, Sized, Table, Verdict
from mqsniff.framing import FramedDissector
from mqsniff.model import Act, Event, Frame, Message, RecordOrigin, Side, Span, Value
from mqsniff_rocketmq import heads
from mqsniff_rocketmq.detection import is_proof, sides_swapped
from mqsniff_rocketmq.ha import RocketMQHa

if TYPE_CHECKING:
    from mqsniff_rocketmq.session import RemotingSession

__all__ = ["RocketMQ", "RocketMQHa"]


class RocketMQ(FramedDissector):
    """RocketMQ remoting between clients, brokers, name servers, proxies and controllers."""

    names: ClassVar[tuple[str, ...]] = ("rocketmq",)
    ports: ClassVar[frozenset[int]] = frozenset({9876, 10911, 10909, 8080, 10811, 19876, 20911})
    head_max: ClassVar[int] = heads.HEAD_SIZE
    probe_max: ClassVar[int] = heads.PROBE_MAX

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        from mqsniff_rocketmq.session import RemotingSession  # noqa: PLC0415  # loaded with the first connection

        self._session: RemotingSession = RemotingSession(self)

    @classmethod
    def probe(cls, side: Side, head: bytes) -> Probed:  # noqa: ARG003  # both sides send the same frames
        """Size of the frame that must start here."""
        return heads.probe(head)

    @classmethod
    def scan(cls, side: Side, data: bytes, start: int) -> int:  # noqa: ARG003  # as above
        """First offset where a head may start."""
        return heads.scan(data, start)

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        """Both sides by ``probe``; rule 2 if no handshake was captured."""
        verdict = super().detect(client, server)
        guessed = not (client.from_start or server.from_start)
        return Verdict.NO if verdict is Verdict.YES and guessed and sides_swapped(client, server) else verdict

    @classmethod
    def detect_side(cls, side: Side, sample: Sample) -> Verdict:
        """As in the base class, but one frame is enough; in mid stream its header must decode to its end."""
        verdict = super().detect_side(side, sample)
        if verdict is not Verdict.MAYBE:
            return verdict
        proven = sample.from_start or any(is_proof(sample.data[start:]) for start in sample.starts)
        return Verdict.YES if proven else verdict

    def frame_size(self, side: Side, head: bytes) -> Sized:  # noqa: ARG002  # as above
        """Size of the frame that starts here in step."""
        return heads.frame_size(head)

    def decode(self, frame: Frame) -> Iterator[Event]:
        """The message of a frame."""
        yield self._session.message(frame)

    def spans(self, frame: Frame) -> Iterator[Span]:
        """Every field of a frame beside its bytes."""
        from mqsniff_rocketmq.explain import frame_spans  # noqa: PLC0415  # as above

        return frame_spans(frame, self._session.part_of(frame), self.settings.limits)

    @classmethod
    def internal_topic(cls, topic: str) -> bool:
        """The topics of message traces."""
        from mqsniff_rocketmq.trace import TRACE_TOPIC  # noqa: PLC0415  # as above

        return topic.startswith(TRACE_TOPIC)

    @classmethod
    def decode_record(cls, topic: str, key: bytes | None, value: bytes | None) -> Value | None:  # noqa: ARG003  # contract
        """The message traces that clients send to a topic of their own."""
        from mqsniff_rocketmq.trace import TRACE_TOPIC, read_trace  # noqa: PLC0415  # as above

        return read_trace(value) if value is not None and topic.startswith(TRACE_TOPIC) else None

    @classmethod
    def acts(cls, message: Message) -> Iterable[Act]:
        """What a command does to messages, subscriptions and transactions."""
        from mqsniff_rocketmq.acts import acts_of  # noqa: PLC0415  # for ``mqsniff trace`` alone

        return acts_of(message)

    @classmethod
    def origin(cls, headers: Mapping[str, bytes | None]) -> RecordOrigin | None:
        """The message that one of a retry or dead letter topic is a copy of."""
        from mqsniff_rocketmq.acts import origin_of  # noqa: PLC0415  # as above

        return origin_of(headers)

    @classmethod
    def message_names(cls) -> Collection[str]:
        """The request codes, older ones too, and responses without a request."""
        from mqsniff_rocketmq.description import message_names  # noqa: PLC0415  # as above

        return message_names()

    @classmethod
    def describe(cls) -> dict[str, Table]:
        """Every code with its header and body classes, and the names of numbers."""
        from mqsniff_rocketmq.description import describe  # noqa: PLC0415  # as above

        return describe()
