"""For tests of dissectors: conversations as data, the laws that every dissector keeps, a driver, and a pcap writer.

It needs pytest and Hypothesis: ``pip install 'mqsniff[testing]'``. docs/plugins.md shows how a plugin uses it.
"""

from mqsniff.testing.conversations import Say, acknowledged, chunks, client, segments, server, write_pcap
from mqsniff.testing.driver import Driver
from mqsniff.testing.laws import DissectorLaws

__all__ = [
    "DissectorLaws",
    "Driver",
    "Say",
    "acknowledged",
    "chunks",
    "client",
    "segments",
    "server",
    "write_pcap",
]
