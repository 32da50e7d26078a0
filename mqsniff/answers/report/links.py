"""Who says how much to whom in, a graph that can be read out: at most ``CLIENTS`` × ``BROKERS`` × ``TOPICS``.

1. Many clients become one node for each way of naming them, digits apart: ``consumer-17`` and ``consumer-4`` are
   ``consumer-#``.
2. What is still too much goes into one node, which says how many it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from mqsniff.answers.report.collecting import LinkKey
from mqsniff.answers.stats.keeping import OTHERS, KeptTallies, StatRow

CLIENTS: Final = 16
BROKERS: Final = 16
TOPICS: Final = 20
_DIGITS: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+")


def graph_of(links: KeptTallies[LinkKey, list[int]], clients: Iterable[StatRow]) -> dict[str, Any]:
    """Nodes of three columns, and links [client, broker, topic or -1, messages, bytes] by their numbers."""
    rows = [(key or (OTHERS, OTHERS, None), amount) for key, amount in links]
    software = {row["client_id"] or row["host"]: row["software"] for row in clients}
    names = [
        _names(rows, 0, CLIENTS, "clients", alike=True),
        _names(rows, 1, BROKERS, "brokers", alike=False),
        _names(rows, 2, TOPICS, "topics", alike=False),
    ]
    nodes: list[dict[str, dict[str, Any]]] = [{}, {}, {}]
    merged: dict[tuple[int, int, int], list[int]] = {}
    for key, (count, size) in rows:
        places = []
        for column, own in enumerate(key):
            if own is None:
                places.append(-1)
                continue
            name = names[column][own]
            node = nodes[column].setdefault(
                name, {"name": name, "stands_for": [], "messages": 0, "bytes": 0, "place": len(nodes[column])}
            )
            if own not in node["stands_for"]:
                node["stands_for"].append(own)
            node["messages"] += count
            node["bytes"] += size
            places.append(node["place"])
        amount = merged.setdefault((places[0], places[1], places[2]), [0, 0])
        amount[0] += count
        amount[1] += size
    for of_column in nodes:
        for node in of_column.values():
            node["count"] = len(node["stands_for"])
            node["software"] = software.get(node["stands_for"][0])
            node["stands_for"] = node["stands_for"][:20]
    return {
        "clients": list(nodes[0].values()),
        "brokers": list(nodes[1].values()),
        "topics": list(nodes[2].values()),
        "links": [[*places, *amount] for places, amount in merged.items()],
    }


def _names(rows: list[tuple[LinkKey, list[int]]], column: int, most: int, noun: str, *, alike: bool) -> dict[str, str]:
    """What each name of a column is called in the graph."""
    sizes: dict[str, int] = {}
    for key, (_, size) in rows:
        own = key[column]
        if own is not None:
            sizes[own] = sizes.get(own, 0) + size
    called = {name: _DIGITS.sub("#", name) if alike and len(sizes) > most else name for name in sizes}
    groups: dict[str, list[str]] = {}
    for name, call in called.items():
        groups.setdefault(call, []).append(name)
    ranked = sorted(groups, key=lambda call: -sum(sizes[name] for name in groups[call]))
    left_out = {name for call in ranked[most:] for name in groups[call]}
    found = {}
    for name, call in called.items():
        if name in left_out:
            found[name] = f"({len(left_out)} other {noun})"
        else:
            several = len(groups[call])
            found[name] = f"{call} ×{several}" if several > 1 else name
    return found
