"""Tasks as functions of Arrow batches: bundles come back as they went, and places stand in the table to join with."""

from __future__ import annotations

import gc
from contextlib import suppress

import pyarrow as pa
import pytest
from inprocess import FLOW_SCHEMA

from mqsniff.batch.bundles import TIME_MIN, Bundle, PiecePlace, PiecePlaces
from mqsniff.batch.flowrows import bundles_of
from mqsniff.batch.inputs import Location
from mqsniff.batch.origins import Origins, origin_of, shifts_of
from mqsniff.batch.plan import InputFile
from mqsniff.batch.tasks import OBJECTS, rarely_collected, shift_table

FILE = InputFile(3, 7, "caf\udce9.pcap", "", Location("/caf"), 100, None)
BUNDLES = [
    Bundle(bytes([number]) * 16, number, 7, -1, 1, b"key", b"columns", payload)
    for number, payload in enumerate((b"first", b"", b"third and last"))
]


def rows_of(bundles: list[Bundle]) -> pa.RecordBatch:
    known = dict(zip(("place", "packet", "capture"), origin_of(FILE), strict=True)) | {"floor_ns": -5, "before": 40}
    return pa.RecordBatch.from_pylist([bundle._asdict() | known for bundle in bundles], FLOW_SCHEMA)


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
    origins = Origins()
    assert list(bundles_of([batch], origins)) == expected
    assert set(origins.placing.places) == {bundle.piece for bundle in expected}


def test_a_task_knows_the_places_and_names_of_the_bundles_that_it_has_got() -> None:
    origins = Origins()
    list(bundles_of([rows_of(BUNDLES[:1])], origins))
    assert origins.placing.places == {0: PiecePlace(-5, (7 << 40) + 40, (3 << 40) + 40)}
    assert origins.captures[3].name == "caf\udce9.pcap"


def test_only_pieces_that_do_not_begin_a_file_or_do_not_count_are_shifted() -> None:
    first, second = (7 << 40, 3 << 40), ((7 << 40) + 40, (3 << 40) + 40)
    placing = PiecePlaces({1: PiecePlace(TIME_MIN, *first), 2: PiecePlace(17, *second)})
    assert shift_table(shifts_of(placing, [(1, FILE), (2, FILE), (9, FILE)])).to_pylist() == [
        {"piece": 2, "floor_ns": 17, "before": 40, "counts": True},
        {"piece": 9, "floor_ns": TIME_MIN, "before": 0, "counts": False},
    ]


def test_a_worker_looks_for_cycles_as_before_when_a_task_has_failed() -> None:
    before = gc.get_threshold()
    with suppress(ValueError), rarely_collected():
        at_work = gc.get_threshold()[0]
        raise ValueError
    assert (at_work, gc.get_threshold()) == (OBJECTS, before)
