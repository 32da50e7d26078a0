"""Finds the release of a broker by the API versions that it offers.

1. A release fits if each offered API has its version range; hidden newest versions may be left out.
2. A broker may leave APIs out: those of other listeners, telemetry without a plugin, disabled features. Of the releases
   that fit, those with the fewest left out are taken; if several remain, the oldest and the newest are named.
3. Brokers since 4.0 offer Produce from version 0 on, so that old clients connect.

Source: ``facts`` of each release in ``proto/kafka/releases.txt``; KIP-896 for rule 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from mqsniff_kafka import specs

PRODUCE = 0
VersionRange = tuple[int, int, int]
"""API key, first version, last version."""


def release_of(offered: Iterable[VersionRange]) -> str | None:
    """The release, as "3.9" or "3.3-3.4"; None if no release fits."""
    return _release_of(tuple(sorted(offered)))


@lru_cache(maxsize=64)
def _release_of(offered: tuple[VersionRange, ...]) -> str | None:
    keys = {key for key, _, _ in offered}
    if not keys:
        return None
    listener = "broker" if PRODUCE in keys else "controller"
    left_out = {
        name: sum(listener in specs.apis()[key].listeners for key in table.keys() - keys if key in specs.apis())
        for name, table in specs.releases().items()
        if all(_fits(one, table) for one in offered)
    }
    if not left_out:
        return None
    fewest = min(left_out.values())
    meant = [name for name, number in left_out.items() if number == fewest]
    return meant[0] if len(meant) == 1 else f"{meant[0]}-{meant[-1]}"


def _fits(offer: VersionRange, table: Mapping[int, tuple[int, int, bool]]) -> bool:
    key, first, last = offer
    known = table.get(key)
    if known is None:
        return False
    lowest, highest, hidden = known
    return first in (lowest, 0 if key == PRODUCE else lowest) and last in (highest, highest - hidden)
