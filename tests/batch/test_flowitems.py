"""One flow by itself: faults of our own take it and no more, want of memory takes the task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest
from batchrows import PCAPS
from builds import COMPILED, python_only

from mqsniff.batch.bundles import Bundle, PiecePlaces
from mqsniff.batch.flowitems import BundlesLost, items_of
from mqsniff.batch.inputs import list_inputs
from mqsniff.batch.plan import plan
from mqsniff.batch.prefix import Prefix, prefix
from mqsniff.batch.report import PieceReport
from mqsniff.batch.scan import scan
from mqsniff.decode.conversation import RunContext
from mqsniff.decode.registry import LoadedDissector, Registry, load_dissectors
from mqsniff.dissector import Dissector, Sample, Settings, Verdict
from mqsniff.model import Chunk, ClosedItem, Event, Gap, Item, Message, MessageItem, Problem, ProblemItem, Side

CAPTURE = PCAPS / "nsq" / "nsq-1.3.0-auth.pcap"


class Faulty(Dissector):
    """Claims every connection, and tells what no table can take."""

    names: ClassVar[tuple[str, ...]] = ("faulty",)

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        return Verdict.YES

    def start(self, side: Side, *, in_step: bool) -> None:
        """Nothing to prepare."""

    def feed(self, chunk: Chunk) -> Iterator[Event]:
        yield self.said  # type: ignore[misc]

    said: ClassVar[object] = None if COMPILED else object.__new__(Message)  # without any of its fields

    def gap(self, gap: Gap) -> Iterator[Event]:
        return iter(())

    def close(self, side: Side) -> Iterator[Event]:
        return iter(())


@pytest.fixture(scope="module")
def scanned() -> tuple[PiecePlaces, list[list[Bundle]]]:
    """Where the pieces of a capture stand, and its bundles, flow by flow."""
    work = plan(list_inputs([str(CAPTURE)]))
    told = [each for split in work.splits for each in scan(split, work.files, work.options)]
    settled = prefix(work, [each for each in told if isinstance(each, PieceReport)])
    assert isinstance(settled, Prefix)
    flows: dict[bytes, list[Bundle]] = {}
    for each in told:
        if isinstance(each, Bundle):
            flows.setdefault(each.flow, []).append(each)
    assert len(flows) > 3
    return settled.placing, list(flows.values())


def context_with(*loaded: LoadedDissector) -> RunContext:
    return RunContext(Registry(list(loaded)), Settings())


def items(bundles: list[Bundle], placing: PiecePlaces, context: RunContext) -> list[Item]:
    return list(items_of(sorted(bundles, key=placing.key), placing, context))


def test_a_flow_alone_is_decoded_from_its_opening_to_its_close(scanned: tuple[PiecePlaces, list[list[Bundle]]]) -> None:
    placing, flows = scanned
    context = context_with(*load_dissectors())
    every = [items(flow, placing, context) for flow in flows]
    assert sum(isinstance(item, MessageItem) for some in every for item in some) > 10
    assert all(isinstance(some[-1], ClosedItem) for some in every)


@python_only
def test_a_plugin_that_breaks_costs_its_own_connections(scanned: tuple[PiecePlaces, list[list[Bundle]]]) -> None:
    placing, flows = scanned
    every = [items(flow, placing, context_with(LoadedDissector("faulty", Faulty))) for flow in flows]
    problems = [item.problem for told in every for item in told if isinstance(item, ProblemItem)]
    assert sum(problem.detail.startswith("AttributeError in Faulty") for problem in problems) > 3
    assert all(isinstance(told[-1], ClosedItem) for told in every)


def test_bundles_that_make_no_sense_are_told_once(scanned: tuple[PiecePlaces, list[list[Bundle]]]) -> None:
    placing, flows = scanned
    damaged = [bundle._replace(columns=b"x") for bundle in flows[0]]
    [told] = items(damaged, placing, context_with(*load_dissectors()))
    assert isinstance(told, ProblemItem)
    assert told.problem.detail == "ValueError: decoded no further"


def test_want_of_memory_fails_the_task_wherever_it_was_caught(
    scanned: tuple[PiecePlaces, list[list[Bundle]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    placing, flows = scanned
    monkeypatch.setattr(Faulty, "said", Problem("internal", "error", "MemoryError in Faulty.decode"))
    context = context_with(LoadedDissector("faulty", Faulty))
    with pytest.raises(MemoryError, match="Faulty"):
        [items(flow, placing, context) for flow in flows]


def test_bundles_that_cannot_be_read_fail_the_task_and_are_no_fault_of_the_traffic(
    scanned: tuple[PiecePlaces, list[list[Bundle]]],
) -> None:
    placing, flows = scanned

    def broken() -> Iterator[Bundle]:
        yield min(flows[0], key=placing.key)
        raise EOFError("the executor is gone")

    with pytest.raises(BundlesLost, match="EOFError: the executor is gone"):
        list(items_of(broken(), placing, context_with(*load_dissectors())))
