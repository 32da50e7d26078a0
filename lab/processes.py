"""Servers and tcpdump as child processes of a scenario.

All of it runs in a PID namespace of its own (``lab.__main__``), so that nothing outlives the scenario, however it ends.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from lab.downloads import LabError, nsq_programs, pulsar_jars
from lab.scenarios import Take

CLIENTS: Final = Path(__file__).with_name("clients")
_PATIENCE_S: Final = 90.0
_LISTENS: Final = "0A"
"""State of a listening socket in /proc/net/tcp."""
_PULSAR: Final = """brokerServicePort=6650
webServicePort=8080
bindAddress=0.0.0.0
advertisedAddress=127.0.0.1
clusterName=standalone
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
managedLedgerCacheSizeMB=32
allowAutoTopicCreation=true
loadBalancerEnabled=false
allowLoopback=true
journalMaxSizeMB=64
journalPreAllocSizeMB=4
journalSyncData=false
diskUsageThreshold=0.999
diskUsageWarnThreshold=0.99
minUsableSizeForIndexFileCreation=10485760
dbStorage_writeCacheMaxSizeMb=48
dbStorage_readAheadCacheMaxSizeMb=32
dbStorage_rocksDB_blockCacheSize=16777216
ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage
"""
"""A broker with its bookie on one small machine."""
_PULSAR_OPENS: Final = (
    *(f"java.base/{package}" for package in ("java.io", "java.lang", "java.nio", "java.util.zip", "sun.net")),
    *(f"java.base/jdk.internal.{package}" for package in ("loader", "misc", "platform")),
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
"""Packages that Pulsar reads by reflection, as its own start script opens them."""
_SETTLE_S: Final = 1.5
"""Time in which tcpdump writes what it holds."""


def listens(port: int) -> bool:
    """Whether a server listens on a port: the kernel's table is read, so that no probe lands in the capture."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                return True
    return False


def start(
    command: Sequence[str], log: Path, port: int, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a server and wait until its port listens; LabError if it never does."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=log.parent, env=environment)
    until = time.monotonic() + _PATIENCE_S
    while not listens(port):
        if process.poll() is not None or time.monotonic() > until:
            raise LabError(f"{Path(command[0]).name} does not listen on {port}: {_reason(log)}")
        time.sleep(0.1)
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a server in order, or after 20 s at once."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def server(
    command: Sequence[str], log: Path, port: int, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a server from when its port listens to the end of the block; LabError if it never does."""
    process = start(command, log, port, environment)
    try:
        yield
    finally:
        stop(process)


def _await_page(address: str) -> None:
    """Wait until a page of a server's administration is there; LabError if it never is."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        try:
            with urlopen(address, timeout=3):
                return
        except OSError:
            time.sleep(0.5)
    raise LabError(f"{address} does not answer")


def _reason(log: Path) -> str:
    """What a log says of its end: the causes that it names, else its last lines."""
    lines = log.read_text(errors="replace").strip().splitlines()
    causes = [line for line in lines if "Caused by" in line or "ERROR" in line or "Exception: " in line]
    return " / ".join(line.strip() for line in (causes or lines)[-3:])


@contextmanager
def captured(one: Take, expression: str) -> Iterator[None]:
    """Capture the loopback of this namespace during the block; LabError if the kernel dropped packets."""
    options = ["-i", "lo", "-s", "0", "-B", "65536", "-U", "-n", "-Z", "root", "-w", str(one.capture)]
    process = subprocess.Popen(["tcpdump", *options, *expression.split()], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    process.stderr.readline()  # "listening on lo": from here on nothing is missed
    time.sleep(0.3)
    try:
        yield
        time.sleep(_SETTLE_S)
    finally:
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    counts = {line.partition(" ")[2]: int(line.partition(" ")[0]) for line in told.splitlines() if line[:1].isdigit()}
    if counts.get("packets dropped by kernel"):
        raise LabError(f"tcpdump: {counts['packets dropped by kernel']} packets dropped by kernel")
    one.truth.packets(counts["packets captured"])


def run(command: Sequence[str], *, given: str | None = None, seconds: float = 120) -> str:
    """Run a client to its end; its stdout. LabError if it fails."""
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as late:
        told = (late.stdout or b"").decode(errors="replace").strip()[-200:]
        raise LabError(f"{Path(command[0]).name}: not done after {seconds:g} s; {told}") from None
    if done.returncode:
        raise LabError(
            f"{' '.join(command[:4])}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}"
        )
    return done.stdout


@contextmanager
def nsqd(work: Path, port: int = 4150) -> Iterator[None]:
    """A real nsqd."""
    data = work / "nsqd"
    data.mkdir()
    command = [str(nsq_programs() / "nsqd"), f"--tcp-address=127.0.0.1:{port}", f"--http-address=127.0.0.1:{port + 1}"]
    with server([*command, f"--data-path={data}"], work / "nsqd.log", port):
        yield


def java(
    jars: Path, main: str, *arguments: str, heap: str = "512m", home: Path | None = None, more: Sequence[Path] = ()
) -> list[str]:
    """The command of a Java program out of a folder of jars and ``more``; ``home``: what it takes for a home."""
    return [
        "java",
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Djava.net.preferIPv4Stack=true",
        *([f"-Duser.home={home}"] if home is not None else ()),
        "-cp",
        ":".join((f"{jars}/*", *map(str, more))),
        main,
        *arguments,
    ]


def compiled(work: Path, jars: Sequence[Path], *sources: str) -> Path:
    """A folder with the classes of Java programs of ``lab/clients``."""
    classes = work / "classes"
    paths = ":".join(f"{folder}/*" for folder in jars)
    run(["javac", "-nowarn", "-cp", paths, "-d", str(classes), *(str(CLIENTS / source) for source in sources)])
    return classes


@contextmanager
def pulsar(work: Path, version: str, settings: str = "") -> Iterator[Path]:
    """A real standalone Pulsar; gives its jars."""
    jars, home = pulsar_jars(version), work / "pulsar"
    home.mkdir()
    configuration = home / "standalone.conf"
    configuration.write_text(_PULSAR + settings)
    options = [
        "--config",
        str(configuration),
        "--metadata-dir",
        f"{home}/metadata",
        "--bookkeeper-dir",
        f"{home}/bookies",
    ]
    main = "org.apache.pulsar.PulsarStandaloneStarter"
    command = java(jars, main, *options, "-nfw", "-nss", heap="768m", home=home)
    command[1:1] = [
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _PULSAR_OPENS),
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-XX:MaxDirectMemorySize=768m",
    ]
    with server(command, work / "pulsar.log", 6650):
        _await_page("http://127.0.0.1:8080/admin/v2/namespaces/public/default")
        yield jars
