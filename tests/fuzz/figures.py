"""What runs came to: executions, seconds, coverage, inputs kept, findings; one by one, and summed up as a table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from .store import FOLDER

LOG = FOLDER / "figures.jsonl"
HEAD = (
    "| target | executions | hours | edges | lines | corpus | findings |",
    "|---|---|---|---|---|---|---|",
)
_DONE = re.compile(r"^Done (\d+) runs in (\d+) second", re.MULTILINE)
_COVERED = re.compile(r"^#\d+\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)


def of_guided(said: str) -> dict[str, int]:
    """Figures out of what libFuzzer prints."""
    done, covered = _DONE.search(said), _COVERED.findall(said)
    if done is None or not covered:
        return {}
    edges, features, _ = map(int, covered[-1])
    return {"executions": int(done[1]), "seconds": int(done[2]), "edges": edges, "features": features}


def note(figures: dict[str, Any]) -> None:
    """Add a run to the log."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a") as file:
        file.write(json.dumps(figures) + "\n")


def table() -> Iterable[str]:
    """Sums of all runs that were logged, as Markdown."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for line in LOG.read_text().splitlines() if LOG.exists() else ():
        run = json.loads(line)
        runs.setdefault(run["target"], []).append(run)
    yield from HEAD
    for name, own in runs.items():
        executions, seconds = (sum(run.get(key, 0) for run in own) for key in ("executions", "seconds"))
        edges = max(run.get("edges", 0) for run in own)
        lines = next((run["lines"] for run in reversed(own) if "lines" in run), "")
        found = len({signature for run in own for signature in run["found"]})
        corpus = own[-1]["corpus"]
        yield f"| {name} | {executions:,} | {seconds / 3600:.2f} | {edges:,} | {lines} | {corpus:,} | {found} |"
