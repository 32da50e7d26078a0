"""Every metric that a live run exports: its name, type, unit, labels and what it counts.

1. Names follow Prometheus: base units (seconds, bytes), and ``_total`` after the name of a counter.
2. OpenTelemetry gets the same metrics; labels become attributes of its semantic conventions where one fits. Names are
   our own: ``messaging.client.*`` is what clients tell of themselves, and would be counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from mqsniff.limits import SECOND_NS

MetricKind: TypeAlias = Literal["counter", "gauge", "histogram"]


class MetricLabel(NamedTuple):
    """A label of Prometheus, and the attribute of OpenTelemetry that holds the same."""

    name: str
    attribute: str


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric with all its label sets."""

    name: str
    """In Prometheus, without ``_total``."""
    semantic: str
    """In OpenTelemetry."""
    kind: MetricKind
    unit: str
    """In UCUM, as OpenTelemetry wants it: By, s, {message}."""
    labels: tuple[MetricLabel, ...]
    about: str

    @property
    def exposed(self) -> str:
        """The name under which Prometheus stores it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name

    @property
    def base_unit(self) -> str:
        """The unit that ends the name in Prometheus; empty for counts."""
        return {"By": "bytes", "s": "seconds"}.get(self.unit, "")


BROKER: Final = "server.address"
"""The attribute of a broker's address; its port stands in ``BROKER_PORT``."""
BROKER_PORT: Final = "server.port"

_PROTOCOL: Final = MetricLabel("protocol", "messaging.system")
_DETECTED: Final = MetricLabel("protocol", "network.protocol.name")
_COMMAND: Final = (_PROTOCOL, MetricLabel("command", "messaging.operation.name"), MetricLabel("broker", BROKER))
_RESULT: Final = MetricLabel("result", "mqsniff.record.result")
_TOPIC: Final = (_PROTOCOL, MetricLabel("topic", "messaging.destination.name"), _RESULT)
_INTERFACE: Final = MetricLabel("interface", "network.interface.name")
_MESSAGE_KIND: Final = MetricLabel("kind", "mqsniff.message.kind")


def _counter(name: str, semantic: str, unit: str, labels: tuple[MetricLabel, ...], about: str) -> MetricFamily:
    return MetricFamily(name, semantic, "counter", unit, labels, about)


def _gauge(name: str, semantic: str, unit: str, labels: tuple[MetricLabel, ...], about: str) -> MetricFamily:
    return MetricFamily(name, semantic, "gauge", unit, labels, about)


