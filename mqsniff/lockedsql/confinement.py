"""A process that will run untrusted SQL in, the same process without what it does not need out.

1. The order: ``stay_with_parent`` first, ``deny_system_calls`` before any thread starts (threads inherit it),
   ``deny_files`` after imports and before the database starts its threads, ``bound_memory`` after its start, which is
   not compared with the query.
2. What the system does not have is left out: system call filters exist on Linux, for x86-64 and ARM64; Landlock since
   Linux 5.13; limits of memory where the system enforces them. docs/security.md says which system has what.
3. Nothing here can be undone by the process itself.

Sources: prctl(2), seccomp(2), landlock(7), setrlimit(2), and the headers linux/seccomp.h, linux/audit.h,
linux/landlock.h, asm/unistd.h of the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2


class _Calls(NamedTuple):
    """Numbers of system calls of a processor architecture."""

    audit_arch: int
    denied: tuple[int, ...]
    clone: int
    """Allowed for threads only."""
    tgkill: int
    """Allowed for the process itself only: abort() uses it."""


_CLONE3: Final = 435  # its flags are after a pointer, which no filter can follow; without it glibc uses clone
_CALLS: Final = {
    "x86_64": _Calls(
        audit_arch=0xC000003E,
        denied=(
            *(41, 42, 43, 49, 50, 53, 288),  # socket connect accept bind listen socketpair accept4
            *(57, 58, 59, 322),  # fork vfork execve execveat
            *(62, 129, 200, 297, 424),  # kill rt_sigqueueinfo tkill rt_tgsigqueueinfo pidfd_send_signal
            *(101, 310, 311, 434, 438),  # ptrace process_vm_readv process_vm_writev pidfd_open pidfd_getfd
            *(165, 272, 304, 308, 321, 298),  # mount unshare open_by_handle_at setns bpf perf_event_open
            *(248, 249, 250, 425, 323),  # add_key request_key keyctl io_uring_setup userfaultfd
        ),
        clone=56,
        tgkill=234,
    ),
    "aarch64": _Calls(
        audit_arch=0xC00000B7,
        denied=(
            *(198, 203, 202, 200, 201, 199, 242),
            *(221, 281),
            *(129, 138, 130, 240, 424),
            *(117, 270, 271, 434, 438),
            *(40, 97, 265, 268, 280, 241),
            *(217, 218, 219, 425, 282),
        ),
        clone=220,
        tgkill=131,
    ),
}
_X32: Final = 0x40000000
"""Bit of the numbers of x86-64's other table of system calls, which would be a way around."""
_CLONE_THREAD: Final = 0x00010000

# BPF: operations, and offsets in struct seccomp_data
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_READ: Final = 1 << 2 | 1 << 3  # files, folders
_WRITE: Final = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 14  # write, remove, make, truncate
_ACCESS_BITS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Version of Landlock -> how many kinds of access to files it knows."""
_NET_VERSION: Final = 4
_SCOPE_VERSION: Final = 6

FILE_SIZE: Final = resource.RLIMIT_FSIZE
_STACK: Final = 8 << 20
_SYSTEM_FILES: Final = ("/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/sys/devices/system/cpu", "/sys/fs/cgroup")
"""What Arrow and DuckDB ask for the number of processors and the memory."""


def stay_with_parent(parent: int) -> None:
    """Die with the parent, leave no memory after in a core file, and be the first that a lack of memory ends."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(_PR_SET_DUMPABLE, 0)
    if os.getppid() != parent:  # it died before
        os.kill(os.getpid(), signal.SIGKILL)


def deny_system_calls() -> bool:
    """Deny sockets, other processes and the like; whether the system can."""
    calls = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if calls is None:
        return False
    program = _program(calls, os.getpid())
    code = ctypes.create_string_buffer(program, len(program))
    filter_of_kernel = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    return _prctl(_PR_SET_NO_NEW_PRIVS, 1) == 0 and _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filter_of_kernel) == 0


