"""A whole run: a conversation as a capture in, rows out; the accounts add up, and both builds give the same rows.

MQSNIFF_COMPILED names the folder of a compiled build (build/compiled) to compare with.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

import accounts
import lawsamples

from mqsniff.limits import KIB
from mqsniff.model import Side
from mqsniff.testing.conversations import Say, lost, segments, swapped, write_pcap

from . import dialogues
from .judging import Target
from .rowsof import rows_in, text_of

PORTS = (4150, 9092, 6650, 9876, 10_911, 4160, 10_912, 55_555)
LATE, LOSSES, ORDER = 8, 16, 32


class OtherBuild(NamedTuple):
    """A process that gives rows by another build."""

    asks: IO[str]
    answers: IO[str]

    def rows_of(self, path: Path) -> str:
        """The rows of a capture as text."""
        self.asks.write(f"{path}\n")
        self.asks.flush()
        return self.answers.readline().rstrip("\n")


@cache
def other_build() -> OtherBuild | None:
    """The build that MQSNIFF_COMPILED names; None where it names none."""
    folder = os.environ.get("MQSNIFF_COMPILED")
    if not folder:
        return None
    home = str(Path(folder).resolve())
    environment = os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPATH": home}
    script = str(Path(__file__).with_name("rowsof.py"))
    process = subprocess.Popen(
        [sys.executable, script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    built = process.stdout.readline()
    assert built.startswith(home), built
    return OtherBuild(process.stdin, process.stdout)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fuzzed-rows-")


def run(data: bytes) -> None:
    """options u8, then a conversation: its rows."""
    options, steps = dialogues.read(data)
    says = [Say(side, what if isinstance(what, bytes) else bytes(min(what, 2 * KIB))) for side, what in steps]
    packets = segments(says, mss=100 if options & ORDER else 1448, handshake=not options & LATE)
    missing = [index for index, step in enumerate(steps) if not isinstance(step[1], bytes)]
    if options & LOSSES:
        missing.append(len(packets) // 2)
    if options & ORDER and len(packets) > 6:
        packets = swapped(packets, len(packets) // 3, len(packets) // 3 + 1)
    packets = lost(packets, *(index + (0 if options & LATE else 3) for index in missing))
    path = Path(_folder().name, "a.pcap")
    write_pcap(path, packets, ports=(40_000, PORTS[options & 7]))
    rows, pipeline = rows_in(str(path))
    check(rows, Counter(pipeline.totals.problems), pipeline.totals.messages)
    other = other_build()
    if other is not None:
        assert text_of(rows) == other.rows_of(path), "the builds give other rows"


def check(rows: accounts.Rows, problems: Counter[str], messages: int) -> None:
    """The accounts of all connections add up; nothing internal went wrong."""
    assert [row["detail"] for row in rows["problems"] if row["kind"] == "internal"] == []
    for side in ("client", "server"):
        accounts.check_every_byte(rows, side)
    accounts.check_sums(rows)
    accounts.check_undecoded(rows)
    assert Counter(row["kind"] for row in rows["problems"]) == problems
    assert len(rows["messages"]) == messages


def seeds() -> Iterator[bytes]:
    """The conversations of the laws, at their ports and at another, whole and with losses."""
    for protocol, says in chain.from_iterable(
        ((protocol, one) for one in each.values()) for protocol, each in lawsamples.CONVERSATIONS.items()
    ):
        port = ("nsq", "kafka", "pulsar", "", "rocketmq", "nsqlookupd", "rocketmq-ha").index(protocol)
        for options in (port, 7, port | LATE, port | LOSSES, port | ORDER):
            yield dialogues.written(says, options)
    yield dialogues.written(
        [Say(Side.CLIENT, b"GET / HTTP/1.1\r\n\r\n"), Say(Side.SERVER, b"HTTP/1.1 200 OK\r\n\r\n")], 7
    )


def targets() -> Iterator[Target]:
    """One target."""
    rooms = ("mqsniff/decode/*", "mqsniff/pipeline.py", "mqsniff/tables/rows.py", "mqsniff/topics.py")
    yield Target(
        "rows", "whole runs: accounts, and both builds (MQSNIFF_COMPILED)", run, seeds, rooms, size_max=8 * KIB
    )
