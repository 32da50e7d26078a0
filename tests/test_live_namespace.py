"""``mqsniff live -w`` in a network namespace: rows as ``decode`` gives of what was written, packets as tcpdump's.

Servers are real where they are there, and a missing one is said by the name of its test in ``pytest -rs``:
``nsqd`` in the path (or ``MQSNIFF_NSQD``), and Kafka's jars in ``MQSNIFF_KAFKA_JARS`` with ``java``. A conversation by
plain sockets needs the namespace alone.
"""

from __future__ import annotations

import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from mqsniff.sources.files import FileSource

NSQD = os.environ.get("MQSNIFF_NSQD") or shutil.which("nsqd")
JARS = os.environ.get("MQSNIFF_KAFKA_JARS", "")
TABLES = ("messages", "exchanges", "records", "problems", "connections")
PLACES = ("capture", "last_capture", "first_capture", "request_capture", "response_capture")

TALK = """
    import socket, struct, sys, threading, time
    OK = struct.pack(">II", 6, 0) + b"OK"
    def until(s, what):
        got = b""
        while what not in got:
            got += s.recv(65536) or sys.exit("closed")
    def frame(data, kind=2):
        return struct.pack(">II", len(data) + 4, kind) + data
    def client(count=40):
        s = socket.create_connection(("127.0.0.1", 4150)); s.setsockopt(6, 1, 1)
        s.sendall(b"  V2SUB orders billing\\n"); until(s, OK)
        for n in range(count):
            body = b"order %d " % n * (1 + n % 7)
            s.sendall(b"PUB orders\\n" + struct.pack(">I", len(body)) + body)
            until(s, OK)
        s.sendall(b"CLS\\n"); until(s, b"CLOSE_WAIT"); s.close()
"""
SOCKETS = """
    def serve(listening):
        s, _ = listening.accept()
        while (got := s.recv(65536)):
            s.sendall(frame(b"CLOSE_WAIT", 0) if got.startswith(b"CLS") else OK)
    listening = socket.create_server(("127.0.0.1", 4150))
    threading.Thread(target=serve, args=(listening,), daemon=True).start()
    client()
"""
KAFKA = """
    import sys, time
    from kafka import KafkaConsumer, KafkaProducer
    producer = KafkaProducer(bootstrap_servers="127.0.0.1:9092", acks="all")
    for n in range(200):
        producer.send("orders", key=b"%d" % n, value=b"order %d" % n)
    producer.flush(); producer.close()
    consumer = KafkaConsumer("orders", bootstrap_servers="127.0.0.1:9092", group_id="billing",
                             auto_offset_reset="earliest", consumer_timeout_ms=15000)
    for n, _ in enumerate(consumer):
        if n == 199:
            break
    consumer.close()
"""
KRAFT = """
    process.roles=broker,controller
    node.id=1
    controller.listener.names=CONTROLLER
    controller.quorum.bootstrap.servers=127.0.0.1:19099
    listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:19099
    advertised.listeners=PLAINTEXT://127.0.0.1:9092
    listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
    log.dirs={folder}/data
    offsets.topic.num.partitions=1
    offsets.topic.replication.factor=1
    group.initial.rebalance.delay.ms=100
    log.cleaner.dedupe.buffer.size=8000000
"""


class Namespace:
    """A network namespace with a loopback, and what runs in it."""

    def __init__(self):
        self.name = f"mqsniff-{os.getpid()}"
        self.running = []
        self._ip("netns", "add", self.name)
        self._ip("netns", "exec", self.name, "ip", "link", "set", "lo", "up")

    @staticmethod
    def _ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def start(self, *command, **streams):
        """A process in the namespace."""
        prefix = ["ip", "netns", "exec", self.name]
        self.running.append(subprocess.Popen([*prefix, *map(str, command)], **streams))
        return self.running[-1]

    def run_python(self, text):
        """Run a program to its end."""
        assert self.start(sys.executable, "-c", textwrap.dedent(text)).wait(120) == 0

    def close(self):
        for process in self.running:
            process.kill()
            process.wait()
        self._ip("netns", "del", self.name)


@pytest.fixture
def namespace():
    try:
        made = Namespace()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespace can be made here, so nothing was captured: {error}")
    yield made
    made.close()


