"""The metrics of ``mqsniff live`` against ``mqsniff stats`` of the same packets, Prometheus and a receiver of OTLP.

    sudo .venv/bin/python benchmarks/livemetrics.py [FOLDER]

In a network namespace of its own it sends the packets of our samples over a virtual wire, while ``mqsniff live``
captures them, tcpdump writes them, and Prometheus scrapes. Then

1. ``promtool check metrics`` and the parser of ``prometheus_client`` read a scrape;
2. the scrape equals ``stats`` of tcpdump's file by protocol, command and broker: messages, bytes, statuses, errors by
   name, number of durations and waits;
3. so does what OTLP sent;
4. every query of docs/grafana.json is answered by Prometheus, with a value.

Needs root, iproute2, tcpdump and Debian's package prometheus. Files stay in FOLDER.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import dpkt
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[1]
METRICS, COLLECTOR, PROMETHEUS = "127.0.0.1:9420", 4318, "127.0.0.1:9490"
PACKETS_PER_S = 2500
ROUNDS = 3
LIMITS = ["--limit", "idle_ns=8000000000", "--limit", "linger_ns=2000000000"]
"""Connections end soon after their last packet, so that a scrape has everything: some of it is known at their end."""
SILENCE_S = 45
ENV = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'dissectors'}"}
MQSNIFF = [sys.executable, "-m", "mqsniff"]


def inside() -> None:
    """Go on in a network namespace, with a wire from w0 to w1."""
    if "--inside" not in sys.argv:
        os.execvp("unshare", ["unshare", "-n", sys.executable, __file__, *sys.argv[1:], "--inside"])
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    for line in (
        "link set lo up",
        "link add w0 mtu 65500 type veth peer name w1 mtu 65500",
        "link set w0 up",
        "link set w1 up",
    ):
        subprocess.run(["ip", *line.split()], check=True)


@contextmanager
def running(*command: str, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended at the end, and waited for."""
    with subprocess.Popen(command, env=ENV, **more) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def samples() -> list[Path]:
    """Captures of Ethernet packets of our samples."""
    found = (path for name in ("kafka", "nsq", "pulsar", "rocketmq") for path in (ROOT / "pcaps" / name).iterdir())
    return sorted(path for path in found if path.suffix in {".pcap", ".pcapng"})


