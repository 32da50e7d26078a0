"""Puts this folder on the path, so that tests of every room can import the helpers that lie here.

Hypothesis has no deadline: tests never assert on time, and a busy machine is no fault.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("mqsniff", deadline=None)
settings.load_profile("mqsniff")
os.environ.setdefault("MQSNIFF_SPARK_CLASSES", "")  # a JVM that archives classes lives on after its command


@pytest.fixture(autouse=True)
def _ctrl_c_raises():
    """Spark and other libraries put handlers of their own in its place."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
