"""What hostile captures cost: ``python benchmarks/hostilecaptures.py GENERATOR NAME… [--good NAME] [--codec zstd]``.

1. GENERATOR is a script that writes a capture: ``GENERATOR gen NAME SCALE FILE``.
2. Each capture is decoded by ``mqsniff decode -o ndjson``, all tables: CPU seconds with the start, the peak of memory.
   A further MB is the difference between the largest and the smallest capture. Good traffic (``--good``) is measured
   before each of the others, so that both have the same machine.
3. With ``--codec`` the captures are compressed, ``--mb`` of file or 190 MB of packets, whichever comes first, and each
   run gets ``--most`` CPU seconds: what ended it is told.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import zstandard
from measuring import MB, MQSNIFF, environment, markdown

TABLES: Final = ("connections", "messages", "exchanges", "partitions", "records", "topics", "problems")
CODECS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "zstd": zstandard.ZstdCompressor(level=9).compress,
    "gzip": gzip.compress,
    "xz": lambda data: lzma.compress(data, preset=1),
}
PACKETS_MAX: Final = 190 * MB
"""Bytes of packets that are more than ``capture_ratio`` allows for 5 MB of file."""
COLUMNS: Final = ("capture", "MB", "CPU s", "a further MB", "times good traffic", "peak MB")
PACKED_COLUMNS: Final = ("capture", "file MB", "packets MB", "CPU s", "peak MB", "ends")


class Cost(NamedTuple):
    """What a run took."""

    mb: float
    cpu_s: float
    peak_mb: float
    ends: str
    """Exit code or signal, and the first ``limit`` problem."""


def generate(generator: str, name: str, scale: float, place: Path) -> Path:
    """A capture of a generator."""
    path = place / f"{name}.pcap"
    subprocess.run([sys.executable, generator, "gen", name, str(scale), str(path)], check=True)
    return path


def decode(path: Path, most_s: int) -> Cost:
    """Decode a capture, within so many CPU seconds."""
    tables = [part for table in TABLES for part in ("--table", table)]
    with tempfile.TemporaryFile() as problems:
        process = subprocess.Popen(
            [
                "sh",
                "-c",
                f'ulimit -t {most_s}; exec "$@"',
                "sh",
                *MQSNIFF,
                "decode",
                "-o",
                "ndjson",
                *tables,
                str(path),
            ],
            stdout=subprocess.PIPE,
            stderr=problems,
            env=environment(),
        )
        assert process.stdout is not None
        ends = next((f", {detail}" for detail in _limits(process.stdout)), "")
        for _ in process.stdout:
            pass
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu_s = used.ru_utime + used.ru_stime
    return Cost(path.stat().st_size / MB, cpu_s, used.ru_maxrss * 1024 / MB, f"exit code {process.returncode}{ends}")


def _limits(lines: Iterator[bytes]) -> Iterator[str]:
    """What the problems of limits say."""
    for line in lines:
        if b'"kind":"limit"' in line:
            yield str(json.loads(line)["detail"])


def packed(generator: str, name: str, codec: str, mb: float, place: Path) -> tuple[Path, float]:
    """(a compressed capture, MB of its packets): ``mb`` of file, if as many packets are enough."""
    scale = 1.0
    for _ in range(3):
        data = generate(generator, name, scale, place).read_bytes()
        path = place / f"{name}.pcap.{codec}"
        path.write_bytes(CODECS[codec](data))
        short = min(mb * MB / path.stat().st_size, PACKETS_MAX / len(data))
        if short < 1.1:
            break
        scale *= short
    return path, len(data) / MB


def plain_rows(asked: argparse.Namespace, place: Path) -> Iterator[list[str]]:
    """A row for each generator."""
    scales = sorted(asked.scales)
    for name in asked.names:
        good = [decode(generate(asked.generator, asked.good, scale, place), asked.most) for scale in scales]
        costs = [decode(generate(asked.generator, name, scale, place), asked.most) for scale in scales]
        further, usual = _further(costs), _further(good)
        yield [
            name,
            " / ".join(f"{each.mb:.2f}" for each in costs),
            " / ".join(f"{each.cpu_s:.1f}" for each in costs),
            f"{further:.2f}",
            f"{further / usual:.1f}",
            f"{max(each.peak_mb for each in costs):.0f}",
        ]


def _further(costs: list[Cost]) -> float:
    """CPU seconds that a further MB costs."""
    return (costs[-1].cpu_s - costs[0].cpu_s) / max(costs[-1].mb - costs[0].mb, 1e-3)


def packed_rows(asked: argparse.Namespace, place: Path) -> Iterator[list[str]]:
    """A row for each generator, compressed."""
    for name in asked.names:
        path, packets_mb = packed(asked.generator, name, asked.codec, asked.mb, place)
        cost = decode(path, asked.most)
        yield [name, f"{cost.mb:.2f}", f"{packets_mb:.1f}", f"{cost.cpu_s:.1f}", f"{cost.peak_mb:.0f}", cost.ends]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What hostile captures cost.")
    parser.add_argument("generator", help="a script: GENERATOR gen NAME SCALE FILE")
    parser.add_argument("names", nargs="+", help="captures that it writes")
    parser.add_argument("--good", default="normal-kafka", help="its good traffic")
    parser.add_argument("--scales", type=float, nargs=3, default=(0.25, 0.5, 1.0), help="three sizes")
    parser.add_argument("--codec", choices=CODECS, help="compress the captures")
    parser.add_argument("--mb", type=float, default=5.0, help="size of a compressed file")
    parser.add_argument("--most", type=int, default=150, help="CPU seconds of a run")
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="mqsniff-hostile-") as place:
        make = packed_rows if asked.codec else plain_rows
        for row in make(asked, Path(place)):
            rows.append(row)
            print(" | ".join(row), flush=True)
    print(f"\n{markdown(PACKED_COLUMNS if asked.codec else COLUMNS, rows)}")


if __name__ == "__main__":
    main()
