"""Texts, times and endpoints in, parts of lines of JSON out; parts that many lines share are cached. Hot.

1. What these functions give is, byte for byte, what orjson makes of the same values in a row.
2. TypeError for text that is not Unicode: the line is made from the row then.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import orjson

from mqsniff.model import Side
from mqsniff.model.items import endpoint
from mqsniff.tables.times import utc_second

REMEMBERED: Final = 1024
"""Cached parts of lines, of each kind."""
LONG: Final = 512
"""Parts with longer texts, in characters, are not cached: most of them come from the traffic."""
_DIGITS: Final = 9
"""Digits of the nanoseconds of a second."""


@lru_cache(REMEMBERED)
def place(table: str, connection_id: str, side: Side) -> str:
    """The columns up to ``stream_offset``, without its value."""
    return f'{{"table":"{table}","connection_id":{text(connection_id)},"side":"{side.text}","stream_offset":'


@lru_cache(REMEMBERED)
def ends(  # noqa: PLR0917  # the key of what is remembered
    client_ip: str, client_port: int, server_ip: str, server_port: int, client_id: str | None, group: str | None
) -> str:
    """The columns ``client`` to ``group``."""
    client, server = endpoint(client_ip, client_port), endpoint(server_ip, server_port)
    both = f',"client":{text(client)},"server":{text(server)}'
    return f"{both}{cell('client_id', client_id)}{cell('group', group)}"


def cell(name: str, value: str | tuple[str, ...] | None) -> str:
    """A column of text with its name; empty for null."""
    if value is None:
        return ""
    if type(value) is str and value.isdecimal() and value.isascii():
        return f',"{name}":"{value}"'
    return f',"{name}":{orjson.dumps(value).decode()}'


@lru_cache(REMEMBERED)
def text(value: str) -> str:
    """A text as JSON, cached: there are few different ones."""
    return orjson.dumps(value).decode()


def time(digits: str) -> str | None:
    """``times.rfc3339`` of nanoseconds in decimal digits; None if ``rfc3339`` itself has to make the text."""
    second = _second(digits[:-_DIGITS]) if len(digits) > _DIGITS else None
    return None if second is None else f"{second}.{digits[-_DIGITS:]}Z"


@lru_cache(REMEMBERED)
def _second(digits: str) -> str | None:
    return utc_second(int(digits)) if digits.isdecimal() else None
