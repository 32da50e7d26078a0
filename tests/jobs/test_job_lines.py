"""Lines of several workers become the lines of one."""

from __future__ import annotations

import io
from multiprocessing.connection import Pipe
from random import Random

import numpy as np
import pytest

from mqsniff.jobs.lines import LineCollector, LineFrame, LineMerge, RunTogether, send_report
from mqsniff.jobs.places import AFTER


class Sender:
    """A worker that sends a frame at a time."""

    def __init__(self, merge, job):
        self.merge, self.lines, self.job = merge, LineCollector(), job
        self.reader, self.writer = Pipe(duplex=False)

    def write(self, place, text):
        self.lines.write(text)
        self.lines.mark(place)

    def send(self, upto, news=()):
        items, lines = self.lines.drain()
        LineFrame(upto, (0, None), list(news), items).send(self.writer, lines)
        self.merge.lanes[self.job].receive(self.reader)

    def end(self):
        self.send(AFTER)
        send_report(self.writer, {"kind": "done"})
        self.merge.lanes[self.job].receive(self.reader)


def senders(jobs, topics_max=10):
    out = io.BytesIO()
    merge = LineMerge(jobs, out, topics_max)
    return out, merge, [Sender(merge, job) for job in range(jobs)]


@pytest.mark.parametrize("seed", range(20))
def test_lines_come_by_place_however_they_are_cut_into_frames(seed):
    random = Random(seed)
    out, merge, workers = senders(3)
    items = [(place, random.randrange(3)) for place in sorted({(random.randrange(4), random.randrange(50), n)
                                                               for n in range(200)})]  # fmt: skip
    for place, job in items:
        for line in range(random.randrange(3)):
            workers[job].write(place, f"{place} {job} {line}\n".encode())
        if not random.randrange(5):
            workers[job].send((*place[:2], place[2] + 1))
            merge.write_ready()
    for worker in workers:
        worker.end()
    merge.write_ready()
    places = [tuple(map(int, line.split(b")")[0].strip(b"(").split(b","))) for line in out.getvalue().splitlines()]
    assert places == sorted(places)
    assert len(set(places)) > 100
    assert merge.written == len(out.getvalue())


def test_nothing_is_written_that_another_worker_may_come_before():
    out, merge, (one, two) = senders(2)
    one.write((0, 1, 1), b"a\n")
    one.write((0, 9, 9), b"c\n")
    one.send((1, 0, 0))
    merge.write_ready()
    assert out.getvalue() == b""
    two.write((0, 5, 5), b"b\n")
    two.send((0, 7, 7))
    merge.write_ready()
    assert out.getvalue() == b"a\nb\n"
    assert merge.wants() == [0, 1]


def test_who_is_furthest_behind_is_always_read_from(monkeypatch):
    monkeypatch.setattr("mqsniff.jobs.lines.HELD", 10)
    _, merge, (one, two) = senders(2)
    one.write((0, 1, 1), b"x" * 100)
    one.send((5, 0, 0))
    assert merge.wants() == [1]
    two.write((0, 1, 2), b"x" * 100)
    two.send((0, 2, 2))
    assert merge.wants() == [1]
    merge.write_ready()
    assert merge.wants() == [1, 0] or merge.wants() == [0, 1]


TAUGHT = ("kafka", "id", "orders", 5)


def test_two_names_of_a_topic_id_are_for_one_process():
    _, merge, (one, two) = senders(2)
    one.send((9, 0, 0), [((0, 1, 1), TAUGHT)])
    two.send((9, 0, 0), [((0, 2, 2), ("kafka", "id", "orders", 3)), ((0, 3, 3), ("kafka", "id", "other", 7))])
    merge.write_ready()
    two.send((10, 0, 0), [((9, 1, 1), ("kafka", "id", "earlier", 1))])
    one.send((10, 0, 0))
    with pytest.raises(RunTogether):
        merge.write_ready()


def test_more_topic_ids_than_a_run_may_remember_are_for_one_process():
    _, merge, (one, two) = senders(2, topics_max=1)
    one.send((9, 0, 0), [((0, 1, 1), TAUGHT)])
    two.send((9, 0, 0), [((0, 2, 2), ("kafka", "second", "orders", 3))])
    with pytest.raises(RunTogether):
        merge.write_ready()


def test_a_worker_that_ends_without_a_report_is_noticed():
    _, merge, (one, _) = senders(2)
    one.writer.close()
    with pytest.raises(EOFError):
        merge.lanes[0].receive(one.reader)


@pytest.mark.parametrize("seed", range(20))
def test_lines_that_a_sink_keeps_waiting_belong_to_the_items_that_they_are_of(seed):
    random = Random(seed)
    lines, held, frames = LineCollector(), [], []
    for number in range(60):
        held += [f"{number}\n".encode()] * random.randrange(5)
        written = random.choice((0, len(held), random.randrange(len(held) + 1)))
        lines.write(b"".join(held[:written]))
        del held[:written]
        lines.mark((0, number, 0), len(held))
        if not random.randrange(8):
            lines.write(b"".join(held))
            held.clear()
            lines.mark((0, number, 1))
            frames.append(lines.drain())
    lines.write(b"".join(held))
    lines.mark((0, 60, 0))
    for items, text in [*frames, lines.drain()]:
        columns, start = np.frombuffer(items, np.int64).reshape(-1, 4).tolist(), 0
        for _, number, _, stop in columns:
            assert set(text[start:stop].split()) == {str(number).encode()}
            start = stop
        assert start == len(text)
