"""Gathering headers, and the record of what became of each packet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_batches import batch_of

from mqsniff.streams.columns import Odd, Packets, SetAside, gather

LAYOUT = np.dtype([("first", "u1"), ("middle", ">u2"), ("rest", ">u4")])


def packets(*spans: tuple[int, int, int]) -> Packets:
    at, stop, end = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    return Packets(np.arange(len(spans)), at, stop, end, np.zeros(len(spans), np.int64))


@settings(max_examples=50, deadline=None)
@given(st.binary(min_size=0, max_size=40), st.lists(st.integers(0, 120), max_size=10))
def test_a_header_is_the_bytes_at_its_offset_and_zeros_where_the_buffer_has_ended(buffer, offsets):
    raw = np.frombuffer(buffer, np.uint8)
    found = gather(raw, np.array(offsets, np.int64), LAYOUT)
    assert [header.tobytes() for header in found] == [buffer[at : at + 7].ljust(7, b"\0") for at in offsets]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_headers_are_copies_that_do_not_hold_the_buffer(kind):
    buffer = bytearray(range(20))
    headers = gather(np.frombuffer(kind(buffer), np.uint8), np.array([1, 3]), LAYOUT)
    buffer[1:4] = b"\xff\xff\xff"
    buffer.extend(b"a buffer that an array still looks into could not grow")
    assert headers["first"].tolist() == [1, 3]
    assert headers["middle"].tolist() == [0x0203, 0x0405]


def test_nothing_is_copied_when_all_packets_stay():
    some = packets((0, 10, 10), (10, 20, 20))
    everyone = np.ones(2, np.bool_)
    assert some.where(everyone) is some
    assert SetAside().require(some, "malformed", (everyone, "never")) is some
    assert SetAside().whole(some, 10, "header") is some


def test_the_first_check_that_a_packet_fails_is_the_one_that_is_told():
    outcome = SetAside()
    some = packets((0, 9, 9), (1, 9, 9), (2, 9, 9), (3, 9, 9))
    kept = outcome.require(
        some,
        "malformed",
        (np.array([True, False, True, False]), "odd"),
        (np.array([True, True, False, False]), "late"),
    )
    problems = outcome.problems(batch_of([b"x"] * 4, ordinal=100))
    assert kept.row.tolist() == [0]
    assert [(problem.ordinal, problem.problem.detail) for problem in problems] == [
        (101, "odd"),
        (102, "late"),
        (103, "odd"),
    ]


@pytest.mark.parametrize(
    ("span", "kind"),
    [((0, 8, 8), None), ((0, 7, 8), "truncated"), ((0, 7, 7), "malformed"), ((9, 7, 30), "truncated")],
)
def test_missing_bytes_are_the_captures_fault_if_the_wire_had_them(span, kind):
    outcome = SetAside()
    kept = outcome.whole(packets(span), 8, "header")
    assert [refusal.kind for refusal in outcome.refusals] == ([kind] if kind else [])
    assert len(kept) == (kind is None)


def test_a_problem_carries_the_size_that_its_packet_had_on_the_wire():
    batch = batch_of([b"12345"])
    batch.wirelen[0] = 1500
    outcome = SetAside()
    outcome.refuse(np.array([0]), "truncated", "cut")
    assert [problem.size for problem in outcome.problems(batch)] == [1500]


def test_a_group_without_packets_is_not_left():
    outcome = SetAside()
    outcome.leave(Odd.GRE, packets((0, 9, 9)).where(np.zeros(1, np.bool_)))
    assert outcome.odd == []
