"""Kafka's small tables: errors, enums, releases."""

from __future__ import annotations

from pathlib import Path

from kafka_tables import parse_enums, parse_errors, parse_releases, print_releases

HOME = Path(__file__).parents[2] / "proto" / "kafka"


def test_errors_are_lines_of_code_and_name() -> None:
    assert parse_errors("# all of them\n\n-1  UNKNOWN  retriable\n 0  NONE\n") == {
        "-1": {"name": "UNKNOWN", "retriable": True},
        "0": {"name": "NONE", "retriable": False},
    }


def test_enums_are_indented_values_and_may_be_bits_of_another() -> None:
    text = "enum colour\n  0  red\n  -1  all of them\n\nenum colours bits colour\n  -2147483648  not asked\n"
    assert parse_enums(text) == {
        "colour": {"values": {"0": "red", "-1": "all of them"}},
        "colours": {"values": {"-2147483648": "not asked"}, "bits": "colour"},
    }


def test_releases_say_what_changed_since_the_one_before() -> None:
    text = "0.1\n  Produce  0-2\n  Fetch  3\n\n0.2\n  Fetch  3-4  unstable\n  Produce  none\n\n0.3\n"
    keys = {"Produce": 0, "Fetch": 1}
    releases = parse_releases(text, keys)
    assert releases == {"0.1": {0: [0, 2], 1: [3, 3]}, "0.2": {1: [3, 4, "unstable"]}, "0.3": {1: [3, 4, "unstable"]}}
    assert parse_releases(print_releases(releases, {0: "Produce", 1: "Fetch"}, ["a remark"]), keys) == releases


def test_an_error_code_has_one_name_and_a_name_one_code() -> None:
    errors = parse_errors((HOME / "errors.txt").read_text(encoding="utf-8"))
    names = [error["name"] for error in errors.values()]
    assert len(names) == len(set(names))
    assert sorted(map(int, errors)) == [-1, *range(len(errors) - 1)]
