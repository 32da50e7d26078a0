"""``mqsniff protocols``: what can be decoded."""

from __future__ import annotations

import json
import re

from click.testing import CliRunner
from terminal import on_terminal

from mqsniff.cli import main
from mqsniff.limits import Limits
from mqsniff.tables.schemas import SCHEMA_VERSION, TABLES


def run(*arguments):
    return CliRunner().invoke(main, ["protocols", *arguments])


def test_nsq_is_covered_whole():
    done = run("nsq")
    assert done.exit_code == 0
    headings = [section.splitlines()[0] for section in done.stdout.split("\n\n")]
    assert set(headings) >= {"12 commands", "3 frame types", "19 errors", "4 nsqlookupd commands", "3 upgrades"}
    assert "MPUB" in done.stdout
    assert "E_TOUCH_FAILED" in done.stdout


def test_the_overview_has_a_line_for_each_protocol():
    lines = run().stdout.splitlines()
    (nsq,) = [line for line in lines if line.startswith("nsq ")]
    assert "4150" in nsq
    assert "12 commands" in nsq


def test_json_tells_versions_tables_and_limits():
    report = json.loads(run("--json").stdout)
    assert report["schema_version"] == SCHEMA_VERSION
    assert list(report["tables"]) == list(TABLES)
    assert report["limits"]["frame_max"]["default"] == Limits().frame_max
    (nsq,) = [entry for entry in report["protocols"] if "nsq" in entry["names"]]
    assert nsq["counts"]["commands"] == 12
    assert len(nsq["commands"]) == 12


def test_a_protocol_that_is_not_there_is_refused():
    done = run("smtp")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "no protocol 'smtp'; there are " in done.stderr


def test_a_terminal_gets_tables_of_its_width():
    done = on_terminal("protocols", "nsq", columns=70)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.shown).splitlines()
    assert done.code == 0
    assert "12 commands" in [line.strip() for line in lines]
    assert max(map(len, lines)) <= 70
