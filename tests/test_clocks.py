"""A clock of the machine that jumps changes nothing: durations come from one that only goes forward."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
WALL = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "date.today"}
ALLOWED = {
    "mqsniff/batch/commit.py",  # the name of a run
    "mqsniff/answers/metrics/meters.py",  # when metrics were counted: what their readers compare with their own clock
    "mqsniff/answers/metrics/otlp.py",  # the same
    "mqsniff/cli/livewatch.py",  # the time before a line of a summary
    "mqsniff/sinks/recording.py",  # names of files in a ring, and the span of their statistics
}


def test_only_a_few_modules_ask_for_the_time_of_day():
    asking = {
        path.relative_to(ROOT).as_posix()
        for folder in ("mqsniff", "dissectors")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in WALL
    }
    assert asking == ALLOWED
