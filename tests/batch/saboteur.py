"""A dissector that breaks the tasks it runs in: a plugin like any other, so that product code has no hooks for tests.

``SABOTAGE`` names a JSON file: fault -> the partitions that it hits in their first attempts, and how many attempts.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from mqsniff.dissector import Dissector, Sample, Verdict
from mqsniff.model import Chunk, Event, Gap, Side

METADATA = {
    "METADATA": "Metadata-Version: 2.1\nName: saboteur\nVersion: 1\n",
    "entry_points.txt": "[mqsniff.dissectors]\nsaboteur = saboteur:Saboteur\n",
}


def install(folder: Path) -> None:
    """Make a folder that can stand in PYTHONPATH: this module and what names it to mqsniff."""
    (folder / "saboteur-1.dist-info").mkdir(parents=True)
    (folder / "saboteur.py").write_text(Path(__file__).read_text())
    for name, text in METADATA.items():
        (folder / "saboteur-1.dist-info" / name).write_text(text)


class Fault(BaseException):
    """Passes every border but the task's."""


def strike() -> None:
    """Break this process if it is its turn."""
    from pyspark import TaskContext

    context = TaskContext.get()
    plan = json.loads(Path(os.environ["SABOTAGE"]).read_text())
    if context is None:
        return
    for fault, partitions in plan["partitions"].items():
        if context.partitionId() in partitions and context.attemptNumber() < plan["attempts"]:
            log = Path(os.environ["SABOTAGE"]).parent / "struck"
            log.mkdir(exist_ok=True)
            (log / f"{fault}-{context.partitionId()}-{context.attemptNumber()}").touch()
            FAULTS[fault]()


def _raise() -> None:
    raise Fault("in mid task")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _starve() -> None:
    """Leave no memory for what comes next."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _hang() -> None:
    time.sleep(600)


FAULTS = {"exception": _raise, "kill": _kill, "memory": _starve, "hang": _hang}


class Saboteur(Dissector):
    """Claims nothing."""

    names: ClassVar[tuple[str, ...]] = ("sabotage",)

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        if len(client.data) + len(server.data) > 60:  # something of the flow, and flows before it, are done
            strike()
        return Verdict.NO

    def start(self, side: Side, *, in_step: bool) -> None:
        raise NotImplementedError

    def feed(self, chunk: Chunk) -> Iterator[Event]:
        raise NotImplementedError

    def gap(self, gap: Gap) -> Iterator[Event]:
        raise NotImplementedError

    def close(self, side: Side) -> Iterator[Event]:
        raise NotImplementedError
