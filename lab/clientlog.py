"""The log of a client in, lines of JSON; its entries by what they tell out.

``{"what": "produced" or "read", "topic": …, "partition": …, "offset": …, "key": …, "value": …}`` is a record,
``{"what": "done", "call": …}`` a call that was answered, ``{"what": "refused", "call": …, "error": …}`` one that
a server refused, ``{"what": "sent", "commands": […]}`` what must be on the wire.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from lab.downloads import LabError
from lab.truth import LoggedRecord, Truth


class ClientLog:
    """The entries of a log."""

    def __init__(self, text: str) -> None:
        self.entries: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines() if line.startswith('{"')]

    def records(self, what: str) -> dict[str, list[LoggedRecord]]:
        """Records that were ``produced`` or ``read``, by topic."""
        found: defaultdict[str, list[LoggedRecord]] = defaultdict(list)
        for entry in self.entries:
            if entry["what"] == what:
                found[entry["topic"]].append((entry["partition"], entry["offset"], entry["key"], entry["value"]))
        return found

    def tell(self, truth: Truth, records: int) -> None:
        """Tell what is in the log; LabError if fewer records than these were produced or read."""
        produced, read = self.records("produced"), self.records("read")
        for what, by_topic in (("sends", produced), ("reads", read)):
            if sum(map(len, by_topic.values())) < records:
                raise LabError(f"the client logged {sum(map(len, by_topic.values()))} {what}, of {records}")
        for topic, rows in produced.items():
            truth.produced(topic, rows)
        for topic, rows in read.items():
            truth.consumed(topic, rows)
        for entry in self.entries:
            if entry["what"] == "refused":
                truth.refused(entry["call"], entry["error"])
            elif entry["what"] == "sent":
                truth.calls(entry["commands"])
