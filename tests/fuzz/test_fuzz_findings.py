"""What fuzzing found stays corrected, and a few new inputs for each target, the same in every run."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from . import __main__ as command
from . import blind, figures, judging
from .judging import Target, judge
from .store import kept
from .targets import targets

WORKFLOW = Path(__file__).parents[2] / ".github" / "workflows" / "fuzz.yml"
KEPT = [(name, file) for name in targets() for file in kept(name)]
FEW = {"where": 4, "rows": 25, "reassembly": 40, "probe": 40, "filters": 40, "packets": 60}
"""Inputs of targets that take long for each."""


@pytest.mark.parametrize(("name", "file"), KEPT)
def test_what_was_found_stays_corrected(name, file):
    finding = judge(targets()[name], kept(name)[file])
    assert finding is None, finding.text


@pytest.mark.parametrize("name", targets())
def test_a_few_changed_inputs_give_no_finding(name):
    target = targets()[name]
    seeds = [seed for seed in target.seeds() if len(seed) <= target.size_max]
    assert seeds
    for data, finding in blind.findings(target, seeds, runs=FEW.get(name, 100)):
        assert finding is None, f"{data!r}\n{finding.text}"


def test_the_same_number_gives_the_same_inputs():
    target = targets()["json"]
    seeds = list(target.seeds())
    first, again, other = ([data for data, _ in blind.findings(target, seeds, number=n, runs=5)] for n in (1, 1, 2))
    assert first == again != other


def attempt(data: bytes) -> None:
    if data == b"raise":
        raise ValueError(data)
    for _ in range(300_000 if data == b"spin" else 0):
        pass


TOY = Target("toy", "", attempt, lambda: (), ())


def test_what_raises_is_found():
    assert judge(TOY, b"") is None
    assert judge(TOY, b"raise").signature.startswith("ValueError in test_fuzz_findings.py:attempt:raise")


def test_what_takes_long_is_found(monkeypatch):
    monkeypatch.setattr(judging, "SECONDS_FREE", 0)
    monkeypatch.setattr(judging, "SECONDS_EACH", 0.0001)
    assert judge(TOY, b"spin").kind == "slow"
    assert judge(TOY, b"spin", slowness=1e6) is None


def test_what_grows_is_found(monkeypatch):
    peaks = iter((1000, 1000 + judging.MEMORY_FREE + 1))
    monkeypatch.setattr(judging, "_peak", lambda: next(peaks))
    assert judge(TOY, b"grow").kind == "memory"


def test_figures_are_read_from_what_the_fuzzer_prints():
    covered = "#7\tINITED cov: 9 ft: 10 corp: 1/1b\n#50\tDONE   cov: 12 ft: 20 corp: 3/9b lim: 4\n"
    said = f"{covered}Done 50 runs in 2 second(s)\n"
    assert figures.of_guided(said) == {"executions": 50, "seconds": 2, "edges": 12, "features": 20}
    assert figures.of_guided("a crash") == {}


@pytest.mark.parametrize(
    ("time_of_day", "hours"), [("23:00", 1), ("22:30", 0.5), ("22:00", 24), ("00:15", 2.25), ("21:59", 23 + 59 / 60)]
)
def test_until_a_time_of_day_may_mean_the_next_day(time_of_day, hours):
    now_s = 1_795_644_000  # 2026-11-25 22:00:00 UTC
    assert command.moment_of(time_of_day, now_s) == now_s + hours * 3600


@pytest.mark.skipif(not WORKFLOW.exists(), reason="an sdist has no workflows")
def test_the_weekly_run_has_every_target():
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    assert jobs["fuzz"]["strategy"]["matrix"]["target"] == list(targets())
