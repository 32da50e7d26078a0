"""Names that the user chooses, as patterns: ``*`` any text, ``?`` one character, ``[…]`` one of these.

A name that is written out fits whatever characters it has, so that ``[::1]:9092`` is an endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache


class Patterns:
    """Alternatives; without any, everything fits."""

    def __init__(self, patterns: Sequence[str], *, ignore_case: bool = False) -> None:
        alternatives = [form for pattern in patterns for form in (translate(pattern), re.escape(pattern) + r"\Z")]
        self._regex = re.compile("|".join(alternatives), re.IGNORECASE if ignore_case else 0) if patterns else None

    def __bool__(self) -> bool:
        return self._regex is not None

    def fit(self, name: str | None) -> bool:
        """Whether a name fits one of them; none fits nothing, unless there is no pattern."""
        return self._regex is None or (name is not None and _fits(self._regex, name))


@lru_cache(maxsize=4096)
def _fits(regex: re.Pattern[str], name: str) -> bool:
    return regex.match(name) is not None
