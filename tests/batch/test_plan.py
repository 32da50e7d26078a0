"""Plan: files in decode's order and numbers, splits that hold every byte once."""

import gzip
import json
import random

import capturecraft as craft
import pytest
from segmentrows import Run, plain
from tinycapture import ip_tcp

from mqsniff.batch.inputs import InputError, Location, list_inputs
from mqsniff.batch.plan import InputFile, PieceMaker, ScanOptions, plan, split_size_of
from mqsniff.filters.packetfilter import PacketFilter
from mqsniff.sources.files import FileSource
from mqsniff.sources.parsers import Head

S = 10**9


def capture(first_ns, count=10, size=400):
    packets = [(first_ns + n * S, ip_tcp((40_000, 4150), n * size, 0, 0x18, bytes(size))) for n in range(count)]
    return craft.pcap(packets, linktype=101)


@pytest.fixture
def archive(tmp_path):
    chance = random.Random(3)
    for number in range(12):
        folder = tmp_path / f"site{number % 3}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.pcap").write_bytes(capture(chance.randrange(5) * S, number))
    (tmp_path / "bad.pcap").write_text("no capture")
    return tmp_path


def planned(folder, **options):
    return plan(list_inputs([str(folder)]), ScanOptions(**options))


def test_files_are_numbered_and_named_as_decode_does_in_their_folder(archive, monkeypatch):
    monkeypatch.chdir(archive)
    source = FileSource([str(path.relative_to(archive)) for path in archive.rglob("*.pcap")])
    assert sum(map(len, source.batches())) == sum(range(12))
    files = planned(archive).files
    assert [(file.index, file.name) for file in files] == [(info.index, info.name) for info in source.captures]
    assert [file.name for file in sorted(files, key=lambda file: file.rank)] == sorted(file.name for file in files)


@pytest.mark.parametrize("split_size", [200, 1000, 5000, 1 << 20])
def test_pieces_hold_every_byte_of_every_file_once(archive, split_size):
    whole = planned(archive, split_size=split_size)
    spans = {}
    for split in whole.splits:
        for piece in split.pieces:
            file = whole.files[piece.file]
            spans.setdefault(file.name, []).append((piece.start, file.size if piece.stop is None else piece.stop))
    assert spans.keys() == {file.name for file in whole.files if file.status == "ok"}
    for name, found in spans.items():
        found.sort()
        assert found[0][0] == 0
        assert found[-1][1] == (archive / name).stat().st_size
        assert [start for start, _ in found[1:]] == [stop for _, stop in found[:-1]]
    assert sum(split.size for split in whole.splits) == sum(file.size for file in whole.files if file.status == "ok")
    assert all(split.size <= split_size for split in whole.splits)


def test_small_files_share_a_split_and_compressed_ones_count_as_what_they_become(tmp_path):
    for number in range(8):
        (tmp_path / f"{number}.pcap").write_bytes(capture(number))
        (tmp_path / f"{number}.pcap.gz").write_bytes(gzip.compress(capture(10**12 + number), 0))
    size = len(capture(0))
    whole = planned(tmp_path, split_size=4 * size)
    assert [len(split.pieces) for split in whole.splits][:2] == [4, 4]
    assert [len(split.pieces) for split in whole.splits][2:] == [1] * 8


def test_a_domain_pattern_that_is_none_is_an_error(archive):
    with pytest.raises(InputError, match=r"--domain: '\(' is not a regular expression"):
        planned(archive, domain="(")


def test_flows_of_different_domains_are_different_flows(archive):
    together, apart = Run([archive], 1000), Run([archive], 1000, domain="folder")
    assert {domain for domain, _ in together.rows_by_flow()} == {""}
    assert {domain for domain, _ in apart.rows_by_flow()} == {"site0", "site1", "site2"}
    assert sorted(row for rows in apart.rows_by_flow().values() for row in rows) == sorted(together.rows())


def test_what_an_earlier_run_took_is_left_out_and_the_names_stay(archive):
    listed = list_inputs([str(archive)])
    taken = [file.uri for file in listed if "/site0/" in file.uri or "/site1/" in file.uri or "bad" in file.uri]
    rest = plan(listed, done=taken)
    assert rest.done == tuple(sorted(taken))
    assert {file.name for file in rest.files} == {f"site2/{number}.pcap" for number in (2, 5, 8, 11)}
    assert [file.index for file in rest.files] == list(range(4))


def test_a_file_that_begins_behind_the_time_span_is_skipped(archive):
    whole = planned(archive, packet_filter=PacketFilter(to_ns=2 * S))
    skipped = [file for file in whole.files if file.status == "skipped"]
    assert skipped
    assert all(file.first_ns >= 2 * S for file in skipped)
    assert not {piece.file for split in whole.splits for piece in split.pieces} & {file.index for file in skipped}


def test_a_plan_is_plain_data_without_credentials(archive):
    listed = [
        file._replace(location=file.location._replace(store="file://USER:SECRET@/"))
        for file in list_inputs([str(archive / "bad.pcap")])
    ]
    text = json.dumps(plan(listed).as_dict())
    assert "SECRET" not in text
    assert json.loads(text)["files"][0]["name"] == "bad.pcap"
    assert "SECRET" not in repr(plan(listed))


