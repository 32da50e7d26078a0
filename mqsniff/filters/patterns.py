"""Patterns for names: ``*`` any text, ``?`` one character, ``[…]`` one of these characters.

A name that equals a pattern matches it whatever its characters, so that ``[::1]:9092`` is an endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache


class Patterns:
    """Alternative patterns; without any, all names match."""

    def __init__(self, patterns: Sequence[str], *, ignore_case: bool = False) -> None:
        alternatives = [form for pattern in patterns for form in (translate(pattern), re.escape(pattern) + r"\Z")]
        self._regex = re.compile("|".join(alternatives), re.IGNORECASE if ignore_case else 0) if patterns else None

    def __bool__(self) -> bool:
        return self._regex is not None

    def fit(self, name: str | None) -> bool:
        """Whether a name matches one of them; None matches only if there is no pattern."""
        return self._regex is None or (name is not None and _fits(self._regex, name))


@lru_cache(maxsize=4096)
def _fits(regex: re.Pattern[str], name: str) -> bool:
    return regex.match(name) is not None
