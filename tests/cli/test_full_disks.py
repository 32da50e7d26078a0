"""A disk that is full while a command writes: one line, exit code 2, and no half of a file under its final name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from builds import PLACE
from terminal import COMMAND
from tinycapture import INVALID, NSQ, conversation, pcap

LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000)); "
MANY = [step for _ in range(40) for step in (("c", b"PUB retry\n\0\0\0\x05hello"), ("s", INVALID))]


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.pcap"
    path.write_bytes(pcap(conversation([*NSQ, *MANY])))
    return path


def run(*arguments, before="", **options):
    environment = os.environ | {"PYTHONPATH": PLACE, "PYTHONUNBUFFERED": "1"}
    command = [COMMAND[0], "-c", before + COMMAND[2], *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, env=environment, **options)


EVERYTHING = [
    ["decode", "-o", "text"],
    ["decode", "-o", "ndjson"],
    ["decode", "-o", "csv", "--table", "messages"],
    ["stats", "--json"],
    ["stats", "--all"],
    ["trace", "--connection", "c1"],
    ["trace", "--connection", "c1", "--json"],
    ["sql", "{sample}", "from messages", "-o", "csv"],
    ["sql", "{sample}", "from messages", "-o", "json"],
]


@pytest.mark.parametrize("arguments", EVERYTHING, ids=" ".join)
def test_a_disk_that_takes_a_part_of_stdout_only_is_told(sample, tmp_path, arguments):
    if arguments[0] == "sql":
        folder = tmp_path / "tables"
        assert run("decode", "-q", "-o", "parquet", "--out", folder, sample).returncode == 0
        asked = [argument.format(sample=folder) for argument in arguments]
    else:
        asked = [*arguments, sample]
    with (tmp_path / "out").open("wb") as out:
        done = run(*asked, stdout=out, before=LIMITED.replace("2_000", "700"))
    assert (done.returncode, (tmp_path / "out").stat().st_size) == (2, 700)
    assert "stdout: File too large" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_golden_that_cannot_be_written_is_named_and_leaves_no_draft(sample, tmp_path):
    done = run("check", "--update", sample, before=LIMITED)
    assert (done.returncode, done.stderr) == (
        2,
        f"mqsniff: {sample}.golden.ndjson: File too large\n1 capture: 1 unreadable\n",
    )
    assert list(tmp_path.iterdir()) == [sample]


def test_half_of_a_value_is_not_saved(tmp_path):
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap(conversation([*NSQ, ("c", b"PUB retry\n" + (5_000).to_bytes(4) + bytes(5_000))])))
    done = run("extract", path, "--save", tmp_path / "values", before=LIMITED)
    assert (done.returncode, "File too large" in done.stderr) == (2, True)
    assert {file.stat().st_size for file in (tmp_path / "values").glob("retry-*")} == {5}


@pytest.mark.parametrize("overwrite", [False, True])
def test_half_of_an_extract_is_not_left(sample, tmp_path, overwrite):
    out = tmp_path / "out.pcapng"
    if overwrite:
        out.write_text("old")
    done = run("extract", "--overwrite", "-w", out, sample, before=LIMITED)
    assert (done.returncode, f"{out}: File too large" in done.stderr) == (2, True)
    assert [path.read_text() for path in tmp_path.glob("out*")] == ["old"] * overwrite
    assert [path for path in tmp_path.iterdir() if path not in (out, sample)] == []


def test_a_private_folder_on_a_full_disk_goes_all_the_same(sample, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    done = run("sql", sample, "from messages", before=LIMITED)
    assert (done.returncode, "File too large" in done.stderr) == (2, True)
    assert list(temporary.iterdir()) == []


def test_a_capture_that_shrinks_or_grows_while_it_is_read_is_cut_or_whole(tmp_path):
    from mqsniff.limits import Limits
    from mqsniff.sources.files import FileSource

    content = pcap([b"E" * 60_000 for _ in range(40)])
    path = tmp_path / "x.pcap"
    for change, packets in ((lambda file: file.truncate(1_000_000), 16), (lambda file: file.write(content[24:]), 80)):
        path.write_bytes(content)
        source = FileSource([str(path)], Limits(window=64 << 10))
        batches = source.batches()
        count = len(next(batches))
        with path.open("r+b") as file:
            file.seek(0, os.SEEK_END)
            change(file)
        count += sum(map(len, batches))
        (capture,) = source.captures
        assert abs(count - packets) <= 5
        assert bool(capture.problems) is (packets == 16)


def test_a_folder_without_rights_is_one_line(sample, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.access(closed, os.W_OK):
        pytest.skip("root may write everywhere")
    for asked in (
        ["decode", "-o", "parquet", "--out", closed / "tables", sample],
        ["extract", "-w", closed / "x.pcapng", sample],
        ["extract", "--save", closed / "values", sample],
        ["sql", sample, "from messages", "-o", "parquet", "--out", closed / "x.parquet"],
    ):
        done = run(*asked)
        assert (done.returncode, "ermission denied" in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    assert list(closed.iterdir()) == []


@pytest.mark.usefixtures("sample")
def test_a_folder_that_cannot_be_listed_is_told(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    if os.access(closed, os.R_OK):
        pytest.skip("root may list everything")
    done = run("decode", "-o", "ndjson", tmp_path, stdout=subprocess.PIPE)
    assert (done.returncode, f"mqsniff: {closed}: permission denied\n" in done.stderr) == (2, True)
    assert '"name":"PUB"' in done.stdout


def test_names_that_look_like_options_are_files(sample, tmp_path):
    odd = tmp_path / "-rf\nx.pcap"
    Path(odd).write_bytes(sample.read_bytes())
    done = run("decode", "-q", "-o", "ndjson", "--", odd.name, stdout=subprocess.PIPE, cwd=tmp_path)
    assert (done.returncode, '"capture":"-rf\\nx.pcap"' in done.stdout) == (0, True)
