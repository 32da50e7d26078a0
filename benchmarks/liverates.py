"""What ``mqsniff live`` drops, and what it takes, at a rate of packets and at a rate of bytes.

    sudo .venv/bin/python benchmarks/liverates.py [--seconds 20] [small|bulk ...]

In a network namespace of its own:

- ``small``: Kafka's smallest messages, 50,000 packets a second, replayed by tcpreplay over a virtual wire;
- ``bulk``: a producer of 1 MB requests over real TCP on loopback, 500 MB a second.

Each is captured by the Python sources, and by the build of ``make compiled`` where it is there, to NDJSON of messages
and to Parquet. Shown are packets on the wire, dropped, CPU seconds, peak memory, and how long the
end took after SIGTERM.
Needs root, iproute2 and tcpreplay.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from kafkarecords import Records, text
from kafkatraffic import greeting, produce_request, produce_response
from measuring import COMPILED, DATA, MB, MQSNIFF, Capture, environment, made, show

PACKETS_PER_S = 50_000
BYTES_PER_S = 500 * MB
PORT = 9092
SEED = 1
COLUMNS = ("traffic", "output", "build", "s", "MB", "packets", "dropped", "%", "CPU s", "peak MB", "end s")


def inside() -> None:
    """Go on in a network namespace, with a wire from w0 to w1."""
    if "--inside" not in sys.argv:
        os.execvp("unshare", ["unshare", "-n", sys.executable, __file__, *sys.argv[1:], "--inside"])
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    lines = ("link set lo up", "link add w0 type veth peer name w1", "link set w0 up", "link set w1 up")
    for line in lines:
        subprocess.run(["ip", *line.split()], check=True)


def small(seconds: int) -> None:
    """Send small messages."""
    capture = small_capture(seconds)
    command = ["tcpreplay", "-i", "w0", "-K", "--pps", str(PACKETS_PER_S), str(capture.path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def small_capture(seconds: int) -> Capture:
    """A question, its answer and an acknowledgement are three packets."""
    requests = PACKETS_PER_S * seconds // 3
    return made("kafkatraffic.py", f"kafka-small-{requests}-seed{SEED}", requests, SEED, mode="small")


def bulk(seconds: int) -> None:
    """Produce large requests to a server that acknowledges them."""
    server = socket.create_server(("127.0.0.1", PORT))
    serving = threading.Thread(target=acknowledge, args=(server,))
    serving.start()
    client = socket.create_connection(("127.0.0.1", PORT))
    reading = threading.Thread(target=read_all, args=(client,))
    reading.start()
    for side, data in greeting("loader", "orders"):
        if side == 0:
            client.sendall(data)
    request = bytearray(produce_request(0, "loader", "orders", batches()))
    started, sent, correlation = time.monotonic(), 0, 2
    while (passed := time.monotonic() - started) < seconds:
        if sent > passed * BYTES_PER_S:
            time.sleep(0.001)
            continue
        struct.pack_into(">i", request, 8, correlation)
        client.sendall(request)
        sent, correlation = sent + len(request), correlation + 1
    client.shutdown(socket.SHUT_WR)
    for thread in (serving, reading):
        thread.join()
    client.close()
    server.close()


def batches() -> list[bytes]:
    """60 full batches as producers send them, uncompressed: 1 MB."""
    random = Random(1)
    records = Records(random, text(random), "none", 1000)
    return [records.batch(1_795_253_930_000).data for _ in range(60)]


def acknowledge(server: socket.socket) -> None:
    """Answer each request of a client until it leaves."""
    connection, _ = server.accept()
    hello = {correlation: data for correlation, (_, data) in enumerate(list(greeting("loader", "orders"))[1::2])}
    with connection, connection.makefile("rb", 1 << 20) as stream:
        while head := stream.read(12):
            size, key, _, correlation = struct.unpack(">ihhi", head)
            stream.read(size - 8)
            connection.sendall(produce_response(correlation, "orders", [0]) if key == 0 else hello[correlation])


def read_all(client: socket.socket) -> None:
    """Take the answers."""
    while client.recv(1 << 20):
        pass


def captured(name: str, output: str, build: str, send: Callable[[int], None], seconds: int) -> list[str]:
    """One run of ``live`` while something is sent."""
    interface = "w1" if send is small else "lo"
    command = [*MQSNIFF, "live", "-i", interface, "-o", output, "--duration", f"{seconds + 60}", "-f", f"port {PORT}"]
    with tempfile.TemporaryDirectory(dir=DATA) as folder:
        if output == "parquet":
            command += ["--out", f"{folder}/out", "--every", "5s"]
        else:
            command += ["--table", "messages"]
        env = environment() | ({"PYTHONPATH": str(COMPILED)} if build == "compiled" else {})
        with (
            Path(folder, "rows").open("wb") as rows,
            Path(folder, "said").open("wb") as said,
            subprocess.Popen(command, stdout=rows, stderr=said, env=env) as process,
        ):
            time.sleep(2)
            before = counted(interface)
            send(seconds)
            wire = [after - at for after, at in zip(counted(interface), before, strict=True)]
            ended = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, _, used = os.wait4(process.pid, 0)
            end_s = time.monotonic() - ended
            process.returncode = 0
        said_text = Path(folder, "said").read_text()
    dropped = sum(
        int(found.replace(",", "")) for found in re.findall(r"([\d,]+) more dropped by the capture", said_text)
    )
    print(said_text, file=sys.stderr)
    share = f"{100 * dropped / max(wire[1], 1):.1f}"
    cpu_s = f"{used.ru_utime + used.ru_stime:.1f}"
    figures = (str(seconds), f"{wire[0] / MB:.0f}", f"{wire[1]:,}", f"{dropped:,}", share, cpu_s)
    return [name, output, build, *figures, f"{used.ru_maxrss * 1024 / MB:.0f}", f"{end_s:.1f}"]


def counted(interface: str) -> list[int]:
    """Bytes and packets that the interface has received."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == interface:
            return [int(figure) for figure in figures.split()[:2]]
    sys.exit(f"{interface} is not there")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("traffic", nargs="*", default=["small", "bulk"])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--inside", action="store_true")
    asked = parser.parse_args()
    inside()
    small_capture(asked.seconds)
    builds = ["Python", *(["compiled"] if COMPILED.exists() else [])]
    rows = [
        captured(name, output, build, {"small": small, "bulk": bulk}[name], asked.seconds)
        for name in asked.traffic
        for output in ("ndjson", "parquet")
        for build in builds
    ]
    show("live: what was dropped", COLUMNS, rows)


if __name__ == "__main__":
    main()
