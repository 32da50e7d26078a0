"""Names of captures."""

from __future__ import annotations

import pytest

from mqsniff.answers.captures import captures_under, is_capture_name


@pytest.mark.parametrize("name", ["a.pcap", "a.PCAPNG", "a.cap", "dir/a.pcap.gz", "a.pcapng.zst", "a.pcap.lz4"])
def test_captures_are_known_by_their_names(name):
    assert is_capture_name(name)


@pytest.mark.parametrize("name", ["pcap", "a.pcap.txt", "a.json", "a.pcap.golden.ndjson", "a.gz", "-"])
def test_other_files_are_not(name):
    assert not is_capture_name(name)


def test_folders_are_searched_to_the_bottom_and_named_files_are_taken(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("b.pcap", "deep/er/a.pcapng.gz", "deep/notes.txt", "odd"):
        (tmp_path / name).touch()
    found = captures_under([tmp_path, tmp_path / "deep", tmp_path / "odd"])
    assert [str(path.relative_to(tmp_path)) for path in found] == ["b.pcap", "deep/er/a.pcapng.gz", "odd"]
