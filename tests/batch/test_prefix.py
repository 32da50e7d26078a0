"""Prefix: what happens to files that change, vanish or cannot be read while the job runs."""

import base64
import time

import capturecraft as craft
import pytest
from segmentrows import Run, plain
from tinycapture import ip_tcp

from mqsniff.batch import prefix as prefixes
from mqsniff.batch.inputs import InputError, list_inputs
from mqsniff.batch.plan import ScanOptions, plan
from mqsniff.batch.prefix import Rescan, prefix
from mqsniff.batch.report import PieceReport
from mqsniff.batch.scan import scan
from mqsniff.limits import Limits
from mqsniff.streams.packets import PacketDecoder

S = 10**9
T0 = 1_700_000_000 * S


def packets(count=60, start=T0, size=300):
    return [(start + n * S, ip_tcp((40_000, 4150), n * size, 0, 0x18, bytes([n]) * size)) for n in range(count)]


@pytest.fixture
def three(tmp_path):
    """Three rotated files."""
    for number in range(3):
        data = craft.pcap(packets(start=T0 + number * 100 * S), linktype=101)
        (tmp_path / f"{number}.pcap").write_bytes(data)
    return sorted(tmp_path.iterdir())


def finish(planned, before_scan):
    """A job up to the prefix; what happens to the files after the plan happens in ``before_scan``."""
    before_scan()
    reports, todo = [], planned.splits
    while True:
        for split in todo:
            reports += [item for item in scan(split, planned.files, planned.options) if isinstance(item, PieceReport)]
        result = prefix(planned, reports)
        if not isinstance(result, Rescan):
            return result
        planned, todo = result.plan, result.splits


def planned(paths, **options):
    return plan(list_inputs(map(str, paths)), ScanOptions(split_size=4000, **options))


def test_a_file_that_vanishes_is_told_and_the_others_are_read(three):
    result = finish(planned(three), three[1].unlink)
    assert [(file.name, file.status, file.packets) for file in result.files] == [
        ("0.pcap", "ok", 60),
        ("1.pcap", "unreadable", 0),
        ("2.pcap", "ok", 60),
    ]
    (noticed,) = result.problems
    assert noticed.problem.detail == f"{three[1]}: no such file or directory"
    assert (noticed.problem.kind, noticed.problem.severity, noticed.packet) == ("input", "error", 1 << 40)


def test_a_file_that_is_gone_is_not_looked_for_again(three):
    work = planned(three)
    three[1].unlink()
    scanned = [item for split in work.splits for item in scan(split, work.files, work.options)]
    assert not isinstance(prefix(work, [item for item in scanned if isinstance(item, PieceReport)]), Rescan)


def test_a_file_that_vanishes_between_its_pieces_counts_as_unreadable(three):
    whole = planned(three)
    reports = []
    for split in whole.splits:
        if split.pieces[0].file == 1 and split.pieces[0].start > 8000 and three[1].exists():
            three[1].unlink()
        reports += [item for item in scan(split, whole.files, whole.options) if isinstance(item, PieceReport)]
    result = prefix(whole, reports)
    while isinstance(result, Rescan):
        for split in result.splits:
            reports += [item for item in scan(split, result.plan.files, whole.options) if isinstance(item, PieceReport)]
        result = prefix(result.plan, reports)
    gone = result.files[1]
    assert (gone.status, gone.error) == ("unreadable", "no such file or directory")
    assert [file.packets for file in result.files] == [60, 0, 60]
    assert {
        piece.file for split in whole.splits for piece in split.pieces if piece.number in result.placing.places
    } == {
        0,
        2,
    }


def cut(path):
    path.write_bytes(path.read_bytes()[:-2000])


def grow(path):
    with path.open("ab") as file:
        file.write(b"".join(craft.pcap_record(ts, data) for ts, data in packets()))


