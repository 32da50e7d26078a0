"""Cuts: where a file may be cut near a nominal place, as its bytes tell it."""

import random

import capturecraft as craft
import hostilecraft
import numpy as np
import pytest

from mqsniff.batch import cuts
from mqsniff.batch.cuts import Links, converge, find_cut
from mqsniff.sources.parsers import Head

S = 10**9
T0 = 1_700_000_000 * S


def links(*pairs, seen=100):
    at, following = (
        (np.array(column, np.int64) for column in zip(*pairs, strict=True)) if pairs else (np.zeros(0, int),) * 2
    )
    return Links(at, following, np.zeros(len(at), np.bool_), seen)


@pytest.mark.parametrize(
    ("pairs", "reach", "is_end", "cut"),
    [
        ([(0, 30), (30, 60), (60, 110)], 0, False, 0),
        ([(0, 30), (30, 60), (60, 110)], 1, False, 30),
        ([(5, 20), (10, 60), (20, 60), (60, 90), (90, 130)], 15, False, 60),
        ([(5, 20), (10, 70), (20, 50), (70, 110)], 6, False, 10),  # the chain from 5 comes to nothing
        ([(5, 40), (10, 60), (40, 90), (60, 120), (90, 130)], 1, False, 5),
        ([(5, 40), (10, 60), (40, 90), (60, 120), (90, 130)], 6, False, None),  # two chains that never meet
        ([(5, 40), (10, 60), (40, 80), (60, 100)], 6, True, 10),  # one of two ends where the file does
        ([(5, 40), (40, 130)], 6, True, 40),
        ([(5, 100)], 6, True, 100),
        ([(5, 50)], 6, True, 100),
        ([], 0, True, 100),
        ([], 0, False, None),
        ([(5, 101)], 6, False, None),
    ],
)
def test_a_cut_is_where_all_chains_pass_that_go_on(pairs, reach, is_end, cut):
    assert converge(links(*pairs), 100, reach, is_end=is_end) == cut


def payload(chance, kind):
    size = chance.randrange(1, 1400)
    match kind:
        case "random":
            return chance.randbytes(size)
        case "zeros":
            return bytes(size)
        case "small numbers":
            return b"".join(chance.randrange(9).to_bytes(4, "little") for _ in range(size // 4))
        case "text":
            return (b'{"ts": 1700000000, "size": 40}\n' * 50)[:size]
        case "a capture that is being sent":
            inner = craft.pcap([(T0 + n * S, chance.randbytes(90)) for n in range(20)])
            return inner[chance.randrange(500) :][:size]
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["random", "zeros", "small numbers", "text", "a capture that is being sent"])
@pytest.mark.parametrize("form", ["pcap", "pcap nano", "pcapng"])
def test_the_cut_is_a_record_soon_behind_the_reach_whatever_networks_carry(kind, form):
    chance = random.Random(kind + form)
    order = chance.choice("<>")
    heads = [craft.section(order), craft.interface(order)] if form == "pcapng" else []
    heads = heads or [craft.pcap_head(order, "nano" if "nano" in form else "micro")]
    records = []
    for number in range(700):
        data = payload(chance, kind)
        if form == "pcapng":
            records.append(craft.packet(T0 // 1000 + number, data, order))
        else:
            records.append(craft.pcap_record(T0 + number * S, data, order, "nano" if "nano" in form else "micro"))
    data = b"".join(heads + records)
    edges = np.cumsum([len(part) for part in heads + records])
    known = [Head(0, head) for head in heads]
    for nominal in range(100, len(data) - 40_000, len(data) // 20):
        cut = find_cut(lambda start, stop: data[start:stop], len(data), nominal, known, 4000)
        assert cut in edges
        assert nominal + 4000 <= cut < nominal + 4000 + cuts.FOLLOW_MIN


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_a_cut_in_the_middle_of_a_large_file_takes_little_reading(form):
    chance = random.Random(form)
    payloads = [chance.randbytes(1400) for _ in range(2500)]
    if form == "pcap":
        heads = [craft.pcap_head(snaplen=0x7FFFFFFF)]
        records = [craft.pcap_record(T0 + number * S, data) for number, data in enumerate(payloads)]
    else:
        heads = [craft.section(), craft.interface()]
        records = [craft.packet(T0 // 1000 + number, data) for number, data in enumerate(payloads)]
    data = b"".join(heads + records)
    edges = np.cumsum([len(part) for part in heads + records])
    pending = []

    def read(start, stop):
        pending.append(stop - start)
        return data[start:stop]

    for nominal in range(1000, 1_500_000, 99_000):
        cut = find_cut(read, len(data), nominal, [Head(0, head) for head in heads])
        assert cut == edges[np.searchsorted(edges, nominal + cuts.REACH_MAX)]
    assert sum(pending) < 1.3 * 16 * (cuts.REACH_MAX + cuts.FOLLOW_MIN)


def test_a_file_that_ends_soon_is_cut_at_its_end():
    data = craft.pcap([(T0 + n, bytes(100)) for n in range(20)])
    known = [Head(0, data[:24])]

    def cut(nominal, reach=100):
        return find_cut(lambda start, stop: data[start:stop], len(data), nominal, known, reach)

    assert cut(len(data) - 116) == len(data)
    assert cut(len(data) - 50) == len(data)
    assert cut(len(data) - 300) == len(data) - 116
    assert cut(50, 10_000) == len(data)


def test_what_is_no_row_of_records_is_read_up_to_a_limit_and_has_no_cut(monkeypatch):
    monkeypatch.setattr(cuts, "FOLLOW_MAX", 4 * cuts.FOLLOW_MIN)
    data = craft.pcap([(T0, bytes(100))]) + b"\xff" * (8 * cuts.FOLLOW_MIN)
    pending = []

    def read(start, stop):
        pending.append(stop - start)
        return data[start:stop]

    assert find_cut(read, len(data), 5000, [Head(0, data[:24])], 100) is None
    assert pending == [100 + cuts.FOLLOW_MIN, 100 + 4 * cuts.FOLLOW_MIN]


@pytest.mark.parametrize("make", [hostilecraft.pcap_capture, hostilecraft.pcapng_capture])
def test_chains_are_followed_further_until_they_meet(make):
    data = make(4, sloppy=False, packets=4000)
    heads = [Head(0, data[:24] if data[:1] != b"\n" else data[:28])]
    found = {
        find_cut(lambda start, stop: data[start:stop], len(data), nominal, heads, 600) for nominal in (9000, 99_000)
    }
    assert None in found or all(cut >= 9600 for cut in found)