MESSAGES: Final = _counter(
    "mqsniff_messages", "mqsniff.messages", "{message}", (*_COMMAND, _MESSAGE_KIND),
    "Messages that were decoded; kind is request, response, push or oneway.",
)  # fmt: skip
MESSAGE_BYTES: Final = _counter(
    "mqsniff_message_bytes", "mqsniff.message.io", "By", (*_COMMAND, _MESSAGE_KIND),
    "Bytes of these messages, after TLS and compression of the transport.",
)  # fmt: skip
EXCHANGES: Final = _counter(
    "mqsniff_exchanges", "mqsniff.exchanges", "{exchange}",
    (*_COMMAND, MetricLabel("status", "mqsniff.exchange.status")),
    "Requests with what became of them; status is ok, partial, error, unanswered, lost, unseen, oneway, pending or "
    "unasked.",
)  # fmt: skip
ERRORS: Final = _counter(
    "mqsniff_errors", "mqsniff.errors", "{error}", (*_COMMAND, MetricLabel("error", "error.type")),
    "Exchanges that failed, wholly or in part, by the name of the error.",
)  # fmt: skip
DURATION: Final = MetricFamily(
    "mqsniff_command_duration_seconds", "mqsniff.command.duration", "histogram", "s", _COMMAND,
    "Time that the replying side worked on a request, of exchanges that ended ok, partial or error.",
)  # fmt: skip
WAIT: Final = MetricFamily(
    "mqsniff_command_wait_seconds", "mqsniff.command.wait", "histogram", "s", _COMMAND,
    "Time that a broker held a request until there was data, a member, or the end of the wait that it allowed.",
)  # fmt: skip
RECORDS: Final = _counter(
    "mqsniff_records", "mqsniff.records", "{record}", (_PROTOCOL, _RESULT),
    "Records; result is produced, delivered, or what they were instead: resent, redelivered, refused, control, ….",
)  # fmt: skip
RECORD_BYTES: Final = _counter(
    "mqsniff_record_bytes", "mqsniff.record.io", "By", (_PROTOCOL, _RESULT),
    "Bytes of the values of these records, uncompressed.",
)  # fmt: skip
TOPIC_RECORDS: Final = _counter(
    "mqsniff_topic_records", "mqsniff.topic.records", "{record}", _TOPIC,
    "Records by topic, with --metrics-topics N: of the first N topics, all others and internal ones as (others).",
)  # fmt: skip
TOPIC_RECORD_BYTES: Final = _counter(
    "mqsniff_topic_record_bytes", "mqsniff.topic.record.io", "By", _TOPIC,
    "Bytes of the values of these records, uncompressed.",
)  # fmt: skip
CONNECTIONS: Final = _counter(
    "mqsniff_connections", "mqsniff.connections", "{connection}", (), "Connections that began.",
)  # fmt: skip
OPEN_CONNECTIONS: Final = _gauge(
    "mqsniff_open_connections", "mqsniff.connections.open", "{connection}", (), "Connections that are open now.",
)  # fmt: skip
CLOSED_CONNECTIONS: Final = _counter(
    "mqsniff_closed_connections", "mqsniff.connections.closed", "{connection}",
    (_DETECTED, MetricLabel("outcome", "mqsniff.connection.outcome")),
    "Connections that ended; outcome is established, refused, no answer or mid-stream. TLS that nobody opens is tls.",
)  # fmt: skip
CONNECTION_BYTES: Final = _counter(
    "mqsniff_connection_bytes", "mqsniff.connection.io", "By", (_DETECTED,),
    "TCP payload of connections, counted when they end.",
)  # fmt: skip
UNDECODED_BYTES: Final = _counter(
    "mqsniff_undecoded_bytes", "mqsniff.connection.undecoded", "By", (_DETECTED,),
    "Bytes of connections that were captured and not decoded, counted when they end.",
)  # fmt: skip
GAP_BYTES: Final = _counter(
    "mqsniff_gap_bytes", "mqsniff.connection.gaps", "By", (_DETECTED,),
    "Bytes of connections that the capture lacks, counted when they end.",
)  # fmt: skip
PROBLEMS: Final = _counter(
    "mqsniff_problems", "mqsniff.problems", "{problem}",
    (MetricLabel("problem", "mqsniff.problem.kind"), MetricLabel("severity", "mqsniff.problem.severity")),
    "Problems by kind (mqsniff protocols problems lists them) and severity.",
)  # fmt: skip
CAPTURE_PACKETS: Final = _counter(
    "mqsniff_capture_packets", "mqsniff.capture.packets", "{packet}", (_INTERFACE,),
    "Packets that were received and read.",
)  # fmt: skip
CAPTURE_DROPPED: Final = _counter(
    "mqsniff_capture_dropped_packets", "mqsniff.capture.dropped", "{packet}", (_INTERFACE,),
    "Packets that the kernel dropped since mqsniff did not take them in time.",
)  # fmt: skip
CAPTURE_BYTES: Final = _counter(
    "mqsniff_capture_bytes", "mqsniff.capture.io", "By", (_INTERFACE,), "Bytes of these packets on the wire.",
)  # fmt: skip
INTERFACE_UP: Final = _gauge(
    "mqsniff_interface_up", "mqsniff.interface.up", "{interface}", (_INTERFACE,),
    "1 while the interface is there, 0 while it is away.",
)  # fmt: skip
OTHER_PACKETS: Final = _counter(
    "mqsniff_capture_other_packets", "mqsniff.capture.packets.other", "{packet}", (), "Packets without TCP.",
)  # fmt: skip
CUT_PACKETS: Final = _counter(
    "mqsniff_capture_cut_packets", "mqsniff.capture.packets.cut", "{packet}", (),
    "Packets of which the snap length cut the end.",
)  # fmt: skip
LAST_PACKET: Final = _gauge(
    "mqsniff_capture_last_packet_timestamp_seconds", "mqsniff.capture.last_packet.timestamp", "s", (_INTERFACE,),
    "Time of the last packet that was read, in seconds since 1970.",
)  # fmt: skip
COUNTED_AT: Final = _gauge(
    "mqsniff_counted_timestamp_seconds", "mqsniff.counted.timestamp", "s", (),
    "When these counts were taken, in seconds since 1970; older than the scrape where the output is blocked.",
)  # fmt: skip
CAPS_MET: Final = _gauge(
    "mqsniff_caps_met", "mqsniff.caps.met", "{cap}", (MetricLabel("cap", "mqsniff.cap"),),
    "1 where a cap was met and new label sets are counted as (others): commands, errors or topics.",
)  # fmt: skip
BUILD: Final = _gauge(
    "mqsniff_build_info", "mqsniff.build", "{build}", (MetricLabel("version", "service.version"),),
    "1, with the version of mqsniff.",
)  # fmt: skip

FAMILIES: Final[tuple[MetricFamily, ...]] = (
    *(MESSAGES, MESSAGE_BYTES, EXCHANGES, ERRORS, DURATION, WAIT),
    *(RECORDS, RECORD_BYTES, TOPIC_RECORDS, TOPIC_RECORD_BYTES),
    *(CONNECTIONS, OPEN_CONNECTIONS, CLOSED_CONNECTIONS, CONNECTION_BYTES, UNDECODED_BYTES, GAP_BYTES, PROBLEMS),
    *(CAPTURE_PACKETS, CAPTURE_BYTES, CAPTURE_DROPPED, INTERFACE_UP, OTHER_PACKETS, CUT_PACKETS, LAST_PACKET),
    *(COUNTED_AT, CAPS_MET, BUILD),
)

PROCESS_FAMILIES: Final[tuple[MetricFamily, ...]] = (
    _counter("process_cpu_seconds", "process.cpu.time", "s", (), "CPU time of mqsniff."),
    _gauge("process_resident_memory_bytes", "process.memory.usage", "By", (), "Resident memory of mqsniff."),
    _gauge("process_virtual_memory_bytes", "process.memory.virtual", "By", (), "Virtual memory of mqsniff."),
    _gauge("process_open_fds", "process.unix.file_descriptor.count", "{file_descriptor}", (), "Open files."),
    _gauge("process_max_fds", "process.unix.file_descriptor.limit", "{file_descriptor}", (), "Most open files."),
    _gauge("process_start_time_seconds", "process.start_time", "s", (), "Start of the process, seconds since 1970."),
)
"""What ``prometheus_client`` tells of the process itself (Linux)."""

BOUNDS_NS: Final[tuple[int, ...]] = tuple(
    round(bound * SECOND_NS)
    for bound in (
        *(0.0001, 0.00025, 0.0005, 0.001, 0.0025),
        *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60),
    )
)
"""Upper ends of the histograms' buckets: those of the semantic conventions from 5 ms to 10 s, finer below, and above
since brokers hold requests for minutes."""