def captured(namespace, folder, talk):
    """Capture what ``talk`` does; gives (live rows, rows of what was written, packets, packets of tcpdump)."""
    written, other = folder / "live.pcapng", folder / "tcpdump.pcap"
    with (folder / "live.ndjson").open("wb") as rows, (folder / "live.err").open("wb") as said:
        tables = [word for table in TABLES for word in ("--table", table)]
        live = namespace.start(
            *(sys.executable, "-m", "mqsniff", "live", "-i", "lo", "-w", written, "-o", "ndjson", "--records", *tables),
            stdout=rows,
            stderr=said,
        )
        dump = None
        if shutil.which("tcpdump"):
            dump = namespace.start(
                *("tcpdump", "-i", "lo", "-U", "-Z", "root", "-w", other, "tcp"), stderr=subprocess.PIPE
            )
            while b"listening on" not in dump.stderr.readline():
                assert dump.poll() is None
        _wait(lambda: written.exists() and written.stat().st_size > 200)
        time.sleep(0.5)
        talk()
        time.sleep(1)
        live.send_signal(signal.SIGINT)
        assert live.wait(30) == 0, (folder / "live.err").read_text()
        if dump is not None:
            dump.send_signal(signal.SIGINT)
            dump.wait(30)
            dump.stderr.close()
    decode = [sys.executable, "-m", "mqsniff", "decode", str(written), "-o", "ndjson", "--records", *tables]
    decoded = subprocess.run(decode, capture_output=True, check=True).stdout
    packets = [packets_of(path) if path.exists() else None for path in (written, other)]
    return placeless((folder / "live.ndjson").read_bytes()), placeless(decoded), *packets


def placeless(text):
    """Rows without the name of their capture."""
    rows = [json.loads(line) for line in text.splitlines()]
    return [json.dumps({name: value for name, value in row.items() if name not in PLACES}) for row in rows]


def packets_of(path):
    """The packets of a capture, and how often each is there."""
    found = collections.Counter()
    for batch in FileSource([str(path)]).batches():
        data = bytes(batch.buffer)
        ends = zip(batch.start.tolist(), batch.caplen.tolist(), strict=True)
        found.update(data[start : start + size] for start, size in ends)
    return found


def check(found, least):
    live, decoded, packets, others = found
    assert len(live) >= least
    assert live == decoded
    if others is not None:
        assert packets == others


def _wait(ready, seconds=60):
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_conversation_by_sockets(namespace, tmp_path):
    check(captured(namespace, tmp_path, lambda: namespace.run_python(TALK + SOCKETS)), 100)


@pytest.mark.skipif(not NSQD, reason="nsqd is not here: put it in the path or in MQSNIFF_NSQD")
def test_a_real_nsqd(namespace, tmp_path):
    server = namespace.start(
        *(NSQD, "--data-path", tmp_path, "--tcp-address", "127.0.0.1:4150", "--http-address", "127.0.0.1:4151"),
        stderr=subprocess.DEVNULL,
    )
    time.sleep(1.5)
    assert server.poll() is None
    check(captured(namespace, tmp_path, lambda: namespace.run_python(TALK + "    client()\n")), 100)


@pytest.mark.skipif(not JARS or not shutil.which("java"), reason="Kafka is not here: its jars in MQSNIFF_KAFKA_JARS")
def test_a_real_kafka(namespace, tmp_path):
    pytest.importorskip("kafka", reason="kafka-python is not here")
    settings = tmp_path / "server.properties"
    settings.write_text(textwrap.dedent(KRAFT).format(folder=tmp_path))
    java = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{Path(JARS)}/*"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    setup = ("format", "--standalone", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", settings)
    assert namespace.start(*java, "kafka.tools.StorageTool", *setup, **quiet).wait(120) == 0
    namespace.start(*java, "kafka.Kafka", settings, **quiet)
    knock = ("bash", "-c", "echo > /dev/tcp/127.0.0.1/9092")
    _wait(lambda: namespace.start(*knock, **quiet).wait() == 0, 120)
    check(captured(namespace, tmp_path, lambda: namespace.run_python(KAFKA)), 100)
