"""The page of ``mqsniff live --summary`` at any size, and its line."""

from __future__ import annotations

import pytest

from mqsniff.answers.stats.recent import LiveFigures
from mqsniff.cli.livepage import ROWS_MAX, page, period_line
from mqsniff.cli.statsgrid import GridLines

MILLISECOND = 1_000_000


def command(number, **more):
    row = {"protocol": "kafka", "name": f"Command{number}", "count": 1000, "errors": 1, "unanswered": 1, "per_s": 5.0}
    row |= {"bytes_per_s": 1e6, "errors_now": 1, "unanswered_now": 0, "waited_p50_ns": 500 * MILLISECOND}
    return row | {f"{name}_ns": MILLISECOND for name in ("p50", "p95", "p99", "max")} | more


def topic(number):
    name = f"persistent://public/default/orders-of-a-very-long-name-{number}"
    rates = {"produced_per_s": 12.0, "delivered_per_s": 24.0, "bytes_per_s": 1e6}
    return {"protocol": "pulsar", "topic": name, "produced": 1, "delivered": 1, **rates}


def failure(number):
    return {"error": f"E_{number}", "name": "PUB", "protocol": "nsq", "now": 1, "count": 2}


def figures(commands=40, topics=30, failures=20, **more):
    made = {
        "seconds": 61.0, "window_s": 10.0, "packets": 12345, "packets_per_s": 99.0, "dropped": 7, "dropped_now": 2,
        "messages": 999, "messages_per_s": 9.0, "bytes_per_s": 1234.0, "errors": 3, "unanswered": 1,
        "open_connections": 12,
        "commands": [command(number) for number in range(commands)],
        "topics": [topic(number) for number in range(topics)],
        "failures": [failure(number) for number in range(failures)],
    }  # fmt: skip
    return LiveFigures(**made | more)


@pytest.mark.parametrize("width", [20, 80, 120, 200])
def test_a_page_fits_every_screen(width):
    for height in range(1, 80):
        lines = page(figures(), "eth0", GridLines(width=width), height)
        assert len(lines) <= height
        assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [80, 120, 200])
def test_rates_errors_and_drops_stand_on_every_screen(width):
    text = "\n".join(page(figures(), "eth0", GridLines(width=width), 24))
    for word in ("per s", "errors", "p99", "7 dropped (2 now)", "TOPIC", "produced/s", "ERROR", "E_0"):
        assert word in text


def test_a_screen_is_used_up_while_there_are_rows():
    for height in range(20, 100):
        assert len(page(figures(), "eth0", GridLines(width=120), height)) == min(height, 98)


def test_a_title_says_how_many_rows_there_are_where_not_all_are_shown():
    text = "\n".join(page(figures(commands=1234), "eth0", GridLines(width=120), 20))
    assert "of 1,234" in text
    text = "\n".join(page(figures(1, 1, 1), "eth0", GridLines(width=120), 20))
    assert " of 1" not in text.split("COMMAND")[1]


def test_without_a_screen_each_section_has_its_first_rows():
    lines = page(figures(), "eth0", GridLines(), None)
    assert len(lines) == 2 + 3 * (2 + ROWS_MAX)


def test_text_from_the_wire_is_escaped():
    made = figures(0, 0, 0)
    made.commands = [command(1, name="a\x1b[31m")]
    assert "a\\x1b[31m" in "\n".join(page(made, "eth0", GridLines(width=80), 24))
    assert "\x1b" not in period_line(made, "eth0", 0.0)


def test_an_empty_run_is_shown_too():
    made = figures(0, 0, 0, dropped=0, dropped_now=0, errors=0)
    assert len(page(made, "eth0", GridLines(width=80), 24)) == 2
    assert period_line(made, "eth0", 0.0).startswith("1970-01-01T00:00:00Z eth0 10 s: 99 packets/s, 9 messages/s")


def test_notes_stand_on_every_page_and_line():
    note = "only TCP ports 9092 were captured (--ports-only)"
    assert page(figures(), "eth0", GridLines(width=120), 24, [note])[2] == note
    assert period_line(figures(), "eth0", 0.0, [note]).endswith(f"; {note}")


def test_a_line_is_of_its_period():
    line = period_line(figures(2, 1, 1), "eth0", 0.0)
    assert "2 errors, 0 without an answer, 2 dropped" in line
    assert "slowest p99 Command0 1 ms" in line
    assert "commands: Command0 5/s, Command1 5/s" in line
