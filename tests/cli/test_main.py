"""The command line as a whole: help, errors, exit codes."""

from __future__ import annotations

import platform
from importlib.machinery import ModuleSpec

import pytest
from click.testing import CliRunner
from imports import imported
from terminal import piped
from tinycapture import NSQ, conversation, pcap

from mqsniff import __version__
from mqsniff.cli import COMMANDS, main


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.pcap"
    path.write_bytes(pcap(conversation(NSQ)))
    return path


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help_has_examples(command):
    done = run(*command, "--help")
    assert done.exit_code == 0
    assert "Examples:\n" in done.stdout
    assert f"  mqsniff {' '.join(command)}" in done.stdout


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help_fits_the_terminal(command, columns):
    shown = CliRunner().invoke(main, [*command, "--help"], terminal_width=columns).stdout
    assert max(map(len, shown.splitlines())) <= columns


def test_help_says_what_each_command_is_for_without_importing_it():
    listed = {tuple(line.split(maxsplit=1)) for line in run("--help").stdout.splitlines() if line.strip()}
    assert listed.issuperset(COMMANDS.items())
    assert imported(tuple(f"mqsniff.cli.{name}" for name in COMMANDS), "--help") == []


def test_help_is_at_hand_without_arguments():
    assert "Usage: mqsniff" in run().output


@pytest.mark.parametrize(
    ("module", "build"), [("topics.py", "not compiled"), ("topics.cpython-311-x86_64-linux-gnu.so", "compiled")]
)
def test_version_and_build(monkeypatch, module, build):
    monkeypatch.setattr("mqsniff.buildkind.find_spec", lambda name: ModuleSpec(name, None, origin=f"/lib/{module}"))
    python = f"{platform.python_implementation()} {platform.python_version()}"
    assert run("--version").stdout == f"mqsniff {__version__} ({build}; {python})\n"


def test_a_file_is_short_for_decode(sample):
    decoded = run("decode", sample)
    assert decoded.exit_code == 0
    assert run(sample).stdout == decoded.stdout
    assert run("-o", "ndjson", sample).stdout == decoded.stdout


@pytest.mark.parametrize("arguments", [("-q",), ("-q", "decode"), ("decode", "-q"), ("-q", "sql")])
def test_quiet_may_stand_in_front(sample, arguments):
    query = ("from messages",) if "sql" in arguments else ()
    done = run(*arguments, sample, *query)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["decod"], "mqsniff: no command and no file 'decod', did you mean decode? (mqsniff --help)"),
        (["xyzzy"], "mqsniff: no command and no file 'xyzzy' (mqsniff --help)"),
        (["--no-such"], "mqsniff decode: No such option '--no-such' (mqsniff decode --help)"),
        (["live"], None),
        (
            ["live", "--count", "1"],
            "mqsniff live: say what to read: -i IFACE or --follow PATH, one of the two (mqsniff live --help)",
        ),
        (["decode", "--time", "noon", "x.pcap"], None),
        (["decode", "--fail-on", "nothing", "x.pcap"], None),
    ],
)
def test_a_wrong_usage_is_one_line_and_exit_2(arguments, line):
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    if line is not None:
        assert done.stderr == line + "\n"
    elif arguments != ["live"]:
        assert done.stderr.count("\n") == 1


def test_help_imports_nothing_heavy():
    assert imported(("numpy", "pyarrow", "rich", "scapy", "dpkt", "orjson"), "--help") == []


def test_a_reader_that_goes_away_ends_the_run_quietly(tmp_path):
    path = tmp_path / "long.pcap"
    path.write_bytes(pcap(conversation(NSQ * 5000)))
    with piped(path) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read().count(b"\n") == 1  # how to get text
    assert process.returncode == 0


def test_a_reader_that_was_never_there_is_no_error_either():
    with piped("protocols") as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
