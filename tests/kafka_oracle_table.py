"""Oracles and captures in; ``proto/kafka_oracles.json``, which says who vouches for which layout, out.

A chore: ``python tests/kafka_oracle_table.py FOLDER…`` with folders of captures from real brokers. A test holds the
parts that need no captures against the file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "dissectors" / "kafka")]

import kafka_python_oracle  # noqa: E402  # found on the path that was just set
import kafka_vectors  # noqa: E402
import kio_oracle  # noqa: E402

from mqsniff.dissector import Settings  # noqa: E402
from mqsniff.model import Message, MessageItem  # noqa: E402
from mqsniff.pipeline import Pipeline  # noqa: E402
from mqsniff.sources.files import FileSource  # noqa: E402
from mqsniff_kafka import specs  # noqa: E402

TABLE = HERE.parent / "proto" / "kafka_oracles.json"

Layout = tuple[int, str, int]
"""API key, request or response, version."""


def encoders() -> dict[str, set[Layout]]:
    """What other people's encoders can write: Kafka's own, by releases, before others."""
    kafka = {f"Kafka {release}": kafka_vectors.vouched(release) for release in kafka_vectors.releases()}
    return {
        **{name: layouts for name, layouts in kafka.items() if layouts},
        "kio": {(case.key, case.kind, case.version) for case in kio_oracle.cases() if case.key is not None},
        "kafka-python": {(case.key, case.kind, case.version) for case in kafka_python_oracle.cases()},
    }


REASONS: dict[str, set[Layout]] = {}
"""Why nobody else could be asked -> the layouts that have no oracle."""


def captured(folders: Iterable[Path]) -> set[Layout]:
    """What clients and brokers said in captures, consumed to the last byte."""
    keys = {api.name: key for key, api in specs.apis().items()}
    found = set()
    for path in (path for folder in folders for path in sorted(folder.glob("*.pcap*"))):
        for item in Pipeline(FileSource([str(path)]), Settings()).items():
            if isinstance(item, MessageItem) and _is_proof(item.message, keys):
                kind = "response" if item.message.kind == "response" else "request"
                found.add((keys[item.message.name], kind, item.message.version or 0))
    return found


def _is_proof(message: Message, keys: dict[str, int]) -> bool:
    fell_back = message.name == "ApiVersions" and message.error_count
    return message.protocol == "kafka" and message.name in keys and not (message.problems or fell_back)


def as_text(versions: Iterable[int]) -> str:
    """Versions as "0-3,5"."""
    ranges: list[list[int]] = []
    for version in sorted(versions):
        if ranges and ranges[-1][1] == version - 1:
            ranges[-1][1] = version
        else:
            ranges.append([version, version])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def table_of(layouts: set[Layout]) -> dict[str, dict[str, str]]:
    """Kind -> API -> versions."""
    return {
        kind: {
            specs.apis()[key].name: as_text(version for one, other, version in layouts if (one, other) == (key, kind))
            for key in sorted({one for one, other, _ in layouts if other == kind})
        }
        for kind in ("request", "response")
    }


def main(folders: list[Path]) -> None:
    """Write the file."""
    found = encoders() | {"captures": captured(folders)}
    file = {
        "oracles": {name: table_of(layouts) for name, layouts in found.items()},
        "self": {reason: table_of(layouts) for reason, layouts in REASONS.items()},
    }
    TABLE.write_text(json.dumps(file, indent=1) + "\n")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
