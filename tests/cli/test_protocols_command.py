"""``mqsniff protocols``: what can be decoded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from terminal import on_terminal

from mqsniff.cli import main
from mqsniff.decode.nameable import FOREIGN
from mqsniff.decode.registry import load_dissectors, protocols
from mqsniff.limits import Limits
from mqsniff.model.kinds import PROBLEM_KINDS
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
    done = run("xyzzy")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "no protocol 'xyzzy'; there are " in done.stderr
    assert "no protocol 'kafak', did you mean kafka?" in run("kafak").stderr


@pytest.mark.parametrize("name", protocols(load_dissectors()))
def test_every_value_that_the_column_protocol_may_have_is_answered(name):
    done = run(name)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.strip()
    assert run("--json", name).exit_code == 0


@pytest.mark.parametrize("name", FOREIGN)
def test_a_protocol_that_is_only_named_says_how_it_is_known_and_what_to_do(name):
    shown = run(name).stdout
    assert all(text in shown for text in FOREIGN[name])
    (told,) = json.loads(run("--json", name).stdout)["foreign"]
    assert (told["name"], told["decoded"]) == (name, False)
    assert [line for line in run().stdout.splitlines() if line.split() == [name, *["named,", "not", "decoded"]]]


def test_limits_are_a_table_with_their_ranges_and_what_to_do():
    lines = run("limits").stdout.splitlines()
    assert lines[0] == f"{len(Limits.about())} limits"
    (row,) = [line for line in lines if line.startswith("frame_max ")]
    limit = Limits.about()["frame_max"]
    assert row.split()[1:5] == [str(limit.default), str(limit.least), str(limit.most), "bytes"]
    assert limit.why in row
    assert limit.advice in row


def test_kinds_of_problems_are_a_table_with_what_to_do():
    lines = run("problems").stdout.splitlines()
    assert lines[0] == f"{len(PROBLEM_KINDS)} kinds of problems"
    for kind, about in PROBLEM_KINDS.items():
        (row,) = [line for line in lines if line.startswith(f"{kind} ")]
        assert about.meaning in row
        assert about.advice in row


def test_the_makers_figures_are_shown_on_demand_alone():
    plain, verbose = run("kafka").stdout, run("-v", "kafka").stdout
    for word in ("oracles", "coverage", "kafka-python"):
        assert word not in plain
        assert word in verbose
    assert "oracles" not in run().stdout
    assert "11 oracles" in run("--verbose").stdout
    (kafka,) = [entry for entry in json.loads(run("--json").stdout)["protocols"] if "kafka" in entry["names"]]
    assert kafka["oracles"]
    assert kafka["apis"][0]["oracles"]


def test_json_has_everything():
    report = json.loads(run("--json").stdout)
    assert {row["kind"] for row in report["kinds_of_problems"]} == {*PROBLEM_KINDS}
    assert report["problem_kinds"] == [*PROBLEM_KINDS]
    assert {entry["name"] for entry in report["foreign"]} == {*FOREIGN}
    assert report["limits"]["frame_max"]["least"] == Limits.about()["frame_max"].least


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", ["", "kafka", "rocketmq", "limits", "problems", "http2"])
def test_every_table_fits_a_terminal_and_breaks_no_word(name, columns):
    done = on_terminal("protocols", *([name] if name else []), columns=columns)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.shown).splitlines()
    assert done.code == 0
    assert max(map(len, lines)) <= columns
    words = {word for line in run(*([name] if name else [])).stdout.splitlines() for word in line.split()}
    shown = {word for line in lines for word in line.split()}
    heads = {"key", "number", "topic", "limit", "answer"}  # columns that head a block without their name
    assert {word for word in words - shown if len(word) < columns // 2} <= heads


def test_what_captures_exercise_is_counted_and_what_they_do_not_is_named(tmp_path):
    sample = Path(__file__).parents[2] / "pcaps" / "nsq" / "nsq-1.3.0-raw-errors.pcap"
    done = run("nsq", "--seen", str(sample))
    assert done.exit_code == 0
    (codes,) = (line.split() for line in done.stdout.splitlines() if line.startswith("nsq ") and " codes " in line)
    assert codes[3:5] == ["of", "19"]
    listed = json.loads(run("nsq", "--json", "--seen", str(sample)).stdout)
    assert {"protocol", "what", "seen", "unseen", "other"} == set(listed[0])
    assert re.search(r"^nsq +codes +E_INVALID +\d+$", run("nsq", "-v", "--seen", str(sample)).stdout, re.MULTILINE)
    empty = run("--seen", str(tmp_path))
    assert (empty.exit_code, empty.stderr) == (2, f"mqsniff: no captures under {tmp_path}\n")
