"""Every option stands in the help of its command, and the man page says the same."""

from __future__ import annotations

from collections import Counter

import build_man
import click
import pytest
from click.testing import CliRunner

from mqsniff.cli import COMMANDS, main
from mqsniff.cli.sections import OTHER, SectionedOption


def command(name):
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def shown(name, flag="--help"):
    done = CliRunner().invoke(main, [name, flag], terminal_width=120)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_stands_in_a_section_of_the_help(name):
    lines = shown(name).splitlines()
    for param in command(name).params:
        if not isinstance(param, click.Option):
            continue
        assert isinstance(param, SectionedOption), f"{name} {param.name} has no section"
        assert not param.hidden
        assert param.help
        for written in param.opts:
            assert any(line.startswith("  ") and written in line.replace(",", " ").split() for line in lines), written
        assert any(line == f"{param.section}:" for line in lines)
    assert f"{OTHER}:" in lines


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_short_help_and_can_be_quiet(name):
    assert shown(name, "-h") == shown(name)
    assert "-q, --quiet" in shown(name)
    assert "-h, --help" in shown(name)


def test_the_man_page_is_what_the_help_says():
    assert build_man.PAGE.read_text() == build_man.page(), "run: python docs/build_man.py"


def test_a_stale_man_page_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build_man, "PAGE", tmp_path / "mqsniff.1")
    assert build_man.build(["--check"]) == 1
    assert "stale: mqsniff.1" in capsys.readouterr().err
    assert build_man.build([]) == 0
    assert build_man.build(["--check"]) == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_stands_on_the_man_page(name):
    section = build_man.page().split(f".SH MQSNIFF {name.upper()}\n")[1].split("\n.SH ")[0]
    for param in command(name).params:
        for written in param.opts if isinstance(param, click.Option) else ():
            assert written.replace("-", "\\-") in section


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("mqsniff dec", {"decode"}),
        ("mqsniff decode --protocol rocketmq-", {"rocketmq-ha"}),
        ("mqsniff decode --table ex", {"exchanges"}),
        ("mqsniff decode --protocol nsq --name mp", {"MPUB"}),
        ("mqsniff decode --fail-on una", {"unanswered"}),
        ("mqsniff protocols kaf", {"kafka"}),
        ("mqsniff sql -o nd", {"ndjson"}),
        ("mqsniff decode --table exchanges --fields name,work", {"name", "work_ns"}),
        ("mqsniff decode --limit frame_m", {"frame_max="}),
        ("mqsniff live -i lo", {"lo"}),
        ("mqsniff sql x.pcap :sl", {":slow"}),
        ("mqsniff decode x", {"x"}),
    ],
)
def test_the_shell_completes_values(words, completed, monkeypatch):
    monkeypatch.setenv("_MQSNIFF_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    done = CliRunner().invoke(main, [], prog_name="mqsniff")
    assert {word for line in done.stdout.splitlines() for word in line.split(",")[1:]} == completed


def test_the_help_says_how_completion_is_switched_on():
    assert "_MQSNIFF_COMPLETE=bash_source mqsniff" in CliRunner().invoke(main, ["--help"]).stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_no_two_options_of_a_command_share_a_name(name):
    names = Counter(option.name for option in command(name).params)
    assert [name for name, count in names.items() if count > 1] == []
