"""The laboratory without its servers: what it lists, what it takes for truth, how it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.__main__ import main
from lab.scenarios import SCENARIOS, listing
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
    truth.write(capture, {"scenario": "x"})
    expectations = read_expectations(capture.with_name(capture.name + ".expect.toml"))
    return [outcome.passed for outcome in outcomes_of(capture, expectations, PLAIN)]


def test_what_a_client_logged_is_compared_record_by_record(capture):
    truth = Truth()
    truth.produced("orders", [(None, None, None, "it's ä")])
    truth.counts("one PUB", "messages where name = 'PUB'", 1)
    assert outcomes(capture, truth) == [True, True, True]


def test_a_record_too_few_or_too_many_is_noticed(capture):
    missing = Truth()
    missing.produced("orders", [(None, None, None, "it's ä"), (None, None, None, "another")])
    assert outcomes(capture, missing) == [False, True]
    more = Truth()
    more.produced("orders", [])
    assert outcomes(capture, more) == [True, False]
    miscounted = Truth()
    miscounted.counts("two PUBs", "messages where name = 'PUB'", 2)
    assert outcomes(capture, miscounted) == [False]
