"""Connections, problems and figures of the run in; checks of the capture out: how far it can be trusted.

1. A check that nothing in the capture tells of is ``unknown``, its value None: never 0.
2. ``bad``: figures are wrong or incomplete; ``doubtful``: some may be; ``good``: nothing speaks against them.
3. What is odd about the traffic itself follows as checks ``problem``, by kind and text: no fault of the capture.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from mqsniff.answers.stats.keeping import OTHERS, KeptTallies, StatRow
from mqsniff.answers.stats.protocols import is_encrypted
from mqsniff.model import CaptureInfo, ConnectionInfo, Problem

Trust: TypeAlias = Literal["good", "doubtful", "bad", "unknown"]

_TWO_TAPS: Final = 0.3
"""Share of packets that are there twice from which on two taps saw the same traffic: one tap doubles few, or all."""
_DOUBTFUL_UNDECODED: Final = 0.01
"""Share of undecoded bytes from which on figures lack something."""
_NUMBER: Final = re.compile(r"\d+")
_REASONS: Final[frozenset[str]] = frozenset(("undecoded", "tls", "truncated", "input", "limit", "codec"))
"""Kinds of problems that are reasons why bytes were not decoded."""


@dataclass(slots=True, kw_only=True)
class RunFacts:
    """What a run knows beside its items."""

    captures: Sequence[CaptureInfo] = ()
    packets: int = 0
    other_packets: int = 0
    cut_packets: int = 0
    backward_packets: int = 0


@dataclass(slots=True)
class ProblemTally:
    """Problems of one kind and text."""

    count: int = 0
    size: int = 0
    severity: str = ""
    example: str = ""


@dataclass(slots=True)
class ConnectionSums:
    """What is added up over all connections."""

    connections: int = 0
    packets: int = 0
    size: int = 0
    gap_bytes: int = 0
    with_gaps: int = 0
    undecoded: int = 0
    encrypted: int = 0
    """Undecoded bytes of connections with TLS."""
    doubled: int = 0
    one_sided: int = 0
    mid_stream: int = 0
    forgotten: int = 0


@dataclass(slots=True)
class HealthStats:
    """What speaks for and against a capture."""

    limit: int
    sums: ConnectionSums = field(default_factory=ConnectionSums)
    _problems: KeptTallies[tuple[str, str], ProblemTally] = field(init=False)

    def __post_init__(self) -> None:
        self._problems = KeptTallies(self.limit, ProblemTally)

    def noticed(self, problem: Problem) -> None:
        """Count a problem; texts that differ in numbers alone are one."""
        tally = self._problems.of((problem.kind, _NUMBER.sub("N", problem.detail)))
        tally.count += 1
        tally.size += problem.size or 0
        tally.severity = problem.severity
        tally.example = tally.example or problem.detail

    def closed(self, connection: ConnectionInfo) -> None:
        """Count a connection."""
        c, sums = connection, self.sums
        sums.connections += 1
        sums.packets += c.client_packets + c.server_packets
        sums.size += c.client_bytes + c.server_bytes
        sums.gap_bytes += c.gap_bytes
        sums.with_gaps += c.gap_bytes > 0
        sums.undecoded += c.undecoded_bytes
        sums.encrypted += c.undecoded_bytes if is_encrypted(c) else 0
        sums.doubled += c.duplicate_packets
        sums.one_sided += c.sides_seen != "both" and c.outcome in {"established", "mid-stream"}
        sums.mid_stream += c.outcome == "mid-stream"
        sums.forgotten += c.forgotten

    def rows(self, run: RunFacts) -> list[StatRow]:
        """The checks in the order of their weight, then reasons and problems."""
        checks = [*self._drops(run), *self._lost(run), *self._seen_in_part(), *self._clock(run)]
        return [*checks, *self._told()]

    def _drops(self, run: RunFacts) -> list[StatRow]:
        told = [capture for capture in run.captures if capture.drops_told]
        dropped = sum(capture.dropped for capture in run.captures)
        silent = len(run.captures) - len(told)
        if dropped:
            says = f"the capturing side says that it dropped {dropped} packets"
            return [_check("dropped_packets", dropped, "bad", says, of=run.packets + dropped)]
        if not told or silent:
            says = "the capture does not say: only the gaps below show what was lost"
            return [_check("dropped_packets", None, "unknown", says)]
        return [_check("dropped_packets", 0, "good", "")]

    def _lost(self, run: RunFacts) -> list[StatRow]:
        sums = self.sums
        gaps = f"{sums.with_gaps} connections lack bytes: messages of them are missing or cut, answers may be lost"
        cut = "packets are cut by the snap length: the rest of them is missing (capture with -s 0)"
        undecoded = "captured bytes that were not decoded; the reasons are below"
        encrypted = "a part of the undecoded bytes: TLS that is not opened"
        share = sums.undecoded / sums.size if sums.size else 0.0
        trust: Trust = "good" if not sums.undecoded else "bad" if share >= _DOUBTFUL_UNDECODED else "doubtful"
        damaged = "the data there, or after it, could not be read"
        faults = sum(tally.count for key, tally in self._problems if key is not None and key[0] == "input")
        return [
            _check("damaged_captures", faults, _bad_if(faults), damaged),
            _check("gap_bytes", sums.gap_bytes, _bad_if(sums.gap_bytes), gaps, of=sums.size),
            _check("cut_packets", run.cut_packets, _bad_if(run.cut_packets), cut, of=run.packets),
            _check("undecoded_bytes", sums.undecoded, trust, undecoded, of=sums.size),
            _check("encrypted_bytes", sums.encrypted, _bad_if(sums.encrypted), encrypted, of=sums.size),
        ]

    def _seen_in_part(self) -> list[StatRow]:
        sums = self.sums
        one_sided = "connections of which one side was captured: no latency, no answers"
        mid = "connections that began before the capture: their negotiation is unknown"
        doubled = "packets that were captured twice; copies are not counted"
        share = sums.doubled / sums.packets if sums.packets else 0.0
        taps = "two taps saw the same packets: latencies are those of the first copy"
        forgotten = (
            "connections that were given up after a silence or at a limit; later packets count as new connections"
        )
        return [
            _check("one_sided_connections", sums.one_sided, _bad_if(sums.one_sided), one_sided, of=sums.connections),
            _check("mid_stream_connections", sums.mid_stream, _doubt_if(sums.mid_stream), mid, of=sums.connections),
            _check("forgotten_connections", sums.forgotten, _doubt_if(sums.forgotten), forgotten, of=sums.connections),
            _check("doubled_packets", sums.doubled, _doubt_if(sums.doubled), doubled, of=sums.packets),
            _check("two_taps", int(share >= _TWO_TAPS), _doubt_if(share >= _TWO_TAPS), taps),
        ]

    def _clock(self, run: RunFacts) -> list[StatRow]:
        jumps = sum(tally.count for key, tally in self._problems if key is not None and key[0] == "clock")
        back = "packets with an earlier time than the one before: several taps, or a changed clock"
        answers = "answers earlier than their requests, and other signs of a wrong clock: their latency is unknown"
        return [
            _check("backward_packets", run.backward_packets, _doubt_if(run.backward_packets), back, of=run.packets),
            _check("clock_jumps", jumps, _bad_if(jumps), answers),
        ]

    def _told(self) -> list[StatRow]:
        """Problems by kind and text: reasons first, then what is worst."""
        rows = []
        for key, tally in self._problems:
            kind = key[0] if key is not None else OTHERS
            rows.append(
                {
                    "check": "reason" if kind in _REASONS else "problem",
                    "value": tally.count,
                    "share": None,
                    "trust": None,
                    "says": tally.example if key is not None else OTHERS,
                    "kind": kind,
                    "severity": tally.severity,
                    "bytes": tally.size,
                }
            )
        return sorted(rows, key=_weight)


def _weight(row: StatRow) -> tuple[bool, int, int, str]:
    severities = ("error", "warning", "info")
    severity = severities.index(row["severity"]) if row["severity"] in severities else len(severities)
    return row["check"] != "reason", severity, -row["value"], row["says"]


def _check(check: str, value: int | None, trust: Trust, says: str, *, of: int | None = None) -> StatRow:
    """A check as a row; ``of``: what the value is a share of."""
    share = round(value / of, 4) if value is not None and of else None
    return {"check": check, "value": value, "share": share, "trust": trust, "says": "" if trust == "good" else says}


def _bad_if(found: float) -> Trust:
    return "bad" if found else "good"


def _doubt_if(found: float) -> Trust:
    return "doubtful" if found else "good"
