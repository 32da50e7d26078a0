"""Batches that were opened before: what comes out is what opening them again would give, within a bound."""

from __future__ import annotations

import gzip

import pytest
from builds import python_only
from record_craft import HEAD, batch, patched
from record_reading import expected, kinds, read, rows

from mqsniff_kafka.records import batches as module
from mqsniff_kafka.records.compression import OpenedBatch, OpenedBatches
from mqsniff_kafka.records.walk import walk


@pytest.fixture(autouse=True)
def _nothing_is_kept(monkeypatch):
    monkeypatch.setattr(module, "_OPENED", OpenedBatches())


@pytest.fixture
def openings(monkeypatch):
    """Sizes of the compressed bytes that were really decompressed."""
    made = []
    plain_records = module.plain_records
    monkeypatch.setattr(module, "plain_records", lambda *given: (made.append(len(given[1])), plain_records(*given))[1])
    return made


def packed(base: int = 0, level: int = 6) -> bytes:
    raw = batch(base=base)
    return patched(raw, gzip.compress(raw[HEAD:], level, mtime=0), attributes=1)


@python_only
def test_a_batch_that_comes_again_is_opened_once_and_read_alike(openings) -> None:
    first, again = read(packed(base=5)), read(packed(base=700))
    assert rows(first) == expected(base=5)
    assert rows(again) == expected(base=700)
    assert len(openings) == 1
    assert first.plain_left == again.plain_left


@python_only
def test_other_bytes_with_the_same_checksum_are_another_batch(openings) -> None:
    honest = packed()
    read(honest)
    lying = bytearray(packed(level=0))
    lying[17:21] = honest[17:21]
    reading = read(bytes(lying))
    assert kinds(reading) == [("checksum", "batches[0].crc")]
    assert rows(reading) == expected()
    assert len(openings) == 2


def test_what_the_cap_forbids_is_not_given_because_it_is_known() -> None:
    raw = packed()
    read(raw)
    reading = module.read_batches(raw, 0, len(raw), decompress_max=100, open_records=True)
    assert kinds(reading) == [("limit", "batches[0].records")]
    assert len(rows(reading)) < len(expected())


@python_only
def test_a_damaged_batch_is_not_kept(openings) -> None:
    raw = packed()
    damaged = patched(raw, raw[HEAD:-20], attributes=1)
    read(damaged)
    read(damaged)
    assert len(openings) == 2


@pytest.mark.parametrize(
    ("behind", "count", "kind"), [(b"xyz", 4, "trailing_bytes"), (b"", 5, "malformed"), (b"", 3, "trailing_bytes")]
)
def test_what_is_odd_about_a_batch_is_told_each_time(behind: bytes, count: int, kind: str) -> None:
    raw = batch()
    odd = patched(raw, gzip.compress(raw[HEAD:] + behind, mtime=0), attributes=1, count=count)
    first, again = read(odd), read(odd)
    assert [found for found, _ in kinds(first)] == [kind]
    assert kinds(again) == kinds(first)
    assert rows(again) == rows(first)


def test_the_batches_used_last_stay_within_the_bound() -> None:
    raw = batch()[HEAD:]
    opened = OpenedBatch(b"x", raw, walk(raw, 0, len(raw), 4))
    kept = OpenedBatches(most=3 * opened.size)
    for crc in range(3):
        kept.keep((crc, 1, 4), opened)
    assert kept.find((0, 1, 4), b"x") is opened
    kept.keep((3, 1, 4), opened)
    assert [kept.find((crc, 1, 4), b"x") is not None for crc in range(4)] == [True, False, True, True]
    assert kept.find((0, 1, 4), b"other bytes") is None


def test_a_batch_beyond_the_bound_is_not_kept_at_all() -> None:
    raw = batch()[HEAD:]
    kept = OpenedBatches(most=10)
    kept.keep((1, 1, 4), OpenedBatch(b"x", raw, walk(raw, 0, len(raw), 4)))
    assert kept.find((1, 1, 4), b"x") is None
