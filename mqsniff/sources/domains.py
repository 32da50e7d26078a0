"""Names of captures in, the capture domains that they belong to out: sets of files that are one capture.

Connections of different domains are never one, even with the same addresses and ports: sites that use the same private
networks, or the same machine on different days. One rule for ``decode`` and ``batch``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

FOLDER: Final = "folder"


def domain_finder(pattern: str) -> Callable[[str], str]:
    """What finds the domain of a name; ValueError for a pattern that is none.

    Empty: all are one capture. ``folder``: those of a folder are one. Else a regular expression that is searched in
    names: the text of its groups, or of all of it where it has none, tells the captures apart.
    """
    if not pattern:
        return lambda _name: ""
    if pattern == FOLDER:
        return lambda name: name.rpartition("/")[0]
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None

    def find(name: str) -> str:
        match = expression.search(name)
        if match is None:
            return ""
        return "/".join(group or "" for group in match.groups()) if match.groups() else match[0]

    return find
