"""Apache Kafka: finds its frames; everything else is loaded with the first connection.

The modules in the order in which a frame passes them: ``heads`` (sizes), ``logins`` (by ``sasl``), ``bodies`` (by the
layouts of ``specs``), ``fieldpaths`` (what all APIs have in common), ``records`` (fields of record data),
``membership``, ``fetching``, ``embedded`` (by ``formats``), ``releases``, ``pairing``, ``rows``, ``notes``.
``requests`` and ``responses`` call them; ``session`` calls those two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from mqsniff.dissector import Candidate, Probed, Sample, Settings, Sized, Table, Verdict
from mqsniff.framing import FramedDissector
from mqsniff.model import Act, Event, Frame, Gap, Message, RecordOrigin, Side, Span, Value
from mqsniff_kafka import heads

if TYPE_CHECKING:
    from mqsniff_kafka.session import KafkaSession


class Kafka(FramedDissector):
    """One connection between Kafka clients, brokers and controllers."""

    names: ClassVar[tuple[str, ...]] = ("kafka",)
    ports: ClassVar[frozenset[int]] = frozenset({9092, 9093, 9094, 9095, 9096, 9097, 9098})
    makers: ClassVar[frozenset[str]] = frozenset({"coverage", "oracles", "without_oracle"})
    head_max: ClassVar[int] = heads.HEAD_MAX

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        from mqsniff_kafka.session import KafkaSession  # noqa: PLC0415  # loaded with the first connection

        self._session: KafkaSession = KafkaSession(self)
        self._sizes = self._session.client_size, self._session.server_size
        self._messages = self._session.client_frame, self._session.server_frame

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

    def close(self, side: Side) -> Iterator[Event]:
        """No more bytes of a side will come."""
        yield from super().close(side)
        self._session.closed(side)

    def frame_size(self, side: Side, head: bytes) -> Sized:
        """Size of the frame that starts here in step."""
        return self._sizes[side](head)

    def decode(self, frame: Frame) -> Iterator[Event]:
        """The message of a frame."""
        return iter((self._messages[frame.side](frame),))

    def spans(self, frame: Frame) -> Iterator[Span]:
        """Every field of a frame beside its bytes."""
        from mqsniff_kafka.explain import frame_spans  # noqa: PLC0415  # as above

        return frame_spans(frame, self._session.layout_of(frame), self.settings.limits)

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
    def describe(cls) -> dict[str, Table]:
        """Every API and version, errors and releases."""
        from mqsniff_kafka.description import describe  # noqa: PLC0415  # as above

        return describe()
