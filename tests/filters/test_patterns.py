"""Names against patterns."""

from __future__ import annotations

import pytest

from mqsniff.filters.patterns import Patterns


@pytest.mark.parametrize(
    ("patterns", "name", "fits"),
    [
        ([], "anything", True),
        ([], None, True),
        (["orders"], "orders", True),
        (["orders"], "orders-2", False),
        (["orders"], "Orders", False),
        (["orders"], None, False),
        (["orders*"], "orders-2", True),
        (["o?ders"], "orders", True),
        (["[op]*"], "payments", True),
        (["a", "b*"], "bc", True),
        (["[::1]:9092"], "[::1]:9092", True),
        (["%RETRY%*"], "%RETRY%billing", True),
        (["a.b"], "axb", False),
        (["*"], "two\nlines", True),
        (["orders"], "orders\n", False),
    ],
)
def test_a_name_fits_a_pattern_or_is_written_out(patterns, name, fits):
    assert Patterns(patterns).fit(name) is fits


def test_case_matters_unless_it_does_not():
    assert Patterns(["fetch"], ignore_case=True).fit("Fetch")
    assert Patterns(["FE*"], ignore_case=True).fit("Fetch")