class Wire:
    """Sends packets."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._socket.bind(("w0", 0))
        self.sent = 0

    def send(self, packet: bytes) -> None:
        """Send a packet, at the rate that is wanted."""
        self._socket.send(packet)
        self.sent += 1
        if self.sent % 50 == 0:
            time.sleep(50 / PACKETS_PER_S)

    def replay(self, number: int) -> None:
        """Send the packets of all samples; in each round from other addresses."""
        for path in samples():
            with path.open("rb") as file:
                reader = dpkt.pcap.UniversalReader(file)
                packets = [data for _, data in reader] if reader.datalink() == dpkt.pcap.DLT_EN10MB else []
            for packet in packets:
                changed = bytearray(packet)
                if packet[12:14] == b"\x08\x00":
                    changed[27] = changed[31] = number
                elif number:
                    continue
                self.send(bytes(changed))

    def wait(self, seconds: int) -> None:
        """Send a packet of another connection each second: capture time goes on, and silent connections end."""
        tcp = dpkt.tcp.TCP(sport=1, dport=2, flags=dpkt.tcp.TH_ACK)
        ip = dpkt.ip.IP(src=b"\x7f\0\0\1", dst=b"\x7f\0\0\2", p=dpkt.ip.IP_PROTO_TCP, data=tcp)
        ip.len = len(ip)
        packet = bytes(dpkt.ethernet.Ethernet(src=b"\x02" * 6, dst=b"\x02" * 6, data=ip))
        for _ in range(seconds):
            time.sleep(1)
            self._socket.send(packet)


class Collector(BaseHTTPRequestHandler):
    """Takes OTLP and keeps the last request."""

    last = ExportMetricsServiceRequest()

    def do_POST(self) -> None:
        """Decode a request."""
        Collector.last = ExportMetricsServiceRequest.FromString(self._body())
        self.send_response(200)
        self.end_headers()

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def get(url: str) -> str:
    """What is at a URL."""
    with urllib.request.urlopen(url, timeout=15) as answer:
        return answer.read().decode()


def wait_for(url: str) -> None:
    """Return when something answers there."""
    for _ in range(200):
        try:
            get(url)
        except OSError:
            time.sleep(0.3)
        else:
            return
    raise SystemExit(f"nothing answers at {url}")


def scraped(text: str) -> dict[str, Counter[tuple[str, ...]]]:
    """Sums of a scrape: by protocol, command, broker and the fourth label."""
    sums: dict[str, Counter[tuple[str, ...]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = [sample.labels.get(name, "") for name in ("protocol", "command", "broker")]
            more = next((sample.labels[name] for name in ("kind", "status", "error") if name in sample.labels), "")
            if "le" not in sample.labels:
                sums.setdefault(sample.name, Counter())[(*labels, more)] += sample.value
    return sums


def received(request: ExportMetricsServiceRequest) -> dict[str, Counter[tuple[str, ...]]]:
    """The same sums of a request of OTLP, under the names of Prometheus."""
    names = {
        "mqsniff.messages": ("mqsniff_messages_total", "mqsniff.message.kind"),
        "mqsniff.message.io": ("mqsniff_message_bytes_total", "mqsniff.message.kind"),
        "mqsniff.exchanges": ("mqsniff_exchanges_total", "mqsniff.exchange.status"),
        "mqsniff.errors": ("mqsniff_errors_total", "error.type"),
        "mqsniff.command.duration": ("mqsniff_command_duration_seconds_count", ""),
        "mqsniff.command.wait": ("mqsniff_command_wait_seconds_count", ""),
    }
    sums: dict[str, Counter[tuple[str, ...]]] = {}
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        name, fourth = names.get(metric.name, ("", ""))
        points = metric.histogram.data_points if metric.HasField("histogram") else metric.sum.data_points
        for point in points if name else ():
            told = {pair.key: pair.value.string_value or pair.value.int_value for pair in point.attributes}
            host = told["server.address"]
            broker = f"{f'[{host}]' if ':' in host else host}:{told['server.port']}"
            key = (told["messaging.system"], told["messaging.operation.name"], broker, told.get(fourth, ""))
            sums.setdefault(name, Counter())[key] += point.count if metric.HasField("histogram") else point.as_int
    return sums


def counted(capture: Path) -> dict[str, Counter[tuple[str, ...]]]:
    """The same sums by ``mqsniff stats`` of a capture; bytes without their kind."""
    command = [*MQSNIFF, "stats", "--json", "--by", "broker", *LIMITS, str(capture)]
    done = subprocess.run(command, env=ENV, capture_output=True, check=True)
    sums: dict[str, Counter[tuple[str, ...]]] = {}

    def add(name: str, key: tuple[str, ...], value: int) -> None:
        if value:
            sums.setdefault(name, Counter())[key] += value

    for row in json.loads(done.stdout)["commands"]:
        key = (row["protocol"], row["name"], row["broker"])
        add("mqsniff_messages_total", (*key, ""), row["count"])
        add("mqsniff_message_bytes_total", (*key, ""), row["bytes"])
        add("mqsniff_command_duration_seconds_count", (*key, ""), row["timed"])
        add("mqsniff_command_wait_seconds_count", (*key, ""), row["waited"])
        for error, count in row["errors_by_name"].items():
            add("mqsniff_errors_total", (*key, error), count)
        for status in ("unanswered", "pending", "lost", "unseen", "oneway", "unasked"):
            add("mqsniff_exchanges_total", (*key, status), row[status])
    return sums


def without_fourth(sums: Counter[tuple[str, ...]]) -> Counter[tuple[str, ...]]:
    """Sums by the first three labels."""
    made: Counter[tuple[str, ...]] = Counter()
    for key, value in sums.items():
        made[*key[:3], ""] += int(value)
    return made


def compare(what: str, mine: dict[str, Counter[tuple[str, ...]]], truth: dict[str, Counter[tuple[str, ...]]]) -> bool:
    """Say whether the sums are equal."""
    good = True
    for name, theirs in truth.items():
        ours = mine.get(name, Counter())
        if name in ("mqsniff_messages_total", "mqsniff_message_bytes_total"):
            ours = without_fourth(ours)
        if name == "mqsniff_exchanges_total":  # stats has no column for these two
            ours = Counter({key: value for key, value in ours.items() if key[3] not in {"ok", "error", "partial"}})
        same = +ours == +theirs
        print(
            f"{what}: {name}: {sum(ours.values()):,.0f} of {sum(theirs.values()):,} in {len(theirs)} rows, "
            f"{'equal' if same else 'DIFFERENT'}"
        )
        if not same:
            good = False
            odd = [key for key in {*ours, *theirs} if ours[key] != theirs[key]]
            print("   ", [(key, ours[key], theirs[key]) for key in odd[:5]])
    return good


def queries() -> list[str]:
    """All queries of the dashboard, with its variables filled in."""
    board = json.loads((ROOT / "docs" / "grafana.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    values = {"__rate_interval": "20s", "__range": "1m"}
    return [re.sub(r"\$(\w+)", lambda name: values.get(name[1], ".*"), expr) for expr in found]


def ask_prometheus() -> bool:
    """Run every query; say what came."""
    good = True
    for query in queries():
        url = f"http://{PROMETHEUS}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        answer = json.loads(get(url))
        result = answer["data"]["result"]
        bad = answer["status"] != "success" or not result
        good = good and not bad
        first = result[0]["value"][1] if result else ""
        print(f"{'EMPTY' if bad else 'ok':5} {len(result):3} {first[:12]:12} {query[:110]}")
    return good


def main() -> int:
    """The whole run; 1 where something differs."""
    inside()
    names = [name for name in sys.argv[1:] if name != "--inside"]
    folder = Path(names[0] if names else tempfile.mkdtemp(prefix="livemetrics-"))
    folder.mkdir(exist_ok=True)
    capture = folder / "same.pcap"
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 3s, scrape_timeout: 3s}\nscrape_configs:\n- job_name: mqsniff\n"
        f"  static_configs: [{{targets: ['{METRICS}']}}]\n"
    )
    server = HTTPServer(("127.0.0.1", COLLECTOR), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with (
        (folder / "live.txt").open("wb") as out,
        (folder / "prometheus.txt").open("wb") as log,
        running("tcpdump", "-i", "w1", "-Q", "in", "-s", "0", "-B", "65536", "-U", "-w", str(capture), stderr=log),
        running(
            *(*MQSNIFF, "live", "-i", "w1", "--summary", "--interval", "2s", "--metrics", METRICS),
            *(*LIMITS, "--metrics-topics", "20", "--otlp", f"http://127.0.0.1:{COLLECTOR}"),
            stdout=out,
            stderr=out,
        ),
        running(
            *("prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--web.listen-address={PROMETHEUS}"),
            f"--storage.tsdb.path={folder / 'tsdb'}",
            stdout=log,
            stderr=log,
        ),
    ):
        wait_for(f"http://{METRICS}/metrics")
        wait_for(f"http://{PROMETHEUS}/-/ready")
        wire = Wire()
        for number in range(ROUNDS):
            wire.replay(number)
        answered = ask_prometheus()
        wire.wait(SILENCE_S)
        time.sleep(1.5)
        started = time.monotonic()
        scrape = get(f"http://{METRICS}/metrics")
        took = time.monotonic() - started
        (folder / "scrape.txt").write_text(scrape)
    lint = subprocess.run(["promtool", "check", "metrics"], input=scrape.encode(), check=False).returncode
    print(f"{wire.sent:,} packets sent; a scrape has {len(scrape):,} bytes, took {took:.3f} s; promtool says {lint}")
    truth = counted(capture)
    good = compare("scrape", scraped(scrape), truth)
    good = compare("otlp", received(Collector.last), truth) and good
    print((folder / "live.txt").read_text()[:1500])
    return 0 if good and answered and not lint else 1


if __name__ == "__main__":
    sys.exit(main())
