"""What docs/ci.md shows is what ``mqsniff check`` takes."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml

from mqsniff.answers.captures import _SUFFIXES
from mqsniff.answers.check.checksettings import read_settings
from mqsniff.answers.check.expectations import read_expectations
from mqsniff.cli import COMMANDS, main

HOME = Path(__file__).parents[1]
PAGE = (HOME / "docs" / "ci.md").read_text()
HOOKS = (HOME / ".pre-commit-hooks.yaml").read_text()
TOML = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
YAML = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_settings_and_expectations_shown_can_be_read(tmp_path):
    settings, expectations = TOML
    (tmp_path / "mqsniff.toml").write_text(settings)
    assert read_settings(tmp_path / "mqsniff.toml").ignore
    (tmp_path / "ci.toml").write_text(expectations)
    assert len(read_expectations(tmp_path / "ci.toml")) == expectations.count("[[expect]]")


def test_every_check_of_an_expectation_is_in_the_table():
    from mqsniff.answers.check.expectations import _CHECKS

    assert [check for check in _CHECKS if f"`{check}" not in PAGE] == []


@pytest.mark.parametrize("text", [*YAML, HOOKS])
def test_the_jobs_shown_are_yaml(text):
    assert yaml.safe_load(text)


@pytest.mark.parametrize("line", sorted(set(re.findall(r"mqsniff (check [^`\n;]*)", PAGE))))
def test_commands_shown_have_options_that_exist(line):
    command = main.get_command(click.Context(main), "check")
    known = {name for param in command.params for name in param.opts}
    assert [word for word in line.split() if word.startswith("-") and word not in known] == []
    assert "check" in COMMANDS


def test_the_hook_has_the_id_that_the_page_names():
    (hook,) = yaml.safe_load(HOOKS)
    assert f"id: {hook['id']}" in PAGE
    assert hook["entry"].startswith("mqsniff check")


def test_the_hook_runs_for_all_that_a_check_reads():
    wanted = re.compile(yaml.safe_load(HOOKS)[0]["files"])
    beside = ("x.pcap.golden.ndjson", "x.pcap.expect.toml", "x.keys", "mqsniff.toml", "captures/mqsniff.toml")
    captures = tuple(f"a/x{suffix}" for suffix in _SUFFIXES)
    assert [name for name in (*beside, *captures) if not wanted.search(name)] == []
    assert not wanted.search("notes/not-mqsniff.toml")
    assert not wanted.search("x.pcap.py")