def rewrite(path):
    """Put other bytes of the same length there."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def replaced(path):
    path.with_suffix(".new").write_bytes(path.read_bytes())
    path.with_suffix(".new").rename(path)


@pytest.mark.parametrize("change", [cut, grow, rewrite, replaced])
def test_a_file_that_changes_while_the_job_runs_counts_as_unreadable(three, change):
    time.sleep(0.01)  # the clock of file systems ticks as seldom as every four milliseconds
    result = finish(planned(three), lambda: change(three[1]))
    assert [(file.status, file.error, file.packets) for file in result.files] == [
        ("ok", "", 60),
        ("unreadable", "changed since it was listed", 0),
        ("ok", "", 60),
    ]
    (noticed,) = result.problems
    assert noticed.problem.detail == f"{three[1]}: changed since it was listed"


@pytest.mark.usefixtures("three")
def test_files_that_cannot_be_read_have_a_row_and_a_problem(tmp_path):
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "text.pcap").write_text("no capture")
    (tmp_path / "head.pcap").write_bytes(craft.pcap_head())
    result = finish(planned([tmp_path, tmp_path / "gone.pcap"]), lambda: None)
    assert {file.name: (file.status, file.error) for file in result.files if file.status != "ok"} == {
        "empty.pcap": ("unreadable", "not a capture (empty); expected pcap or pcapng"),
        "text.pcap": ("unreadable", "not a capture (text); expected pcap or pcapng"),
        "gone.pcap": ("unreadable", "no such file or directory"),
        "head.pcap": ("empty", ""),
    }
    assert len(result.problems) == 3
    assert [file.name for file in result.files[:3]] == ["0.pcap", "1.pcap", "2.pcap"]


def test_fail_fast_ends_the_job_at_the_first_file_that_cannot_be_read(three, tmp_path):
    (tmp_path / "text.pcap").write_text("no capture")
    with pytest.raises(InputError, match=r"text\.pcap: not a capture"):
        planned([tmp_path], fail_fast=True)
    (tmp_path / "text.pcap").unlink()
    with pytest.raises(InputError, match=r"1\.pcap: no such file"):
        finish(planned([tmp_path], fail_fast=True), three[1].unlink)
    (tmp_path / "1.pcap").write_bytes(craft.pcap(packets(), linktype=101)[:-1])
    with pytest.raises(InputError, match=r"1\.pcap: cut at byte"):
        finish(planned([tmp_path], fail_fast=True), lambda: None)


def test_losses_of_sections_are_counted_as_one_reader_counts_them(tmp_path):
    blocks = []
    for losses in ((3, 9), (70, 2)):
        blocks += [craft.section(), craft.interface(linktype=101), craft.interface(linktype=101)]
        for number, (ts, data) in enumerate(packets(30)):
            dropped = [(4, losses[0].to_bytes(8, "little"))] if number % 10 == 5 else []
            blocks.append(craft.packet(ts // 1000, data, opts=dropped, number=number % 2))
            if number % 12 == 3:
                blocks.append(craft.statistics([(5, number * losses[1])], number=number % 2))
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(blocks))
    expected = plain([path])[2][0].dropped
    assert expected > 100
    for size in (1500, 3000, 8000, 1 << 20):
        assert Run([path], size).prefix.files[0].dropped == expected


def test_secrets_of_all_pieces_reach_their_domain_up_to_the_limit(tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        blocks = [craft.section(), craft.interface(linktype=101)]
        for number, (ts, data) in enumerate(packets(40)):
            blocks.append(craft.packet(ts // 1000, data))
            if number % 10 == 0:
                blocks.append(craft.secrets(0x544C534B, f"{folder}{number:07d}".encode()))
        (tmp_path / folder / "x.pcapng").write_bytes(b"".join(blocks))
    run = Run([tmp_path], 3000, domain="folder")
    assert {domain: [data for _, data in some] for domain, some in run.prefix.secrets.items()} == {
        folder: [f"{folder}{number:07d}".encode() for number in (0, 10, 20, 30)] for folder in "ab"
    }
    few = Run([tmp_path / "a"], 3000, limits=Limits(secrets_max=20))
    assert [data for _, data in few.prefix.secrets[""]] == [b"a0000000", b"a0000010"]
    assert [each.problem.detail for each in few.prefix.problems] == [
        "more decryption secrets than secrets_max; the rest is not kept"
    ]


def test_a_link_type_that_is_not_decoded_is_told_once_a_capture(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.pcap").write_bytes(craft.pcap(packets(), linktype=250))
    run = Run([tmp_path], 2500)
    assert len(run.reports) > 8
    assert [(each.packet, each.problem.detail) for each in run.prefix.problems] == [
        (1, "packets of link type 250 are not decoded"),
        (1 << 40 | 1, "packets of link type 250 are not decoded"),
    ]
    assert [file.status for file in run.prefix.files] == ["ok", "ok"]


def test_more_heads_than_are_kept_make_a_file_one_piece(tmp_path, monkeypatch):
    from mqsniff.sources import parsers

    monkeypatch.setattr(parsers, "HEADS_MAX", 100)
    blocks = [craft.section(), craft.interface(linktype=101)]
    for number, (ts, data) in enumerate(packets(40)):
        blocks += [craft.interface(linktype=101), craft.packet(ts // 1000, data, number=number)]
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(blocks))
    run = Run([path], 3000)
    assert run.rows() == plain([path])[0]
    assert [piece.start for split in run.plan.splits for piece in split.pieces] == [0]


def test_numbers_of_pieces_are_never_given_twice(tmp_path):
    import hostilecraft

    for seed in range(4):
        (tmp_path / f"{seed}.pcap").write_bytes(hostilecraft.pcap_capture(seed, sloppy=True))
    run = Run([tmp_path], 1500)
    assert run.rounds > 1
    numbers = [report.piece for report in run.reports]
    assert len(set(numbers)) == len(numbers)
    assert len(run.bundles) > len(run.counted)


def test_there_are_three_rounds_at_most(three, monkeypatch):
    monkeypatch.setattr(prefixes, "_fits", lambda piece, *_: piece.start == 0)
    run = Run(three, 4000)
    assert run.rounds == prefixes.ROUNDS == 3
    assert [file.status for file in run.prefix.files] == ["damaged"] * 3
    assert all(file.error.endswith("its pieces do not meet") for file in run.prefix.files)


def test_a_report_is_the_same_behind_its_json(tmp_path):
    blocks = [craft.section(), craft.interface(linktype=101), craft.interface(linktype=77), craft.secrets(1, b"\xff\0")]
    blocks += [craft.packet(ts // 1000, data, number=n % 2) for n, (ts, data) in enumerate(packets(9))]
    blocks += [craft.statistics([(5, 7)]), craft.section(), craft.statistics([(5, 7)]), b"x"]
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(blocks))
    whole = planned([path])
    (report,) = (item for item in scan(whole.splits[0], whole.files, whole.options) if isinstance(item, PieceReport))
    assert report.problems
    assert report.once
    assert report.secrets
    assert report.losses.last is not None
    assert PieceReport.from_json(report.to_json()) == report
    assert base64.b64encode(report.heads[0].data) in report.to_json()


def test_a_fault_of_our_own_costs_the_rest_of_its_file_and_not_the_job(three, monkeypatch):
    decode = PacketDecoder.decode

    def faulty(self, batch):
        if int(batch.ts_ns[0]) >= T0 + 130 * S and int(batch.ts_ns[-1]) < T0 + 160 * S:
            raise IndexError("a fault")
        return decode(self, batch)

    monkeypatch.setattr(PacketDecoder, "decode", faulty)
    result = finish(plan(list_inputs(map(str, three)), ScanOptions(Limits(window=1000), 4000)), lambda: None)
    assert [file.status for file in result.files] == ["ok", "damaged", "ok"]
    assert result.files[1].error.endswith(": internal: IndexError: a fault")
    assert 10 < result.files[1].packets < 31
    assert result.segments == sum(file.packets for file in result.files)


def test_comments_of_all_pieces_count_against_their_limit(tmp_path):
    blocks = [craft.section(opts=[(1, b"of the file")]), craft.interface(linktype=101)]
    blocks += [craft.packet(ts // 1000, data, opts=[(1, b"c" * 70)]) for ts, data in packets(40)]
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(blocks))
    for most, told in ((64 + 40 * 70, 0), (64 + 39 * 70, 1), (64 + 38 * 70 + 1, 1), (100, 1)):
        limits = Limits(notes_max=most)
        expected = [problem.detail for problem in plain([path], limits)[2][0].problems]
        assert len(expected) == told
        for size in (2000, 5000, 1 << 20):
            run = Run([path], size, limits=limits)
            assert [each.problem.detail for each in run.prefix.problems] == expected
