"""Standard streams that are closed or full, and talk that a terminal can be trusted with: the command as a process."""

from __future__ import annotations

import ast
import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from builds import PLACE
from terminal import COMMAND
from tinycapture import NSQ, conversation, pcap

from mqsniff.cli import talk

ROOT = Path(__file__).parents[2]
PCAPS = ROOT / "pcaps"
ENVIRONMENT = os.environ | {"PYTHONPATH": PLACE}
ESCAPE = "\x1b[31m"
RAW = os.fsdecode(b"caf\xe9")


@pytest.fixture(autouse=True)
def _in_a_folder_with_captures(tmp_path, monkeypatch):
    capture = pcap(conversation(NSQ))
    for name in ("x.pcap", f"{RAW}.pcap", f"{ESCAPE}.pcap"):
        (tmp_path / name).write_bytes(capture)
    monkeypatch.chdir(tmp_path)


def shell(command, *redirections):
    """Run a command line with redirections of the shell: the output of a run that hangs is none."""
    line = f"{shlex.join([*COMMAND, *map(str, command)])} {' '.join(redirections)}"
    return subprocess.run(
        ["/bin/bash", "-c", line],
        capture_output=True,
        check=False,
        timeout=60,
        env=ENVIRONMENT,
    )


def run(*arguments):
    done = shell(arguments)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


TO_STDOUT = [
    ("decode", "x.pcap"),
    ("decode", "-o", "text", "x.pcap"),
    ("decode", "-o", "csv", "x.pcap"),
    ("x.pcap", "-n", "1"),
    ("sql", "x.pcap", "from messages"),
    ("sql", "x.pcap", "-o", "csv", "from messages"),
    ("sql", "x.pcap"),
    ("sql", "x.pcap", "messages"),
    ("check", "x.pcap"),
    ("protocols",),
    ("protocols", "nsq"),
    ("protocols", "--json"),
    ("batch", "--dry-run", "x.pcap", "out"),
    ("batch", "--dry-run", "--json", "x.pcap", "out"),
    ("batch", "--list", "out"),
    ("--help",),
    ("decode", "--help"),
    ("--version",),
]


@pytest.mark.parametrize("command", TO_STDOUT, ids=" ".join)
def test_rows_that_a_closed_stdout_refuses_are_one_line_and_exit_code_2(command):
    done = shell(command, ">&-")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines()[-1] == "mqsniff: stdout: Bad file descriptor"
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("command", TO_STDOUT, ids=" ".join)
def test_rows_go_on_where_stderr_is_closed_and_what_could_not_be_said_is_exit_code_2(command):
    heard, done = shell(command), shell(command, "2>&-")
    assert done.stdout == heard.stdout
    assert done.stderr == b""
    assert done.returncode == (2 if heard.stderr else heard.returncode)


def test_a_full_stderr_is_as_good_as_a_closed_one():
    done = shell(("decode", "x.pcap"), "2>/dev/full")
    assert (done.returncode, done.stdout) == (2, shell(("decode", "x.pcap")).stdout)


@pytest.mark.parametrize("command", [("decode", "nosuch.pcap"), ("nosuch",), ("decode", "--nosuch"), ("decode",), ()])
def test_errors_keep_their_exit_code_where_nobody_hears_them(command):
    for closed in (["2>&-"], ["<&-", ">&-", "2>&-"]):
        done = shell(command, *closed)
        assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(tmp_path, closed):
    """What a library writes to stderr would stand in it."""
    done = shell(("decode", "-o", "parquet", "--out", "out", "x.pcap"), closed)
    assert done.returncode == (0 if closed == ">&-" else 2)
    code, rows, _ = run("sql", "out", "-o", "csv", "select count(*) from messages")
    messages = shell(("decode", "x.pcap", "--table", "messages")).stdout.count(b"\n")
    assert (code, rows.splitlines()[1]) == (0, str(messages))
    script = (
        "import os; from mqsniff.cli.talk import open_standard_streams; open_standard_streams(); "
        "number = os.open('x.pcap', 0); open('number', 'w').write(str(number))"
    )
    line = f"{shlex.join([sys.executable, '-c', script])} {closed}"
    subprocess.run(["/bin/bash", "-c", line], check=True, timeout=60, env=ENVIRONMENT)
    assert int((tmp_path / "number").read_text()) > 2


def test_a_closed_stdin_is_an_input_that_cannot_be_read():
    for command in (("decode", "-"), ("sql", "x.pcap", "-")):
        done = shell(command, "<&-")
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"Bad file descriptor" in done.stderr
        assert done.stderr.count(b"\n") == 1


def test_a_reader_of_stderr_that_went_away_wanted_no_more():
    done = shell(("decode", "x.pcap"), "2> >(true)")
    assert (done.returncode, done.stdout) == (0, shell(("decode", "x.pcap")).stdout)


