"""Puts this folder on the path, so that tests of every room can import the helpers that lie here.

Hypothesis has no deadline: tests never assert on time, and a busy machine is no fault.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("mqsniff", deadline=None)
settings.load_profile("mqsniff")
