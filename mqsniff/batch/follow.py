"""A landing folder in, one run after another out: each decodes what has arrived, and carries open connections on.

1. A file is taken when its size and time have been the same for a while: one that is being written is left alone.
2. What was decoded is in the manifests, so a job that is killed at any moment goes on where the last run was committed,
   and decodes nothing twice.
3. A file that cannot be read, or that changed after it was decoded, is named once, and again if it changes.
4. A run that fails for the cluster, the disk or an input is tried again, after longer and longer pauses. A folder of
   tables that cannot be continued ends the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mqsniff.batch.commit import Archive, compare
from mqsniff.batch.driver import IsReady
from mqsniff.batch.inputs import Listed, NoCapturesError, NoneReadableError, list_inputs
from mqsniff.batch.job import JobReport
from mqsniff.batch.manifest import manifest_input
from mqsniff.batch.store import Store

_State: TypeAlias = "tuple[int, int | None]"
"""Size and time of a file."""

PAUSE_MAX_S: Final = 300.0
"""Longest pause after a run that failed."""


@dataclass(slots=True)
class Landing:
    """Which files of a landing folder can be taken."""

    settle_s: float
    """How long size and time of a file must stay the same."""
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, tuple[_State, float]] = field(default_factory=dict)
    """(size and time, when they were seen first) of files that are not taken yet."""
    _refused: dict[str, _State] = field(default_factory=dict)
    """Files that were named to the user as they are, and left alone."""

    def arrived(self, listed: Iterable[Listed]) -> list[Listed]:
        """The files that can be taken, of those that were not taken yet."""
        now, seen, ready = self.clock(), {}, []
        for each in listed:
            state = each.size, each.mtime_ns
            if self._refused.get(each.uri) == state:
                continue
            before = self._seen.get(each.uri)
            since = before[1] if before is not None and before[0] == state else now
            seen[each.uri] = state, since
            if now - since >= self.settle_s or self._is_old(each):
                ready.append(each)
        self._seen = seen
        return ready

    def refuse(self, listed: Iterable[Listed]) -> list[str]:
        """Leave files alone as they are; the URIs of those that were not refused before."""
        fresh = [each for each in listed if self._refused.get(each.uri) != (each.size, each.mtime_ns)]
        self._refused |= {each.uri: (each.size, each.mtime_ns) for each in fresh}
        return [each.uri for each in fresh]

    def _is_old(self, each: Listed) -> bool:
        """Whether a file was there long before it was seen."""
        return each.mtime_ns is not None and time.time_ns() - each.mtime_ns >= self.settle_s * 10**9


@dataclass(frozen=True, slots=True)
class FollowFailed:
    """A run that failed, and will be tried again."""

    error: Exception
    pause_s: float


@dataclass(frozen=True, slots=True)
class FollowLeft:
    """Files that are left alone until they change."""

    why: str


FollowEvent: TypeAlias = JobReport | FollowFailed | FollowLeft


def follow(
    run: Callable[[IsReady], JobReport],
    inputs: Sequence[str],
    out: str,
    landing: Landing,
    *,
    wait: Callable[[float], bool],
    poll_s: float,
    retried: tuple[type[Exception], ...],
) -> Iterator[FollowEvent]:
    """What happens to a landing folder, until ``wait`` says to stop.

    ``run`` decodes the files that it is told are ready; ``wait`` waits so many seconds, and says whether to go on.
    ``retried``: exceptions after which the run is tried again; others are raised.
    """
    failures = 0
    while True:
        pause_s = poll_s
        try:
            listed = listed_now(inputs)
            given = [manifest_input(each) for each in listed]
            found = compare(Archive(Store.at(out)).ledger(), ((each.uri, each.size, each.mark) for each in given))
            changed, done = frozenset(found.changed), frozenset(found.done)
            names = list(zip(listed, (each.uri for each in given), strict=True))
            fresh = landing.refuse([each for each, name in names if name in changed])
            for uri in fresh:
                yield FollowLeft(f"{uri}: changed after it was decoded; its rows stay as they are")
            ready = {each.uri for each in landing.arrived(each for each, name in names if name not in done)}
            if ready:
                yield from _run(run, [each for each in listed if each.uri in ready], landing)
            failures = 0
        except retried as error:
            failures += 1
            pause_s = min(poll_s * 2**failures, PAUSE_MAX_S)
            yield FollowFailed(error, pause_s)
        if not wait(pause_s):
            return


def _run(run: Callable[[IsReady], JobReport], taken: Sequence[Listed], landing: Landing) -> Iterator[FollowEvent]:
    """One run, for some files; those that cannot be read are left alone from now on."""
    uris = {each.uri for each in taken}
    try:
        report = run(lambda each: each.uri in uris)
    except NoneReadableError as error:
        landing.refuse(taken)
        yield FollowLeft(str(error))
        return
    unreadable = {uri for uri, _ in report.unreadable}
    landing.refuse([each for each in taken if each.uri in unreadable])
    yield report


def listed_now(inputs: Sequence[str]) -> list[Listed]:
    """The files that are there; none if nothing has arrived."""
    found: dict[str, Listed] = {}
    for given in inputs:
        try:
            found |= {each.uri: each for each in list_inputs((given,)) if each.mtime_ns is not None or each.size}
        except NoCapturesError:
            continue
    return [found[uri] for uri in sorted(found)]
