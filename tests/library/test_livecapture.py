"""Typed rows of an interface while they come."""

from __future__ import annotations

import socket
import threading
import time

import pytest

import mqsniff

PUB = b"  V2PUB orders\n\x00\x00\x00\x05hello"


def loopback(**keywords):
    try:
        return mqsniff.live("lo", **keywords)
    except mqsniff.CaptureError as error:
        if "CAP_NET_RAW" in str(error) or "Linux" in str(error):
            pytest.skip(f"capturing is not allowed here: {error}")
        raise


@pytest.fixture
def broker():
    """A port that answers everything with NSQ's OK."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            try:
                accepted, _ = listening.accept()
            except OSError:
                return
            with accepted:
                while accepted.recv(4096):
                    accepted.sendall(b"\x00\x00\x00\x06\x00\x00\x00\x00OK")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
    thread.join(5)


def talk(port):
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(PUB)
        client.recv(4096)


def test_rows_come_while_the_capture_runs_and_closing_ends_it(broker):
    with loopback(bpf=f"tcp port {broker}", decode_as={broker: "nsq"}, tables=("messages", "exchanges")) as rows:
        talk(broker)
        found = [next(rows) for _ in range(3)]
        assert any(isinstance(row, mqsniff.MessagesRow) and row.name == "PUB" for row in found)
    assert list(rows) == []
    assert rows.dropped == 0


def test_filters_choose(broker):
    rows = loopback(bpf=f"tcp port {broker}", decode_as={broker: "nsq"}, topic="orders", duration=3)
    threading.Thread(target=talk, args=(broker,)).start()
    assert next(rows).name == "PUB"
    rows.close()


def test_stopping_from_another_thread_ends_the_iteration():
    rows = loopback(bpf="tcp port 1")
    threading.Timer(0.3, rows.stop).start()
    started = time.monotonic()
    assert list(rows) == []
    assert time.monotonic() - started < 5


def test_a_capture_that_is_closed_before_it_is_read_leaves_no_socket():
    rows = loopback()
    rows.close()
    assert [ring.socket.fileno() for ring in rows._source._rings] == [-1]


def test_what_cannot_be_meant_is_told_at_once():
    with pytest.raises(mqsniff.OptionError, match="no table"):
        mqsniff.live("lo", tables=("message",))
    with pytest.raises(mqsniff.OptionError, match="counts back"):
        mqsniff.live("lo", from_="-5m")
    with pytest.raises(mqsniff.CaptureError, match="no such interface"):
        mqsniff.live("nowhere0")
