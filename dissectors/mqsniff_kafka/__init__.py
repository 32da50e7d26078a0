"""Apache Kafka: finds its frames; everything else is loaded with the first connection.

The modules in the order in which a frame passes them: ``heads`` (sizes), ``logins`` (by ``sasl``), ``bodies`` (by the
layouts of ``specs``), ``fieldpaths`` (what all APIs have in common), ``records`` (fields of record data),
``membership``, ``fetching``, ``embedded`` (by ``formats``), ``releases``, ``pairing``, ``rows``, ``notes``.
``requests`` and ``responses`` call them; ``session`` calls those two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from mqsniff.dissector import Candidate, DroppedVersions, Probed, Sample, Settings, Sized, Table, Verdict
from mqsniff.framing import FramedDissector
from mqsniff.model import (
    Act,
    Event,
    Frame,
    Gap,
    Message,
    MessageKind,
    News,
    OffsetMeaning,
    RecordOrigin,
    Side,
    Span,
    TopicRole,
    Value,
)
from mqsniff_kafka import heads

if TYPE_CHECKING:
    from mqsniff_kafka.session import KafkaSession


class Kafka(FramedDissector):
    """One connection between Kafka clients, brokers and controllers."""

    names: ClassVar[tuple[str, ...]] = ("kafka",)
    ports: ClassVar[frozenset[int]] = frozenset({9092, 9093, 9094, 9095, 9096, 9097, 9098})
    offset_meanings: ClassVar[Mapping[tuple[str, MessageKind], OffsetMeaning]] = {
        ("Fetch", "request"): "position",
        ("OffsetCommit", "request"): "commit",
        ("OffsetFetch", "response"): "commit",
        ("TxnOffsetCommit", "request"): "commit",
    }
    telling: ClassVar[frozenset[str]] = frozenset(
        (
            *("JoinGroup", "SyncGroup", "LeaveGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat"),
            *("Metadata", "FindCoordinator", "DescribeCluster"),
        )
    )
    makers: ClassVar[frozenset[str]] = frozenset({"coverage", "oracles", "without_oracle"})
    head_max: ClassVar[int] = heads.HEAD_MAX

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        from mqsniff_kafka.session import KafkaSession  # noqa: PLC0415  # loaded with the first connection

        self._session: KafkaSession = KafkaSession(self)

    @classmethod
    def probe(cls, side: Side, head: bytes) -> Probed:
        """Size of the frame that must start here."""
        return heads.probe_request(head) if side is Side.CLIENT else heads.probe_response(head)

    @classmethod
    def scan(cls, side: Side, data: bytes, start: int) -> int:
        """First offset where a frame may start."""
        return heads.scan_request(data, start) if side is Side.CLIENT else heads.scan_response(data, start)

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        """Both sides together: requests by their bodies, responses by the ids that they echo."""
        from mqsniff_kafka.detection import detect  # noqa: PLC0415  # as above

        return detect(client, server)

    def confirm(self, side: Side, candidate: Candidate) -> Verdict:
        """Requests by their bodies, responses by the requests that were seen."""
        return self._session.confirm(side, candidate)

    def start(self, side: Side, *, in_step: bool) -> None:
        """Say before the first byte of a side whether the stream was seen from its beginning."""
        super().start(side, in_step=in_step)
        if not in_step:
            self._session.lost(side, 0)

    def missed(self, side: Side, length: int | None) -> None:  # noqa: ARG002  # part of the contract
        """A side is in step again."""
        self._session.found(side)

    def gap(self, gap: Gap) -> Iterator[Event]:
        """Take note of lost bytes of a side."""
        self._session.lost(gap.side, gap.offset + gap.length)
        yield from super().gap(gap)

    def close(self, side: Side) -> Iterable[Event]:
        """No more bytes of a side will come."""
        if events := super().close(side):
            return self._close(side, events)
        self._session.closed(side)
        return ()

    def _close(self, side: Side, events: Iterable[Event]) -> Iterator[Event]:
        yield from events
        self._session.closed(side)

    def frame_size(self, side: Side, head: bytes) -> Sized:
        """Size of the frame that starts here in step."""
        return self._session.server_size(head) if side else self._session.client_size(head)

    def decode(self, frame: Frame) -> Iterator[Event]:
        """The message of a frame."""
        session = self._session
        return iter((session.server_frame(frame) if frame.side else session.client_frame(frame),))

    def spans(self, frame: Frame) -> Iterator[Span]:
        """Every field of a frame beside its bytes."""
        from mqsniff_kafka.explain import frame_spans, token_spans  # noqa: PLC0415  # as above

        if self._session.is_token(frame):
            return token_spans(frame)
        session = self._session
        return frame_spans(frame, session.layout_of(frame), self.settings.limits, session.forwarded_of(frame))

    @classmethod
    def internal_topic(cls, topic: str) -> bool:
        """Topics of the brokers' own, and MirrorMaker's."""
        from mqsniff_kafka.formats import internal_topic  # noqa: PLC0415  # as above

        return internal_topic(topic)

    @classmethod
    def decode_record(cls, topic: str, key: bytes | None, value: bytes | None) -> Value | None:
        """The content of a record of an internal topic."""
        from mqsniff_kafka.formats import decode_record  # noqa: PLC0415  # as above

        return decode_record(topic, key, value)

    @classmethod
    def code_name(cls, message: Message, field: str, code: int) -> str | None:
        """Errors, APIs, and the enums of the specification."""
        from mqsniff_kafka.explain import code_name  # noqa: PLC0415  # as above

        return code_name(message, field, code)

    @classmethod
    def acts(cls, message: Message) -> Iterable[Act]:
        """What a message does to records, groups and transactions."""
        from mqsniff_kafka.acts import acts_of  # noqa: PLC0415  # for ``mqsniff trace`` alone

        return acts_of(message)

    @classmethod
    def origin(cls, headers: Mapping[str, bytes | None]) -> RecordOrigin | None:
        """The record that one of a dead letter topic is a copy of."""
        from mqsniff_kafka.acts import origin_of  # noqa: PLC0415  # as above

        return origin_of(headers)

    @classmethod
    def message_names(cls) -> Collection[str]:
        """The APIs, SASL tokens without a header, and responses without a request."""
        from mqsniff_kafka.description import message_names  # noqa: PLC0415  # as above

        return message_names()

    @classmethod
    def topic_role(cls, topic: str) -> TopicRole | None:
        """Topics of Kafka's own begin with two underscores."""
        return "internal" if topic.startswith("__") else None

    @classmethod
    def news(cls, request: Message | None, answer: Message | None) -> Iterator[News]:
        """Members of groups, and brokers to connect to."""
        from mqsniff_kafka.news import news_of  # noqa: PLC0415  # as above

        return news_of(request, answer)

    @classmethod
    def dropped_versions(cls) -> Mapping[str, DroppedVersions]:
        """What Kafka 4 no longer takes (KIP-896)."""
        from mqsniff_kafka.description import dropped_versions  # noqa: PLC0415  # as above

        return dropped_versions()

    @classmethod
    def describe(cls) -> dict[str, Table]:
        """Every API and version, errors and releases."""
        from mqsniff_kafka.description import describe  # noqa: PLC0415  # as above

        return describe()