@pytest.mark.parametrize(
    "command",
    [
        ("decode", f"gone{ESCAPE}.pcap"),
        ("decode", f"gone{ESCAPE}\nmqsniff: all is well.pcap"),
        ("decode", f"--no{ESCAPE}"),
        ("decode", "--time", ESCAPE, "x.pcap"),
        ("decode", "--limit", f"{ESCAPE}=1", "x.pcap"),
        ("decode", "--decode-as", f"{ESCAPE}=1", "x.pcap"),
        ("decode", "--domain", f"({ESCAPE}", "x.pcap"),
        ("decode", "--topic", ESCAPE, "x.pcap"),
        ("decode", "--where", f"name = '{ESCAPE}", "x.pcap"),
        ("decode", "-o", "parquet", "--out", f"{ESCAPE}.pcap", "x.pcap"),
        (f"{ESCAPE}",),
        ("sql", f"gone{ESCAPE}.pcap", "from messages"),
        ("sql", "x.pcap", f"from {ESCAPE}"),
        ("sql", "x.pcap", "-o", "parquet", "--out", f"{ESCAPE}/x", "from messages"),
        ("check", f"gone{ESCAPE}"),
        ("check", f"{ESCAPE}.pcap"),
        ("protocols", ESCAPE),
        ("live", "-i", ESCAPE),
        ("batch", f"gone{ESCAPE}.pcap", "out"),
        ("batch", f"gone{ESCAPE}*", "out"),
        ("batch", "--folders", ESCAPE, "x.pcap", "out"),
        ("batch", "--list", ESCAPE),
        ("batch", "--dry-run", f"{ESCAPE}.pcap", "out"),
    ],
    ids=repr,
)
def test_what_others_wrote_reaches_no_terminal_as_it_is(command):
    code, shown, said = run(*command)
    assert code in (0, 1, 2)
    assert "\x1b" not in shown + said
    assert "Traceback" not in said
    assert not [line for line in said.splitlines() if line.startswith("mqsniff: all is well")]
    assert "\\x1b[31m" in shown + said


def test_names_of_any_bytes_are_inputs_and_outputs_of_every_command(tmp_path):
    code, rows, said = run("decode", f"{RAW}.pcap")
    assert code == 0, said
    assert '"capture":"caf\\\\udce9.pcap"' in rows
    assert run("decode", f"gone{RAW}.pcap") == (2, "", "mqsniff: gonecaf\\udce9.pcap: no such file or directory\n")
    count = ("sql", "-o", "csv", f"out-{RAW}", "select distinct capture from messages")
    for _ in range(2):
        done = run("decode", "-o", "parquet", "--overwrite", "--out", f"out-{RAW}", f"{RAW}.pcap")
        assert done[0] == 0, done[2]
        assert run(*count)[:2] == (0, "capture\r\ncaf\\udce9.pcap\r\n")
    assert "is not empty" in run("decode", "-o", "parquet", "--out", f"out-{RAW}", "x.pcap")[2]
    pending = f"select count(*) > 0 as n from messages where capture = '{RAW}.pcap'"
    assert run("sql", f"{RAW}.pcap", "-o", "csv", pending)[:2] == (0, "n\r\ntrue\r\n")
    assert run("sql", f"{RAW}.pcap", "-o", "parquet", "--out", RAW, "from messages")[0] == 0
    assert (tmp_path / RAW).read_bytes()[:4] == b"PAR1"
    assert run("decode", "--where", f"capture = '{RAW}.pcap'", f"{RAW}.pcap")[1] != ""
    for domain in ("caf.", "folder"):
        assert run("decode", "--domain", domain, f"{RAW}.pcap", "x.pcap")[0] == 0
    (tmp_path / f"dir-{RAW}").mkdir()
    (tmp_path / f"{RAW}.pcap").rename(tmp_path / f"dir-{RAW}" / "a.pcap")
    assert "dir-caf\\udce9/a.pcap" in run("check", "--update", f"dir-{RAW}")[1]
    assert run("check", f"dir-{RAW}")[0] == 0
    code, shown, said = run("batch", "--dry-run", "--json", f"dir-{RAW}", f"out-{RAW}")
    assert code == 0, said
    assert "dir-caf\\\\udce9/a.pcap" in shown


def test_lines_are_escaped_once_and_end_where_they_end(monkeypatch):
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    talk.say(f"a{ESCAPE}\nb \\x1b é")
    assert said.getvalue() == "a\\x1b[31m\\nb \\x1b é\n"
    assert not talk.was_missed()


def test_all_talk_goes_through_one_function():
    writers = []
    for path in (ROOT / "mqsniff").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and path.name != "talk.py":
                named = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                called = ast.unparse(node.func)
                if named.get("err") == "True" or called == "print" or called.startswith("sys.stderr.w"):
                    writers.append(f"{path.name}:{node.lineno}")
    assert writers == []
