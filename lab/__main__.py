"""Runs scenarios, each in network, PID and mount namespaces of its own, which end with it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import lab.plays  # noqa: F401  (lists the scenarios)
from lab.downloads import DRAFTS, WITH_US, LabError
from lab.samples import install, sampled
from lab.scenarios import SCENARIOS, WORK, listing, take
from lab.scratch import scratch, sweep

_INSIDE: Final = "MQSNIFF_LAB_INSIDE"
_NETWORK: Final = (
    ("ip", "link", "set", "lo", "up"),
    ("ip", "link", "add", "lab0", "type", "veth", "peer", "name", "lab1"),
    ("ip", "address", "add", "10.88.0.1/24", "dev", "lab0"),
    ("ip", "link", "set", "lab0", "up"),
    ("hostname", "localhost"),
)
"""A loopback to play on; and what brokers need at their start: another address, and a host name that resolves."""
_SCRATCH: Final = ("mount", "-t", "tmpfs", "-o", "size=6g", "lab", str(WORK))
"""Where servers keep their files: memory that goes away with the mount namespace."""
_UNSHARE: Final = (*WITH_US, "unshare", "--net", "--pid", "--mount-proc", "--uts", "--fork", "--kill-child")
"""Namespaces that end with this program."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="lab", description="Captures of real brokers and clients.")
    parser.add_argument("command", choices=("list", "run", "all", "retake"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios to run or retake; see list")
    parser.add_argument("--out", type=Path, default=Path("lab-captures"), help="folder for captures  [lab-captures]")
    options = parser.parse_args(arguments)
    if options.command == "list":
        print(listing())
        return 0
    names = options.names or {"all": list(SCENARIOS), "retake": sampled()}.get(options.command, [])
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown or not names:
        parser.error(f"no scenario {', '.join(unknown)}" if unknown else "a scenario is needed; see list")
    if os.environ.get(_INSIDE):
        return _inside(names[0], options.out)
    for left in sweep(DRAFTS):
        print(f"lab: removed {left}, left by a run that was killed", file=sys.stderr)
    codes = {name: _contained(name, None if options.command == "retake" else options.out) for name in names}
    if len(names) > 1:
        failed = [name for name, code in codes.items() if code]
        without = f", not {', '.join(failed)}" if failed else ""
        print(f"lab: {len(names) - len(failed)} of {len(names)} scenarios done{without}")
    return max(codes.values())


def _contained(name: str, out: Path | None) -> int:
    """Run one scenario, or retake its sample; what fails does not stop those after it."""
    try:
        return _retake(name) if out is None else _run_apart(name, out)
    except LabError as error:
        print(f"lab: {name}: {error}", file=sys.stderr)
        return 2


def _retake(name: str) -> int:
    """Run one scenario, and put what it made among the samples if its expectations hold."""
    with scratch(DRAFTS, "retake") as place:
        code = _run_apart(name, place)
        if code == 0:
            print(f"lab: {install(place / f'lab-{name}.pcap')}", flush=True)
    return code


def _run_apart(name: str, out: Path) -> int:
    """Run one scenario in namespaces of its own: whatever it started ends with it, even if it is killed."""
    for program in ("unshare", "setpriv", "ip", "tcpdump", "java"):
        if shutil.which(program) is None:
            print(
                f"lab: {program} is missing (apt install util-linux iproute2 tcpdump openjdk-17-jre-headless)",
                file=sys.stderr,
            )
            return 2
    if os.geteuid():
        print("lab: namespaces and tcpdump need root", file=sys.stderr)
        return 2
    started = time.monotonic()
    SCENARIOS[name].fetch()
    command = [*_UNSHARE, sys.executable, "-m", "lab", "run", name, "--out", str(out.absolute())]
    done = subprocess.run(command, env=dict(os.environ, **{_INSIDE: "1"}), check=False)
    print(
        f"lab: {name}: {'done' if done.returncode == 0 else 'FAILED'} in {time.monotonic() - started:.0f} s", flush=True
    )
    return done.returncode


def _inside(name: str, out: Path) -> int:
    """Play a scenario inside its namespaces, then check the capture against what the clients said."""
    WORK.mkdir(parents=True, exist_ok=True)
    for command in (*_NETWORK, _SCRATCH):
        subprocess.run(command, check=True)
    try:
        capture = take(name, out)
    except LabError as error:
        print(f"lab: {name}: {error}", file=sys.stderr)
        return 1
    expected = capture.with_name(capture.name + ".expect.toml")
    return subprocess.run(
        [sys.executable, "-m", "mqsniff", "check", "--expect", str(expected), str(capture)], check=False
    ).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as failure:
        print(f"lab: {failure}", file=sys.stderr)
        sys.exit(2)