def _program(calls: _Calls, process: int) -> bytes:
    """A filter of system calls: what is denied fails with EPERM, the rest is allowed."""
    denied = _FAIL | errno.EPERM

    def unless(number: int, *rest: bytes) -> bytes:
        """Instructions for one system call; others skip them."""
        return _instruction(_EQUAL, number, 0, len(rest)) + b"".join(rest)

    parts = [
        _instruction(_LOAD, _ARCH),
        _instruction(_EQUAL, calls.audit_arch, 1, 0),
        _instruction(_RETURN, denied),
        _instruction(_LOAD, _NUMBER),
        _instruction(_AT_LEAST, _X32, 0, 1),
        _instruction(_RETURN, denied),
        *(unless(number, _instruction(_RETURN, denied)) for number in calls.denied),
        unless(_CLONE3, _instruction(_RETURN, _FAIL | errno.ENOSYS)),
        unless(
            calls.clone,
            _instruction(_LOAD, _ARGUMENT),
            _instruction(_ANY_BIT, _CLONE_THREAD, 1, 0),
            _instruction(_RETURN, denied),
            _instruction(_RETURN, _ALLOW),
        ),
        unless(
            calls.tgkill,
            _instruction(_LOAD, _ARGUMENT),
            _instruction(_EQUAL, process, 1, 0),
            _instruction(_RETURN, denied),
        ),
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(parts)


def _instruction(operation: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction of BPF: ``then`` and ``otherwise`` are instructions to skip."""
    return struct.pack("@HBBI", operation, then, otherwise, value)


def deny_files(readable: Iterable[str], writable: Iterable[str]) -> bool:
    """Deny all files but those below some folders, and the modules of this program; whether the system can."""
    if sys.platform != "linux":
        return False
    version = _system_call(_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return False
    handled = (1 << _ACCESS_BITS.get(version, max(_ACCESS_BITS.values()))) - 1
    net = 3 if version >= _NET_VERSION else 0  # bind and connect of TCP
    scope = 3 if version >= _SCOPE_VERSION else 0  # abstract sockets, signals
    attributes = struct.pack("@QQQ", handled, net, scope)[: 8 + 8 * (net > 0) + 8 * (scope > 0)]
    rules = _system_call(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    if rules < 0:
        return False
    for path in {*readable, *_modules(), *_SYSTEM_FILES}:
        _allow(rules, path, _READ & handled)
    for path in {*writable}:
        _allow(rules, path, (_READ | _WRITE) & handled)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    denied = _system_call(_LANDLOCK_RESTRICT, rules, 0) == 0
    os.close(rules)
    return denied


def _modules() -> set[str]:
    """Folders of the packages that are loaded, since some of their modules are loaded when they are needed."""
    packages = {name.partition(".")[0] for name in sys.modules}
    files = (getattr(sys.modules.get(name), "__file__", None) for name in packages)
    folders = {os.path.dirname(file) for file in files if file is not None and "__init__" in file}  # noqa: PTH120
    return folders | {os.path.dirname(os.__file__)}  # noqa: PTH120  # the standard library


def _allow(rules: int, path: str, access: int) -> None:
    """Allow access below a path; one that does not exist needs none."""
    with suppress(OSError):
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not os.path.isdir(path):  # noqa: PTH112
            access &= 1 << 1 | 1 << 2 | 1 << 14
        _system_call(_LANDLOCK_ADD, rules, 1, struct.pack("=Qi", access, folder), 0)
        os.close(folder)


def bound_memory(size: int) -> None:
    """Let the process take so many bytes more than it has now; stacks of threads that Arrow starts are beside it."""
    stacks = _STACK * ((os.cpu_count() or 1) + 16)
    with suppress(OSError, ValueError, IndexError):
        pages = list(map(int, Path("/proc/self/statm").read_text().split()))
        page = resource.getpagesize()
        bound(resource.RLIMIT_AS, pages[0] * page + size + stacks)
        bound(resource.RLIMIT_DATA, pages[5] * page + size + stacks)  # without what is only reserved


def bound_processor(seconds: int) -> None:
    """Let the process take so many seconds of processors more, of all its threads together; SIGXCPU ends it then."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    bound(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + seconds, beyond=5)


def bound(kind: int, most: int, beyond: int = 0) -> None:
    """Set a limit of resources, unless there is a smaller one; the hard limit is ``beyond`` it."""
    _, hard = resource.getrlimit(kind)
    free = hard == resource.RLIM_INFINITY
    with suppress(OSError, ValueError, OverflowError):  # macOS has some of them by name only
        resource.setrlimit(kind, (most, most + beyond) if free else (min(most, hard), min(most + beyond, hard)))


def _prctl(option: int, *arguments: int | bytes) -> int:
    library = ctypes.CDLL(None)
    given = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    result: int = library.prctl(option, *given, *[ctypes.c_ulong(0)] * (4 - len(given)))
    return result


def _system_call(number: int, *arguments: int | bytes | None) -> int:
    """A system call that the C library has no function for; -1 if it fails."""
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    result: int = call(ctypes.c_long(number), *given)
    return result
