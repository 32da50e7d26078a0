"""Packets of an interface: how they become batches, and a capture of the loopback where the rights are there."""

from __future__ import annotations

import errno
import re
import socket
import struct
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from mqsniff.model import CaptureInfo, packet_id
from mqsniff.sources import live
from mqsniff.sources.live import CaptureError, LiveSource, Received, live_batch, received_packet

S = 10**9
TS = 1_795_253_930 * S + 123_456_789
TIME = (socket.SOL_SOCKET, 35, struct.pack("=qq", *divmod(TS, S)))
SOL_PACKET, AUXDATA = 263, 8
INCOMING, OUTGOING = 0, 4
ETHERNET, LOOPBACK, TUNNEL, FRAME_RELAY = 1, 772, 65534, 770
FRAME = bytes(range(12)) + b"\x08\x00" + b"payload"


def address(hardware=ETHERNET, direction=INCOMING):
    return ("eth0", 0x0800, direction, hardware, b"\0" * 6)


def auxdata(status, tci=0, tpid=0):
    return (SOL_PACKET, AUXDATA, struct.pack("=IIIHHHH", status, 64, 64, 0, 14, tci, tpid))


def test_the_kernels_time_is_kept_to_the_nanosecond():
    assert received_packet(FRAME, [TIME], address()) == Received(TS, 1, FRAME)


def test_times_of_32_bit_systems_are_read():
    seconds, nanoseconds = 1_795_253_930, 5
    note = (socket.SOL_SOCKET, 35, struct.pack("=ii", seconds, nanoseconds))
    assert received_packet(FRAME, [note], address()).ts_ns == seconds * S + nanoseconds


@pytest.mark.parametrize("notes", [[], [(socket.SOL_SOCKET, 35, b"odd")], [(1, 99, TIME[2])]])
def test_a_packet_without_a_time_gets_the_present_one(notes):
    before = time.time_ns()
    assert before <= received_packet(FRAME, notes, address()).ts_ns <= time.time_ns()


@pytest.mark.parametrize(
    ("hardware", "linktype"), [(ETHERNET, 1), (LOOPBACK, 1), (TUNNEL, 101), (512, 9), (FRAME_RELAY, -FRAME_RELAY)]
)
def test_the_kind_of_hardware_gives_the_link_type(hardware, linktype):
    assert received_packet(FRAME, [TIME], address(hardware)).linktype == linktype


def test_only_a_loopback_loses_its_outgoing_copies():
    assert received_packet(FRAME, [TIME], address(LOOPBACK, OUTGOING)) is None
    assert received_packet(FRAME, [TIME], address(ETHERNET, OUTGOING)) is not None


@pytest.mark.parametrize(
    ("note", "tag"),
    [
        (auxdata(0x10, tci=0x2007), b"\x81\x00\x20\x07"),
        (auxdata(0x50, tci=0x0007, tpid=0x88A8), b"\x88\xa8\x00\x07"),
        (auxdata(0x10, tci=0), b"\x81\x00\x00\x00"),
        (auxdata(0x01, tci=0x2007), b""),
        ((SOL_PACKET, AUXDATA, b"short"), b""),
    ],
    ids=["802.1Q", "QinQ", "priority tag of zeros", "no tag", "cut"],
)
def test_a_vlan_tag_that_the_kernel_took_off_is_put_back(note, tag):
    assert received_packet(FRAME, [TIME, note], address()).data == FRAME[:12] + tag + FRAME[12:]


def test_batches_number_their_packets_on_and_on():
    info = CaptureInfo(0, "eth0")
    first = live_batch(info, [Received(TS, 1, b"one"), Received(TS + 1, 1, b"three")])
    second = live_batch(info, [Received(TS + 2, 101, b"x")])
    assert [bytes(first.buffer[a : a + n]) for a, n in zip(first.start, first.caplen, strict=True)] == [
        b"one",
        b"three",
    ]
    assert (first.ordinal, second.ordinal, info.packets) == (0, 2, 3)
    assert np.concatenate([first.packet, second.packet]).tolist() == [packet_id(0, number) for number in (1, 2, 3)]
    assert (second.linktype.tolist(), second.wirelen.tolist(), second.ts_ns.tolist()) == ([101], [1], [TS + 2])
    assert (info.first_ts_ns, info.last_ts_ns, info.linktypes) == (TS, TS + 2, {1, 101})


@pytest.fixture
def scripted(monkeypatch):
    """A source over a socket that gives what a script says: packets, None for a pause, errors."""

    def source(*script, **options):
        steps = list(script)

        def recvmsg(*_):
            step = steps.pop(0) if steps else None
            if step is None:
                raise BlockingIOError
            if isinstance(step, OSError):
                raise step
            return step, [TIME], 0, address(LOOPBACK, OUTGOING if step == b"out" else INCOMING)

        raw = SimpleNamespace(recvmsg=recvmsg, getsockopt=lambda *_: struct.pack("=II", 9, 4))
        closed = []
        monkeypatch.setattr(live, "_listen", lambda *_: SimpleNamespace(ins=raw, close=lambda: closed.append(True)))
        monkeypatch.setattr(live, "select", lambda *_: ([raw], [], []) if steps else ([], [], []))
        made = LiveSource("lo", **options)
        return made, closed

    return source


def test_a_pause_is_an_empty_batch_and_stop_ends_the_capture(scripted):
    source, closed = scripted(b"a", b"out", b"b", None, b"c")
    sizes = []
    for batch in source.batches():
        sizes.append(len(batch))
        if len(sizes) == 3:
            source.stop()
    assert sizes == [2, 1, 0]
    assert (closed, source.captures[0].packets, source.captures[0].dropped) == ([True], 3, 4)


def test_no_packet_is_taken_beyond_the_count(scripted):
    source, _ = scripted(b"a", b"out", b"b", b"c", b"d", count=3)
    assert sum(len(batch) for batch in source.batches()) == 3


def test_the_duration_ends_a_silent_capture(scripted):
    source, closed = scripted(duration_ns=1)
    assert [len(batch) for batch in source.batches()] in ([], [0])
    assert closed


def test_an_interface_that_goes_away_ends_the_capture_as_a_problem(scripted):
    source, closed = scripted(b"a", OSError(errno.ENETDOWN, "Network is down"))
    assert [len(batch) for batch in source.batches()] == [1]
    (problem,) = source.captures[0].problems
    assert (problem.kind, problem.severity, problem.detail) == (
        "input",
        "error",
        "the capture ended early: Network is down",
    )
    assert closed


def test_an_unknown_interface_is_told_with_those_that_are_there():
    with pytest.raises(CaptureError, match=r"no-such-interface: no such interface \(there are .*lo"):
        LiveSource("no-such-interface")


def test_other_systems_are_told_what_works_there(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(CaptureError, match=re.escape("tcpdump -w - | mqsniff decode -")):
        LiveSource("lo0")


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
        LiveSource("lo", bpf="no filter")


@needs_rights
def test_own_traffic_on_the_loopback_is_seen_once_and_in_order():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        source = LiveSource("lo", bpf=f"tcp port {port}", duration_ns=20 * S)
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
    assert before - S < min(times) <= max(times) <= time.time_ns()


def _say(listening, count):
    """A client that says so many things, one a packet, and a server that hears them."""
    with socket.create_connection(listening.getsockname()) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server, _ = listening.accept()
        with server:
            for number in range(count):
                client.sendall(b"message %d" % number)
                server.recv(100)
