"""What ``PcapngWriter`` writes is read as it was meant, by our reader and by dpkt's."""

from __future__ import annotations

import io

import dpkt

from mqsniff.sinks.pcapng import OPTION_MAX, PcapngWriter
from mqsniff.sources.files import FileSource


def written(tmp_path, *packets, comments=()):
    stream = io.BytesIO()
    writer = PcapngWriter(stream, application="test", comments=comments)
    for key, linktype, ts_ns, data, wirelen, notes in packets:
        writer.packet(writer.interface(key, linktype, name=str(key)), ts_ns, data, wirelen, notes)
    writer.flush()
    assert writer.size == len(stream.getvalue())
    path = tmp_path / "out.pcapng"
    path.write_bytes(stream.getvalue())
    return path


def test_times_lengths_link_types_and_interfaces_come_back(tmp_path):
    path = written(
        tmp_path,
        ("eth0", 1, 1_795_253_930_123_456_789, b"x" * 61, None, ()),
        ("lo", 101, 1_795_253_930_123_456_790, b"y" * 40, 1500, ()),
        ("eth0", 1, 0, b"", 0, ()),
    )
    source = FileSource([str(path)])
    found = []
    for batch in source.batches():
        for row in range(len(batch)):
            start = int(batch.start[row])
            data = bytes(memoryview(batch.buffer)[start : start + int(batch.caplen[row])])
            place = int(batch.linktype[row]), int(batch.interface[row]), int(batch.wirelen[row])
            found.append((int(batch.ts_ns[row]), data, *place))
    assert found == [
        (1_795_253_930_123_456_789, b"x" * 61, 1, 0, 61),
        (1_795_253_930_123_456_790, b"y" * 40, 101, 1, 1500),
        (0, b"", 1, 0, 0),
    ]
    assert source.captures[0].problems == []


def test_another_reader_finds_packets_and_comments(tmp_path):
    path = written(tmp_path, ("a", 1, 1_000_000_001, b"abc", None, ["one", "two ü"]), comments=["all of it"])
    raw = path.read_bytes()
    assert [data for _, data in dpkt.pcapng.Reader(io.BytesIO(raw))] == [b"abc"]
    assert all(text.encode() in raw for text in ("one", "two ü", "all of it"))


def test_a_comment_is_cut_to_what_an_option_holds(tmp_path):
    path = written(tmp_path, ("a", 1, 0, b"abc", None, ["ü" * OPTION_MAX]))
    assert FileSource([str(path)]).captures == []
    assert [data for _, data in dpkt.pcapng.Reader(io.BytesIO(path.read_bytes()))] == [b"abc"]
