"""Apache Pulsar's binary protocol: finds its frames; everything else is loaded with the first connection.

1. Frames of both sides have the same head, and no command changes the framing.
2. One frame whose command fits both sizes is proof: about 60 bits agree. A frame with payload fixes fewer bits: it
   needs a right checksum, or a second frame after it.
3. PING, PONG and closes come from both sides; every other command shows which side is the client.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from mqsniff.dissector import Probed, Sample, Settings, Sized, Table, Verdict
from mqsniff.framing import FramedDissector
from mqsniff.model import Act, Event, Frame, Message, News, RecordOrigin, Side, Span, TopicRole
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
        """As in the base class, but one command is enough; one with payload needs a right checksum."""
        data = sample.data
        for start in (0,) if sample.from_start else sample.starts:
            if frames.is_proof(side, data[start : start + cls.head_max]) or frames.has_right_checksum(
                side, data, start
            ):
                return Verdict.YES
        return super().detect_side(side, sample)

    def frame_size(self, side: Side, head: bytes) -> Sized:  # noqa: ARG002  # both sides look alike
        """Size of the frame that starts here in step."""
        return frames.follow(head, self._session.message_max)

    def decode(self, frame: Frame) -> Iterator[Event]:
        """The message of a frame."""
        yield self._session.message(frame)

    def close(self, side: Side) -> Iterator[Event]:
        """No more bytes of a side will come; also reports its unfinished chunked messages."""
        yield from super().close(side)
        yield from self._session.unfinished(side)

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
    def acts(cls, message: Message) -> Iterable[Act]:
        """What a command does to messages, subscriptions and transactions."""
        from mqsniff_pulsar.acts import acts_of  # noqa: PLC0415  # for ``mqsniff trace`` alone

        return acts_of(message)

    @classmethod
    def origin(cls, headers: Mapping[str, bytes | None]) -> RecordOrigin | None:
        """The message that one of a retry or dead letter topic is a copy of."""
        from mqsniff_pulsar.acts import origin_of  # noqa: PLC0415  # as above

        return origin_of(headers)

    @classmethod
    def message_names(cls) -> Collection[str]:
        """The commands."""
        from mqsniff_pulsar.commands import BY_NAME  # noqa: PLC0415  # as above

        return tuple(BY_NAME)

    @classmethod
    def describe(cls) -> dict[str, Table]:
        """Commands, metadata blocks, record formats, errors and more, as tables."""
        from mqsniff_pulsar.description import describe  # noqa: PLC0415  # as above

        return describe()