def test_one_file_is_called_by_its_last_name(archive):
    run = Run([archive / "site1" / "7.pcap"])
    assert run.prefix.files[0].name == "7.pcap"
    assert run.prefix.captures()[0].name == "7.pcap"
    assert run.rows() == plain([archive / "site1" / "7.pcap"])[0]


# ---- pieces and splits

MIB = 1 << 20


def a_file(index: int, size: int, *, compression: str = "", heads: int = 1) -> InputFile:
    found = tuple(Head(at, b"") for at in range(heads))
    return InputFile(index, index, f"{index}", "", Location(""), size, None, compression=compression, heads=found)


def shown(splits):
    """(number, size, [(piece, file, start, stop, whether a record begins there)]) of each split."""
    return [
        (
            split.number,
            split.size,
            [(each.number, each.file, each.start, each.stop, each.is_exact) for each in split.pieces],
        )
        for split in splits
    ]


def test_a_large_file_is_cut_into_equal_pieces_of_which_the_first_begins_at_a_record():
    assert shown(PieceMaker(40, 5, 7).cut(a_file(2, 100), 10)) == [
        (7, 30, [(5, 2, 10, 40, True)]),
        (8, 30, [(6, 2, 40, 70, False)]),
        (9, 30, [(7, 2, 70, None, False)]),
    ]
    (first, second) = PieceMaker(50).cut(a_file(2, 100), 0, 9)
    assert [each.pieces[0].last_ns for each in (first, second)] == [9, 0]
    assert shown(PieceMaker(100).cut(a_file(2, 100), 0)) == [(0, 100, [(0, 2, 0, None, True)])]
    assert shown(PieceMaker(99).cut(a_file(2, 100), 0)) == [
        (0, 50, [(0, 2, 0, 50, True)]),
        (1, 50, [(1, 2, 50, None, False)]),
    ]
    assert shown(PieceMaker(40).cut(a_file(2, 100), 100)) == [(0, 0, [(0, 2, 100, None, True)])]


def test_small_files_are_packed_up_to_the_size_of_a_split():
    whole = (0, None, True)
    files = [a_file(0, 10), a_file(1, 20), a_file(2, 10), a_file(3, 30)]
    maker = PieceMaker(40)
    assert shown(maker.whole(files)) == [
        (0, 40, [(0, 0, *whole), (1, 1, *whole), (2, 2, *whole)]),
        (1, 30, [(3, 3, *whole)]),
    ]
    assert (maker.next_piece, maker.next_split) == (4, 2)


@pytest.mark.parametrize(
    ("file", "pieces"),
    [
        (a_file(0, 41), 2),
        (a_file(0, 40), 1),
        (a_file(0, 41, heads=0), 1),
        (a_file(0, 41, compression="gzip"), 1),
    ],
)
def test_a_plain_file_with_a_known_head_is_cut_if_it_is_larger_than_a_split(file, pieces):
    assert sum(len(split.pieces) for split in PieceMaker(40).whole([file])) == pieces


def test_compressed_files_count_fourfold_where_they_are_packed():
    files = [a_file(number, 10, compression="gzip") for number in range(3)]
    assert [(split.size, len(split.pieces)) for split in PieceMaker(80).whole(files)] == [(20, 2), (10, 1)]
    assert [(split.size, len(split.pieces)) for split in PieceMaker(79).whole(files)] == [(10, 1)] * 3


def test_a_split_holds_a_thousand_files_at_most():
    files = [a_file(number, 1) for number in range(1001)]
    assert [len(split.pieces) for split in PieceMaker(MIB).whole(files)] == [1000, 1]


@pytest.mark.parametrize(
    ("size", "cores", "split"),
    [
        (0, 2, 4 * MIB),
        (32 * MIB, 2, 4 * MIB),
        (32 * MIB + 1, 2, 4 * MIB + 1),
        (80 * MIB, 2, 10 * MIB),
        (1024 * MIB, 2, 128 * MIB),
        (4096 * MIB, 2, 128 * MIB),
    ],
)
def test_splits_keep_all_cores_busy_and_are_neither_tiny_nor_huge(size, cores, split):
    assert split_size_of(size, cores) == split


@pytest.mark.parametrize(("split_size", "reach"), [(800, 100), (1 << 30, 262_144 + 64)])
def test_the_reach_of_a_cut_is_less_where_splits_are_small(split_size, reach):
    assert ScanOptions(split_size=split_size).reach == reach


def test_heads_before_an_offset_are_those_that_begin_before_it():
    file = a_file(0, 100, heads=3)
    assert [head.offset for head in file.heads_before(2)] == [0, 1]


def test_where_one_unreadable_file_is_an_error_it_is_named(archive):
    with pytest.raises(InputError, match=r"bad\.pcap: "):
        planned(archive, fail_fast=True)


def test_pieces_and_captures_go_on_from_those_of_the_runs_before(archive):
    whole = planned(archive, first_piece=100)
    pieces = [piece.number for split in whole.splits for piece in split.pieces]
    assert pieces == list(range(100, 100 + len(pieces)))
    assert (whole.next_piece, whole.next_split) == (100 + len(pieces), len(whole.splits))
    assert whole.size == sum(split.size for split in whole.splits)
