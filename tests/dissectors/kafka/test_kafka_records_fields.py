"""Fields of record data are replaced by what bodies show of them, whatever form they have and wherever they are cut."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from record_craft import HEAD, SOME, Plain, batch, patched

from mqsniff.codecs.inflation import PLAIN_SPENT, RECORDS_SPENT, InflationBudget
from mqsniff.limits import KIB, Limits
from mqsniff.model import Problem
from mqsniff.spec.wire import Extent
from mqsniff_kafka.records.batches import read_batches
from mqsniff_kafka.records.fields import RecordFields

ONE = batch((Plain(5, b"k", b"value"),))
TWO = batch(SOME[:2])
BEFORE = b"before\x01\x02"
"""What stands before the field; its length follows."""


def fixed(data: bytes) -> bytes:
    """A length of four bytes."""
    return len(data).to_bytes(4, "big")


def compact(data: bytes) -> bytes:
    """An unsigned varint, one more than the length."""
    left, out = len(data) + 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*out, left))


class Field:
    """A message whose only field is record data, of which ``kept`` bytes were captured."""

    def __init__(
        self,
        data: bytes,
        *,
        kept: int | None = None,
        behind: bytes = b"",
        length: Any = fixed,
        limits: Limits | None = None,
        problems_max: int = 64,
        earned: int | None = None,
    ) -> None:
        head = BEFORE + length(data)
        whole = head + data + behind
        stop = len(whole) if kept is None else len(head) + kept
        there = whole[:stop]
        bounds = limits or Limits()
        self.budget = InflationBudget(bounds)
        self.budget.earn(len(there) if earned is None else earned)
        self.problems: list[Problem] = []
        self.fields = RecordFields(
            there,
            len(whole),
            length is compact,
            self.problems,
            problems_max,
            bounds.decompress_max,
            "client",
            bounds.wrapper_depth,
            self.budget,
        )
        self.body: dict[str, Any] = {"records": Extent(len(head), min(len(head) + len(data), len(there)))}

    def read(self, *, opened: bool = True, amounts: bool = False) -> Any:
        return self.fields.read(self.body, "records", "topics[0]", opened=opened, amounts=amounts)


def heads(data: bytes) -> list[dict[str, Any]]:
    """Heads of the batches of a field, by the reader of batches."""
    read = read_batches(data, 0, len(data), decompress_max=1 << 20, open_records=True)
    return [one.head for one in read.batches]


@pytest.mark.parametrize("length", [fixed, compact])
@pytest.mark.parametrize("data", [ONE, TWO, ONE + TWO])
def test_a_field_is_shown_by_its_size_and_the_heads_of_its_batches(data: bytes, length: Any) -> None:
    field = Field(data, length=length)
    reading = field.read()
    assert field.body == {"records": {"size": len(data), "batches": heads(data)}}
    assert sum(one.count for one in reading.records) == sum(head["records"] for head in heads(data))
    assert (field.problems, field.fields.lone) == ([], None)


def test_what_is_no_record_data_stays() -> None:
    field = Field(ONE)
    field.body["records"] = None
    assert field.read() is None
    assert field.body == {"records": None}


@pytest.mark.parametrize("data", [ONE, TWO])
def test_records_that_nobody_wants_are_shown_by_their_head_alone(data: bytes) -> None:
    field = Field(data)
    assert field.read(opened=False) is None
    assert (field.body, field.fields.lone) == ({"records": {"size": len(data), "batches": heads(data)}}, None)


@pytest.mark.parametrize("data", [ONE, TWO])
def test_where_amounts_are_enough_they_are_told_without_the_records(data: bytes) -> None:
    field = Field(data)
    assert field.read(opened=True, amounts=True) is None
    assert field.fields.lone is not None
    assert field.fields.lone.count == heads(data)[0]["records"]
    assert field.body == {"records": {"size": len(data), "batches": heads(data)}}


def test_amounts_of_several_batches_are_those_of_their_records() -> None:
    field = Field(ONE + TWO)
    assert [one.count for one in field.read(amounts=True).records] == [1, 2]
    assert field.fields.lone is None


# ---- cut


@pytest.mark.parametrize("length", [fixed, compact])
@pytest.mark.parametrize("kept", [1, 20, HEAD, len(ONE) - 1])
def test_of_a_field_whose_end_was_lost_the_size_is_read_from_the_number_before_it(kept: int, length: Any) -> None:
    field = Field(ONE + TWO, kept=kept, behind=b"more", length=length)
    field.read()
    assert field.body["records"]["size"] == len(ONE + TWO)
    assert "partial_batch" not in field.body["records"]


@pytest.mark.parametrize("length", [fixed, compact])
def test_a_field_that_was_captured_to_its_end_has_the_size_of_its_bytes(length: Any) -> None:
    field = Field(ONE, kept=len(ONE), behind=b"more", length=length)
    field.read()
    assert field.body == {"records": {"size": len(ONE), "batches": heads(ONE)}}
    assert field.problems == []


def test_a_batch_that_its_sender_cut_is_shown_with_its_sender() -> None:
    field = Field(ONE + TWO[:-3])
    reading = field.read()
    begun = field.body["records"].pop("partial_batch")
    assert field.body == {"records": {"size": len(ONE + TWO) - 3, "batches": heads(ONE)}}
    assert begun == {"cut_by": "client", "size": len(TWO) - 3, **reading.begun.head}
    assert field.problems == []


def test_a_length_that_cannot_be_is_not_believed() -> None:
    field = Field(ONE, kept=20, length=lambda _: b"\xff\xff\xff\xff")
    field.read()
    assert field.body["records"]["size"] == 20


# ---- problems


def damaged(data: bytes) -> bytes:
    """With a wrong checksum."""
    return data[:17] + bytes([data[17] ^ 1]) + data[18:]


def test_problems_have_the_path_of_their_field() -> None:
    field = Field(damaged(ONE) + b"\xff" * 40)
    field.read()
    assert field.problems == [
        Problem("checksum", "error", "the CRC-32C does not match", "topics[0].records.batches[0].crc"),
        Problem("malformed", "error", "no record batch", "topics[0].records.batches[1]", size=40),
    ]


def test_problems_of_a_field_without_a_path_have_that_of_the_field() -> None:
    field = Field(ONE)
    field.fields._note("topics[0].records", [Problem("limit", "warning", "more")])
    assert field.problems == [Problem("limit", "warning", "more", "topics[0].records")]


@pytest.mark.parametrize(("before", "noted"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_a_message_has_no_more_problems_than_are_noted(before: int, noted: int) -> None:
    field = Field(damaged(ONE) + b"\xff" * 40, problems_max=2)
    field.problems += [Problem("format", "info", "before")] * before
    field.read()
    assert len(field.problems) == before + noted


# ---- budgets


def gzipped(records: tuple[Plain, ...]) -> bytes:
    raw = batch(records)
    return patched(raw, gzip.compress(raw[HEAD:], mtime=0), attributes=1)


MANY = tuple(Plain(5, None, b"v" * 1_000) for _ in range(100))


def test_plain_bytes_are_bounded_for_the_fields_of_a_message_together() -> None:
    raw = gzipped(MANY)
    plain = len(batch(MANY)) - HEAD
    field = Field(raw, limits=Limits(decompress_max=plain + 64 * KIB))
    assert [one.count for one in field.read().records] == [100]
    assert field.fields.plain_left == 64 * KIB
    field.body["records"] = Extent(len(field.fields.data) - len(raw), len(field.fields.data))
    (first,) = field.read().records
    assert first.count < 100
    assert [(problem.kind, problem.path) for problem in field.problems] == [
        ("limit", "topics[0].records.batches[0].records")
    ]
    assert field.problems[0].detail != PLAIN_SPENT


def test_plain_bytes_beyond_what_a_connection_may_owe_say_so() -> None:
    limits = Limits(inflate_ratio=1, inflate_start=64 * KIB, inflate_free=64 * KIB)
    field = Field(gzipped(MANY), limits=limits, earned=0)
    field.read()
    assert [problem.detail for problem in field.problems] == [PLAIN_SPENT]
    assert field.budget.plain_left < 1_001


@pytest.mark.parametrize(("free", "left"), [(1, 0), (2, 1)])
def test_a_field_of_one_record_spends_one(free: int, left: int) -> None:
    field = Field(ONE, limits=Limits(records_free=free, records_start=free, record_cost=1 << 20), earned=0)
    assert [one.count for one in field.read().records] == [1]
    assert (field.budget.records_left, field.problems) == (left, [])


def test_no_record_is_opened_beyond_what_a_connection_may_owe() -> None:
    limits = Limits(records_free=1, records_start=1, record_cost=1 << 20)
    field = Field(TWO, limits=limits, earned=0)
    assert [one.count for one in field.read().records] == [1]
    assert field.problems == [Problem("limit", "error", RECORDS_SPENT, "topics[0].records.batches[0]")]
    field = Field(ONE, limits=limits, earned=0)
    field.budget.spend(0, 1)
    assert field.read().records == ()
    assert field.problems == [Problem("limit", "error", RECORDS_SPENT, "topics[0].records.batches[0]")]
