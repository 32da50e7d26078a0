"""The laboratory without its servers: what it lists, what it takes for truth, what becomes a sample, how it refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import truth_lab
from truth import check_rows, decode_capture

from lab.__main__ import main
from lab.clientlog import ClientLog
from lab.downloads import LabError, _run
from lab.samples import PCAPS, install, provenance, sampled, write_provenance
from lab.scenarios import SCENARIOS, listing
from lab.scratch import scratch, sweep
from lab.thinning import cut_long
from lab.truth import Truth
from mqsniff.answers.check.asking import outcomes_of
from mqsniff.answers.check.expectations import read_expectations
from mqsniff.answers.check.goldens import PLAIN
from mqsniff.testing import client, segments, server, write_pcap

HOME = Path(__file__).parents[1]
OK = b"\0\0\0\6\0\0\0\0OK"


def test_the_page_lists_every_scenario():
    page = (HOME / "lab" / "README.md").read_text()
    assert [name for name in SCENARIOS if f"`{name}`" not in page] == []
    named = {name for line in page.splitlines() if line.startswith("| `") for name in re.findall(r"`([^`]+)`", line)}
    assert named == {*SCENARIOS}
    assert all(each.shows in listing() for each in SCENARIOS.values())


def test_an_unknown_scenario_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["run", "kafka-1.0"])
    assert "no scenario kafka-1.0" in capsys.readouterr().err


@pytest.fixture
def capture(tmp_path):
    path = tmp_path / "x.pcap"
    body = b"it's \xc3\xa4"
    pub = b"PUB orders\n" + len(body).to_bytes(4, "big") + body
    write_pcap(path, segments([client(b"  V2"), client(pub), server(OK)]))
    return path


def outcomes(capture, truth):
    """(whether each expectation holds, whether each comparison of the truth does)."""
    truth.write(capture, {"lab": "x"})
    expectations = read_expectations(capture.with_name(capture.name + ".expect.toml"))
    told = json.loads(capture.with_suffix(".json").read_bytes())
    rows, packets = decode_capture(capture)
    findings = check_rows(rows, packets, told, truth_lab.check)[:-1]  # the last is about internal problems
    asked = [outcome.passed for outcome in outcomes_of(capture, expectations, PLAIN)]
    return asked, [finding.verdict == "ok" for finding in findings]


def test_what_a_client_logged_is_compared_record_by_record(capture):
    truth = Truth()
    truth.produced("orders", [(None, None, None, "it's ä")])
    truth.counts("one PUB", 1, "messages", name="PUB")
    truth.counts("one size", 1, "records", ("value_size",), topic="orders")
    truth.calls(["PUB"])
    assert outcomes(capture, truth) == ([True] * 5, [True] * 5)


def test_a_record_too_few_or_too_many_is_noticed(capture):
    missing = Truth()
    missing.produced("orders", [(None, None, None, "it's ä"), (None, None, None, "another")])
    assert outcomes(capture, missing) == ([False, True], [False, True])
    more = Truth()
    more.produced("orders", [])
    assert outcomes(capture, more) == ([True, False], [True, False])


def test_a_record_that_a_server_refused_is_not_asked_for():
    row = {"table": "records", "control": None, "ack": "failed", "topic": "t", "topic_id": None, "direction": "produce"}
    rows = [{**row, "partition": 0, "offset": None, "key": None, "value": b"v"}]
    told = {"records": {"t": {"produce": []}}, "counts": [], "errors": []}
    assert truth_lab.check(told, rows)[1][1:3] == (0, 0)
    assert truth_lab.check(told, [{**rows[0], "ack": "acked"}])[1][1:3] == (0, 1)


def test_a_wrong_count_and_what_was_never_said_are_noticed(capture):
    truth = Truth()
    truth.counts("two PUBs", 2, "messages", name="PUB")
    truth.counts("of a body", 1, "messages", name="PUB", body__topic="other")
    truth.calls(["SUB"])
    truth.refused("PUB", "E_BAD_TOPIC")
    truth.packets(7)
    asked, compared = outcomes(capture, truth)
    assert asked == [False] * 4
    assert compared == [False] * 5


def test_the_log_of_a_client_is_told_and_a_short_one_is_refused():
    log = ClientLog(
        'noise\n{"what":"produced","topic":"t","partition":0,"offset":1,"key":null,"value":"v"}\n'
        '{"what":"read","topic":"t","partition":0,"offset":1,"key":null,"value":"v"}\n'
        '{"what":"refused","call":"x","error":"E"}\n'
    )
    assert log.records("produced") == {"t": [(0, 1, None, "v")]}
    log.tell(Truth(), 1)
    with pytest.raises(LabError, match="logged 1 sends, of 2"):
        log.tell(Truth(), 2)


def test_long_connections_are_cut_and_short_ones_are_whole(tmp_path):
    path = tmp_path / "x.pcap"
    talk = segments([client(b"  V2"), *[client(b"NOP\n")] * 9])
    other = segments([client(b"  V2"), server(OK)])
    write_pcap(path, [*talk, *other])
    whole = path.stat().st_size
    assert cut_long(path, long=8, kept=4) == 4 + len(other)
    assert path.stat().st_size < whole
    assert cut_long(path, long=8, kept=4) == 4 + len(other)


def test_connections_of_clients_whose_log_is_the_truth_are_never_cut(tmp_path):
    path = tmp_path / "x.pcap"
    talk = segments([client(b"  V2"), *[client(b"NOP\n")] * 9])
    write_pcap(path, talk)
    assert cut_long(path, [4150], long=8, kept=4) == len(talk)
    assert cut_long(path, [1], long=8, kept=4) == 4


def test_every_lab_sample_has_a_scenario_that_makes_it_and_a_line_on_its_origin(tmp_path):
    truths = [json.loads(path.read_bytes()) for path in sorted(PCAPS.glob("*/lab-*.json"))]
    assert truths
    assert [truth["lab"] for truth in truths] == sampled()
    assert {truth["lab"] for truth in truths} <= {*SCENARIOS}
    assert all(truth["shows"] == SCENARIOS[truth["lab"]].shows for truth in truths)
    readme = (PCAPS / "README.md").read_text()
    assert "".join(provenance()) in readme
    (tmp_path / "README.md").write_text(readme)
    write_provenance(tmp_path)
    assert "lab retake" in readme
    assert "`lab-" not in (tmp_path / "README.md").read_text()


def test_a_scenario_becomes_a_sample_only_if_its_expectations_hold(tmp_path, capture):
    (tmp_path / "pcaps").mkdir()
    (tmp_path / "pcaps" / "README.md").write_text(
        "before\n<!-- made by python -m lab retake -->\nold\n<!-- end -->\nafter\n"
    )
    made = capture.rename(tmp_path / "lab-x.pcap")
    about = {"lab": "x", "protocol": "nsq", "shows": "a PUB"}
    wrong, right = Truth(), Truth()
    for truth, number in ((wrong, 2), (right, 1)):
        truth.about("nsqd 1", "python")
        truth.counts("PUBs", number, "messages", name="PUB")
    wrong.write(made, about)
    with pytest.raises(LabError, match="its golden was not written"):
        install(made, tmp_path / "pcaps")
    assert sampled(tmp_path / "pcaps") == []
    right.write(made, about)
    sample = install(made, tmp_path / "pcaps")
    assert sorted(path.name for path in sample.parent.iterdir()) == [
        *("lab-x.json", "lab-x.pcap", "lab-x.pcap.expect.toml", "lab-x.pcap.golden.ndjson"),
    ]
    assert sampled(tmp_path / "pcaps") == ["x"]
    line = "| `lab-x.pcap` | nsqd 1 | python | a PUB | `lab retake x` |"
    assert line in (tmp_path / "pcaps" / "README.md").read_text().splitlines()


def test_the_folder_of_a_run_that_was_killed_goes_at_the_next_start(tmp_path):
    above = tmp_path / "drafts"
    run = f"from lab.scratch import *\nwith scratch(Path({str(above)!r}), 'x'): print(1); input()"
    with subprocess.Popen(
        [sys.executable, "-c", run], cwd=HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as killed:
        killed.stdout.readline()
        assert sweep(above) == []
        killed.kill()
    with scratch(above, "alive") as alive:
        assert [name.partition("-")[0] for name in sweep(above)] == ["x"]
        assert list(above.iterdir()) == [alive]
    assert list(above.iterdir()) == []
    assert sweep(tmp_path / "none") == []


def test_a_scenario_that_cannot_be_played_does_not_stop_the_others(monkeypatch, capsys):
    def play(name, _out):
        if name == "nsq-requeue":
            raise LabError("no network")
        return 0

    monkeypatch.setattr("lab.__main__._run_apart", play)
    monkeypatch.setattr("lab.__main__.sweep", lambda _: [])
    assert main(["run", "nsq-requeue", "nsq-publish-consume"]) == 2
    told = capsys.readouterr()
    assert told.err == "lab: nsq-requeue: no network\n"
    assert told.out == "lab: 1 of 2 scenarios done, not nsq-requeue\n"


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="util-linux")
def test_temporary_files_of_package_managers_go_with_the_draft(tmp_path):
    assert _run(["sh", "-c", "echo $TMPDIR"], HOME, tmp_path) == f"{tmp_path}\n"
