"""``mqsniff check``: what a CI job sees."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from tinycapture import INVALID, NSQ, conversation, pcap

from mqsniff.cli import main


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
    assert "more (-v shows all)" in run(folder / "a.pcap").stdout
    assert "more (-v shows all)" not in run("-v", folder / "a.pcap").stdout


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
