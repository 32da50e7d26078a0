"""Sources of truth in, data files of the dissectors out.

python proto/build.py            writes the data/ folder of each package of dissectors/
python proto/build.py --check    fails where a committed file is not what the sources give
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import kafka_build
import otlp_build
import pulsar_build
import rocketmq_build

DATA: Final = Path(__file__).parent.parent / "dissectors"

Builders: TypeAlias = Mapping[str, Callable[[], bytes]]

BUILDERS: Final[Builders] = {
    "mqsniff_kafka/data/kafka.jsonl": kafka_build.build,
    "mqsniff_kafka/data/otlp.binpb": otlp_build.build,
    "mqsniff_pulsar/data/pulsar.binpb": pulsar_build.build,
    "mqsniff_rocketmq/data/rocketmq.json": rocketmq_build.build,
}
"""File in ``dissectors/`` -> what makes its content."""


def stale(data: Path = DATA, builders: Builders = BUILDERS) -> list[str]:
    """Names of data files that are missing or differ from what their sources give."""
    return [
        name
        for name, builder in builders.items()
        if not (data / name).is_file() or (data / name).read_bytes() != builder()
    ]


def write(data: Path = DATA, builders: Builders = BUILDERS) -> None:
    """Write every data file."""
    for name, builder in builders.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(builder())


def main(arguments: list[str] | None = None, data: Path = DATA) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Build the data of dissectors/ from proto/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is stale")
    if not parser.parse_args(arguments).check:
        write(data)
        return 0
    names = stale(data)
    for name in names:
        print(f"stale: dissectors/{name} (run: python proto/build.py)", file=sys.stderr)
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
