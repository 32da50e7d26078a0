"""What is played, by name: a server, clients, and what their logs say afterwards. ``lab.plays`` has the scenarios."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab.downloads import CACHE
from lab.truth import Truth

WORK: Final = CACHE / "work"
"""Where the folders of servers are made."""
RECORDS: Final = 12


@dataclass
class Take:
    """A scenario under way."""

    capture: Path
    work: Path
    truth: Truth = field(default_factory=Truth)


@dataclass(frozen=True)
class Scenario:
    """A scenario: what it shows, what fetches its programs, and the function that plays it."""

    name: str
    shows: str
    fetch: Callable[[], object]
    play: Callable[[Take], None]

    @property
    def protocol(self) -> str:
        """The first word of the name."""
        return self.name.partition("-")[0]


SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(
    name: str, shows: str, fetch: Callable[[], object]
) -> Callable[[Callable[[Take], None]], Callable[[Take], None]]:
    """Name a function that plays a scenario; ``fetch`` runs before, while there is a network."""

    def note(play: Callable[[Take], None]) -> Callable[[Take], None]:
        SCENARIOS[name] = Scenario(name, shows, fetch, play)
        return play

    return note


def take(name: str, out: Path) -> Path:
    """Play a scenario and write its capture with what belongs to it; the path of the capture."""
    out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=WORK))
    it = SCENARIOS[name]
    try:
        one = Take(work / f"lab-{name}.pcap", work)
        it.play(one)
        one.truth.write(one.capture, {"lab": name, "protocol": it.protocol, "shows": it.shows})
        for made in sorted(work.glob(f"{one.capture.stem}.*")):
            shutil.copy(made, out / made.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return out / one.capture.name


def listing() -> str:
    """All scenarios, one a line."""
    width = max(map(len, SCENARIOS))
    return "\n".join(f"{each.name:<{width}}  {each.shows}" for each in SCENARIOS.values())
