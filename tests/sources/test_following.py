"""Captures that grow, and folders of rotated ones: the packets of the finished files, whatever is written when."""

from __future__ import annotations

import gzip

import pytest
from capturecraft import pcap, pcap_head, pcap_record

from mqsniff.limits import Limits
from mqsniff.sources import following
from mqsniff.sources.following import FileKey, FollowPlace, FollowResume, FollowSource, FollowWishes

S = 10**9
BASE = 1_795_253_930 * S


def packets(first, count, step_ns=1000):
    """(time, data) of packets with numbers."""
    return [(BASE + number * step_ns, b"packet %05d" % number) for number in range(first, first + count)]


def follow(folder, *, steps=(), resume=None, paths=None, **wishes):
    """What a source gives of a folder while ``steps`` are done, one at each pause; the last stops it."""
    source = FollowSource(paths or [str(folder)], Limits(), FollowWishes(**wishes), resume=resume)
    ahead = list(steps)
    found = []
    for batch in source.batches():
        data = bytes(batch.buffer)
        ends = zip(batch.start.tolist(), batch.caplen.tolist(), strict=True)
        found += [(data[a : a + n], source.replaying) for a, n in ends]
        if not len(batch) and source.caught_up:
            source.replaying = False
        if not len(batch) and not source.suspending and not (source.caught_up and not ahead and source._stopped):
            if ahead:
                ahead.pop(0)()
            elif not wishes:
                source.stop()
    return [data for data, _ in found], source, found


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(following, "POLL_S", 0.001)


def test_rotated_files_are_read_by_their_first_packets_not_by_name(tmp_path):
    (tmp_path / "dump.pcap1").write_bytes(pcap(packets(10, 5)))
    (tmp_path / "dump.pcap").write_bytes(pcap(packets(0, 10)))
    (tmp_path / "notes.txt").write_text("no capture, but in the folder")
    found, source, _ = follow(tmp_path)
    assert found == [data for _, data in packets(0, 15)]
    assert [info.name for info in source.captures] == [str(tmp_path / "dump.pcap"), str(tmp_path / "dump.pcap1")]


def test_a_file_that_grows_byte_by_byte_gives_each_packet_once(tmp_path):
    path = tmp_path / "now.pcap"
    whole = pcap(packets(0, 3))
    path.write_bytes(b"")

    def write(stop):
        return lambda: path.write_bytes(whole[:stop])

    found, _, _ = follow(tmp_path, paths=[str(path)], steps=[write(stop) for stop in range(0, len(whole) + 1, 3)])
    assert found == [data for _, data in packets(0, 3)]


def test_the_rest_of_a_file_is_read_before_the_next_one(tmp_path):
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    first.write_bytes(pcap(packets(0, 2)))

    def rotate():
        with first.open("ab") as stream:
            stream.write(b"".join(pcap_record(*packet) for packet in packets(2, 2)))
        second.write_bytes(pcap(packets(4, 2)))

    found, source, _ = follow(tmp_path, steps=[rotate])
    assert found == [data for _, data in packets(0, 6)]
    assert [info.problems for info in source.captures] == [[], []]


def test_a_name_that_is_used_again_is_another_capture(tmp_path):
    ring, other = tmp_path / "ring0", tmp_path / "ring1"
    ring.write_bytes(pcap(packets(0, 2)))
    other.write_bytes(pcap(packets(2, 2)))
    found, _, _ = follow(tmp_path, steps=[lambda: ring.write_bytes(pcap(packets(4, 3)))])
    assert found == [data for _, data in packets(0, 7)]


def test_a_file_that_is_compressed_after_its_end_is_not_read_twice(tmp_path):
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    first.write_bytes(pcap(packets(0, 2)))
    second.write_bytes(pcap(packets(2, 2)))

    def compress():
        (tmp_path / "a.pcap.gz").write_bytes(gzip.compress(first.read_bytes()))

    found, _, _ = follow(tmp_path, steps=[compress, first.unlink])
    assert found == [data for _, data in packets(0, 4)]


def test_a_file_without_a_packet_does_not_end_the_one_before(tmp_path):
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    first.write_bytes(pcap(packets(0, 1)))
    second.write_bytes(pcap_head())

    def more():
        with first.open("ab") as stream:
            stream.write(pcap_record(*packets(1, 1)[0]))

    found, _, _ = follow(tmp_path, steps=[more, lambda: second.write_bytes(pcap(packets(2, 1)))])
    assert found == [data for _, data in packets(0, 3)]


def test_no_packet_is_taken_beyond_the_count(tmp_path):
    (tmp_path / "a.pcap").write_bytes(pcap(packets(0, 9)))
    found, source, _ = follow(tmp_path, count=4)
    assert (len(found), source.place.packets) == (4, 4)


def test_silence_ends_it_where_that_was_asked(tmp_path):
    (tmp_path / "a.pcap").write_bytes(pcap(packets(0, 2)))
    found, source, _ = follow(tmp_path, idle_ns=S // 50)
    assert (len(found), source.suspending) == (2, False)


def test_a_path_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        FollowSource([str(tmp_path / "none")], Limits())


def resume_at(folder, number, first="a.pcap"):
    names = {"a.pcap": 0, "b.pcap": 4, "c.pcap": 8}
    keys = {name: FileKey(BASE + start * 1000, str(folder / name)) for name, start in names.items()}
    name = max((each for each in names if names[each] < number), key=names.__getitem__)
    return FollowResume(keys[first], FollowPlace(keys[name], number - names[name]))


@pytest.mark.parametrize("number", range(1, 12))
def test_a_run_goes_on_behind_any_packet_and_replays_those_before(tmp_path, number):
    for name, start in (("a.pcap", 0), ("b.pcap", 4), ("c.pcap", 8)):
        (tmp_path / name).write_bytes(pcap(packets(start, 4)))
    _, source, found = follow(tmp_path, resume=resume_at(tmp_path, number), idle_ns=S // 50)
    assert [data for data, replayed in found if replayed] == [data for _, data in packets(0, number)]
    assert [data for data, replayed in found if not replayed] == [data for _, data in packets(number, 12 - number)]
    if number < 12:
        assert source.place == FollowPlace(resume_at(tmp_path, 12).place.file, 4)


def test_files_before_the_replay_are_left_alone(tmp_path):
    for name, start in (("a.pcap", 0), ("b.pcap", 4), ("c.pcap", 8)):
        (tmp_path / name).write_bytes(pcap(packets(start, 4)))
    found, _, _ = follow(tmp_path, resume=resume_at(tmp_path, 6, first="b.pcap"), idle_ns=S // 50)
    assert found == [data for _, data in packets(4, 8)]


def test_a_file_that_is_gone_is_told_and_the_next_ones_are_read(tmp_path):
    for name, start in (("a.pcap", 0), ("b.pcap", 4), ("c.pcap", 8)):
        (tmp_path / name).write_bytes(pcap(packets(start, 4)))
    resume = resume_at(tmp_path, 6)
    (tmp_path / "b.pcap").unlink()
    found, source, _ = follow(tmp_path, resume=resume, idle_ns=S // 50)
    assert found == [data for _, data in packets(8, 4)]
    assert source.caught_up
