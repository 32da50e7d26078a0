"""Metrics of a live run: equal to ``mqsniff stats``, bounded, escaped, without secrets; by HTTP and by OTLP."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from handmade import answer_to, connection, noticed, pub
from nsqcraft import MAGIC, auth, identify
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from mqsniff.answers.metrics import families as named
from mqsniff.answers.metrics.families import BOUNDS_NS, FAMILIES
from mqsniff.answers.metrics.meters import TrafficMeters
from mqsniff.answers.metrics.otlp import MetricsExporter, attributes_of
from mqsniff.answers.metrics.prometheus import CLIENTS_MAX, MetricsEndpoint
from mqsniff.answers.metrics.snapshots import LABEL_MAX, DurationCounts, MetricsSnapshot, SnapshotDesk
from mqsniff.answers.stats import RunFacts, TrafficStats
from mqsniff.answers.stats.keeping import OTHERS
from mqsniff.decode.registry import load_dissectors
from mqsniff.dissector import USUAL, Settings
from mqsniff.limits import Limits
from mqsniff.model import CaptureInfo, Exchange, ExchangeItem, MessageItem
from mqsniff.pipeline import Pipeline, Totals
from mqsniff.sources.files import FileSource
from mqsniff.sources.live import InterfaceCounts
from mqsniff.testing.conversations import client, segments, server, write_pcap

PCAPS = Path(__file__).parents[2] / "pcaps"
SAMPLES = [
    *("kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng", "nsq/nsq-1.3.0-go-req-touch.pcap"),
    *("pulsar/pulsar-4.2.4-py-nack-dlq-a.pcap", "rocketmq/rocketmq-5.5.0-a-pop-fifo.pcapng"),
    "nsq/nsq-1.3.0-var-loss-client.pcap",
]
MILLISECOND = 1_000_000


def dissectors():
    return [entry.dissector for entry in load_dissectors() if entry.dissector is not None]


def counted(files, topics=0, limits=None):
    """(snapshot, rows of stats by broker) of a run over files."""
    limits = limits or Limits()
    pipeline = Pipeline(
        FileSource([str(file) for file in files], limits), Settings(limits, USUAL | {"records", "amounts"})
    )
    meters, stats = TrafficMeters(dissectors(), limits, topics), TrafficStats(dissectors(), limits, "broker")
    for item in pipeline.items():
        if item is not None:
            meters.write(item)
            stats.take(item)
    return meters.snapshot(pipeline.totals, pipeline.captures), stats.rows(RunFacts(captures=pipeline.captures))


@pytest.fixture(scope="module")
def run():
    return counted([PCAPS / name for name in SAMPLES], topics=3)


@pytest.fixture
def served():
    """What a scrape of a snapshot gives."""
    open_endpoints = []

    def scrape(snapshot):
        endpoint = MetricsEndpoint("127.0.0.1", 0)
        open_endpoints.append(endpoint)
        desk = SnapshotDesk(lambda: snapshot)
        desk.close()
        endpoint.serve(desk)
        with urllib.request.urlopen(endpoint.url, timeout=20) as answer:
            return answer.read().decode()

    yield scrape
    for endpoint in open_endpoints:
        endpoint.close()


def samples(text, name):
    """Label values -> value of the samples of a name."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name:
                assert tuple(sorted(sample.labels.items())) not in found, "a label set stands there twice"
                found[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def by(found, *names):
    """Sums by some labels."""
    sums = Counter()
    for labels, value in found.items():
        told = dict(labels)
        sums[tuple(told[name] for name in names)] += value
    return +sums


def truth(rows, column, *names):
    sums = Counter()
    for row in rows:
        sums[tuple(row[name] for name in names)] += row[column]
    return +sums


def test_a_scrape_adds_up_to_stats_of_the_same_packets(run, served):
    snapshot, rows = run
    text = served(snapshot)
    labels, columns = ("protocol", "command", "broker"), ("protocol", "name", "broker")
    for name, column in {
        "mqsniff_messages_total": "count",
        "mqsniff_message_bytes_total": "bytes",
        "mqsniff_errors_total": "errors",
        "mqsniff_command_duration_seconds_count": "timed",
        "mqsniff_command_wait_seconds_count": "waited",
    }.items():
        assert by(samples(text, name), *labels) == truth(rows["commands"], column, *columns), name
    statuses = by(samples(text, "mqsniff_exchanges_total"), *labels, "status")
    for status in ("unanswered", "pending", "lost", "unseen", "oneway", "unasked"):
        expected = truth(rows["commands"], status, *columns)
        assert {key[:3]: count for key, count in statuses.items() if key[3] == status} == expected
    errors = Counter()
    for row in rows["commands"]:
        for error, count in row["errors_by_name"].items():
            errors[row["protocol"], row["name"], error] += count
    assert by(samples(text, "mqsniff_errors_total"), "protocol", "command", "error") == errors
    assert errors


def test_records_and_connections_add_up_to_stats(run, served):
    snapshot, rows = run
    text = served(snapshot)
    for what in ("produced", "delivered", "redelivered"):
        for family, column in (("records", what), ("record_bytes", f"{what}_bytes")):
            found = by(samples(text, f"mqsniff_{family}_total"), "protocol", "result")
            mine = Counter({key[:1]: count for key, count in found.items() if key[1] == what})
            assert +mine == truth(rows["topics"], column, "protocol")
            of_topics = by(samples(text, f"mqsniff_topic_{family}_total"), "protocol", "result")
            assert of_topics == found
    assert by(samples(text, "mqsniff_closed_connections_total"), "protocol") == truth(
        rows["protocols"], "connections", "protocol"
    )
    assert by(samples(text, "mqsniff_connection_bytes_total"), "protocol") == truth(
        rows["protocols"], "wire_bytes", "protocol"
    )
    assert samples(text, "mqsniff_open_connections") == {(): 0}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Debian's package prometheus has it")
def test_prometheus_own_tool_finds_nothing_wrong(run, served):
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=served(run[0]), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_names_follow_the_conventions():
    for family in FAMILIES:
        assert family.exposed.startswith("mqsniff_")
        assert family.exposed.endswith("_total") == (family.kind == "counter")
        assert not family.base_unit or family.name.endswith(family.base_unit)
        assert family.semantic.startswith("mqsniff.")
        assert len({label.attribute for label in family.labels}) == len(family.labels)
    assert len({family.name for family in FAMILIES}) == len({family.semantic for family in FAMILIES}) == len(FAMILIES)


def test_only_as_many_topics_as_asked_for_are_labels_and_the_rest_is_counted_together(run):
    topics = {labels[1] for labels in run[0].of(named.TOPIC_RECORDS)}
    assert len(topics - {OTHERS}) == 3
    assert OTHERS in topics
    none, _ = counted([PCAPS / SAMPLES[0]])
    assert none.of(named.TOPIC_RECORDS) == {}
    assert none.of(named.RECORDS)


def meters_of(*items, limits=None):
    meters = TrafficMeters([], limits or Limits())
    for item in items:
        meters.write(item)
    return meters


def message(name):
    return MessageItem(connection(), replace(pub(), name=name))


HOSTILE = 'PUB\n# HELP evil "x" \\ \x1b[31m\u202e\udcff'


def test_names_from_the_wire_cannot_break_the_format(served):
    text = served(meters_of(message(HOSTILE)).snapshot(Totals(), []))
    assert "\x1b" not in text
    assert "\u202e" not in text
    ((labels, value),) = samples(text, "mqsniff_messages_total").items()
    assert value == 1
    assert dict(labels)["command"] == 'PUB\\n# HELP evil "x" \\ \\x1b[31m\\u202e\\udcff'


def test_names_that_are_the_same_when_cut_are_one_label_set(served):
    long = "x" * LABEL_MAX
    text = served(meters_of(message(long + "1"), message(long + "2")).snapshot(Totals(), []))
    ((labels, value),) = samples(text, "mqsniff_messages_total").items()
    assert (len(dict(labels)["command"]), value) == (LABEL_MAX, 2)


def test_label_sets_are_capped_and_sums_stay_right():
    limits = Limits().with_value("metrics_rows_max", 3)
    meters = meters_of(*(message(f"N{number}") for number in range(10)), limits=limits)
    found = meters.snapshot(Totals(), []).of(named.MESSAGES)
    assert {labels[1]: count for labels, count in found.items()} == {"N0": 1, "N1": 1, "N2": 1, OTHERS: 7}
    assert meters.caps_met() == {"commands": True, "errors": False, "topics": False}


def failed(error):
    answer, pending = answer_to(pub())
    answer.error_name, answer.error_code = error, -1
    return ExchangeItem(connection(), Exchange(pending, answer, "error", latency_ns=1, work_ns=1))


def test_a_server_that_makes_up_errors_does_not_fill_the_memory():
    limits = Limits().with_value("metrics_rows_max", 2)
    meters = meters_of(*(failed(f"E_{number}") for number in range(5)), limits=limits)
    found = meters.snapshot(Totals(), []).of(named.ERRORS)
    assert {labels[3]: count for labels, count in found.items()} == {"E_0": 1, "E_1": 1, OTHERS: 3}


def test_secrets_of_the_wire_are_in_no_label(tmp_path, served):
    secret = b"hunter2-top-secret"
    dialogue = [client(MAGIC), client(identify()), client(auth(secret)), server(b"\0\0\0\x06\0\0\0\0OK")]
    path = tmp_path / "auth.pcap"
    write_pcap(path, segments(dialogue))
    snapshot, rows = counted([path], topics=10)
    assert "AUTH" in {row["name"] for row in rows["commands"]}
    text = served(snapshot)
    assert 'command="AUTH"' in text
    assert secret.decode() not in text


def test_a_duration_is_in_the_bucket_whose_end_it_does_not_pass(served):
    counts = DurationCounts()
    for duration_ns in (0, MILLISECOND, MILLISECOND + 1, 61_000 * MILLISECOND):
        counts.add(duration_ns)
    snapshot = MetricsSnapshot()
    snapshot.add(named.DURATION, ("nsq", "PUB", "10.0.0.1:4150"), counts)
    text = served(snapshot)
    buckets = by(samples(text, "mqsniff_command_duration_seconds_bucket"), "le")
    assert (buckets["0.0001",], buckets["0.001",], buckets["0.0025",]) == (1, 2, 3)
    assert (buckets["60.0",], buckets["+Inf",]) == (3, 4)
    assert list(samples(text, "mqsniff_command_duration_seconds_sum").values()) == [61.002000001]


# ---- the desk


def test_a_snapshot_is_made_when_somebody_asks_and_at_no_other_time():
    made = []

    def make():
        made.append(MetricsSnapshot())
        return made[-1]

    desk = SnapshotDesk(make)
    for _ in range(5):
        desk.answer()
    assert len(made) == 1
    got = []
    asking = threading.Thread(target=lambda: got.append(desk.ask()))
    asking.start()
    while asking.is_alive():
        desk.answer()
        time.sleep(0.001)
    assert (len(made), got) == (2, [made[1]])


def test_who_waits_too_long_gets_the_counts_of_before():
    first = MetricsSnapshot()
    desk = SnapshotDesk(lambda: first)
    assert desk.ask(wait_s=0.01) is first


# ---- the endpoint


def test_a_client_that_says_nothing_does_not_keep_others_waiting():
    endpoint = MetricsEndpoint("127.0.0.1", 0)
    desk = SnapshotDesk(MetricsSnapshot)
    desk.close()
    endpoint.serve(desk)
    address = ("127.0.0.1", int(endpoint.url.rpartition(":")[2].partition("/")[0]))
    silent = [socket.create_connection(address, timeout=5) for _ in range(CLIENTS_MAX - 1)]
    with urllib.request.urlopen(endpoint.url, timeout=5) as answer:
        assert b"mqsniff_messages_total" in answer.read()
    silent += [socket.create_connection(address, timeout=5) for _ in range(3)]
    assert silent[-1].recv(1) == b"", "one client too many is cut off"
    for each in silent:
        each.close()
    endpoint.close()


def test_it_listens_where_it_was_told_to_and_nowhere_else():
    endpoint = MetricsEndpoint("127.0.0.2", 0)
    port = int(endpoint.url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=1)
    endpoint.close()


# ---- OpenTelemetry


@pytest.fixture
def collector():
    """A receiver of OTLP over HTTP; its list has all requests."""
    requests = []

    class Receiver(BaseHTTPRequestHandler):
        status = 200

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(self.status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}/v1/metrics", requests, Receiver
        http.shutdown()
        thread.join()


def points(request, name):
    (scope,) = request.resource_metrics[0].scope_metrics
    (metric,) = [metric for metric in scope.metrics if metric.name == name]
    return metric, list(getattr(metric, metric.WhichOneof("data")).data_points)


def told(point):
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in point.attributes}


