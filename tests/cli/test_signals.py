"""Signals that come where Python drops the exceptions of callbacks: they end a run like all others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mqsniff.cli import main
from mqsniff.cli.signals import Terminated, ended_by_sigterm, raise_dropped_again, undivided

SAMPLE = next(Path("pcaps").glob("nsq*/*.pcap"))
WHILE_IMPORTING = """
import os, signal, sys

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "mqsniff.lockedsql.database":
            Dropped()

sys.meta_path.insert(0, Finder())
from mqsniff.__main__ import run
run()
"""
"""The command, with a Ctrl-C while a callback runs that belongs to an import: what importlib's own callbacks do."""


class Dropped:
    """Gets a signal while a destructor runs."""

    def __init__(self, number: signal.Signals, times: int = 1) -> None:
        self._number = number
        self._times = times

    def __del__(self) -> None:
        if self._times > 1:
            Dropped(self._number, self._times - 1)
        signal.raise_signal(self._number)


@pytest.fixture
def hook():
    """Dropped exceptions are raised again while a test runs."""
    before = signal.getsignal(signal.SIGALRM)
    known = raise_dropped_again()
    yield
    sys.unraisablehook = known
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
@pytest.mark.parametrize("times", [1, 3])
def test_a_signal_that_a_callback_drops_is_raised_again(number, kind, times):
    def run() -> None:
        Dropped(number, times)
        time.sleep(5)

    with ended_by_sigterm(), pytest.raises(KeyboardInterrupt) as raised:
        run()
    assert raised.type is kind


@pytest.mark.usefixtures("hook")
def test_other_dropped_exceptions_go_where_they_went(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    raise_dropped_again()

    class Broken:
        def __del__(self) -> None:
            raise ValueError

    Broken()
    assert [type(dropped.exc_value) for dropped in seen] == [ValueError]


def test_a_ctrl_c_in_a_callback_of_an_import_ends_the_command():
    endless = "select count(*) from range(1000000000000) a, range(1000000) b where a.range % 7 = b.range % 11"
    done = subprocess.run(
        [sys.executable, "-c", WHILE_IMPORTING, "sql", str(SAMPLE), endless],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


def test_a_ctrl_c_while_a_class_is_made_ends_the_command_without_a_traceback(monkeypatch, capsys):
    """Python before 3.12 makes a RuntimeError of it."""

    def importing(_name):
        raise RuntimeError from KeyboardInterrupt()

    monkeypatch.setattr("mqsniff.cli.import_module", importing)
    with pytest.raises(SystemExit) as ended:
        main(["stats", "x.pcap"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_an_undivided_step_ends_before_its_signal_is_raised(number, kind):
    done = []

    def run() -> None:
        with undivided():
            signal.raise_signal(number)
            done.append("step")
        done.append("rest")

    with ended_by_sigterm(), pytest.raises(KeyboardInterrupt) as raised:
        run()
    assert raised.type is kind
    assert done == ["step"]


def test_a_second_signal_ends_an_undivided_step_at_once():
    done = []

    def run() -> None:
        with undivided():
            signal.raise_signal(signal.SIGTERM)
            done.append("first")
            signal.raise_signal(signal.SIGINT)
            done.append("second")

    with ended_by_sigterm(), pytest.raises(KeyboardInterrupt):
        run()
    assert done == ["first"]


def test_a_signal_is_not_lost_where_its_step_fails():
    def run() -> None:
        with undivided():
            signal.raise_signal(signal.SIGTERM)
            raise EOFError

    with ended_by_sigterm(), pytest.raises(Terminated):
        run()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
