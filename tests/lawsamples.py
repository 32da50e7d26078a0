"""What the laws are tried on: the dissectors of the entry points, scripted conversations, and captures where asked.

A new dissector brings its conversations here; ``MQSNIFF_CAPTURES`` names a folder of captures to try as well.
"""

from __future__ import annotations

import os
import tomllib
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import nsqcraft
from wirecraft import Conversation, Say, read_pcap

from mqsniff.decode.registry import GROUP
from mqsniff.dissector import Dissector

CONVERSATIONS: dict[str, dict[str, list[Say]]] = {
    "nsq": nsqcraft.CONVERSATIONS,
    "nsqlookupd": nsqcraft.LOOKUPD_CONVERSATIONS,
}
"""Protocol -> name -> conversation."""

CAPTURE_BYTES_MAX = 40_000
"""Larger connections of captures are left out: the laws are tried byte by byte."""


def dissectors() -> dict[str, type[Dissector]]:
    """Protocol -> dissector, by the installed entry points, else by those that pyproject.toml names."""
    found = {point.name: point.load() for point in entry_points(group=GROUP)}
    if not found:
        project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
        for name, where in project["entry-points"][GROUP].items():
            module, _, attribute = where.partition(":")
            found[name] = getattr(import_module(module), attribute)
    return {protocol: cls for cls in found.values() for protocol in cls.names}


def capture_conversations() -> dict[str, Conversation]:
    """Connections of the captures in the folder that MQSNIFF_CAPTURES names, by name; none without it."""
    folder = os.environ.get("MQSNIFF_CAPTURES")
    found = {}
    for path in sorted(Path(folder).glob("*.pcap*")) if folder else ():
        for index, conversation in enumerate(read_pcap(path)):
            if sum(len(say.data) for say in conversation.says) <= CAPTURE_BYTES_MAX:
                found[f"{path.stem}-{index}"] = conversation
    return found
