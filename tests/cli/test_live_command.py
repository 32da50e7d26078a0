"""``mqsniff live``: what happens around the source."""

from __future__ import annotations

import signal

import pytest
from click.testing import CliRunner

from mqsniff.cli import main
from mqsniff.cli.live import stopped_by_ctrl_c


class Tap:
    """A source that counts how often it was told to stop."""

    stops = 0

    def stop(self):
        self.stops += 1


def test_the_first_ctrl_c_ends_the_capture_and_the_second_the_program():
    before = signal.getsignal(signal.SIGINT)
    tap = Tap()
    with stopped_by_ctrl_c(tap):
        signal.raise_signal(signal.SIGINT)
        assert tap.stops == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert tap.stops == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interface_that_is_not_there_is_one_line_and_exit_2():
    done = CliRunner().invoke(main, ["live", "-i", "no-such-interface"])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "no-such-interface" in done.stderr
