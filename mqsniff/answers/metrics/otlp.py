"""Snapshots in, OTLP over HTTP out: what ``mqsniff live --otlp`` sends, by OpenTelemetry's SDK.

1. What is sent are the counts that Prometheus would get, with cumulative temporality, as the SDK's own data points: its
   instruments cannot take a histogram that is counted already.
2. A collector that is away is told once, and once when it is back; nothing is kept for it, since counts go on.
3. The SDK's environment variables hold: ``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_METRIC_EXPORT_INTERVAL``, ….
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry, ProcessCollector

import mqsniff
from mqsniff.answers.metrics.families import (
    BOUNDS_NS,
    BROKER,
    BROKER_PORT,
    FAMILIES,
    PROCESS_FAMILIES,
    MetricFamily,
)
from mqsniff.answers.metrics.snapshots import DurationCounts, LabelValues, MetricsSnapshot, MetricValue, SnapshotDesk
from mqsniff.limits import SECOND_NS

PERIOD_S: Final = 60.0
"""Time between two exports, by OpenTelemetry's own default."""
TIMEOUT_S: Final = 5.0
"""How long an export may take, the last one too."""
_BOUNDS: Final = [bound / SECOND_NS for bound in BOUNDS_NS]


class MetricsExporter:
    """Sends the counts of a run to a collector from a thread of its own."""

    def __init__(self, endpoint: str, say: Callable[[str], None]) -> None:
        for name in ("opentelemetry", "urllib3"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # failures are told by us, in one line
        self._exporter = OTLPMetricExporter(endpoint=endpoint, timeout=TIMEOUT_S)
        self._say = say
        self._resource = Resource.create(
            {
                "service.name": os.environ.get("OTEL_SERVICE_NAME", "mqsniff"),
                "service.version": mqsniff.__version__,
                "service.instance.id": str(uuid.uuid4()),
            }
        )
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        self._started_ns = time.time_ns()
        self._failing = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._desk: SnapshotDesk | None = None

    def serve(self, desk: SnapshotDesk) -> None:
        """Send every period from now on."""
        self._desk = desk
        self._thread = threading.Thread(target=self._send_often, name="otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send the last counts, and stop."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(2 * TIMEOUT_S)
        self._exporter.shutdown()

    def _send_often(self) -> None:
        assert self._desk is not None
        period_s = _period_s()
        over = False
        while not over:
            over = self._over.wait(period_s)
            self._send(self._desk.ask())

    def _send(self, snapshot: MetricsSnapshot) -> None:
        """Send a snapshot; that it cannot be sent is told once."""
        result = self._exporter.export(self.data(snapshot))
        failed = result is not MetricExportResult.SUCCESS
        if failed and not self._failing:
            self._say("mqsniff: --otlp: the collector takes no metrics; the run goes on, and so do attempts")
        elif self._failing and not failed:
            self._say("mqsniff: --otlp: the collector takes metrics again")
        self._failing = failed

    def data(self, snapshot: MetricsSnapshot) -> MetricsData:
        """A snapshot, and the process, as the SDK has it."""
        now_ns = time.time_ns()
        metrics = [
            self._metric(family, values, now_ns)
            for family, values in [*((family, snapshot.of(family)) for family in FAMILIES), *self._of_process()]
            if values
        ]
        scope = InstrumentationScope("mqsniff", mqsniff.__version__)
        return MetricsData([ResourceMetrics(self._resource, [ScopeMetrics(scope, metrics, "")], "")])

    def _of_process(self) -> list[tuple[MetricFamily, dict[LabelValues, MetricValue]]]:
        """What ``prometheus_client`` tells of the process."""
        told = {sample.name: sample.value for metric in self._process.collect() for sample in metric.samples}
        return [(family, {(): told[family.exposed]} if family.exposed in told else {}) for family in PROCESS_FAMILIES]

    def _metric(self, family: MetricFamily, values: dict[LabelValues, MetricValue], now_ns: int) -> Metric:
        data: Any
        if family.kind == "histogram":
            points = [
                self._histogram(attributes_of(family, labels), value, now_ns)
                for labels, value in values.items()
                if isinstance(value, DurationCounts)
            ]
            data = Histogram(points, AggregationTemporality.CUMULATIVE)
        else:
            numbers = [
                NumberDataPoint(attributes_of(family, labels), self._started_ns, now_ns, value)
                for labels, value in values.items()
                if not isinstance(value, DurationCounts)
            ]
            monotonic = family.kind == "counter"
            data = Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True) if monotonic else Gauge(numbers)
        return Metric(family.semantic, family.about, family.unit, data)

    def _histogram(self, attributes: dict[str, str | int], value: DurationCounts, now_ns: int) -> HistogramDataPoint:
        total = value.total_ns / SECOND_NS
        limits: Any = {"min": None, "max": None}  # not counted; the encoder leaves them out
        return HistogramDataPoint(
            attributes, self._started_ns, now_ns, value.count, total, list(value.counts), _BOUNDS, **limits
        )


def attributes_of(family: MetricFamily, labels: LabelValues) -> dict[str, str | int]:
    """Label values as attributes; a broker is an address and a port."""
    attributes: dict[str, str | int] = {}
    for label, value in zip(family.labels, labels, strict=True):
        attributes[label.attribute] = value
        host, colon, port = value.rpartition(":")
        if label.attribute == BROKER and colon and port.isdecimal():
            attributes[BROKER] = host.strip("[]")
            attributes[BROKER_PORT] = int(port)
    return attributes


def _period_s() -> float:
    """The time between two exports."""
    told = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    return int(told) / 1000 if told.isdecimal() and int(told) else PERIOD_S
