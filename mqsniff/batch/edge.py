"""The flows of a task of a run that carries: what the run before knew of them in, what the next run will know out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

import numpy as np

from mqsniff.batch.bundles import SEGMENT, TIME_MIN, Bundle, begun_at_first, bundle_size, parted, read_key
from mqsniff.batch.carried import (
    CARRIED,
    CarriedRows,
    Carry,
    SavedFlow,
    is_state,
    saved_flow,
    state_row,
)
from mqsniff.batch.flowitems import FlowDecoder
from mqsniff.batch.flowpickles import KnownFlow, Pickles
from mqsniff.batch.origins import Origins
from mqsniff.batch.store import Store
from mqsniff.batch.tasktables import TaskOutput, TaskResult, Writer
from mqsniff.decode.conversation import RunContext
from mqsniff.filters.itemfilter import FilterState, ItemFilter
from mqsniff.model import Problem
from mqsniff.streams.flows import SWEEP_NS

_TOO_LONG: Final = (
    "replay_max: compressed or encrypted, and more than {limit} bytes of it when a run ended: "
    "it does not go on in the next"
)


@dataclass(slots=True)
class EdgeFlow:
    """One flow while it is decoded."""

    flow: bytes
    key: bytes
    decoder: FlowDecoder
    filtered: FilterState | None
    """What the filters knew of it when the run before ended."""
    known: bytes | None
    """The pickle that ``decoder`` was made from; None for a new one."""
    again: Iterable[Bundle]
    """Segments whose rows the runs before wrote."""
    new: Iterable[Bundle]
    captures: set[int] = field(default_factory=set)
    """Numbers of the captures that it may refer to."""
    kept: list[Bundle] | None = field(default_factory=list)
    """All segments since ``known``; None where they are too many to be carried."""
    kept_bytes: int = 0

    def keep(self, bundle: Bundle, most: int) -> None:
        """Keep a bundle that is decoded now, as far as it may have to be carried; ``most``: bytes of all of them."""
        if self.kept is not None:
            self.kept.append(bundle)
            self.kept_bytes += bundle_size(bundle)
            if self.kept_bytes > most:
                self.kept = None


class CarriedFlows:
    """The flows of a task as the run before left them, and their segments before the edge of this run."""

    def __init__(self, carry: Carry, origins: Origins, context: RunContext) -> None:
        self._carry = carry
        self._context = context
        self._origins = origins
        self._pickles = Pickles(context)
        self._replay_max = context.settings.limits.replay_max

    def begun(self, first: Bundle, flow: Iterator[Bundle]) -> EdgeFlow:
        """A flow as the run before left it; ``first`` is its first bundle, ``flow`` the others."""
        saved = saved_flow(first) if is_state(first) else SavedFlow(None, 0)
        bundles = chain(() if is_state(first) else (first,), flow)
        known = KnownFlow(FlowDecoder(read_key(first.key)[0], self._context), None, {})
        if saved.known is not None:
            known = self._pickles.loaded(saved.known)
        self._origins.note_names(known.captures)
        begun = EdgeFlow(
            *(first.flow, first.key, known.decoder, known.filtered, saved.known, (), bundles, set(known.captures))
        )
        begun.again = self._kept(begun, islice(bundles, saved.replayed))
        return begun

    def _kept(self, known: EdgeFlow, bundles: Iterable[Bundle]) -> Iterator[Bundle]:
        for bundle in bundles:
            known.keep(bundle, self._replay_max)
            known.captures.add(self._origins.capture_of(bundle.piece))
            yield bundle

    def before(self, known: EdgeFlow) -> Iterator[Bundle]:
        """The new segments of a flow that come before the edge."""
        return self._kept(known, self._before(known.new))

    def _before(self, bundles: Iterable[Bundle]) -> Iterator[Bundle]:
        until_ns = self._carry.until_ns
        for bundle in bundles:
            if until_ns is None or self._last_ns(bundle) < until_ns:
                yield bundle
                continue
            before, behind = parted([bundle], (until_ns, TIME_MIN), self._origins.placing)
            yield from before
            for each in behind:
                self.leave(begun_at_first(each))

    def leave(self, bundle: Bundle) -> None:
        """What to do with a segment behind the edge: nothing, it is for the next run."""

    def _last_ns(self, bundle: Bundle) -> int:
        """The merge time of the last segment."""
        last = np.frombuffer(bundle.columns, SEGMENT, count=1, offset=len(bundle.columns) - SEGMENT.itemsize)[0]
        return max(self._origins.placing.places[bundle.piece].floor_ns, int(last["ts_ns"]) + int(last["lag_ns"]))


class TaskEdge(CarriedFlows):
    """What a task hands to the next run, and the rows that the end of this run alone releases."""

    def __init__(self, output: TaskOutput, carry: Carry, origins: Origins, context: RunContext, attempt: str) -> None:
        super().__init__(carry, origins, context)
        self.writer = Writer(output, origins.captures, f"{attempt}-edge")
        """Of those rows."""
        store = Store.at(output.uri)
        folder = f"{output.folder}/{CARRIED}" if output.folder else CARRIED
        self._rows = CarriedRows(store, store.place(f"{folder}/{output.run}-{attempt}.parquet"), origins)

    def leave(self, bundle: Bundle) -> None:
        """Carry segments behind the edge."""
        self._rows.add(bundle)

    def carried(self, known: EdgeFlow, chooser: ItemFilter | None) -> bool:
        """Hand a flow to the next run; False if nothing is open there, or it cannot be carried."""
        connection = known.decoder.connection
        if connection is None or connection.deadline_ns + SWEEP_NS < self._carry.now_ns:
            return False
        filtered = None if chooser is None else chooser.saved()
        pickled = self._pickles.dumped(KnownFlow(known.decoder, filtered, self._origins.names(known.captures)))
        if pickled is not None:
            self._rows.add(state_row(known.flow, known.key, SavedFlow(pickled, 0)))
            return True
        if known.kept is None:
            connection.note(Problem("limit", "error", _TOO_LONG.format(limit=self._replay_max)))
            return False
        self._rows.add(state_row(known.flow, known.key, SavedFlow(known.known, len(known.kept))))
        for bundle in known.kept:
            self._rows.add(bundle)
        return True

    def close(self, result: TaskResult) -> None:
        """Close the files; they are added to the result of the task."""
        edge = self.writer.close()
        result.edge_parts, result.edge_taught = edge.parts, edge.taught
        result.connections += edge.connections
        result.messages.update(edge.messages)
        result.problems.update(edge.problems)
        result.encrypted.update(edge.encrypted)
        if self._rows.close():
            result.carried.append((self._rows.path, self._rows.rows, self._rows.size))
        result.carried_counts = self._rows.counts

    def discard(self) -> None:
        """Delete all files."""
        self.writer.discard()
        self._rows.discard()
