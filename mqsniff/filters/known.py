"""Values of closed lists: text of the user in, a sentence with similar names out."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Final

NEAREST_SHOWN: Final = 3
LISTED_MAX: Final = 12
"""Names of a list that an error shows at most."""
_LIKENESS: Final = 0.6
"""Similarity of two names from which on one may be a typing error of the other."""


def nearest(value: str, known: Iterable[str]) -> list[str]:
    """The known names that are most similar to a value, ignoring case; empty if none is."""
    spoken = {name.lower(): name for name in known}
    return [spoken[name] for name in difflib.get_close_matches(value.lower(), spoken, NEAREST_SHOWN, _LIKENESS)]


def did_you_mean(value: str, known: Iterable[str]) -> str:
    """A clause with the most similar names; empty if none is similar."""
    near = nearest(value, known)
    return f", did you mean {' or '.join(near)}?" if near else ""


def unknown(what: str, value: str, known: Collection[str]) -> str:
    """The error for an unknown value: similar names, and all names if the list is short or none is similar."""
    meant = did_you_mean(value, known)
    if meant and len(known) > LISTED_MAX:
        return f"no {what} {value!r}{meant}"
    listed = f"{'is' if len(known) == 1 else 'are'} {', '.join(known)}"
    return f"no {what} {value!r}{f'{meant} There' if meant else '; there'} {listed}"
