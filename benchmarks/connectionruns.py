"""What a million connections cost that say next to nothing: ``python benchmarks/connectionruns.py [--count N]``.

1. Two captures of ``manyconnections.py``: a SYN each, and one packet with a request each.
2. Each is decoded to Parquet of connections, to NDJSON, and to NDJSON with a ``state_max`` that is too small for them.
3. The output is a table of Markdown: CPU seconds, peak of memory, bytes for each connection beyond what a run over
   a capture of one connection needs, and the connections that a limit closed early.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from measuring import MB, MQSNIFF, made, markdown, spend

KINDS: Final = {"syn": "a SYN each", "request": "one request each"}
SMALL: Final = 64 << 20
COLUMNS: Final = ("capture", "output", "`state_max`", "CPU s", "peak MB", "bytes a connection", "limits said")


def runs(folder: Path) -> Iterator[tuple[str, str, list[str]]]:
    """(output, state_max, options)."""
    yield "Parquet of connections", "1 GiB", ["-o", "parquet", "--out", str(folder / "rows"), "--table", "connections"]
    yield "NDJSON", "1 GiB", ["-o", "ndjson"]
    yield "NDJSON", "64 MiB", ["-o", "ndjson", "--limit", f"state_max={SMALL}"]


def told(output: Path) -> str:
    """The problems of kind limit of an NDJSON output, by what they say."""
    found: Counter[str] = Counter()
    with output.open("rb") as lines:
        for line in lines:
            if b'"limit"' in line and (row := json.loads(line)).get("kind") == "limit":
                found[row["detail"]] += 1
    return "; ".join(f"{count:,} × {detail}" for detail, count in found.most_common(3)) or "nothing"


def measured(count: int, folder: Path) -> Iterator[list[str]]:
    """Rows of the table."""
    for kind, name in KINDS.items():
        one = made("manyconnections.py", f"connections-{kind}-1", 1, mode=kind).path
        many = made("manyconnections.py", f"connections-{kind}-{count}", count, mode=kind).path
        for output, limit, options in runs(folder):
            least = spend(*MQSNIFF, "decode", *options, str(one)).peak_mb
            shutil.rmtree(folder / "rows", ignore_errors=True)
            lines = folder / "lines"
            used = spend(*MQSNIFF, "decode", *options, str(many), out=lines)
            shutil.rmtree(folder / "rows", ignore_errors=True)
            each = (used.peak_mb - least) * MB / count
            figures = (f"{used.cpu_s:.0f}", f"{used.peak_mb:.0f}", f"{each:.0f}")
            said = told(lines) if output == "NDJSON" else ""
            ended = "" if used.code == 0 else f"exit code {used.code}: {used.said[-200:]} "
            yield [name, output, limit, *figures, ended + said]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What many connections cost that say next to nothing.")
    parser.add_argument("--count", type=int, default=1_000_000, help="connections of a capture")
    count = parser.parse_args().count
    print(f"{count:,} connections:\n")
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for row in measured(count, Path(folder)):
            rows.append(row)
            print(" | ".join(row), flush=True)
    print(f"\n{markdown(COLUMNS, rows)}")


if __name__ == "__main__":
    main()
