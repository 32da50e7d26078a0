"""Names of captures in, their capture domains out: sets of files that are read as one capture.

Packets of different domains never belong to one connection, even with the same addresses and ports: sites with the same
private networks, or one machine on different days. ``decode`` and ``batch`` use the same rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

FOLDER: Final = "folder"


def domain_finder(pattern: str) -> Callable[[str], str]:
    """The function from a name to its domain; ValueError for an invalid pattern.

    Empty: all captures are one domain. ``folder``: one domain per folder. Else a regular expression that is searched in
    the name: the text of its groups, or of the whole match if it has none, is the domain.
    """
    if not pattern:
        return lambda _name: ""
    if pattern == FOLDER:
        return lambda name: name.rpartition("/")[0]
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None

    def find(name: str) -> str:
        match = expression.search(name)
        if match is None:
            return ""
        return "/".join(group or "" for group in match.groups()) if match.groups() else match[0]

    return find
