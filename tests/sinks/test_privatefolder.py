"""The private folder of a run: who may read it, and that it goes."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import pytest

from mqsniff.sinks.privatefolder import delete_orphans, private_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_ours_alone_and_goes_with_the_run(temporary):
    with private_folder() as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "tables").mkdir()
    assert list(temporary.iterdir()) == []


def test_it_goes_with_an_error_and_with_ctrl_c(temporary):
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), private_folder():
            raise error
    assert list(temporary.iterdir()) == []


def test_that_of_a_killed_run_goes_with_the_next_and_that_of_a_running_one_stays(temporary):
    code = f"""
import os, sys, signal, tempfile
sys.path[:] = {sys.path!r}
tempfile.tempdir = {str(temporary)!r}
from mqsniff.sinks.privatefolder import private_folder
with private_folder() as folder:
    os.kill(os.getpid(), signal.SIGKILL)
"""
    with private_folder() as running:
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
        assert len(list(temporary.iterdir())) == 2
        delete_orphans(str(temporary))
        assert list(temporary.iterdir()) == [running]


def test_what_is_not_ours_stays(temporary):
    other = temporary / "other"
    other.mkdir()
    (other / ".lock").write_text("")
    (temporary / "mqsniff-run-link").symlink_to(other)
    (temporary / "mqsniff-run-new").mkdir()
    (temporary / "mqsniff-run-file").write_text("")
    (temporary / "mqsniff-run-odd").mkdir()
    (temporary / "mqsniff-run-odd" / ".lock").symlink_to(other / ".lock")
    delete_orphans(str(temporary))
    assert len(list(temporary.iterdir())) == 5
    assert (other / ".lock").exists()


def test_that_of_a_process_is_one_and_goes_with_it(temporary):
    code = f"""
import sys
sys.path[:] = {sys.path!r}
from mqsniff.sinks.privatefolder import process_folder
folder = process_folder({str(temporary)!r})
(folder / "key").write_text("secret")
assert process_folder({str(temporary)!r}) == folder
print(folder.parent, folder.stat().st_mode & 0o777)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == [str(temporary), str(0o700)]
    assert list(temporary.iterdir()) == []
