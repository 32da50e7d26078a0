"""What one run leaves to the next: states and rows are read as they were written, damage is an error that helps."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from mqsniff.batch.bundles import TIME_MIN, Bundle, bundle_size
from mqsniff.batch.carried import (
    CARRIED,
    CarriedCounts,
    CarriedError,
    CarriedRows,
    CarriedState,
    SavedFlow,
    is_state,
    options_digest,
    read_carried,
    saved_flow,
    state_row,
)
from mqsniff.batch.origins import Origins
from mqsniff.batch.store import Store
from mqsniff.model import packet_id

STATE = CarriedState(
    run="r1",
    versions={"mqsniff": "1"},
    options="o",
    floor_ns=5,
    files=2,
    pieces=3,
    parts=("_mqsniff/carried/a.parquet",),
    counts=CarriedCounts(1, 2, 3, 4),
    drops=("messages/1.parquet",),
    taught=(("kafka", "id", "name", 7),),  # type: ignore[arg-type]  # any row of a directory
    history=((5, 6, "kafka", "id", "name"),),  # type: ignore[arg-type]  # as above
)


def test_a_state_is_read_as_it_was_written() -> None:
    assert CarriedState.decoded(STATE.encoded()) == STATE


@pytest.mark.parametrize("missing", ["run", "parts", "drops", "counts", "taught", "history"])
def test_a_state_without_a_part_is_damaged(missing: str) -> None:
    plain = orjson.loads(STATE.encoded())
    del plain[missing]
    if missing in ("taught", "history"):
        plain[missing] = 7
    with pytest.raises(CarriedError, match=f"delete {CARRIED} in the folder"):
        CarriedState.decoded(orjson.dumps(plain))


@pytest.mark.parametrize("data", [b"", b"{", b"[]"])
def test_what_is_no_state_is_damaged(data: bytes) -> None:
    with pytest.raises(CarriedError):
        CarriedState.decoded(data)


def test_counts_of_tasks_add_up() -> None:
    counts = CarriedCounts(1, 2, 3, 4)
    counts.add(CarriedCounts(10, 20, 30, 40))
    assert counts == CarriedCounts(11, 22, 33, 44)


def test_keys_may_be_given_anew_and_other_options_may_not() -> None:
    digest = options_digest({"a": 1, "b": 2})
    assert options_digest({"b": 2, "a": 1, "tls_keys": "x", "hash_key": "y"}) == digest
    assert (
        len({digest, options_digest({"a": 1}), options_digest({"a": 1, "b": 3}), options_digest({"a": 1, "c": 2})}) == 4
    )
    assert len(digest) == 32


@pytest.mark.parametrize("saved", [SavedFlow(b"pickle", 0), SavedFlow(None, 70_000), SavedFlow(b"p", (1 << 64) - 1)])
def test_the_state_of_a_flow_is_a_row_without_segments(saved: SavedFlow) -> None:
    row = state_row(b"flow", b"key", saved)
    assert (row.flow, row.key, row.segments, row.first_ns, row.columns) == (b"flow", b"key", 0, TIME_MIN, b"")
    assert (is_state(row), saved_flow(row)) == (True, saved)


@pytest.mark.parametrize(
    ("key", "segments", "state"), [(b"k", 0, True), (b"k", 1, False), (b"", 0, False), (b"", 3, False)]
)
def test_a_row_with_segments_or_of_no_flow_is_no_state(key: bytes, segments: int, *, state: bool) -> None:
    assert is_state(Bundle(b"f", 0, 0, 0, segments, key, b"", b"")) is state


# ---- rows

SEGMENTS = Bundle(b"flow", 4, 1, 2, 3, b"key", b"columns", b"payload")
ORIGIN = (4, 7 << 40, packet_id(3, 0), b"a.pcap", -5, 40)


def rows_of(folder: Path) -> tuple[Store, CarriedRows]:
    store, origins = Store.at(str(folder)), Origins()
    origins.note([ORIGIN])
    return store, CarriedRows(store, store.place(f"{CARRIED}/r1-a.parquet"), origins)


def test_rows_are_read_as_they_were_written_with_where_they_come_from(tmp_path: Path) -> None:
    store, rows = rows_of(tmp_path)
    state = state_row(b"flow", b"key", SavedFlow(b"known", 2))
    for bundle in (state, SEGMENTS):
        rows.add(bundle)
    assert rows.close()
    assert rows.counts == CarriedCounts(1, 2, bundle_size(state) + bundle_size(SEGMENTS), 3)
    assert (rows.rows, rows.size) == (2, (tmp_path / CARRIED / "r1-a.parquet").stat().st_size)
    (batch,) = read_carried(store, [f"{CARRIED}/r1-a.parquet"])
    assert batch.num_rows == 2
    assert batch.select(Bundle._fields).to_pylist() == [bundle._asdict() for bundle in (state, SEGMENTS)]
    told = batch.select(["place", "packet", "capture", "floor_ns", "before"]).to_pylist()[1]
    assert tuple(told.values()) == ORIGIN[1:]


def test_a_task_without_rows_leaves_no_file(tmp_path: Path) -> None:
    _, rows = rows_of(tmp_path)
    assert (rows.close(), rows.rows, rows.size, rows.counts) == (False, 0, 0, CarriedCounts())
    rows.discard()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_rows_of_a_task_that_failed_are_gone(tmp_path: Path) -> None:
    _, rows = rows_of(tmp_path)
    rows.add(SEGMENTS._replace(payload=bytes(9 << 20)))
    assert (tmp_path / CARRIED / "r1-a.parquet").exists(), "large rows do not wait"
    rows.discard()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_damaged_file_of_rows_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    with pytest.raises(CarriedError, match=r"bad\.parquet"):
        list(read_carried(Store.at(str(tmp_path)), ["bad.parquet"]))
