"""Releases of Kafka in; what their own classes wrote, as ``*.ndjson.xz``, out.

    python tests/dissectors/kafka/vectors/generate.py

needs Java 17, Maven and a way to Maven Central, and makes all files again, which takes some minutes. Nothing is random:
the same releases and the same Java give the same lines.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
FILES: Final = {
    "FormatVectors": "formats",
    "MemberFormats": "formats",
    "PreviewVectors": "formats",
    "BatchVectors": "batches",
}
"""What stands inside messages: program -> how its files are called."""


class Release(NamedTuple):
    """A release of Kafka, and what is taken of it."""

    version: str
    messages: str = "MessageVectors"
    """The program for its messages: releases before 2.4 had no generated classes."""
    only_new: bool = False
    """Leave out what a release above wrote in the same form."""
    others: tuple[str, ...] = ()
    """Programs for what stands inside messages."""
    clients: bool = False
    """Fetch Streams, Connect and MirrorMaker too."""
    scala: str = "2.13"


RELEASES: Final = (
    Release("4.4.0", others=("FormatVectors", "BatchVectors")),
    Release("3.9.2"),
    Release("2.8.2", others=("PreviewVectors",)),
    Release("4.3.1", only_new=True, others=("MemberFormats",), clients=True),
    Release("4.2.2", only_new=True),
    Release("4.1.2", only_new=True),
    Release("4.0.2", only_new=True),
    Release("3.7.2", only_new=True),
    Release("3.5.1", only_new=True),
    Release("3.1.2", only_new=True),
    Release("2.7.2", only_new=True),
    Release("1.1.1", messages="OldVectors", scala="2.12"),
)


def main() -> None:
    """Make all files again."""
    with tempfile.TemporaryDirectory(prefix="kafka-vectors-") as folder:
        for release in RELEASES:
            jars = fetch(release, Path(folder))
            arguments = [str(jars), str(Path(folder) / "seen"), *(["only-new"] if release.only_new else [])]
            save(f"messages-{release.version}", run(release.messages, jars, arguments))
            for program in release.others:
                save(f"{FILES[program]}-{release.version}", run(program, jars, []))


def fetch(release: Release, folder: Path) -> Path:
    """The release's jars, and those that they need."""
    jars = folder / release.version
    profile = ["-Pclients"] if release.clients else []
    properties = {
        "kafka.version": release.version,
        "scala.version": release.scala,
        "outputDirectory": str(jars),
    }
    options = [f"-D{name}={value}" for name, value in properties.items()]
    subprocess.run(["mvn", "-q", "-B", *profile, *options, "dependency:copy-dependencies"], cwd=HERE, check=True)
    return jars


def run(program: str, jars: Path, arguments: list[str]) -> bytes:
    """What a program prints."""
    classes = jars / "classes"
    paths = ["-cp", f"{classes}:{jars}/*"]
    compiler = ["javac", "-proc:none", "-sourcepath", str(HERE), "-d", str(classes)]
    subprocess.run([*compiler, *paths, str(HERE / f"{program}.java")], check=True)
    return subprocess.run(["java", *paths, program, *arguments], check=True, stdout=subprocess.PIPE).stdout


def save(name: str, lines: bytes) -> None:
    """Keep lines, compressed."""
    path = HERE / f"{name}.ndjson.xz"
    path.write_bytes(lzma.compress(lines, preset=9 | lzma.PRESET_EXTREME))
    sys.stdout.write(f"{path.name}: {len(lines.splitlines())} lines, {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
