"""What is said of values that no list has."""

from __future__ import annotations

import pytest

from mqsniff.cli.known import did_you_mean, nearest, unknown

MANY = [f"name_{letter}" for letter in "abcdefghijklmnop"]


@pytest.mark.parametrize(
    ("value", "known", "found"),
    [
        ("kafak", ["kafka", "nsq"], ["kafka"]),
        ("FECHT", ["Fetch", "Produce"], ["Fetch"]),
        ("xyz", ["kafka", "nsq"], []),
        ("", ["kafka"], []),
    ],
)
def test_the_nearest_names_are_those_of_a_slip(value, known, found):
    assert nearest(value, known) == found


def test_a_sentence_names_the_nearest_then_all_where_they_are_few():
    assert unknown("table", "recods", ["records"]) == "no table 'recods', did you mean records? There is records"
    assert unknown("table", "xyz", ["records", "topics"]) == "no table 'xyz'; there are records, topics"
    assert unknown("kind", "name_z", MANY).endswith("?")
    assert "name_p" in unknown("kind", "xyz", MANY)
    assert did_you_mean("xyz", MANY) == ""
