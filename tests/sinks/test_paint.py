"""Lines for a terminal and for a pipe."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from rich.cells import cell_len

from mqsniff.sinks.paint import Paint

PARTS = [("time", "09:38  "), ("name", "PUB"), ("topic", "  orders"), ("detail", "  50 B")]
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def test_a_pipe_gets_the_parts_as_they_are():
    assert Paint().line(PARTS) == "09:38  PUB  orders  50 B"


def test_colours_change_no_text():
    painted = Paint(color=True).line(PARTS)
    assert ESCAPES.sub("", painted) == "09:38  PUB  orders  50 B"
    assert painted.startswith("\x1b[2m09:38  \x1b[0m\x1b[1mPUB\x1b[0m")


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (24, "09:38  PUB  orders  50 B"),
        (23, "09:38  PUB  orders  50…"),
        (18, "09:38  PUB  order…"),
        (10, "09:38  PU…"),
        (1, "…"),
    ],
)
def test_a_terminal_cuts_at_its_width(width, line):
    assert Paint(width=width).line(PARTS) == line
    assert ESCAPES.sub("", Paint(color=True, width=width).line(PARTS)) == line


@pytest.mark.parametrize("width", range(12, 26))
def test_wide_characters_count_for_the_cells_they_fill(width):
    line = Paint(width=width).line([("name", "PUB  "), ("topic", "注文の受付"), ("detail", "  50 B")])
    assert cell_len(line) <= width
    assert width < 22 or line == "PUB  注文の受付  50 B"


def test_plain_lines_need_no_rich():
    script = (
        "import sys; from mqsniff.sinks.paint import Paint; Paint(width=3).line([('name', 'PUBLISH')]);"
        "print([name for name in sys.modules if name.startswith('rich')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


ANSWER = [("failure", "  TOO_LARGE"), ("latency", "  in 2 ms"), ("topic", "  orders"), ("detail", "  50 B")]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (48, "09:38  kafka  Produce   TOO_LARGE  in 2 ms  orders"[:47] + "…"),
        (44, "09:38  kafka  Produce   TOO_LARGE  in 2 ms…"),
        (41, "09:38  kafka  Produce  TOO_LARGE  in 2 ms"),
        (40, "09:38  Produce  TOO_LARGE  in 2 ms  ord…"),
        (33, "09:38  Produ…  TOO_LARGE  in 2 ms"),
    ],
)
def test_an_error_and_a_latency_are_cut_last(width, line):
    head = [("time", "09:38  "), ("tcp", "kafka  "), ("name", "Produce ")]
    assert Paint(width=width).line(head, ANSWER) == line


def test_wrapped_lines_lose_nothing():
    head = [("time", "09:38  "), ("tcp", "kafka  "), ("name", "Produce ")]
    line = Paint(width=20, wide=True).line(head, ANSWER)
    assert line.split() == ["09:38", "kafka", "Produce", "TOO_LARGE", "in", "2", "ms", "orders", "50", "B"]
    assert all(len(part) <= 20 for part in line.splitlines()[1:])


def test_a_topic_loses_its_namespace_before_its_name():
    parts = [("topic", "  persistent://public/default/orders-partition-1"), ("detail", "  50 B")]
    assert Paint(width=40).line([("name", "SEND")], parts) == "SEND  …/orders-partition-1  50 B"
    assert Paint(width=54).line([("name", "SEND")], parts).startswith("SEND  persistent://public/default/orders-part")
    assert (
        Paint(width=80).line([("name", "SEND")], parts) == "SEND  persistent://public/default/orders-partition-1  50 B"
    )
