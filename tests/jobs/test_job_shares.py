"""What each worker does, and what it knows of the others."""

from __future__ import annotations

import os
import threading
import time
from random import Random

import numpy as np
import pytest
from tinycapture import conversation, pcap

from mqsniff.jobs.affinity import FlowAffinity
from mqsniff.jobs.places import BEFORE, SharedPlaces
from mqsniff.jobs.share import CommonState, Share, ShareExceeded
from mqsniff.jobs.shares import ConnectionShares, divided
from mqsniff.limits import Limits
from mqsniff.sources.files import FileSource
from mqsniff.streams.packets import PacketDecoder


@pytest.fixture
def batches(tmp_path):
    """Packets of connections: those at 1 and 5, and at 2 and 6, carry the same bytes."""
    said = {port: Random(port % 4).randbytes(60_000) for port in (1, 2, 5, 6)} | {3: b"x" * 100_000, 4: b"x" * 100_000}
    steps = {port: [("c", data[at : at + 1000]) for at in range(0, len(data), 1000)] for port, data in said.items()}
    path = tmp_path / "six.pcap"
    path.write_bytes(pcap(each for port in sorted(steps) for each in conversation(steps[port], client=40_000 + port)))
    return lambda: FileSource([str(path)], Limits()).batches()


def segments_of(batches):
    decoder = PacketDecoder(Limits())
    return [decoder.decode(batch) for batch in batches()]


@pytest.mark.parametrize("jobs", [2, 3, 8])
def test_each_segment_belongs_to_one_worker_and_a_flow_to_the_same(batches, jobs):
    shares = [ConnectionShares(jobs, job) for job in range(jobs)]
    for segments in segments_of(batches):
        own = np.array([share.own(segments) for share in shares])
        assert (own.sum(axis=0) == 1).all()
        for flow in range(len(segments.flows)):
            assert len(np.unique(own[:, segments.flow == flow].argmax(axis=0))) == 1


def test_flows_beyond_those_that_are_remembered_belong_to_one_worker_too(batches, monkeypatch):
    monkeypatch.setattr("mqsniff.jobs.shares.PLACED_MAX", 1)
    test_each_segment_belongs_to_one_worker_and_a_flow_to_the_same(batches, 3)


def test_flows_that_carry_the_same_bytes_go_to_one_worker(batches):
    affinity = FlowAffinity.of(batches(), Limits())
    ports = [{key.low_port + key.high_port - 4150 - 40_000 for key in keys} for keys in affinity.groups()]
    assert sorted(map(sorted, ports)) in ([[1, 5], [2, 6], [3], [4]], [[1, 5], [2, 6], [3, 4]])
    owners = divided(affinity, 2)
    loads = [sum(affinity.sizes[key] for key, owner in owners.items() if owner == job) for job in (0, 1)]
    assert max(loads) < 1.4 * min(loads)


def test_packets_without_tcp_say_nothing_of_flows(tmp_path):
    raw = bytes.fromhex("4500041c00000000401100000a0000010a000002") + Random(1).randbytes(1032)  # UDP
    head = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000065000000")
    record = (1).to_bytes(4, "little") + bytes(4) + 2 * len(raw).to_bytes(4, "little") + raw
    (tmp_path / "udp.pcap").write_bytes(head + 30 * record)
    affinity = FlowAffinity.of(FileSource([str(tmp_path / "udp.pcap")]).batches(), Limits())
    assert affinity.groups() == []


def test_one_group_of_everything_is_taken_apart(batches):
    affinity = FlowAffinity.of(batches(), Limits())
    everything = [key for keys in affinity.groups() for key in keys]
    affinity.groups = lambda: [everything]
    assert set(divided(affinity, 2).values()) == {0, 1}


def test_a_place_is_what_its_worker_published_last():
    places = SharedPlaces(2)
    assert places.of(1) == BEFORE
    places.publish(1, (3, 2, 1))
    assert (places.of(0), places.of(1)) == (BEFORE, (3, 2, 1))


def test_a_worker_learns_what_others_taught_before_its_place_and_waits_until_that_is_sure():
    common = CommonState(2)
    common.parent = os.getppid()  # as if this process were a worker
    one, two = (Share(job, common, Limits()) for job in (0, 1))
    waited = []
    one.on_wait = lambda: waited.append(one.place)
    two.place = (0, 5, 5)
    message = type("Taught", (), {"protocol": "kafka", "teaches": (("id", "orders"),)})()
    message.frame = type("At", (), {"first_ts_ns": 7})()
    two._teach(message)
    one.place = (0, 6, 6)
    threading.Timer(0.2, lambda: common.places.publish(1, (0, 6, 7))).start()
    started = time.monotonic()
    one._know("kafka", ["id"])
    assert time.monotonic() - started > 0.1
    assert waited == [(0, 6, 6)]
    assert one._topics.known("kafka", "id") == "orders"
    three = Share(0, common, Limits())
    three.place = (0, 5, 4)
    three._know("kafka", ["id"])
    assert three._topics.known("kafka", "id") is None
    common.close()


def test_more_than_its_share_is_no_work_for_a_worker():
    common = CommonState(2)
    share = Share(0, common, Limits(connections_max=10))
    share.check_limits(5, 0)
    with pytest.raises(ShareExceeded):
        share.check_limits(6, 0)
    with pytest.raises(ShareExceeded):
        share.check_limits(1, Limits().state_max // 2 + 1)
    common.close()
