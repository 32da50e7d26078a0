"""Merging definitions: what fits into one, what does not, and ranges of versions."""

from __future__ import annotations

import pytest
from kafka_merge import UnmergeableError, bytes_of, grafted, held, inside, layout, merge, only, spelled
from kafka_notation import Block, parse_page


def block(text: str) -> Block:
    (found,) = parse_page(f"api 1 Sample\n\nrequest {text}").blocks
    return found


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        ({0, 1, 2}, {0, 1, 2}, ""),
        ({1, 2}, {0, 1, 2}, "1+"),
        ({0, 1}, {0, 1, 2}, "0-1"),
        ({1}, {0, 1, 2}, "1"),
    ],
)
def test_a_part_of_versions_is_spelled_as_a_range(part: set[int], whole: set[int], text: str) -> None:
    assert spelled(part, whole) == text
    assert inside(text or "0+", whole) == part


def test_a_part_with_a_hole_is_no_range() -> None:
    with pytest.raises(UnmergeableError):
        spelled({0, 2}, {0, 1, 2})


@pytest.mark.parametrize(("text", "range_"), [("none", (0, -1)), ("3", (3, 3)), ("3-5", (3, 5)), ("3+", (3, 0x7FFF))])
def test_ranges_are_read(text: str, range_: tuple[int, int]) -> None:
    assert held(text) == range_


OLD = """0-2  flexible 2+
  id      int32
  gone    string    0-1  @group_id
  inner   []Inner?1+
    a     int8
    b     int16     0
"""
NEW = """2-3  flexible 2+
  id      int32
  inner   []Inner?
    a     int8
  fresh   int64     3+
"""


def test_fields_of_dropped_versions_are_grafted_where_they_stood() -> None:
    merged = grafted(block(NEW), block(OLD), {2, 3}, {0, 1})
    assert [(one.name, one.versions) for one in merged.fields] == [
        ("id", ""),
        ("gone", "0-1"),
        ("inner", ""),
        ("fresh", "3+"),
    ]
    assert merged.fields[2].nullable == "1+"
    assert [(one.name, one.versions) for one in merged.fields[2].fields] == [("a", ""), ("b", "0")]
    assert [layout(merged, version) for version in (0, 1)] == [layout(block(OLD), version) for version in (0, 1)]
    assert [layout(merged, version) for version in (2, 3)] == [layout(block(NEW), version) for version in (2, 3)]


def test_a_field_of_another_type_does_not_fit_and_stays_beside() -> None:
    new = block("1-2\n  id  int64\n")
    merged = merge(new, block("0-1\n  id  int32\n"), "before-9.9")
    assert (merged.main.versions, merged.main.legacy) == ("1-2", "none")
    assert [(one.versions, one.legacy, one.variant) for one in merged.beside] == [
        ("1", "none", "before-9.9"),
        ("0", "0", ""),
    ]


def test_versions_that_are_gone_on_both_ends_stay_beside() -> None:
    text = "{}\n  id  int32\n"
    merged = merge(block(text.format("1-2")), block(text.format("0-3")), "before-9.9")
    assert (merged.main.versions, merged.main.legacy) == ("1-2", "none")
    assert [(one.versions, one.legacy) for one in merged.beside] == [("0", "0"), ("3", "3")]


def test_fields_in_another_order_do_not_fit() -> None:
    with pytest.raises(UnmergeableError):
        grafted(block("1\n  a  int8\n  b  int8\n"), block("0\n  b  int8\n  a  int8\n"), {1}, {0})


def test_only_some_versions_of_a_block_need_only_some_of_its_fields() -> None:
    cut = only(block(OLD), {0}, variant="1.0")
    assert (cut.versions, cut.flexible, cut.variant) == ("0", "none", "1.0")
    assert layout(cut, 0) == layout(block(OLD), 0)
    assert all(one.versions == "" for one in cut.fields)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0\n  a  int8\n", "0\n  b  int8\n", True),
        ("0\n  a  string\n", "0\n  a  string?\n", True),
        ("0  flexible 0+\n  a  int8\n", "0  flexible 0+\n  a  int8\n  b  int8  tag 0\n", True),
        ("0\n  a  int8\n", "0\n  a  int16\n", False),
        ("0\n  a  int8\n", "0  flexible 0+\n  a  int8\n", False),
        ("0\n  a  Inner\n    b  int8\n", "0\n  a  Inner?\n    b  int8\n", False),
        ("0\n  a  []int8\n", "0\n  a  int8\n", False),
    ],
)
def test_definitions_mean_the_same_bytes_or_not(one: str, other: str, same: bool) -> None:
    assert (bytes_of(layout(block(one), 0)) == bytes_of(layout(block(other), 0))) is same
