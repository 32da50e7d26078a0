"""Samples of ``pcaps/``: only the problems that ``expected_problems.toml`` lists, and all that their clients did."""

from __future__ import annotations

import runpy
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from truth import adapter_for, check_rows, decode_capture, protocol_of, truths_under

from mqsniff.answers.captures import captures_under, key_logs_beside
from mqsniff.decode.foreign import TITLES
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.model import ClosedItem, MessageItem, ProblemItem
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource

PCAPS = Path(__file__).parents[1] / "pcaps"
SAMPLES = {str(path.relative_to(PCAPS)): path for path in captures_under([PCAPS])}
EXPECTED = tomllib.loads((PCAPS / "expected_problems.toml").read_text())
TRUTHS = {capture.name: (capture, truth) for capture, truth in truths_under([PCAPS])}
BROKEN = runpy.run_path(str(PCAPS / "broken" / "make_broken.py"))
UNREADABLE = BROKEN["unreadable"]()
SIZE_MAX = 25_000_000
README = (PCAPS / "README.md").read_text()

every_sample = pytest.mark.parametrize("name", SAMPLES)


def test_there_are_samples_and_only_of_them_problems_are_expected():
    assert SAMPLES
    assert set(EXPECTED) <= set(SAMPLES)


@every_sample
def test_a_sample_has_the_problems_that_belong_to_it_and_no_others(name):
    keys = key_logs_beside(SAMPLES[name])
    pipeline = Pipeline(FileSource([str(SAMPLES[name])]), Settings(wanted=WITH_RECORDS), keys=keys)
    found = Counter()
    for item in pipeline.items():
        if isinstance(item, ProblemItem):
            found[f"{item.problem.severity}.{item.problem.kind}"] += 1
    expected = EXPECTED.get(name, {"why": "nothing is odd"})
    assert expected["why"]
    told = {
        f"{severity}.{kind}": count
        for severity, kinds in expected.items()
        if isinstance(kinds, dict)
        for kind, count in kinds.items()
    }
    assert dict(found) == told
    assert pipeline.captures[0].unreadable == ""


@pytest.mark.parametrize("name", TRUTHS)
def test_what_the_clients_of_a_sample_did_is_found_in_its_rows(name):
    capture, truth = TRUTHS[name]
    adapter = adapter_for(protocol_of(capture, truth))
    assert adapter is not None
    findings = check_rows(*decode_capture(capture), truth, adapter)
    assert [finding for finding in findings if finding.verdict == "differs"] == []
    assert any(finding.verdict == "ok" for finding in findings)


@pytest.mark.parametrize("name", [name for name in SAMPLES if name.startswith("foreign/")])
def test_a_foreign_sample_is_claimed_by_no_dissector(name):
    pipeline = Pipeline(FileSource([str(SAMPLES[name])]), Settings())
    protocols = {item.connection.protocol for item in pipeline.items() if isinstance(item, ClosedItem)}
    assert protocols <= {"unknown", "tls", *TITLES}
    named = Path(name).stem.removeprefix("foreign-")
    assert named not in TITLES or named in protocols
    assert pipeline.totals.messages == 0


@every_sample
def test_the_readme_tells_where_a_sample_comes_from(name):
    assert f"`{Path(name).name}`" in README


def test_the_broken_samples_are_what_their_script_makes():
    there = {path.name: path.read_bytes() for name, path in SAMPLES.items() if name.startswith("broken/")}
    assert there == BROKEN["broken"]()


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_capture_is_told_in_words_and_the_others_are_read(tmp_path, name):
    path = tmp_path / name
    content, said = UNREADABLE[name]
    path.write_bytes(content)
    pipeline = Pipeline(FileSource([str(path), str(PCAPS / "nsq" / "nsq-1.3.0-ipv6.pcap")]), Settings())
    messages = sum(isinstance(item, MessageItem) for item in pipeline.items())
    assert {info.name: info.unreadable for info in pipeline.captures if info.unreadable} == {str(path): said}
    assert messages == 41


def test_samples_and_goldens_are_small_enough_to_be_cloned():
    assert sum(path.stat().st_size for path in PCAPS.rglob("*") if path.is_file()) < SIZE_MAX
