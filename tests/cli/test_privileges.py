"""Rights that are given up: in a process of its own, where they are there to be given up."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys

import pytest

from mqsniff.cli.privileges import PrivilegeError, become, find_user

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def test_root_is_no_user_to_become():
    with pytest.raises(PrivilegeError, match="gives up nothing"):
        become("root")


def test_an_unknown_user_is_told():
    with pytest.raises(PrivilegeError, match="--user no-such-user: no such user"):
        find_user("no-such-user")


def test_a_user_goes_by_name_or_number():
    nobody = pwd.getpwnam("nobody")
    assert find_user("nobody") == find_user(str(nobody.pw_uid)) == ("nobody", nobody.pw_uid, nobody.pw_gid)


def test_without_the_right_the_capability_is_named(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "initgroups", refuse)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    with pytest.raises(PrivilegeError, match="CAP_SETUID and CAP_SETGID are missing"):
        become("nobody")


PROGRAM = """
import os, sys
from pathlib import Path
import mqsniff.cli.privileges as privileges
os.access = lambda *_: True  # where the tests stand is no part of this
privileges.become("nobody")
held = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(os.getresuid(), os.getresgid(), os.getgroups(), held["CapEff"].strip(), held["NoNewPrivs"].strip())
for regain in (lambda: os.setuid(0), lambda: os.setgroups([0]), lambda: os.setresuid(0, 0, 0)):
    try:
        regain()
    except PermissionError:
        continue
    sys.exit("it came back")
"""


@needs_root
def test_rights_are_gone_for_good():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    nobody = pwd.getpwnam("nobody")
    user, group = (nobody.pw_uid,) * 3, (nobody.pw_gid,) * 3
    assert done.stdout.strip() == f"{user} {group} {[nobody.pw_gid]} {'0' * 16} 1"
