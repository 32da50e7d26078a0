"""Snapshots in, Prometheus' text format by HTTP out: the endpoint of ``mqsniff live --metrics``.

1. It listens on the address that was given and on no other.
2. Every scrape asks for new counts; ``prometheus_client`` writes them, escapes label values and adds the process.
3. A client that does not read, or does not ask, is cut off after ``TIMEOUT_S``; ``CLIENTS_MAX`` are served at once.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import make_wsgi_app

from mqsniff.answers.metrics.families import BOUNDS_NS, FAMILIES, MetricFamily
from mqsniff.answers.metrics.snapshots import DurationCounts, LabelValues, MetricValue, SnapshotDesk
from mqsniff.limits import SECOND_NS

TIMEOUT_S: Final = 10.0
CLIENTS_MAX: Final = 8

_BOUNDS: Final = (*(str(bound / SECOND_NS) for bound in BOUNDS_NS), "+Inf")


class SnapshotCollector:
    """Gives ``prometheus_client`` the counts of a run."""

    def __init__(self, desk: SnapshotDesk) -> None:
        self._desk = desk

    def collect(self) -> Iterator[Metric]:
        """All families of a new snapshot; those without a value too, so that their types are known."""
        snapshot = self._desk.ask()
        for family in FAMILIES:
            yield _metric(family, snapshot.of(family))

    def describe(self) -> list[Metric]:
        """Nothing: to be registered must not ask for counts."""
        return []


def _metric(family: MetricFamily, values: dict[LabelValues, MetricValue]) -> Metric:
    """A family as ``prometheus_client`` has it."""
    labels = [label.name for label in family.labels]
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.about, labels=labels, unit=family.base_unit)
        for names, value in values.items():
            if isinstance(value, DurationCounts):
                histogram.add_metric(names, _added_up(value), value.total_ns / SECOND_NS)
        return histogram
    make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    numbers = make(family.name, family.about, labels=labels, unit=family.base_unit)
    for names, value in values.items():
        if not isinstance(value, DurationCounts):
            numbers.add_metric(names, value)
    return numbers


def _added_up(durations: DurationCounts) -> list[tuple[str, float]]:
    """Buckets as Prometheus has them: each holds everything below its bound."""
    buckets, below = [], 0
    for bound, count in zip(_BOUNDS, durations.counts, strict=True):
        below += count
        buckets.append((bound, float(below)))
    return buckets


class ScrapeHandler(WSGIRequestHandler):
    """Answers one scrape, and writes nothing to stderr."""

    timeout = TIMEOUT_S

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class ScrapeServer(ThreadingMixIn, WSGIServer):
    """An HTTP server with a thread for each of a few clients."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._room = threading.Semaphore(CLIENTS_MAX)
        super().__init__((host, port), ScrapeHandler)

    def server_bind(self) -> None:
        """Bind, without a look-up of the host's name, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin to answer; one client too many is cut off."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, in a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that goes away is no fault of the run."""


class MetricsEndpoint:
    """Serves metrics at an address; ``serve`` begins, so that the port can be bound before rights are given up."""

    def __init__(self, host: str, port: int) -> None:
        """OSError if nobody can listen there."""
        self._server = ScrapeServer(host, port)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        host = self._server.server_name
        return f"http://{f'[{host}]' if ':' in host else host}:{self._server.server_port}/metrics"

    def serve(self, desk: SnapshotDesk) -> None:
        """Answer scrapes from now on."""
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(SnapshotCollector(desk))
        self._server.set_app(make_wsgi_app(registry))
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        if self._thread is not None:
            self._server.shutdown()
        self._server.server_close()