def test_otlp_sends_what_stats_has(run, collector):
    snapshot, rows = run
    url, requests, _ = collector
    said = []
    exporter = MetricsExporter(url, said.append)
    desk = SnapshotDesk(lambda: snapshot)
    desk.close()
    exporter.serve(desk)
    exporter.close()
    (request,) = requests
    for name, column in (("mqsniff.messages", "count"), ("mqsniff.message.io", "bytes"), ("mqsniff.errors", "errors")):
        metric, found = points(request, name)
        assert metric.sum.is_monotonic
        assert metric.sum.aggregation_temporality == 2, "cumulative"
        sums = Counter()
        for point in found:
            own = told(point)
            assert isinstance(own["server.port"], int)
            sums[own["messaging.system"], own["messaging.operation.name"]] += point.as_int
        assert sums == truth(rows["commands"], column, "protocol", "name")
    metric, found = points(request, "mqsniff.command.duration")
    assert metric.unit == "s"
    assert sum(point.count for point in found) == sum(row["timed"] for row in rows["commands"])
    assert all(len(point.bucket_counts) == len(BOUNDS_NS) + 1 for point in found)
    assert all(sum(point.bucket_counts) == point.count and not point.HasField("max") for point in found)
    resource = {pair.key: pair.value.string_value for pair in request.resource_metrics[0].resource.attributes}
    assert resource["service.name"] == "mqsniff"
    assert points(request, "process.memory.usage")[1][0].as_double > 1e6
    assert said == []


