"""Writes the tables of docs/metrics.md from the families that the code exports; --check only compares.

.venv/bin/python docs/build_metrics.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from generated import write

from mqsniff.answers.metrics.families import BOUNDS_NS, FAMILIES, PROCESS_FAMILIES, MetricFamily
from mqsniff.limits import SECOND_NS

PAGE = Path(__file__).parent / "metrics.md"
BEGIN, END = "<!-- from the code: docs/build_metrics.py -->\n", "<!-- end -->\n"


def rows(families: Iterable[MetricFamily]) -> str:
    """A table of metrics."""
    lines = [
        "| in Prometheus | type | unit | labels | in OpenTelemetry | what it counts |",
        "|---|---|---|---|---|---|",
    ]
    for family in families:
        labels = ", ".join(f"`{label.name}`" for label in family.labels) or "-"
        unit = family.base_unit or "-"
        lines.append(
            f"| `{family.exposed}` | {family.kind} | {unit} | {labels} | `{family.semantic}` | {family.about} |"
        )
    return "\n".join(lines)


def labels() -> str:
    """A table of labels and attributes."""
    pairs: dict[str, list[str]] = {}
    for family in FAMILIES:
        for label in family.labels:
            names = pairs.setdefault(label.name, [])
            names += [label.attribute] if label.attribute not in names else []
    lines = ["| label | attribute |", "|---|---|"]
    for name, attributes in pairs.items():
        told = " or, of connections, ".join(f"`{attribute}`" for attribute in attributes)
        more = ", `server.port`" if attributes == ["server.address"] else ""
        lines.append(f"| `{name}` | {told}{more} |")
    return "\n".join(lines)


def tables() -> str:
    """Everything that is built."""
    bounds = ", ".join(f"{bound / SECOND_NS:g}" for bound in BOUNDS_NS)
    return (
        f"{rows(FAMILIES)}\n\nOf the process itself:\n\n{rows(PROCESS_FAMILIES)}\n\n"
        f"Buckets of the histograms end at {bounds} seconds, and at infinity.\n\n"
        f"Labels of Prometheus are these attributes of OpenTelemetry:\n\n{labels()}\n"
    )


def built(page: str) -> str:
    """The page with its tables as they should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, behind = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{behind}"


def build(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or check it; the exit code."""
    return write(PAGE, built(PAGE.read_text(encoding="utf-8")), "build_metrics.py", arguments)


if __name__ == "__main__":
    sys.exit(build())
