"""The progress bar: there when it helps, gone when it would disturb."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from mqsniff.batch.job import JobStage
from mqsniff.cli import progress
from mqsniff.cli.progress import Progress, SparkProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def talk(monkeypatch, *, patience=0.0, stdout=io.StringIO, stderr=Terminal, total=4 << 20):
    """What stderr got from a run that reads 4 MiB."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "PATIENCE_S", patience)
    monkeypatch.setattr(sys, "stdout", stdout())
    monkeypatch.setattr(sys, "stderr", written := stderr())
    with Progress() as bar:
        bar(1 << 20, total)
        bar(4 << 20, total)
    monkeypatch.undo()
    return written.getvalue()


def test_a_long_run_shows_how_far_it_is(monkeypatch):
    assert "4.2/4.2 MB" in talk(monkeypatch)


def test_an_input_of_unknown_length_shows_what_was_read(monkeypatch):
    assert "4.2/? MB" in talk(monkeypatch, total=None)


def test_a_short_run_shows_nothing(monkeypatch):
    assert talk(monkeypatch, patience=60) == ""


@pytest.mark.parametrize("streams", [{"stdout": Terminal}, {"stderr": io.StringIO}])
def test_a_bar_never_disturbs_output_or_a_log(monkeypatch, streams):
    assert talk(monkeypatch, **streams) == ""


def job_talk(monkeypatch, stage: JobStage, *, done: int, tasks: int) -> str:
    """What stderr got of a stage of which a Spark Connect server says how many tasks are done."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", written := Terminal())
    told = []
    with SparkProgress() as bar:
        bar.watch(SimpleNamespace(registerProgressHandler=told.append))
        bar.begin(stage)
        told[0]([SimpleNamespace(num_completed_tasks=done, num_tasks=tasks)])
    monkeypatch.undo()
    return written.getvalue()


def test_a_stage_of_a_job_shows_how_many_of_its_bytes_are_done(monkeypatch):
    assert "about 12/48 MB" in job_talk(monkeypatch, JobStage("scanning 48 MB in 3 files", 48_000_000), done=2, tasks=8)


def test_a_stage_whose_work_is_not_bytes_shows_its_tasks(monkeypatch):
    assert "2/8 tasks" in job_talk(monkeypatch, JobStage("finishing 8 parts"), done=2, tasks=8)


def test_a_stage_of_a_job_shows_no_figures_of_the_one_before(monkeypatch):
    assert "MB" not in job_talk(monkeypatch, JobStage("publishing"), done=0, tasks=0)
