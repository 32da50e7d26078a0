"""``mqsniff live``: what happens around the source."""

from __future__ import annotations

import signal

import pytest
from click.testing import CliRunner

from mqsniff.cli import main
from mqsniff.cli.live import command, stopped_by_signal
from mqsniff.cli.liverun import LIVE_LIMITS, bounded
from mqsniff.cli.signals import ended_by_sigterm
from mqsniff.limits import Limits


class Tap:
    """A source that counts how often it was told to stop."""

    stops = 0

    def stop(self):
        self.stops += 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_the_capture_and_the_second_the_program(number):
    before = signal.getsignal(number)
    tap = Tap()
    with stopped_by_signal(tap), ended_by_sigterm():
        signal.raise_signal(number)
        assert tap.stops == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert tap.stops == 1
    assert signal.getsignal(number) is before


def test_an_interface_that_is_not_there_is_one_line_and_exit_2():
    done = CliRunner().invoke(main, ["live", "-i", "no-such-interface"])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "no-such-interface" in done.stderr


def test_values_of_closed_lists_are_refused_before_anything_is_captured():
    done = CliRunner().invoke(main, ["live", "-i", "no-such-interface", "--protocol", "kafak"])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "no protocol 'kafak', did you mean kafka?" in done.stderr


def test_a_command_that_no_protocol_has_is_told():
    done = CliRunner().invoke(main, ["live", "-i", "no-such-interface", "--name", "Fecht"])
    assert "mqsniff: --name Fecht: no command has this name, did you mean Fetch?" in done.stderr


def test_no_two_options_of_live_fill_the_same_parameter():
    names = [param.name for param in command.params]
    assert len(names) == len(set(names))


def test_live_has_smaller_bounds_unless_the_user_chose_others():
    assert bounded(Limits()).connections_max == LIVE_LIMITS["connections_max"]
    chosen = Limits().with_value("connections_max", 77)
    assert bounded(chosen).connections_max == 77
    assert bounded(chosen).topics_max == LIVE_LIMITS["topics_max"]


def test_interfaces_are_listed():
    done = CliRunner().invoke(main, ["live", "--list"])
    assert done.exit_code == 0
    assert {"any", "lo"} <= {line.split()[0] for line in done.stdout.splitlines()}


def test_a_hangup_rotates_where_something_can_and_else_ends_the_capture():
    before = signal.getsignal(signal.SIGHUP)
    tap, rotated = Tap(), []
    with stopped_by_signal(tap, [lambda: rotated.append("packets"), lambda: rotated.append("rows")]):
        signal.raise_signal(signal.SIGHUP)
    assert (tap.stops, rotated) == (0, ["packets", "rows"])
    with stopped_by_signal(tap):
        signal.raise_signal(signal.SIGHUP)
    assert tap.stops == 1
    assert signal.getsignal(signal.SIGHUP) is before


def test_nohup_stays_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    tap = Tap()
    try:
        with stopped_by_signal(tap):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert tap.stops == 0
