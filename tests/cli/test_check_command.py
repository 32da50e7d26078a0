"""``mqsniff check``: what a CI job sees."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from tinycapture import INVALID, NSQ, conversation, pcap

from mqsniff.cli import main
from mqsniff_nsq.frames import Delivered

PCAPS = Path(__file__).parents[2] / "pcaps"


def run(*arguments):
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.pcap").write_bytes(pcap(conversation(NSQ)))
    (tmp_path / "sub" / "b.pcap").write_bytes(pcap(conversation([*NSQ, *NSQ[1:]])))
    return tmp_path


def results(done):
    return [line.rsplit("  ", 1)[1] for line in done.stdout.splitlines() if ".pcap" in line and "  " in line]


def test_goldens_are_missed_written_and_met(folder):
    missing = run(folder)
    assert (missing.exit_code, results(missing)) == (1, ["no golden", "no golden"])
    updated = run("--update", folder)
    assert (updated.exit_code, results(updated)) == (0, ["updated", "updated"])
    same = run(folder)
    assert (same.exit_code, results(same)) == (0, ["same", "same"])


def test_a_difference_is_shown_by_row_and_field(folder):
    run("--update", folder)
    (folder / "a.pcap").write_bytes(pcap(conversation([*NSQ[:2], ("s", INVALID)])))
    done = run(folder)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0] == str(folder / "a.pcap")
    at = lines.index("  ~ messages: nsq ERROR response (127.0.0.1:40000 - 127.0.0.1:4150, server at 0, packet 6)")
    assert '      name: "RESPONSE" -> "ERROR"' in lines[at:]
    assert '      error_name: (absent) -> "E_INVALID"' in lines[at:]
    assert '      status: "ok" -> "error"' in lines[at:]
    assert results(done)[-1] == "same"


def test_many_differences_are_counted(folder):
    run("--update", folder / "a.pcap")
    (folder / "a.pcap").write_bytes(pcap(conversation([*NSQ, *NSQ[1:] * 30])))
    assert "more differences (-v shows all)" in run(folder / "a.pcap").stdout
    assert "more differences (-v shows all)" not in run("-v", folder / "a.pcap").stdout


def test_a_golden_without_capture_fails(folder):
    run("--update", folder)
    (folder / "a.pcap").unlink()
    done = run(folder)
    assert (done.exit_code, results(done)) == (1, ["same", "no capture"])


def test_a_broken_golden_is_named(folder):
    (folder / "a.pcap.golden.ndjson").write_text("no json\n")
    done = run(folder)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"mqsniff: {folder / 'a.pcap.golden.ndjson'}:1: ")


def test_a_folder_without_captures_is_an_error(tmp_path):
    done = run(tmp_path)
    assert (done.exit_code, done.stderr) == (2, f"mqsniff: no captures under {tmp_path}\n")


def changed(folder):
    """A folder with goldens, one of which differs from what its capture gives now."""
    run("--update", folder)
    (folder / "a.pcap").write_bytes(pcap(conversation([*NSQ[:2], ("s", INVALID)])))
    return folder


def test_the_totals_and_the_way_on_are_told(folder):
    missing = run(folder).stderr
    assert missing.startswith("2 captures: 2 no golden; ")
    assert f"write the goldens that are missing: mqsniff check --update {folder}" in missing
    differs = run(changed(folder)).stderr
    assert differs.startswith("2 captures: 1 different, 1 same; ")
    assert f"if the new rows are right: mqsniff check --update {folder}" in differs


def test_an_unreadable_capture_does_not_stop_the_others(folder):
    run("--update", folder)
    (folder / "a.pcap").write_text("no capture")
    done = run(folder)
    assert (done.exit_code, results(done)) == (2, ["unreadable", "same"])
    assert done.stderr.startswith(f"mqsniff: {folder / 'a.pcap'}: not a capture")


def test_fields_are_ignored_by_an_option_or_by_the_settings_beside(folder):
    changed(folder)
    assert run(folder, "--ignore", "*").exit_code == 0
    (folder / "mqsniff.toml").write_text('[check]\nignore = ["*"]\n')
    assert run(folder).exit_code == 0
    (folder / "mqsniff.toml").write_text("[check]\nignore = 3\n")
    done = run(folder)
    assert (done.exit_code, done.stderr[:9]) == (2, "mqsniff: ")


def test_processes_give_the_same_as_one(folder):
    for number in range(6):
        (folder / f"c{number}.pcap").write_bytes(pcap(conversation(NSQ)))
    changed(folder)
    one, two = run(folder, "--jobs", "1"), run(folder, "--jobs", "2")
    assert (one.exit_code, one.stdout) == (two.exit_code, two.stdout)
    assert one.exit_code == 1


def test_json_has_every_difference(folder):
    done = run(changed(folder), "--json")
    document = json.loads(done.stdout)
    (different,) = (each for each in document["captures"] if each["status"] == "different")
    assert document["totals"] == {"different": 1, "same": 1}
    changes = [change for row in different["differences"] for change in row["changes"]]
    assert {"field": "error_name", "golden": {}, "now": {"value": "E_INVALID"}} in changes


def test_junit_has_a_case_for_each_capture_and_expectation(folder, tmp_path):
    changed(folder)
    (folder / "c.pcap").write_text("no capture")
    (folder / "sub" / "b.pcap.expect.toml").write_text("[[expect]]\nerrors = 0\n[[expect]]\nunanswered = 0\n")
    report = tmp_path / "report.xml"
    assert run(folder, "--junit", report).exit_code == 2
    root = ET.parse(report).getroot()
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases == {
        "a.pcap": ["failure"],
        "c.pcap": ["error"],
        "b.pcap": [],
        "b.pcap: no errors": [],
        "b.pcap: nothing unanswered": [],
    }
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "1", "1")
    text = root.find(".//failure").text
    assert '    error_name: (absent) -> "E_INVALID"' in text.splitlines()


def test_junit_that_cannot_be_written_is_one_line(folder):
    done = run(folder, "--junit", folder / "no" / "x.xml")
    assert done.exit_code == 2
    assert done.stderr.endswith("x.xml: No such file or directory\n")


def test_expectations_need_no_golden_and_show_what_breaks_them(folder, tmp_path):
    expectations = tmp_path / "ci.toml"
    expectations.write_text('[[expect]]\nname = "fine"\nerrors = 0\n')
    (folder / "a.pcap").write_bytes(pcap(conversation([*NSQ[:2], ("s", INVALID)])))
    done = run(folder, "--expect", expectations)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[:2] == [str(folder / "a.pcap"), "  failed: fine: 1 found, 0 allowed"]
    assert "error_name E_INVALID" in lines[2]
    assert done.stderr.splitlines()[0] == "2 captures: 1 failed, 1 same; 1 of 2 expectations hold"
    assert run(folder / "sub", "--expect", expectations).exit_code == 0


def test_a_golden_is_not_updated_while_expectations_fail(folder):
    changed(folder)
    golden = folder / "a.pcap.golden.ndjson"
    before = golden.read_bytes()
    (folder / "a.pcap.expect.toml").write_text("[[expect]]\nerrors = 0\n")
    done = run("--update", folder)
    assert done.exit_code == 1
    assert "not updated: its expectations fail" in done.stdout
    assert golden.read_bytes() == before
    (folder / "a.pcap.expect.toml").write_text("[[expect]]\nerrors = 1\n")
    assert run("--update", folder).exit_code == 0
    assert golden.read_bytes() != before


def test_update_and_expect_exclude_each_other(folder, tmp_path):
    (tmp_path / "e.toml").write_text("[[expect]]\nerrors = 0\n")
    assert run("--update", "--expect", tmp_path / "e.toml", folder).exit_code == 2


def test_a_changed_dissector_is_told_by_message_and_field(tmp_path, monkeypatch):
    sample = PCAPS / "nsq" / "lab-nsq-requeue.pcap"
    for name in (sample.name, f"{sample.name}.golden.ndjson"):
        shutil.copy(sample.with_name(name), tmp_path / name)
    junit = tmp_path / "report.xml"
    assert run(tmp_path).exit_code == 0
    right = Delivered.fields.fget
    monkeypatch.setattr(Delivered, "fields", property(lambda head: {**right(head), "attempts": head.attempts + 1}))
    done = run("--junit", junit, tmp_path)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[1].startswith("  ~ messages: nsq MESSAGE push (127.0.0.1:")
    assert lines[2] == "      body.attempts: 1 -> 2"
    (failure,) = ET.parse(junit).getroot().iter("failure")
    assert "body.attempts: 1 -> 2" in failure.text