def test_a_collector_that_fails_is_told_once_and_once_when_it_is_back(collector):
    url, requests, receiver = collector
    said = []
    exporter = MetricsExporter(url, said.append)
    snapshot = MetricsSnapshot()
    snapshot.add(named.CONNECTIONS, (), 1)
    receiver.status = 400
    for _ in range(2):
        exporter._send(snapshot)
    receiver.status = 200
    for _ in range(2):
        exporter._send(snapshot)
    assert len(requests) == 4
    assert len(said) == 2
    assert "takes no metrics" in said[0]
    assert "takes metrics again" in said[1]


def test_a_broker_is_an_address_and_a_port():
    family = named.DURATION
    assert attributes_of(family, ("nsq", "PUB", "[fe80::1]:4150"))["server.address"] == "fe80::1"
    assert attributes_of(family, ("nsq", "PUB", "10.0.0.1:4150"))["server.port"] == 4150
    assert attributes_of(family, (OTHERS, OTHERS, OTHERS))["server.address"] == OTHERS


def test_problems_are_counted_by_kind_and_severity():
    found = meters_of(noticed("undecoded"), noticed("undecoded")).snapshot(Totals(), []).of(named.PROBLEMS)
    assert sum(found.values()) == 2
    assert {labels[0] for labels in found} == {"undecoded"}


def test_files_that_are_followed_are_one_label_value():
    captures = [
        CaptureInfo(number, f"rotated-{number}.pcap", packets=2, last_ts_ns=number * 10**9) for number in range(9)
    ]
    snapshot = meters_of().snapshot(Totals(), captures)
    assert snapshot.of(named.CAPTURE_PACKETS) == {("(files)",): 18}
    assert snapshot.of(named.LAST_PACKET) == {("(files)",): 8}


def test_interfaces_are_counted_apart():
    interfaces = [InterfaceCounts("eth0", 10, 1, 9, 900), InterfaceCounts("eth1", 5, 0, 5, 500, is_away=True)]
    snapshot = meters_of().snapshot(Totals(), [CaptureInfo(0, "eth0, eth1", packets=14)], interfaces)
    assert snapshot.of(named.CAPTURE_PACKETS) == {("eth0",): 9, ("eth1",): 5}
    assert snapshot.of(named.CAPTURE_BYTES) == {("eth0",): 900, ("eth1",): 500}
    assert snapshot.of(named.CAPTURE_DROPPED) == {("eth0",): 1, ("eth1",): 0}
    assert snapshot.of(named.INTERFACE_UP) == {("eth0",): 1, ("eth1",): 0}
