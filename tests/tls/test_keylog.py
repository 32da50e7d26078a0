"""Key logs: what is in them, what is wrong with them, and what they cost."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from mqsniff.tls import keylog
from mqsniff.tls.keylog import KeyLog, KeyRing

ONE, OTHER = bytes(range(32)), bytes(range(32, 64))
MASTER, SECRET = b"m" * 48, b"s" * 32


def line(label: str, about: bytes, secret: bytes) -> str:
    return f"{label} {about.hex()} {secret.hex()}\n"


LINES = (
    "# a comment\n\n"
    + line("CLIENT_RANDOM", ONE, MASTER)
    + line("CLIENT_TRAFFIC_SECRET_0", OTHER, SECRET)
    + line("EXPORTER_SECRET", OTHER, SECRET)
    + line("SERVER_TRAFFIC_SECRET_0", OTHER, SECRET).upper()
)


@pytest.fixture
def log(tmp_path) -> Path:
    path = tmp_path / "keys"
    path.write_text(LINES)
    return path


@pytest.mark.parametrize("form", [str, bytes])
def test_the_secrets_of_a_client_random(log, form):
    found = KeyLog(str(log) if form is str else log.read_bytes())
    assert found.find(ONE) == {"CLIENT_RANDOM": MASTER}
    assert found.find(OTHER) == {"CLIENT_TRAFFIC_SECRET_0": SECRET, "SERVER_TRAFFIC_SECRET_0": SECRET}
    assert found.find(ONE[:8] + OTHER[8:]) == {}
    assert (found.lines, found.damaged) == (3, 0)


@pytest.mark.parametrize(
    "odd", [f"CLIENT_RANDOM {ONE.hex()} {MASTER.hex()}a", f"CLIENT_RANDOM {ONE.hex()[1:]} {MASTER.hex()}"]
)
def test_a_line_with_half_a_byte_is_none_and_does_not_hide_a_good_one(odd):
    found = KeyLog(f"{odd}\n{line('CLIENT_RANDOM', ONE, MASTER)}".encode())
    assert found.find(ONE) == {"CLIENT_RANDOM": MASTER}
    assert [about for _, about, _ in found.all()] == [ONE]
    assert (found.lines, found.damaged) == (1, 1)


def test_older_lines_of_nss():
    text = f"RSA 0011223344556677 {MASTER.hex()}\nRSA Session-ID:{OTHER.hex()} Master-Key:{MASTER.hex()}\n"
    found = KeyLog(text.encode())
    assert found.find(bytes.fromhex("0011223344556677")) == {"RSA": MASTER}
    assert found.find(OTHER) == {"RSA": MASTER}
    assert (found.lines, found.damaged) == (2, 0)


@pytest.mark.parametrize(
    "bad",
    [
        "half a li",
        "CLIENT_RANDOM abc",
        f"CLIENT_RANDOM {ONE.hex()} xyz",
        f"CLIENT_RANDOM {ONE.hex()[:10]} {MASTER.hex()}",
        f"client_random {ONE.hex()} {MASTER.hex()}",
        "\0\1\2\3",
        "x" * 100_000,
    ],
)
def test_damaged_lines_are_counted_and_hide_no_others(bad):
    found = KeyLog((LINES + bad + "\n" + line("CLIENT_RANDOM", b"z" * 32, MASTER)).encode())
    assert found.damaged == 1
    assert found.find(ONE)
    assert found.find(b"z" * 32)


def test_lines_that_end_as_on_windows_and_no_end_at_all():
    found = KeyLog(LINES.replace("\n", "\r\n").encode().rstrip())
    assert (found.lines, found.damaged) == (3, 0)
    assert found.find(OTHER)["SERVER_TRAFFIC_SECRET_0"] == SECRET


def test_a_log_that_grows_is_followed(log, monkeypatch):
    monkeypatch.setattr(keylog, "PAUSE_S", 0.0)
    ring = KeyRing([KeyLog(str(log), follow=True)])
    before = ring.generation
    assert ring.find(b"n" * 32) == {}
    with log.open("a") as out:
        out.write(line("CLIENT_RANDOM", b"n" * 32, MASTER)[:50])
        out.flush()
        assert ring.find(b"n" * 32) == {}
        out.write(line("CLIENT_RANDOM", b"n" * 32, MASTER)[50:])
    assert ring.find(b"n" * 32) == {"CLIENT_RANDOM": MASTER}
    assert ring.generation != before


def test_a_log_that_comes_later_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(keylog, "PAUSE_S", 0.0)
    path = tmp_path / "keys"
    ring = KeyRing([KeyLog(str(path), follow=True)])
    assert ring.find(ONE) == {}
    path.write_text(LINES)
    assert ring.find(ONE)
    with pytest.raises(FileNotFoundError):
        KeyLog(str(tmp_path / "nowhere"))


def test_a_miss_asks_the_file_only_now_and_then(log, monkeypatch):
    ring, asked, real = KeyRing([KeyLog(str(log), follow=True)]), [], os.fstat
    monkeypatch.setattr(os, "fstat", lambda fd: asked.append(fd) or real(fd))
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    for number in range(100):
        assert ring.find(bytes([number]) * 32) == ring.find(bytes([number + 100]) * 32) == {}
    assert len(asked) == 1


def test_pipes_are_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if os.fork() == 0:
        pipe.write_text(LINES)
        os._exit(0)
    found = KeyLog(str(pipe), follow=True)
    os.wait()
    assert found.find(ONE)


def test_what_captures_hold_counts_when_it_comes():
    held: list[bytes] = []
    ring = KeyRing([], lambda: held)
    assert not ring
    held.append(LINES.encode())
    assert ring
    assert ring.find(ONE) == {"CLIENT_RANDOM": MASTER}


def test_no_secret_stands_in_what_is_printed():
    found = KeyLog(LINES.encode())
    for text in (repr(found), repr(KeyRing([found])), found.about()):
        assert MASTER.hex() not in text
        assert SECRET.hex()[:16] not in text


def test_a_digest_tells_logs_apart():
    assert KeyLog(LINES.encode()).about() != KeyLog(LINES[:-30].encode()).about()
    assert KeyLog(LINES.encode()).about() == KeyLog(LINES.encode()).about()


def test_a_million_foreign_lines_cost_little_memory(tmp_path):
    """Sixteen bytes a line are kept: a dict of secrets would be some 300 MB."""
    path, count = tmp_path / "keys", 1_000_000
    secret = MASTER.hex()
    with path.open("w") as out:
        for start in range(0, count, 10_000):
            out.writelines(f"CLIENT_RANDOM {number:064x} {secret}\n" for number in range(start, start + 10_000))
        out.write(line("CLIENT_RANDOM", ONE, MASTER))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = KeyLog(str(path))
    assert found.find(ONE) == {"CLIENT_RANDOM": MASTER}
    assert found.find(b"?" * 32) == {}
    assert found.lines == count + 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 120_000
