"""A landing folder that is followed: what is taken when, and what happens where a run fails."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from batchrows import PCAPS, committed, differing, rotated
from inprocess import InProcess

from mqsniff.batch.commit import CommitError
from mqsniff.batch.driver import IsReady, run_job
from mqsniff.batch.follow import PAUSE_MAX_S, FollowEvent, FollowFailed, FollowLeft, Landing, follow
from mqsniff.batch.inputs import InputError, list_inputs
from mqsniff.batch.job import JobOptions, JobReport
from mqsniff.tables.hashkey import HashKey

KEY = HashKey(b"a key of a test, 32 bytes long ..")


@pytest.fixture
def pieces(tmp_path: Path) -> list[Path]:
    (tmp_path / "pieces").mkdir()
    rotated(PCAPS / "nsq" / "nsq-1.3.0-go-req-touch.pcap", tmp_path / "pieces", 4)
    return sorted((tmp_path / "pieces").iterdir())


class Clock:
    """Time that passes when somebody waits; the steps of a test come one after each wait."""

    def __init__(self, steps: Iterable[Callable[[], object]]) -> None:
        self.now = 0.0
        self.waited: list[float] = []
        self._steps = iter(steps)

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self.waited.append(seconds)
        step = next(self._steps, None)
        if step is not None:
            step()
        return step is not None


def nothing() -> None:
    """A step in which only time passes."""


def followed(
    landing: Path, out: Path, clock: Clock, run: Callable[[IsReady], JobReport] | None = None, **options: Any
) -> list[FollowEvent]:
    """What happens to a landing folder while a clock runs; files settle in 10 seconds, looks are 5 apart."""

    def decode(ready: IsReady) -> JobReport:
        given = JobOptions(append=True, hash_key=KEY, partitions=2, **options)
        return run_job(InProcess(), [str(landing)], str(out), given, ready=ready)

    retried = (InputError, ConnectionError)
    some = Landing(10, clock)
    return list(
        follow(run or decode, [str(landing)], str(out), some, wait=clock.wait, poll_s=5, retried=retried)
    )  # fmt: skip


def arrives(file: Path, landing: Path) -> Callable[[], object]:
    return lambda: shutil.copyfile(file, landing / file.name)


def test_what_arrives_is_decoded_once_and_gives_the_rows_of_one_run(pieces: list[Path], tmp_path: Path) -> None:
    landing, out = tmp_path / "landing", tmp_path / "out"
    landing.mkdir()
    steps = [step for file in pieces for step in (arrives(file, landing), nothing, nothing, nothing)]
    events = followed(landing, out, Clock(steps))
    assert [event.files for event in events if isinstance(event, JobReport)] == [1, 1, 1, 1]
    assert followed(landing, out, Clock([nothing] * 4)) == []
    run_job(InProcess(), map(str, pieces), str(tmp_path / "one"), JobOptions(hash_key=KEY))
    assert not differing(committed(tmp_path / "one", hashes=True), committed(out, hashes=True))


def test_a_file_that_grows_is_left_alone_until_it_rests(pieces: list[Path], tmp_path: Path) -> None:
    landing, out = tmp_path / "landing", tmp_path / "out"
    landing.mkdir()
    data = pieces[0].read_bytes()

    def grow() -> None:
        with (landing / "x.pcap").open("ab") as file:
            size = (landing / "x.pcap").stat().st_size
            file.write(data[size : size + len(data) // 3 + 1])

    clock = Clock([grow, grow, grow, nothing, nothing, nothing, nothing])
    [report] = followed(landing, out, clock)
    assert isinstance(report, JobReport)
    assert report.bytes == len(data)


def test_files_that_were_there_before_are_taken_at_once(pieces: list[Path], tmp_path: Path) -> None:
    for file in pieces:
        os.utime(file, (1_700_000_000, 1_700_000_000))
    [report] = followed(tmp_path / "pieces", tmp_path / "out", Clock([]))
    assert isinstance(report, JobReport)
    assert report.files == len(pieces)


@pytest.mark.parametrize("others", [True, False])
def test_a_file_that_cannot_be_read_is_named_once_until_it_changes(
    pieces: list[Path], tmp_path: Path, others: bool
) -> None:
    broken = tmp_path / "pieces" / "broken.pcap"
    broken.write_bytes(b"no capture")
    for file in pieces if not others else ():
        file.unlink()

    def mend() -> None:
        shutil.copyfile(PCAPS / "nsq" / "nsq-1.3.0-auth.pcap", broken)

    events = followed(tmp_path / "pieces", tmp_path / "out", Clock([nothing] * 6 + [mend] + [nothing] * 4))
    first, second = events
    why = "not a capture (text); expected pcap or pcapng"
    assert isinstance(second, JobReport)
    assert (second.files, second.unreadable) == (1, [])
    if isinstance(first, JobReport):
        assert first.unreadable == [(str(broken), why)]
    assert others or first == FollowLeft(f"{broken}: {why}")


def test_a_file_that_changes_after_it_was_decoded_is_named_and_its_rows_stay(
    pieces: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def change() -> None:
        pieces[0].write_bytes(pieces[1].read_bytes())

    events = followed(tmp_path / "pieces", out, Clock([nothing] * 3 + [change] + [nothing] * 5))
    assert [type(event) for event in events] == [JobReport, FollowLeft]
    assert events[1] == FollowLeft(f"{pieces[0]}: changed after it was decoded; its rows stay as they are")


def test_a_run_that_fails_is_tried_again_after_longer_and_longer_pauses(pieces: list[Path], tmp_path: Path) -> None:
    clock = Clock([nothing] * 12)

    def fail(_: IsReady) -> JobReport:
        raise ConnectionError("the cluster is gone")

    for file in pieces:
        os.utime(file, (1_700_000_000, 1_700_000_000))
    events = followed(tmp_path / "pieces", tmp_path / "out", clock, fail)
    assert all(isinstance(event, FollowFailed) for event in events)
    assert clock.waited[:4] == [10, 20, 40, 80]
    assert max(clock.waited) == PAUSE_MAX_S


def test_a_folder_that_cannot_be_continued_ends_the_job(pieces: list[Path], tmp_path: Path) -> None:
    (tmp_path / "out" / "messages").mkdir(parents=True)
    (tmp_path / "out" / "messages" / "foreign.parquet").write_bytes(b"x")
    for file in pieces:
        os.utime(file, (1_700_000_000, 1_700_000_000))
    with pytest.raises(CommitError, match="another program"):
        followed(tmp_path / "pieces", tmp_path / "out", Clock([nothing]))


def test_an_empty_landing_folder_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    assert followed(tmp_path / "landing", tmp_path / "out", Clock([nothing] * 3)) == []


def test_names_that_are_no_text_are_decoded_once(pieces: list[Path], tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    odd = os.fsencode(tmp_path / "landing") + b"/caf\xe9.pcap"
    shutil.copyfile(pieces[0], odd)
    os.utime(odd, (1_700_000_000, 1_700_000_000))
    assert len(list_inputs([str(tmp_path / "landing")])) == 1
    events = followed(tmp_path / "landing", tmp_path / "out", Clock([nothing] * 4))
    assert [event.files for event in events if isinstance(event, JobReport)] == [1]
