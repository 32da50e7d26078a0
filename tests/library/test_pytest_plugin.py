"""The plugin for pytest, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import socket, threading
import mqsniff, pytest

def test_loopback(broker_traffic):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        try:
            with broker_traffic(port=port) as traffic:
                with socket.create_connection(("127.0.0.1", port)) as client:
                    accepted, _ = listening.accept()
                    client.sendall(b"  V2PUB orders\\n\\x00\\x00\\x00\\x05hello")
                    accepted.recv(4096)
                    accepted.close()
        except mqsniff.CaptureError as error:
            pytest.skip(str(error))
    said = traffic.read(decode_as={port: "nsq"}, name="PUB")
    assert [row.topics for row in said.messages()] == [("orders",)]
    assert [row.value for row in said.records()] == [b"hello"]

def test_file(broker_traffic):
    traffic = broker_traffic("CAPTURE")
    assert len(list(traffic.read(name="Produce").messages())) > 0
"""


def test_a_test_asserts_on_what_was_said_to_the_broker(tmp_path):
    capture = ROOT / "pcaps/kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["mqsniff.pytest"]\n')
    (tmp_path / "test_said.py").write_text(TESTS.replace("CAPTURE", str(capture)))
    path = os.pathsep.join(map(str, (ROOT, ROOT / "dissectors")))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout or "1 skipped" in done.stdout
