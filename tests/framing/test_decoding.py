"""Frames that cannot be decoded, under the toy protocol."""

from __future__ import annotations

import pytest
from toyframes import chunk, gap, run, toy

from mqsniff.framing.decoding import decode_safely
from mqsniff.framing.pending import PendingRequests
from mqsniff.limits import Limits
from mqsniff.model import Frame, Message, Problem, Side, Skipped
from mqsniff.spec.wire import Malformed


def test_a_frame_that_cannot_be_decoded_skips_only_bytes_that_were_there():
    assert run(toy(), chunk(b"X\xffab")) == [("problem", "malformed", 0, 257), ("skipped", 0, 4)]


def test_of_an_undecodable_frame_only_what_lies_behind_its_start_is_skipped():
    assert run(toy(), chunk(b"F\0X\xffab")) == [
        ("F", 0, b"", 2),
        ("problem", "malformed", 2, 257),
        ("skipped", 2, 4),
    ]


def test_what_is_skipped_of_a_frame_with_a_hole_is_what_was_captured():
    dissector = toy()
    events = [*dissector.feed(chunk(b"X\x05a")), *dissector.gap(gap(3, 2)), *dissector.feed(chunk(b"de", 5))]
    (skipped,) = [event for event in events if isinstance(event, Skipped)]
    assert (skipped.offset, skipped.length, skipped.lost) == (0, 7, 2)


def test_what_decode_raises_costs_one_frame():
    assert run(toy(), chunk(b"X\x01aF\x00E\x00F\x00")) == [
        ("problem", "malformed", 0, 3),
        ("skipped", 0, 3),
        ("F", 3, b"", 2),
        ("problem", "internal", 5, 2),
        ("skipped", 5, 2),
        ("F", 7, b"", 2),
    ]


# ---- problems and skipped bytes, in whole


def placed(kind: str, detail: str) -> Problem:
    """A problem of the frame ``FRAME``."""
    return Problem(kind, "error", detail, "", Side.SERVER, 40, 10, 7, 3)


FRAME = Frame(Side.SERVER, 40, 10, b"abcd", 7, 8, 3, 4, 5)
HOLED = Frame(Side.SERVER, 40, 10, b"abcd", 7, 8, 3, 4, 5, ((4, 6),), 4)


def decoded(frame: Frame, *events: object, error: BaseException | None = None, reach: int = 10) -> list[object]:
    def decode(_frame):
        yield from events
        if error is not None:
            raise error

    requests = PendingRequests(Limits())
    requests.begin(frame)
    return decode_safely(decode, frame, reach, requests, "Toy")


def skipped(frame: Frame, length: int, lost: int) -> Skipped:
    why = "a frame that could not be decoded"
    return Skipped(frame.side, frame.offset, length, why, "undecoded", 7, 3, lost)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (Malformed("no such thing"), placed("malformed", "no such thing")),
        (KeyError("x"), placed("internal", "KeyError in Toy.decode")),
        (SystemExit(), placed("internal", "SystemExit in Toy.decode")),
    ],
)
def test_what_decode_raises_is_a_problem_of_the_frame_whose_bytes_are_skipped(error, problem):
    assert decoded(FRAME, error=error) == [problem, skipped(FRAME, 10, 6)]
    assert decoded(HOLED, error=error, reach=9)[1] == skipped(HOLED, 9, 1)


def test_a_frame_that_gives_nothing_is_skipped():
    assert decoded(FRAME) == [skipped(FRAME, 10, 6)]
    odd = Problem("format", "info", "odd")
    assert decoded(FRAME, odd) == [odd, skipped(FRAME, 10, 6)]


def test_what_was_said_before_an_error_stays():
    message = Message(FRAME, "toy", "T", "request")
    assert decoded(FRAME, message, error=Malformed("late")) == [message, placed("malformed", "late")]


def test_bytes_that_decode_skips_itself_are_those_that_were_captured():
    own = [Skipped(Side.SERVER, 40, length, "why") for length in (10, 8, 3)]
    assert decoded(HOLED, *own) == own
    assert [each.lost for each in own] == [2, 0, 0]


def test_only_the_first_message_of_a_cut_frame_says_so():
    first, second = (Message(FRAME, "toy", "T", "request") for _ in range(2))
    decoded(FRAME, first, second)
    (problem,) = first.problems
    assert (problem.kind, problem.severity, problem.size, second.problems) == ("truncated", "error", 6, [])
    whole = Message(Frame(Side.SERVER, 40, 4, b"abcd", 7, 8, 3, 4, 5), "toy", "T", "request")
    decoded(whole.frame, whole)
    assert whole.problems == []
