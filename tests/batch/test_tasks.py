"""Tasks as functions of Arrow batches: bundles come back as they went, and places stand in the table to join with."""

from __future__ import annotations

import gc
from contextlib import suppress

import pyarrow as pa
import pytest

from mqsniff.batch.bundles import Bundle, PiecePlace, PiecePlaces
from mqsniff.batch.tasks import BUNDLE_SCHEMA, OBJECTS, bundles_of, place_table, rarely_collected

BUNDLES = [
    Bundle(bytes([number]) * 16, number, 7, -1, 1, b"key", b"columns", payload)
    for number, payload in enumerate((b"first", b"", b"third and last"))
]


def rows_of(bundles: list[Bundle]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([bundle._asdict() for bundle in bundles], BUNDLE_SCHEMA)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (rows_of(BUNDLES), BUNDLES),
        (rows_of(BUNDLES).slice(1), BUNDLES[1:]),
        (rows_of(BUNDLES).slice(1, 1), BUNDLES[1:2]),
        (rows_of(BUNDLES[1:2]), BUNDLES[1:2]),
        (rows_of([]), []),
    ],
    ids=["all", "a slice of a batch", "of nothing but an empty payload", "an empty payload alone", "none"],
)
def test_bundles_come_out_of_a_batch_as_they_went_into_it(batch: pa.RecordBatch, expected: list[Bundle]) -> None:
    assert list(bundles_of([batch])) == expected


def test_places_are_a_row_a_piece() -> None:
    placing = PiecePlaces({3: PiecePlace(-(1 << 63), 1 << 40, 5), 9: PiecePlace(17, 2, 6)})
    assert place_table(placing).to_pylist() == [
        {"piece": 3, "floor_ns": -(1 << 63), "place": 1 << 40},
        {"piece": 9, "floor_ns": 17, "place": 2},
    ]


def test_a_worker_looks_for_cycles_as_before_when_a_task_has_failed() -> None:
    before = gc.get_threshold()
    with suppress(ValueError), rarely_collected():
        at_work = gc.get_threshold()[0]
        raise ValueError
    assert (at_work, gc.get_threshold()) == (OBJECTS, before)
