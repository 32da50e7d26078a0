"""Captures cut at any size: never a wrong row, whatever the payloads hold, and it is the check that sees to it."""

import hostilecraft
import pytest
from segmentrows import Run, plain

from mqsniff.batch import prefix

SIZES = (400, 700, 1500, 4000, 9000)
MAKERS = {
    f"{make.__name__.partition('_')[0]}, {'sloppy' if sloppy else 'neat'}": (make, sloppy)
    for make in (hostilecraft.pcap_capture, hostilecraft.pcapng_capture)
    for sloppy in (False, True)
}
every_hostile_capture = pytest.mark.parametrize("kind", MAKERS)
misleading = pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "pcapng, neat"])
"""Two lengths that agree are hard to feign."""


def captures(kind, folder, count=6):
    make, sloppy = MAKERS[kind]
    for seed in range(count):
        path = folder / f"{seed}.cap"
        path.write_bytes(make(seed, sloppy=sloppy))
        yield path


@every_hostile_capture
def test_no_cut_changes_a_segment_of_a_capture_in_whose_payloads_captures_are(kind, tmp_path):
    for path in captures(kind, tmp_path):
        rows, problems, (info,), _ = plain([path])
        assert len(rows) == 60
        for size in SIZES:
            run = Run([path], size)
            assert run.rows() == rows
            assert run.problems() == problems
            assert [noticed.problem.detail for noticed in run.prefix.problems] == [
                each.detail for each in info.problems
            ]


@misleading
def test_without_the_check_the_same_captures_give_wrong_segments(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(prefix, "_fits", lambda _piece, report, _end, _heads: report.begin is not None)
    wrong = sum(Run([path], size).rows() != plain([path])[0] for path in captures(kind, tmp_path) for size in SIZES)
    assert wrong > 0


@misleading
def test_a_capture_that_fails_the_check_is_read_on_from_the_last_place_that_is_proven(kind, tmp_path):
    rounds = set()
    for path in captures(kind, tmp_path):
        run = Run([path], 1500)
        rounds.add(run.rounds)
        reports = {report.piece: report for report in run.reports}
        counted = [reports[piece.number] for split in run.plan.splits for piece in split.pieces]
        counted.sort(key=lambda report: report.begin)
        assert [report.begin for report in counted[1:]] == [report.end for report in counted[:-1]]
        assert (counted[0].begin, counted[-1].end) == (0, path.stat().st_size)
    assert max(rounds) > 1
