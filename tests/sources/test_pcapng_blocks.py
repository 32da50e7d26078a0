import pytest
from capturecraft import (
    COMMENT,
    details,
    interface,
    names,
    old_packet,
    packet,
    read,
    read_at_all_windows,
    secrets,
    section,
    statistics,
)
from hypothesis import given, settings
from hypothesis import strategies as st

S = 10**9

every_order = pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])


def head(order="<"):
    return section(order) + interface(order)


@every_order
@pytest.mark.parametrize(
    ("resolution", "ticks", "ts_ns"),
    [
        (None, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (0, 1_700_000_000, 1_700_000_000 * S),
        (3, 1_700_000_000_123, 1_700_000_000_123 * 10**6),
        (6, 7, 7_000),
        (9, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (10, 12_345_678_919, 1_234_567_891),
        (12, 1_700_000_000_123_456_789 * 10, 17_000_000_001_234_567),
        (19, 2**63, 2**63 // 10**10),
        (127, 2**64 - 1, 0),
        (0x80, 1_700_000_000, 1_700_000_000 * S),
        (0x80 | 10, 1024 + 512, 1_500_000_000),
        (0x80 | 20, (1_700_000_000 << 20) + 1, 1_700_000_000 * S + 10**9 // 2**20),
        (0x80 | 30, (1_700_000_000 << 30) + 2**30 - 1, 1_700_000_000 * S + (2**30 - 1) * 10**9 // 2**30),
        (0x80 | 32, (1_700_000_000 << 32) + 2**32 - 1, 1_700_000_000 * S + 999_999_999),
        (0x80 | 34, (1_000_000 << 34) + 2**34 - 1, 1_000_000 * S + 999_999_999),
        (0x80 | 35, (1_000_000 << 35) + 12345, 1_000_000 * S + 12345 * 10**9 // 2**35),
        (0x80 | 35, (1_000_000 << 35) + 2**35 - 1, 1_000_000 * S + 999_999_999),
        (0x80 | 63, (1 << 63) + (1 << 62), 1_500_000_000),
        (0x80 | 64, 1 << 63, 500_000_000),
        (0x80 | 127, 2**64 - 1, 0),
    ],
)
def test_every_resolution_gives_exact_nanoseconds(tmp_path, order, resolution, ticks, ts_ns):
    data = section(order) + interface(order, resolution=resolution) + packet(ticks, b"x", order)
    found, info = read(data, tmp_path)
    assert [row[0] for row in found] == [ts_ns]
    assert info.problems == []


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 255), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5), st.integers(-(2**40), 2**40))
def test_times_equal_those_of_unbounded_integers_or_are_reported(folder, resolution, ticks, offset):
    per_second = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    data = head() + interface(resolution=resolution, offset=offset)
    data += b"".join(packet(tick, b"x", number=1) for tick in ticks)
    found, info = read(data, folder)
    exact = [tick * S // per_second + offset * S for tick in ticks]
    fits = [abs(ts) < 2**63 - S for ts in exact]
    for row, ts, fit in zip(found, exact, fits, strict=True):
        assert row[0] == ts if fit else abs(row[0]) > 2**62
    assert [p.kind for p in info.problems] == ([] if all(fits) else ["clock"])


@pytest.mark.parametrize("offset", [-3600, 0, 1_700_000_000])
def test_the_time_offset_is_added(tmp_path, offset):
    found, _ = read(section() + interface(offset=offset) + packet(7_000_000, b"x"), tmp_path)
    assert found[0][0] == (7 + offset) * S


def test_interfaces_of_one_section_have_their_own_link_type_and_time(tmp_path):
    data = section() + interface(linktype=1) + interface(linktype=101, resolution=9) + interface(linktype=113, offset=5)
    data += packet(1, b"a", number=2) + packet(2, b"b", number=1) + packet(3, b"c", number=0)
    found, info = read_at_all_windows(data, tmp_path)
    assert [row[:5] for row in found] == [(5 * S + 1000, b"a", 1, 113, 2), (2, b"b", 1, 101, 1), (3000, b"c", 1, 1, 0)]
    assert info.linktypes == {1, 101, 113}


def test_a_packet_of_an_interface_not_described_is_kept_and_reported(tmp_path):
    data = head() + packet(1, b"good") + packet(2, b"bad", number=1) + interface(linktype=101)
    data += packet(3, b"good", number=1)
    found, info = read_at_all_windows(data, tmp_path)
    assert [(row[1], row[3], row[4]) for row in found] == [(b"good", 1, 0), (b"bad", -1, -1), (b"good", 101, 1)]
    assert details(info) == ["a packet's interface was not described before it"]


def test_more_interfaces_than_the_limit_are_not_described(tmp_path):
    data = section() + interface() * 3 + packet(1, b"a", number=1) + packet(1, b"b", number=2)
    found, info = read(data, tmp_path, interfaces_max=2)
    assert [row[3] for row in found] == [1, -1]
    assert [problem.kind for problem in info.problems] == ["limit", "input"]


@every_order
def test_comments_names_and_secrets_are_read_in_file_order(tmp_path, order):
    note = [(COMMENT, b"on the file")]
    data = section(order, opts=[*note, (3, b"an OS")]) + interface(order, opts=[(2, b"eth0"), (COMMENT, b"on eth0")])
    data += packet(1, b"a", order, opts=[(COMMENT, b"first"), (2, bytes(4)), (COMMENT, b"again")])
    data += interface(order, opts=[(COMMENT, b"on eth1")]) + packet(2, b"b", order)
    data += old_packet(3, b"c", order, opts=[(COMMENT, "ünïcode \xff".encode("latin-1") + b"\0")])
    data += names(
        [(1, bytes([10, 0, 0, 1]) + b"one\0uno\0"), (2, bytes(15) + b"\x01lo\0"), (1, b"bad"), (9, b"")], order
    )
    data += secrets(0x544C534B, b"CLIENT_RANDOM 00 11\n", order)
    found, info = read_at_all_windows(data, tmp_path)
    assert len(found) == 3
    assert info.comments == [
        "on the file",
        "on eth0",
        "packet 1: first",
        "packet 1: again",
        "on eth1",
        "packet 3: �n�code �",
    ]
    assert info.names == {"10.0.0.1": "one", "::1": "lo"}
    assert info.secrets == [(0x544C534B, b"CLIENT_RANDOM 00 11\n")]
    assert info.problems == []


@every_order
@pytest.mark.parametrize(
    ("blocks", "dropped"),
    [
        (lambda o: statistics([(5, 0)], o), 0),
        (lambda o: statistics([(5, 10)], o), 10),
        (lambda o: statistics([(5, 10), (7, 5), (4, 99), (8, 88)], o), 15),
        (lambda o: statistics([(5, 10)], o) + statistics([(5, 30)], o), 30),
        (lambda o: statistics([(5, 2**64 - 1)], o), None),
        (lambda o: statistics([(4, 50)], o), None),
        (lambda o: statistics([(5, 10)], o, number=7), None),
        (lambda o: packet(1, b"a", o, opts=[(4, count(3, o))]) + packet(2, b"b", o, opts=[(4, count(4, o))]), 7),
        (lambda o: packet(1, b"a", o, opts=[(4, count(3, o))]) + statistics([(5, 10)], o), 10),
        (lambda o: packet(1, b"a", o, opts=[(4, count(30, o))]) + statistics([(5, 10)], o), 30),
        (lambda o: packet(1, b"a", o, opts=[(2, bytes(4)), (4, count(3, o)), (COMMENT, b"c")]), 3),
        (lambda o: packet(1, b"a", o, opts=[(4, b"\1\0\0\0")]), None),
        (lambda o: packet(1, b"a", o, number=9, opts=[(4, count(3, o))]), None),
        (lambda o: statistics([(5, 10)], o) + section(o) + interface(o) + statistics([(5, 2)], o), 12),
    ],
    ids=[
        "none dropped",
        "dropped by the interface",
        "and by the system",
        "the last total counts",
        "not known",
        "received only",
        "no such interface",
        "told by packets",
        "told twice, total larger",
        "told twice, packets larger",
        "among other options",
        "wrong size",
        "of no interface",
        "two sections",
    ],
)
def test_losses_are_counted_once(tmp_path, order, blocks, dropped):
    """``dropped`` is None where the capture does not tell."""
    info = read_at_all_windows(head(order) + blocks(order), tmp_path)[1]
    assert (info.dropped, info.drops_told) == (dropped or 0, dropped is not None)


def count(number, order):
    return number.to_bytes(8, "little" if order == "<" else "big")


def test_notes_and_secrets_are_kept_up_to_their_limits(tmp_path):
    data = head() + b"".join(packet(n, b"x", opts=[(COMMENT, b"c" * 100)]) for n in range(100))
    data += secrets(1, bytes(100)) + secrets(1, bytes(100))
    found, info = read(data, tmp_path, notes_max=1000, secrets_max=150)
    assert len(found) == 100
    assert 9 <= len(info.comments) <= 11
    assert [kind for kind, _ in info.secrets] == [1]
    assert [problem.kind for problem in info.problems] == ["limit", "limit"]
