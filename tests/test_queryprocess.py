"""The process of a query: what it may not do, what ends it, and what is told then."""

from __future__ import annotations

import os
import platform
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from mqsniff.limits import Limits
from mqsniff.lockedsql import confinement
from mqsniff.lockedsql.database import Database, QueryError, QueryProcess, condition_process, ending
from mqsniff.lockedsql.frames import DONE, FrameSizeError, read_frame, write_frame
from mqsniff.lockedsql.worker import Terms

ENDLESS = (
    "select count(*) from range(1000000) a, range(1000000) b, range(1000000) c where a.range * b.range % 7 = c.range"
)
TERMS = Terms(Limits(), None, (), 3)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
FILTERED = pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no table of system calls")


def started(code, *arguments, **options):
    """A Python process with our modules."""
    path = f"import sys; sys.path[:] = {sys.path!r}\n"
    return subprocess.run(
        [sys.executable, "-c", path + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def children(process):
    """All processes below one."""
    found = [process]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found[1:]


def both(database):
    """The warden and the worker of a database."""
    warden = database._process._process.pid
    (worker,) = children(warden)
    return warden, worker


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def status(process):
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {line.partition(":")[0]: line.partition(":")[2].strip() for line in lines}


DENIED = """
import os, socket, threading
from mqsniff.lockedsql import confinement
assert confinement.deny_system_calls()
def fails(action):
    try:
        action()
    except PermissionError:
        return
    raise SystemExit(f"allowed: {action}")
fails(socket.socket)
fails(socket.socketpair)
fails(os.fork)
fails(lambda: os.execv("/bin/true", ["true"]))
fails(lambda: os.kill(os.getppid(), 0))
fails(lambda: os.posix_spawn("/bin/true", ["true"], {}))
thread = threading.Thread(target=lambda: fails(socket.socket))
thread.start()
thread.join()
os.abort()
"""


@LINUX
@FILTERED
def test_sockets_and_other_processes_are_denied_and_threads_are_not():
    done = started(DENIED)
    assert (done.returncode, done.stderr) == (-signal.SIGABRT, "")


FILES = """
import os, sys
from pathlib import Path
from mqsniff.lockedsql import confinement
readable, writable, secret = map(Path, sys.argv[1:])
if not confinement.deny_files([str(readable)], [str(writable)]):
    raise SystemExit(77)
assert (readable / "file").read_text() == "rows"
(writable / "spilled").write_text("x")
(writable / "spilled").unlink()
for action in (secret.read_text, lambda: os.listdir(secret.parent), lambda: (readable / "new").write_text("x"),
               lambda: (readable / "file").unlink(), lambda: Path("/etc/passwd").read_text()):
    try:
        action()
    except PermissionError:
        continue
    raise SystemExit(f"allowed: {action}")
"""


@LINUX
def test_other_files_are_denied(tmp_path):
    for name in ("readable", "writable"):
        (tmp_path / name).mkdir()
    (tmp_path / "readable" / "file").write_text("rows")
    (tmp_path / "secret").write_text("secret")
    done = started(FILES, tmp_path / "readable", tmp_path / "writable", tmp_path / "secret")
    if done.returncode == 77:
        pytest.skip("this system has no Landlock")
    assert (done.returncode, done.stderr) == (0, "")


@LINUX
def test_the_process_has_nothing_but_its_pipes(tmp_path, monkeypatch):
    monkeypatch.setenv("MQSNIFF_TEST_SECRET", "the secret")
    held = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(held, True)
    with Database(tmp_path / "spill") as database:
        database.open({})
        warden, worker = both(database)
        facts = status(worker)
        assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
        for process in (warden, worker) if os.getuid() == 0 else (warden,):  # nobody else may look into the worker
            assert b"the secret" not in Path(f"/proc/{process}/environ").read_bytes()
            opened = {str(file.readlink()) for file in Path(f"/proc/{process}/fd").iterdir()}
            assert "/etc/passwd" not in opened
            assert Path(f"/proc/{process}/cwd").readlink() == Path("/")
        assert Path(f"/proc/{worker}/oom_score_adj").read_text() == "1000\n"
        bounds = resource.prlimit(worker, resource.RLIMIT_FSIZE), resource.prlimit(worker, resource.RLIMIT_CORE)
        assert bounds == ((Limits().query_spill,) * 2, (0, 0))
        assert resource.prlimit(worker, resource.RLIMIT_DATA)[1] < Limits().query_memory + (1 << 30)
        assert (tmp_path / "spill").stat().st_mode & 0o777 == 0o700
    os.close(held)
    assert wait_for(lambda: not is_running(worker))


@LINUX
def test_it_dies_with_a_command_that_is_killed_and_takes_the_private_folder_along(tmp_path):
    private = tmp_path / "private"
    private.mkdir()
    (private / "decoded").write_text("rows")
    code = f"""
from pathlib import Path
from mqsniff.lockedsql.database import Database
private = Path({str(private)!r})
with Database(private / "spill", private=private) as database:
    database.open({{}})
    print("asked", flush=True)
    print(list(database.run({ENDLESS!r})[1]))
"""
    path = f"import sys; sys.path[:] = {sys.path!r}\n"
    with subprocess.Popen([sys.executable, "-c", path + code], stdout=subprocess.PIPE) as command:
        command.stdout.readline()
        time.sleep(0.3)
        below = children(command.pid)
        assert len(below) == 2
        command.kill()
    assert wait_for(lambda: not any(map(is_running, below)))
    assert wait_for(lambda: list(tmp_path.iterdir()) == [])


@LINUX
@pytest.mark.parametrize("which", [0, 1])
def test_a_killed_process_is_told(tmp_path, which):
    with Database(tmp_path / "spill") as database:
        database.open({})
        os.kill(both(database)[which], signal.SIGKILL)
        with pytest.raises(QueryError, match=r"^the process of the query was killed \(SIGKILL\)"):
            list(database.run("select 1")[1])
        with pytest.raises(QueryError, match=r"^the query was ended$"):
            database.check("select 1")


def test_a_signal_that_does_not_wake_the_read_ends_a_query_too(tmp_path):
    """As one that comes just before the read does: here it goes to another thread."""

    def interrupt() -> None:
        time.sleep(1)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    with Database(tmp_path / "spill", cpu_seconds=20) as database:
        database.open({})
        began = time.monotonic()
        Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            list(database.run(ENDLESS)[1])
        assert time.monotonic() - began < 10  # a second, but the machine may be busy; without a look it is 20


def test_a_query_ends_with_its_processor_time(tmp_path):
    with Database(tmp_path / "spill", cpu_seconds=1) as database:
        database.open({})
        began = time.monotonic()
        with pytest.raises(QueryError, match=r"^the query has used its processor time, 1 s; --cpu-seconds"):
            database.run(ENDLESS)
        assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "query",
    [
        "select repeat('x', 4000000000)",
        "select length(repeat('x', 4000000000))",
        "select list(i) from range(1000000000) t(i)",
        "select string_agg(repeat('x', 1000), ',') from range(10000000)",
        "select list_transform(range(100000000), lambda x: repeat('y', 100))",
    ],
)
def test_more_memory_than_allowed_is_told_with_what_to_do(tmp_path, query):
    with Database(tmp_path / "spill", Limits(query_memory=64 << 20)) as database:
        database.open({})
        told = r"^the query needs more memory than the 67108864 bytes it may have .*--limit query_memory=BYTES"
        with pytest.raises(QueryError, match=told):
            list(database.run(query)[1])


def test_more_disk_than_allowed_is_told_with_what_to_do(tmp_path):
    with Database(tmp_path / "spill", Limits(query_memory=64 << 20, query_spill=1 << 20)) as database:
        database.open({})
        query = "select i, repeat('x', 100) from range(2_000_000) t(i) order by hash(i)"
        with pytest.raises(QueryError, match=r"more than 1048576 bytes of disk; --limit query_spill=BYTES"):
            list(database.run(query)[1])


def test_a_large_row_is_refused_and_a_large_result_comes_in_pieces(tmp_path):
    with Database(tmp_path / "spill", Limits(query_row=1 << 20)) as database:
        database.open({})
        with pytest.raises(QueryError, match=r"^a row of the result has 2000005 bytes, .*--limit query_row=BYTES"):
            list(database.run("select repeat('x', 2_000_000)")[1])
        _, batches = database.run("select repeat('x', 100_000) as x from range(200)")
        sizes = [(len(batch), batch.nbytes) for batch in batches]
        assert sum(rows for rows, _ in sizes) == 200
        assert max(size for _, size in sizes) <= 4 << 20


def test_the_rows_of_a_dictionary_or_a_list_survive_the_way(tmp_path):
    query = (
        "select case when i % 2 = 0 then 'a' else 'b' end::enum('a', 'b') e, [i, i] l, {'i': i} s from range(3) t(i)"
    )
    with Database(tmp_path / "spill") as database:
        schema, batches = database.open({}).run(query)
        rows = [row for batch in batches for row in batch.to_pylist()]
    assert pa.types.is_dictionary(schema.field("e").type)
    assert rows == [{"e": "ab"[i % 2], "l": [i, i], "s": {"i": i}} for i in range(3)]


def test_a_condition_has_bounded_memory_too():
    process = condition_process(Limits(query_memory=64 << 20))
    process.ask("open", {})
    rows = pa.table({"#": [0], "size": [1]})
    query = 'SELECT "#" FROM asked WHERE length(repeat(size::text, 4000000000)) > 1'
    with pytest.raises(QueryError, match="more memory than the 67108864 bytes"):
        process.ask("met", "asked", rows, query)
    process.close()


def test_what_a_crashed_process_said_is_one_escaped_line():
    assert ending(128 + signal.SIGSEGV, "", TERMS) == "the process of the query crashed on it (SIGSEGV)"
    said = "first\n  what():  evil \x1b[2J"
    assert ending(128 + signal.SIGABRT, said, TERMS) == (
        "the process of the query crashed on it (SIGABRT:   what():  evil \\x1b[2J)"
    )
    assert "--limit query_memory=BYTES" in ending(128 + signal.SIGABRT, "terminate: std::bad_alloc", TERMS)
    assert ending(1, "MyError: x", TERMS) == "the process of the query ended by itself (1: MyError: x)"


def test_a_python_that_cannot_be_started_is_one_line(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(QueryError, match=r"^no process for the query: No such file or directory$"):
        QueryProcess(TERMS)


def test_a_frame_is_bounded_and_half_of_one_is_an_end():
    source, sink = os.pipe()
    write_frame(sink, DONE, b"null")
    write_frame(sink, DONE, bytes(100))
    os.write(sink, b"D\x04\0\0\0\0\0\0\0ab")
    os.close(sink)
    assert read_frame(source, 10) == (DONE, bytearray(b"null"))
    with pytest.raises(FrameSizeError):
        read_frame(source, 99)
    os.read(source, 100)
    assert read_frame(source, 99) is None
    os.close(source)


def test_a_system_without_any_of_it_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not confinement.deny_system_calls()
    assert not confinement.deny_files([], [])
