"""The progress bar: there when it helps, gone when it would disturb."""

from __future__ import annotations

import io
import sys

import pytest

from mqsniff.cli import progress
from mqsniff.cli.progress import Progress


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
