"""The table ``[check]`` of ``mqsniff.toml`` in; what is ignored and how captures of its folder are decoded out.

The file may be beside the captures or in a folder above them, up to the folder that is checked; the nearest one counts.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

SETTINGS_NAME: Final = "mqsniff.toml"
_KNOWN: Final = ("ignore", "decode_as")


class CheckSettings(NamedTuple):
    """What a ``mqsniff.toml`` says."""

    ignore: tuple[str, ...] = ()
    """Patterns of fields, as of ``IgnoredFields``."""
    decode_as: Mapping[int, str] = {}
    """Protocols by server port."""


class SettingsError(Exception):
    """A file of settings that cannot be used; the text is one line."""


def settings_of(capture: Path, top: Path) -> CheckSettings:
    """The settings for a capture under ``top``; raises SettingsError."""
    folder = capture.parent
    while True:
        file = folder / SETTINGS_NAME
        if file.is_file():
            return read_settings(file)
        if folder in (top, folder.parent):
            return CheckSettings()
        folder = folder.parent


def read_settings(file: Path) -> CheckSettings:
    """The settings of a file; raises SettingsError."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file}: {error}") from None
    table = document.get("check", {})
    if not isinstance(table, dict):
        raise SettingsError(f"{file}: check is not a table: write [check]")
    for name in table:
        if name not in _KNOWN:
            raise SettingsError(f"{file}: [check] has no {name!r}; it has {', '.join(_KNOWN)}")
    return CheckSettings(_texts(file, table.get("ignore", [])), _ports(file, table.get("decode_as", {})))


def _texts(file: Path, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise SettingsError(f'{file}: ignore is a list of fields, such as ["ts", "exchanges.latency_ns"]')
    return tuple(value)


def _ports(file: Path, value: Any) -> Mapping[int, str]:
    from mqsniff.decode.registry import Registry, load_dissectors  # noqa: PLC0415  # it loads all plugins

    if not isinstance(value, dict):
        raise SettingsError(f'{file}: decode_as is a table of ports, such as {{ 14150 = "nsq" }}')
    known: Sequence[str] = Registry(load_dissectors()).names() if value else ()
    ports: dict[int, str] = {}
    for port, name in value.items():
        if not port.isdecimal() or not 0 < int(port) < 65_536:
            raise SettingsError(f"{file}: decode_as: {port!r} is not a port")
        if name not in known:
            raise SettingsError(f"{file}: decode_as: no protocol {name!r}; there are {', '.join(known)}")
        ports[int(port)] = name
    return ports
