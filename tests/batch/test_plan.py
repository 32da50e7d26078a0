"""Plan: files in decode's order and numbers, splits that hold every byte once."""

import gzip
import json
import random

import capturecraft as craft
import pytest
from segmentrows import Run, plain
from tinycapture import ip_tcp

from mqsniff.batch.inputs import InputError, list_inputs
from mqsniff.batch.plan import ScanOptions, plan
from mqsniff.filters.packetfilter import PacketFilter
from mqsniff.sources.files import FileSource

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
