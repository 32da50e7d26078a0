"""Versions of brokers and clients, pinned; fetched once into a cache, through the package managers of their languages.

Maven checks each jar against the SHA-1 beside it and Go each module against the checksum database; on top of that,
``pins.json`` holds a SHA-256 of every set, written when it was first fetched and compared ever after.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from lab.scratch import scratch

CACHE: Final = Path(os.environ.get("MQSNIFF_LAB_CACHE") or Path.home() / ".cache" / "mqsniff-lab")
DRAFTS: Final = CACHE / "drafts"
"""Where programs are fetched and built, and samples made: nothing here outlives a run."""
WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")
"""Before a command: the kernel kills it when this program dies, even by SIGKILL."""
PINS: Final = Path(__file__).with_name("pins.json")

KAFKA: Final = {"newest": "4.4.0", "3.9": "3.9.1", "2.8": "2.8.2"}
STREAMS: Final = "4.3.1"
"""The newest Kafka Streams in Maven Central: 4.4.0 is not there."""
FRANZ: Final = "1.22.2"
"""franz-go, as ``clients/franz/go.mod`` and its ``go.sum`` pin it."""
NSQ: Final = "1.3.0"
ROCKETMQ: Final = {"newest": "5.5.0", "4.9": "4.9.7"}
"""Of 5.5.1, Maven Central has no name server and no client."""
PULSAR: Final = "4.2.4"
_KAFKA_SCALA: Final = "2.13"
_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>lab</groupId><artifactId>lab</artifactId><version>1</version>
<dependencyManagement><dependencies>{}</dependencies></dependencyManagement>
<dependencies>{}</dependencies></project>
"""
_MANAGED: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><type>pom</type><scope>import</scope>"
    "</dependency>"
)
_DEPENDENCY: Final = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


Artifact: TypeAlias = tuple[str, str, str]
"""Group, name and version."""


class LabError(Exception):
    """Something that the laboratory needs is missing or wrong; one line."""


def kafka_jars(version: str) -> Path:
    """The folder with the jars of a Kafka broker and its clients."""
    logger = "1.7.36" if version < "4" else "2.0.16"
    broker = ("org.apache.kafka", f"kafka_{_KAFKA_SCALA}", version)
    return jars(f"kafka-{version}", [broker, ("org.slf4j", "slf4j-simple", logger)])


def streams_jars() -> Path:
    """The folder with the jars of Kafka Streams."""
    library = ("org.apache.kafka", "kafka-streams", STREAMS)
    return jars(f"kafka-streams-{STREAMS}", [library, ("org.slf4j", "slf4j-simple", "2.0.16")])


def rocketmq_jars(version: str) -> Path:
    """The folder with the jars of RocketMQ's name server, broker and client."""
    names = ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-client")
    return jars(f"rocketmq-{version}", [("org.apache.rocketmq", name, version) for name in names])


def pulsar_jars(version: str) -> Path:
    """The folder with the jars of a standalone Pulsar."""
    managed = ("org.apache.pulsar", "pulsar", version)
    return jars(f"pulsar-{version}", [("org.apache.pulsar", "pulsar-broker", version)], [managed])


def jars(name: str, artifacts: Iterable[Artifact], managed: Iterable[Artifact] = ()) -> Path:
    """A folder with artifacts of Maven Central and all that they depend on; ``managed``: poms that decide versions."""
    folder = CACHE / name
    if not folder.is_dir():
        _need("mvn", "apt install maven")
        with scratch(DRAFTS, name) as place:
            dependencies = "".join(_DEPENDENCY.format(*artifact) for artifact in artifacts)
            versions = "".join(_MANAGED.format(*artifact) for artifact in managed)
            (place / "pom.xml").write_text(_POM.format(versions, dependencies))
            copied = place / "jars"
            command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={copied}"]
            _run([*command, "-DincludeScope=runtime"], place, place)
            copied.rename(folder)
    _check(folder)
    return folder


def go_programs(module: str, version: str, packages: Sequence[str]) -> Path:
    """A folder with programs of a Go module, built here."""
    folder = CACHE / f"{module.rpartition('/')[2]}-{version}"
    if not folder.is_dir():
        _need("go", "install Go, https://go.dev/dl")
        with scratch(DRAFTS, folder.name) as place:
            flags = "-modcacherw"
            told = _run(["go", "mod", "download", "-json", f"{module}@v{version}"], place, place, flags)
            source = place / "source"
            shutil.copytree(json.loads(told)["Dir"], source)
            for path in (source, *source.rglob("*")):
                path.chmod(path.stat().st_mode | 0o200)
            built = place / "built"
            built.mkdir()
            for package in packages:
                target = str(built / package.rpartition("/")[2])
                _run(["go", "build", "-trimpath", "-buildvcs=false", "-o", target, package], source, place, flags)
            built.rename(folder)
    _check(folder, is_built=True)
    return folder


def go_client() -> Path:
    """The Go client of ``clients/franz``, built here; its go.sum has the checksums of all modules."""
    source = Path(__file__).with_name("clients") / "franz"
    folder = CACHE / f"franz-go-{FRANZ}-{_digest(source)[:8]}"
    if not folder.is_dir():
        _need("go", "install Go, https://go.dev/dl")
        with scratch(DRAFTS, folder.name) as place:
            command = ["go", "build", "-trimpath", "-buildvcs=false", "-o", f"{place}/built/sweep", "."]
            _run(command, source, place, "-modcacherw -mod=readonly")
            (place / "built").rename(folder)
    return folder / "sweep"


def nsq_programs() -> Path:
    """nsqd, nsqlookupd and the clients that come with them (go-nsq)."""
    names = ("nsqd", "nsqlookupd", "to_nsq", "nsq_tail")
    return go_programs("github.com/nsqio/nsq", NSQ, [f"./apps/{name}" for name in names])


def _need(program: str, advice: str) -> None:
    if shutil.which(program) is None:
        raise LabError(f"{program} is missing: {advice}")


def _run(command: Sequence[str], folder: Path, place: Path, go_flags: str = "") -> str:
    """Run a program in a folder; ``place`` is where its temporary files go."""
    environment = dict(os.environ, TMPDIR=str(place), GOFLAGS=go_flags)
    done = subprocess.run(
        [*WITH_US, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip("\x1b[0m ")]
        told = [line for line in said if "ERROR" in line][:1] or said[-1:]
        raise LabError(f"{' '.join(command[:3])} failed: {' '.join(told)}")
    return done.stdout


def _digest(folder: Path) -> str:
    """SHA-256 of the names and contents of the files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _check(folder: Path, *, is_built: bool = False) -> None:
    """Compare a folder with its pin; what is built here differs by compiler, so that names only are compared."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        content = b"" if is_built else hashlib.sha256(path.read_bytes()).digest()
        digest.update(path.name.encode() + b"\0" + content)
    pins = json.loads(PINS.read_text()) if PINS.exists() else {}
    found = digest.hexdigest()
    if folder.name not in pins:
        pins[folder.name] = found
        PINS.write_text(json.dumps(pins, indent=1, sort_keys=True) + "\n")
    elif pins[folder.name] != found:
        raise LabError(f"{folder}: not what pins.json says; delete the folder to fetch it again")
