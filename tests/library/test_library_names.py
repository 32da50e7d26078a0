"""``import mqsniff``: which names it has, and what it loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mqsniff

NAMES = [
    *("Capture", "CaptureError", "ConnectionsRow", "ExchangesRow", "LiveCapture", "MessagesRow", "MqsniffError"),
    *("OptionError", "PartitionsRow", "ProblemsRow", "QueryError", "QueryResult", "RecordsRow", "Rows", "TopicsRow"),
    *("UnreadableError", "__version__", "decode_bytes", "live", "read"),
]
"""What is promised to be stable: taking a name away from here is a new major version."""


def test_the_promised_names_are_there():
    assert list(mqsniff.__all__) == NAMES
    for name in NAMES:
        assert getattr(mqsniff, name) is not None
        assert name in dir(mqsniff)


def test_every_public_class_and_function_has_a_docstring():
    for name in set(NAMES) - {"__version__"}:
        thing = getattr(mqsniff, name)
        assert thing.__doc__, name
        for member, value in vars(thing).items() if isinstance(thing, type) else ():
            assert member.startswith("_") or not callable(value) or value.__doc__, f"{name}.{member}"


def test_importing_it_loads_nothing_heavy():
    heavy = ("numpy", "pyarrow", "duckdb", "click", "mqsniff.library", "mqsniff.pipeline")
    code = f"import sys, mqsniff; mqsniff.__version__; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'reed'"):
        mqsniff.reed  # noqa: B018


def test_all_errors_are_of_one_family():
    errors = [getattr(mqsniff, name) for name in NAMES if name.endswith("Error")]
    assert all(issubclass(error, mqsniff.MqsniffError) for error in errors)
    assert issubclass(mqsniff.OptionError, ValueError)
