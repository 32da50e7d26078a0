"""``--user NAME``: what a process needs to open sockets in, a process that has given it up for good out.

1. Groups first, then group, then user: in another order the right to change them is gone.
2. Capabilities are dropped as well: changing from one user to another that is not root would keep them.
3. It is tried whether the rights come back; if they do, nothing is captured.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Final

_CAPABILITIES_V3: Final = 0x2008_0522
_NO_NEW_PRIVILEGES: Final = 38
_ROOT: Final = 0


class PrivilegeError(Exception):
    """Rights cannot be given up; the text says why."""


def find_user(name: str) -> tuple[str, int, int]:
    """(name, user id, group id) of a user; PrivilegeError if there is none."""
    import pwd  # POSIX only

    try:
        found = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except KeyError:
        raise PrivilegeError(f"--user {name}: no such user") from None
    if found.pw_uid == _ROOT:
        raise PrivilegeError(f"--user {name}: this user is root, which gives up nothing")
    return found.pw_name, found.pw_uid, found.pw_gid


def become(name: str) -> None:
    """Run as a user from here on; PrivilegeError if that fails, or could be undone."""
    own, user, group = find_user(name)
    try:
        if os.getuid() != user or os.getgid() != group:
            os.initgroups(own, group)
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
    except PermissionError:
        raise PrivilegeError(f"--user {name}: CAP_SETUID and CAP_SETGID are missing: run as root") from None
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    library.capset(struct.pack("=Ii", _CAPABILITIES_V3, 0), bytes(24))
    if os.getresuid() != (user,) * 3 or os.getresgid() != (group,) * 3 or _comes_back():
        raise PrivilegeError(f"--user {name}: the rights of before could be taken back")
    for needed in (__file__, os.__file__):
        if not os.access(needed, os.R_OK):
            raise PrivilegeError(f"--user {name}: this user cannot read {needed}, and mqsniff needs it")


def _comes_back() -> bool:
    """Whether root's identity, or a capability, can be had again."""
    for regain in (os.setuid, os.seteuid, os.setgid):
        try:
            regain(_ROOT)
        except OSError:
            continue
        return True
    held = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return any(int(held[kind].strip(), 16) for kind in ("CapPrm", "CapEff"))
