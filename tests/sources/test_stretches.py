"""Reading from the middle of a capture: as if everything before had been read."""

import capturecraft as craft
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.limits import Limits
from mqsniff.model import CaptureInfo
from mqsniff.sources.capture import CaptureReader, Stretch
from mqsniff.sources.heads import parser_for
from mqsniff.sources.parsers import HEADS_MAX, Head, Heads

S = 10**9


class Memory:
    """Bytes as a file."""

    compression = failure = ""

    def __init__(self, data):
        self.size, self.taken, self._data = len(data), 0, data

    def head(self, size):
        return self._data[:size]

    def readinto(self, view, timeout_s=None):
        part = self._data[self.taken : self.taken + min(len(view), 700)]
        view[: len(part)] = part
        self.taken += len(part)
        return len(part)

    def close(self):
        pass


def rows(reader):
    found = []
    while (batch := reader.next_batch()) is not None:
        view = memoryview(batch.buffer)
        columns = (batch.ts_ns, batch.wirelen, batch.linktype, batch.interface, batch.start, batch.caplen)
        for *values, start, caplen in zip(*(column.tolist() for column in columns), strict=True):
            found.append((*values, bytes(view[start : start + caplen])))
    return found


@st.composite
def captures(draw):
    """(parts of a capture, which of them are heads and which are packets)."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        order = draw(st.sampled_from("<>"))
        parts += [("head", craft.section(order)), ("head", craft.interface(order, linktype=draw(st.integers(1, 9))))]
        for number in range(draw(st.integers(1, 8))):
            match draw(st.integers(0, 5)):
                case 0:
                    parts.append(("head", craft.interface(order, linktype=7, resolution=draw(st.sampled_from([6, 9])))))
                case 1:
                    parts.append(("packet", craft.simple_packet(bytes(number), order)))
                case 2:
                    parts.append(("other", craft.statistics([(5, number)], order)))
                case _:
                    which = draw(st.integers(0, 1))
                    parts.append(("packet", craft.packet(number * 10**6, bytes(number), order, number=which)))
    return parts


@settings(max_examples=50, deadline=None)
@given(parts=captures(), data=st.data())
def test_a_stretch_of_a_pcapng_file_is_read_as_in_the_whole(parts, data):
    cut = data.draw(st.integers(1, len(parts)))
    whole = b"".join(part for _, part in parts)
    offset = sum(len(part) for _, part in parts[:cut])
    info = CaptureInfo(0, "whole")
    expected = rows(CaptureReader(Memory(whole), info, Limits(), 4096))
    before = CaptureInfo(0, "before")
    first = CaptureReader(Memory(whole[:offset]), before, Limits(), 4096, stretch=Stretch(is_last=False))
    found = rows(first)
    assert (first.offset, first.over) == (offset, False)
    behind = CaptureInfo(0, "after")
    heads = [head for head in first.parser.heads.found if head.offset < offset]
    assert [head.data for head in heads] == [part for kind, part in parts[:cut] if kind == "head"]
    parser = parser_for(heads[0].data, behind, Limits())
    parser.resume(heads, first.parser.last_ns)
    second = CaptureReader(Memory(whole[offset:]), behind, Limits(), 4096, stretch=Stretch(offset, parser))
    assert found + rows(second) == expected
    assert second.offset == len(whole)
    assert second.parser.heads.found == [
        Head(sum(len(part) for _, part in parts[:place]), part)
        for place, (kind, part) in enumerate(parts)
        if kind == "head"
    ]


def test_the_end_of_a_stretch_inside_a_packet_is_no_problem_of_the_capture():
    data = craft.pcap([(n * S, bytes(100)) for n in range(5)])
    for is_last, problems in ((False, 0), (True, 1)):
        info = CaptureInfo(0, "x")
        reader = CaptureReader(Memory(data[:-1]), info, Limits(), 4096, stretch=Stretch(is_last=is_last))
        assert len(rows(reader)) == 4
        assert reader.offset == len(data) - 116
        assert len(info.problems) == problems


def test_heads_are_kept_up_to_a_limit():
    heads = Heads()
    for number in range(3):
        heads.add(number, bytes(HEADS_MAX // 2))
    assert (len(heads.found), heads.whole) == (2, False)
    heads.add(9, b"small")
    assert len(heads.found) == 2
