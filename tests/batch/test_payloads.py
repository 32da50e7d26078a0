"""Payloads in files of this machine: what is stored comes back, and what is gone fails the task."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from batchrows import PCAPS, committed, decoded, differing
from inprocess import InProcess

from mqsniff.batch import payloads
from mqsniff.batch.driver import run_job
from mqsniff.batch.payloads import STORED_MIN, PayloadError, PayloadReader, PayloadWriter

LARGE = bytes(range(256)) * (STORED_MIN // 256)
FOLDER, CAPTURE = PCAPS / "kafka", "lab-kafka-4.4.0-cluster.pcap"


def test_large_payloads_come_back_and_small_ones_stay_in_their_rows(tmp_path: Path) -> None:
    with PayloadWriter(str(tmp_path), "1") as writer:
        assert writer.store(LARGE[:-1]) is None
        assert list(tmp_path.iterdir()) == []
        first, second = writer.store(LARGE), writer.store(memoryview(LARGE + b"more"))
    assert first is not None
    assert second is not None
    assert Path(tmp_path / "1").stat().st_mode & 0o777 == 0o600
    with PayloadReader() as reader:
        assert (reader.read(second), reader.read(first)) == (LARGE + b"more", LARGE)


@pytest.mark.parametrize("folder", ["", "/nowhere"], ids=["none", "one that workers do not have"])
def test_without_a_folder_all_payloads_stay_in_their_rows(folder: str) -> None:
    with PayloadWriter(folder, "1") as writer:
        assert writer.store(LARGE) is None


def test_a_task_reads_more_files_than_it_may_have_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "OPEN_MAX", 2)
    pointers = []
    for number in range(5):
        with PayloadWriter(str(tmp_path), str(number)) as writer:
            pointers.append(writer.store(LARGE + bytes([number])))
    with PayloadReader() as reader:
        for number in (0, 1, 2, 0, 4, 3, 3, 1):
            pointer = pointers[number]
            assert pointer is not None
            assert reader.read(pointer) == LARGE + bytes([number])
        assert len(reader._files) == 2


def test_a_payload_that_is_gone_or_cut_fails_the_task(tmp_path: Path) -> None:
    with PayloadWriter(str(tmp_path), "1") as writer:
        pointer = writer.store(LARGE)
    assert pointer is not None
    os.truncate(tmp_path / "1", STORED_MIN - 1)
    with PayloadReader() as reader, pytest.raises(PayloadError, match="shorter"):
        reader.read(pointer)
    (tmp_path / "1").unlink()
    with PayloadReader() as reader, pytest.raises(PayloadError, match="No such file"):
        reader.read(pointer)


def test_a_payload_that_cannot_be_written_fails_the_task(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(b"of another attempt")
    with PayloadWriter(str(tmp_path), "1") as writer, pytest.raises(PayloadError, match="File exists"):
        writer.store(LARGE)


def test_rows_are_the_same_with_payloads_in_files(tmp_path: Path) -> None:
    stored = tmp_path / "payloads"
    stored.mkdir()
    run_job(InProcess(str(stored)), [str(FOLDER / CAPTURE)], str(tmp_path / "out"))
    assert list(stored.iterdir())
    expected = decoded(FOLDER, [CAPTURE], tmp_path / "decode")
    assert differing(expected, committed(tmp_path / "out")) == {}
