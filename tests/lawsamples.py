"""What the laws are tried on: the dissectors of the entry points, scripted conversations, and connections of captures.

A new dissector brings conversations here and samples to ``pcaps/``; MQSNIFF_CAPTURES names one more folder to try.
"""

from __future__ import annotations

import os
import tomllib
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import kafkacraft
import nsqcraft
import pulsarcraft
import remotingcraft

from mqsniff.decode.registry import GROUP
from mqsniff.dissector import Dissector
from mqsniff.testing.captures import CapturedConversation, read_pcap
from mqsniff.testing.conversations import Say

CONVERSATIONS: dict[str, dict[str, list[Say]]] = {
    "kafka": kafkacraft.CONVERSATIONS,
    "nsq": nsqcraft.CONVERSATIONS,
    "nsqlookupd": nsqcraft.LOOKUPD_CONVERSATIONS,
    "pulsar": pulsarcraft.CONVERSATIONS,
    "rocketmq": remotingcraft.CONVERSATIONS,
    "rocketmq-ha": remotingcraft.HA_CONVERSATIONS,
}
"""Protocol -> name -> conversation."""

UNTRIED: dict[str, str] = {}
"""Protocols without conversations, and why."""

PCAPS = Path(__file__).parents[1] / "pcaps"
CONNECTION_MAX = 12_000
"""Bytes of a connection of a capture that is tried: larger ones are left out, since the laws go byte by byte."""


def dissectors() -> dict[str, type[Dissector]]:
    """Protocol -> dissector, by the installed entry points, else by those that pyproject.toml names."""
    found = {point.name: point.load() for point in entry_points(group=GROUP)}
    if not found:
        project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
        for name, where in project["entry-points"][GROUP].items():
            module, _, attribute = where.partition(":")
            found[name] = getattr(import_module(module), attribute)
    return {protocol: cls for cls in found.values() for protocol in cls.names}


def captured() -> dict[str, CapturedConversation]:
    """Small connections of the sample captures, and of the folder that MQSNIFF_CAPTURES names, by name."""
    folders = [PCAPS / protocol for protocol in dissectors()]
    if folder := os.environ.get("MQSNIFF_CAPTURES"):
        folders.append(Path(folder))
    return {
        name: conversation
        for folder in folders
        for name, conversation in connections_in(folder).items()
        if sum(len(say.data) for say in conversation.says) <= CONNECTION_MAX
    }


def connections_in(folder: Path) -> dict[str, CapturedConversation]:
    """Every connection of the captures of a folder."""
    return {
        f"{path.stem}-{index}": conversation
        for path in sorted((*folder.glob("*.pcap"), *folder.glob("*.pcapng")))
        for index, conversation in enumerate(read_pcap(path))
    }
