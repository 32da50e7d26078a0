"""Which parts are written a second time: those whose names changed, and small ones where there are very many."""

from __future__ import annotations

import pytest

from mqsniff.batch.finalize import SMALL, SMALL_GOOD, rewrites
from mqsniff.sinks.parts import WrittenPart
from mqsniff.topics import Names, TopicIds

NAMES: Names = {("kafka", "id"): ("orders",)}
KNOWN: TopicIds = {("kafka", "id"): "orders"}
UNKNOWN: TopicIds = {("kafka", "id"): None}


def parts(count: int, size: int, topic_ids: TopicIds | None = None) -> list[WrittenPart]:
    return [WrittenPart("messages", f"{number:05d}", 1, size, topic_ids or {}) for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, SMALL_GOOD])
@pytest.mark.parametrize("topic_ids", [{}, KNOWN, {("kafka", "taught nowhere"): None}])
def test_parts_whose_names_are_known_are_written_once(count: int, topic_ids: TopicIds) -> None:
    given = parts(count, 1000, topic_ids)
    assert rewrites(given, NAMES, ()) == (given, [])


def test_very_many_small_parts_are_joined_and_large_ones_stay() -> None:
    large = WrittenPart("messages", "large", 1, SMALL)
    staying, wanted = rewrites([large, *parts(SMALL_GOOD + 1, 1000)], NAMES, ())
    assert staying == [large]
    assert [len(each.parts) for each in wanted] == [SMALL_GOOD + 1]


def test_only_parts_that_show_other_names_are_rewritten_small_ones_together() -> None:
    fine, small, large = parts(3, 1000, KNOWN), parts(2, 1000, UNKNOWN), parts(2, SMALL, UNKNOWN)
    staying, wanted = rewrites([*fine, *small, *large], NAMES, ())
    assert staying == fine
    assert sorted(len(each.parts) for each in wanted) == [1, 1, 2]


def test_folders_rewrite_everything() -> None:
    staying, wanted = rewrites([*parts(2, 1000), *parts(1, SMALL)], NAMES, ("day",))
    assert staying == []
    assert sum(len(each.parts) for each in wanted) == 3
