"""Interfaces as a source: what ends it, what it counts, and captures of the loopback where the rights are there."""

from __future__ import annotations

import re
import socket
import sys
import threading
import time

import numpy as np
import pytest

from mqsniff.model import packet_id
from mqsniff.sources import live
from mqsniff.sources.live import CaptureError, CaptureWishes, LiveSource, linktypes_of
from mqsniff.sources.packetring import RingCounts, RingPackets

S = 10**9
TS = 1_795_253_930 * S
FRAME_RELAY = 770


class ScriptedRing:
    """A ring that gives what a script says: lists of packets, None for a pause."""

    interface = "lo"

    def __init__(self, *script):
        self.steps = list(script)
        self.states = ["here"]
        self.rebinds = []
        self.closed = False
        self.received = self.dropped = 0
        self.socket, self._other = socket.socketpair()
        self._other.send(b"x")

    def read(self, _most):
        packets = self.steps.pop(0) if self.steps else None
        if packets is None:
            return None
        self.received += len(packets)
        sizes = np.array([len(each) for each in packets], np.int64)
        rows = len(packets)
        return RingPackets(
            bytearray(b"".join(packets)),
            np.arange(TS, TS + rows),
            np.cumsum(sizes) - sizes,
            sizes,
            sizes,
            np.ones(rows, np.int32),
            np.full(rows, 772, np.int32),
        )

    def counts(self):
        counts = RingCounts(self.received + self.dropped, self.dropped)
        self.received = self.dropped = 0
        return counts

    def state(self):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def rebind(self):
        self.rebinds.append(True)
        return True

    def close(self):
        self.closed = True
        self.socket.close()
        self._other.close()


@pytest.fixture
def scripted(monkeypatch):
    """A source over a scripted ring, and what it told."""

    def source(*script, **wishes):
        ring = ScriptedRing(*script)
        told = []
        monkeypatch.setattr(live, "_open_rings", lambda *_: [ring])
        return LiveSource(["lo"], CaptureWishes(**wishes), told.append), ring, told

    return source


@pytest.mark.parametrize(
    ("hardware", "linktype"), [(1, 1), (772, 1), (65534, 101), (512, 9), (776, 101), (FRAME_RELAY, -FRAME_RELAY)]
)
def test_the_kind_of_hardware_gives_the_link_type(hardware, linktype):
    assert linktypes_of(np.array([hardware, hardware], np.int32)).tolist() == [linktype, linktype]


def test_a_pause_is_an_empty_batch_and_stop_ends_the_capture(scripted):
    source, ring, _ = scripted([b"a", b"b"], None, [b"c"])
    sizes, packets = [], []
    for batch in source.batches():
        sizes.append(len(batch))
        packets += batch.packet.tolist()
        if len(sizes) == 2:
            source.stop()
    assert sizes == [2, 0, 1]
    assert packets == [packet_id(0, number) for number in (1, 2, 3)]
    assert (ring.closed, source.captures[0].packets) == (True, 3)


def test_no_packet_is_taken_beyond_the_count(scripted):
    source, _, told = scripted([b"a", b"b"], [b"c", b"d"], [b"e"], count=3)
    batches = list(source.batches())
    assert (sum(map(len, batches)), source.captures[0].packets, told) == (3, 3, [])


def test_the_duration_ends_a_silent_capture(scripted):
    source, ring, _ = scripted(duration_ns=1)
    assert sum(map(len, source.batches())) == 0
    assert ring.closed


