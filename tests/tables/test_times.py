"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.tables.times import rfc3339


@pytest.mark.parametrize(
    ("ts_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1_795_253_930_702_681_250, "2026-11-21T09:38:50.702681250Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (253_402_300_799_999_999_999, "9999-12-31T23:59:59.999999999Z"),
        (253_402_300_800_000_000_000, None),
        (-62_135_596_800_000_000_000, "0001-01-01T00:00:00.000000000Z"),
        (-62_135_596_800_000_000_001, None),
        (1 << 200, None),
    ],
)
def test_a_time_has_nine_digits_and_z_or_cannot_be_named(ts_ns, text):
    assert rfc3339(ts_ns) == text


@settings(max_examples=50)
@given(st.integers(0, 2**63))
def test_a_time_reads_back_to_the_nanosecond(ts_ns):
    text = rfc3339(ts_ns)
    read = datetime.fromisoformat(text[:19] + "+00:00")
    since = read - datetime(1970, 1, 1, tzinfo=UTC)
    assert since // timedelta(seconds=1) * 10**9 + int(text[20:29]) == ts_ns
