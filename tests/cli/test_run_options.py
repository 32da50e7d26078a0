"""What a run asks of dissectors: what its output shows, and all that filters look at."""

from __future__ import annotations

from typing import Any

import pytest

from mqsniff.cli.options import RunOptions
from mqsniff.filters.itemfilter import Filters
from mqsniff.limits import Limits


def options(**given: Any) -> RunOptions:
    return RunOptions(decode_as={}, show_secrets=False, show_raw=False, redact=(), limits=Limits(), **given)


@pytest.mark.parametrize(
    ("output", "given", "wanted"),
    [
        ("ndjson", {}, set()),
        ("ndjson", {"records": True}, {"records"}),
        ("ndjson", {"tables": ("partitions",)}, {"partitions"}),
        ("ndjson", {"tables": ("messages", "exchanges")}, {"exchanges"}),
        ("csv", {}, set()),
        ("csv", {"tables": ("exchanges",)}, {"exchanges"}),
        ("parquet", {}, {"records", "partitions", "exchanges"}),
        ("text", {}, {"partitions", "notes", "exchanges"}),
        ("ndjson", {"filters": Filters(errors=True)}, {"partitions", "notes", "exchanges"}),
        ("ndjson", {"where": "size > 1"}, {"partitions", "notes", "exchanges"}),
    ],
)
def test_only_what_somebody_looks_at_is_asked_for(output, given, wanted):
    settings = options(**given).settings(output)
    assert settings.wanted == wanted