def test_silence_ends_a_capture_that_was_told_so(scripted):
    source, _, _ = scripted([b"a"], idle_ns=S // 20)
    assert sum(map(len, source.batches())) == 1


def test_drops_are_told_and_counted_for_everybody(scripted):
    source, ring, told = scripted([b"a"], duration_ns=1)
    ring.dropped = 41
    list(source.batches())
    assert (source.captures[0].dropped, source.captures[0].drops_told) == (41, True)
    (counts,) = source.counts
    assert (counts.received, counts.dropped, counts.taken, counts.taken_bytes) == (42, 41, 1, 1)
    assert told == ["lo: 41 packets dropped in 0 s"]


def test_what_is_left_in_the_ring_at_the_end_is_told(scripted, monkeypatch):
    monkeypatch.setattr(live, "LAST_S", -1.0)
    source, ring, told = scripted(duration_ns=1)
    ring.received = 7
    list(source.batches())
    assert told == ["7 packets that had arrived were not read before the end; they count as dropped"]
    assert source.captures[0].dropped == 7


def test_an_interface_that_goes_and_comes_back_is_told_and_taken_up(scripted, monkeypatch):
    source, ring, told = scripted([b"a"])
    ring.states = ["gone", "gone", "other", "here"]
    clock = iter(range(1_000_000))
    monkeypatch.setattr(live.time, "monotonic", lambda: float(next(clock)))
    for batch in source.batches():
        if ring.rebinds:
            source.stop()
        assert len(batch) <= 1
    assert [line.split(" after ")[0] for line in told[:2]] == ["lo went away; waiting for it", "lo is back"]
    (problem,) = source.captures[0].problems
    assert (problem.kind, problem.severity) == ("input", "warning")
    assert "lo was away for" in problem.detail


def test_an_unknown_interface_is_told_with_those_that_are_there():
    with pytest.raises(CaptureError, match=r"no-such-interface: no such interface \(there are any, .*lo"):
        LiveSource(["no-such-interface"])


def test_other_systems_are_told_what_works_there(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(CaptureError, match=re.escape("tcpdump -w - | mqsniff decode -")):
        LiveSource(["lo0"])


def test_without_the_right_one_line_says_how_to_grant_it(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(live.socket, "socket", refuse)
    with pytest.raises(CaptureError, match=r"^lo: .*CAP_NET_RAW is missing.*setcap cap_net_raw[^\n]*$"):
        LiveSource(["lo"])


def may_capture():
    """Whether this process may open a packet socket."""
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except (AttributeError, OSError):
        return False
    return True


needs_rights = pytest.mark.skipif(not may_capture(), reason="needs CAP_NET_RAW on Linux")


@needs_rights
def test_a_filter_that_is_none_is_told():
    with pytest.raises(CaptureError, match="filter 'no filter' cannot be used"):
        LiveSource(["lo"], CaptureWishes(bpf="no filter"))


@needs_rights
@pytest.mark.parametrize("interface", ["lo", "any"])
def test_own_traffic_on_the_loopback_is_seen_once_and_in_order(interface):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        source = LiveSource([interface], CaptureWishes(bpf=f"tcp port {port}", duration_ns=20 * S))
        talk = threading.Thread(target=_say, args=(listening, 50))
        talk.start()
        before, frames, times = time.time_ns(), [], []
        for batch in source.batches():
            data = bytes(batch.buffer)
            frames += [data[a : a + n] for a, n in zip(batch.start.tolist(), batch.caplen.tolist(), strict=True)]
            times += batch.ts_ns.tolist()
            if b"message 49" in data:
                source.stop()
        talk.join()
    payloads = [frame[frame.index(b"message") :] for frame in frames if b"message" in frame]
    assert payloads == [b"message %d" % number for number in range(50)]
    assert (source.captures[0].packets, source.captures[0].dropped) == (len(frames), 0)
    assert source.interfaces == ["lo"]
    assert before - S < min(times) <= max(times) <= time.time_ns()


@needs_rights
def test_the_snap_length_cuts_packets_and_their_size_is_known():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        wishes = CaptureWishes(bpf=f"tcp port {listening.getsockname()[1]}", duration_ns=20 * S, snaplen=70)
        source = LiveSource(["lo"], wishes)
        talk = threading.Thread(target=_say, args=(listening, 5))
        talk.start()
        seen = []
        for batch in source.batches():
            seen += zip(batch.caplen.tolist(), batch.wirelen.tolist(), strict=True)
            if len(seen) > 8:
                source.stop()
        talk.join()
    assert max(caplen for caplen, _ in seen) == 70
    assert max(wirelen for _, wirelen in seen) > 70


def _say(listening, count):
    """A client that says so many things, one a packet, and a server that hears them."""
    with socket.create_connection(listening.getsockname()) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server, _ = listening.accept()
        with server:
            for number in range(count):
                client.sendall(b"message %d" % number)
                server.recv(100)


@needs_rights
@pytest.mark.parametrize("bpf", [None, "tcp"])
def test_large_packets_are_whole(bpf):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        source = LiveSource(["lo"], CaptureWishes(bpf=f"tcp port {port}" if bpf else None, duration_ns=20 * S))
        with socket.create_connection(listening.getsockname()) as client:
            client.sendall(b"x" * 60_000)
            cut = 0
            for batch in source.batches():
                cut += int((batch.caplen < batch.wirelen).sum())
                if len(batch):
                    source.stop()
    assert cut == 0
