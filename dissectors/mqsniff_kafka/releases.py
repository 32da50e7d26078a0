"""The versions that a broker offers in, the releases of Kafka that offer just these out.

1. An offer fits a release where each API has the release's range; hidden newest versions may be left out.
2. A release may keep APIs to itself: those of other listeners, telemetry without a plugin, what is switched off. Of all
   that fit, those that keep the fewest are meant; where several are left, the oldest and the newest are told.
3. Brokers since 4.0 say that they take Produce from version 0, for old clients' sake.

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
    """The release, as "3.9" or "3.3-3.4"; None where no release offers this."""
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
