"""Apache Pulsar's binary protocol: how its frames are found; the rest is loaded with the first connection.

1. Every frame has the same head on both sides, and no command changes how the next one is framed.
2. One frame whose command fits both sizes is proof enough: about 60 bits agree. A frame with payload fixes fewer, and
   wants the checksum of its payload to be right, or a second frame behind it.
3. PING, PONG and closes come from both sides; other commands tell which side is the client.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from mqsniff.dissector import Probed, Sample, Settings, Sized, Table, Verdict
from mqsniff.framing import FramedDissector
from mqsniff.model import Event, Frame, Message, News, Side, Span, TopicRole
from mqsniff_pulsar import frames, news

if TYPE_CHECKING:
    from mqsniff_pulsar.session import PulsarSession


class Pulsar(FramedDissector):
    """One connection that speaks Pulsar."""

    names = ("pulsar",)
    ports = frozenset({6650})
    head_max = frames.HEAD_MAX
    telling = news.TELLING

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        from mqsniff_pulsar.session import PulsarSession  # noqa: PLC0415  # protobuf is loaded with the first connection

        self._session: PulsarSession = PulsarSession(self)

    @classmethod
    def probe(cls, side: Side, head: bytes) -> Probed:
        """Size of the frame that must start here."""
        return frames.probe(side, head)

    @classmethod
    def scan(cls, side: Side, data: bytes, start: int) -> int:  # noqa: ARG003  # both sides look alike
        """First offset where a frame may start."""
        return frames.find_head(data, start)

    @classmethod
    def detect_side(cls, side: Side, sample: Sample) -> Verdict:
        """As every framed protocol, but a lone command is enough, with a payload where its checksum is right."""
        data = sample.data
        for start in (0,) if sample.from_start else sample.starts:
            if frames.is_sure(side, data[start : start + cls.head_max]) or frames.is_checked(side, data, start):
                return Verdict.YES
        return super().detect_side(side, sample)

    def frame_size(self, side: Side, head: bytes) -> Sized:  # noqa: ARG002  # both sides look alike
        """Size of the frame that starts here in step."""
        return frames.follow(head, self._session.message_max)

    def decode(self, frame: Frame) -> Iterator[Event]:
        """The message of a frame."""
        yield self._session.message(frame)

    def close(self, side: Side) -> Iterator[Event]:
        """What still waits of a side, and of messages in chunks that they are not whole."""
        yield from super().close(side)
        yield from self._session.rest(side)

    def spans(self, frame: Frame) -> Iterator[Span]:
        """Every field of a frame beside its bytes."""
        from mqsniff_pulsar.explain import frame_spans  # noqa: PLC0415  # as above

        return frame_spans(frame, self.settings.limits)

    @classmethod
    def topic_role(cls, topic: str) -> TopicRole | None:
        """What a topic is for, by its name."""
        return news.topic_role(topic)

    @classmethod
    def news(cls, request: Message | None, answer: Message | None) -> Iterator[News]:
        """Consumers of groups, and brokers to connect to."""
        return news.news_of(request, answer)

    @classmethod
    def message_names(cls) -> Collection[str]:
        """The commands."""
        from mqsniff_pulsar.commands import BY_NAME  # noqa: PLC0415  # as above

        return tuple(BY_NAME)

    @classmethod
    def describe(cls) -> dict[str, Table]:
        """What is known of the protocol, as tables."""
        from mqsniff_pulsar.description import describe  # noqa: PLC0415  # as above

        return describe()
