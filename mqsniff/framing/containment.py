"""One frame through a plugin's ``decode``: its events on, what it raises turned into a problem of that frame.

1. ``Malformed`` is the traffic's fault, anything else ours; either costs one frame, never the connection.
2. A frame with bytes missing says so in the first message that it became.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from mqsniff.framing.questions import Questions
from mqsniff.model import Event, Frame, Message, Problem, Skipped
from mqsniff.spec.wire import Malformed


def contained(
    decode: Callable[[Frame], Iterator[Event]], frame: Frame, questions: Questions, plugin: str
) -> Generator[Event, None, bool]:
    """The events of a frame; returns whether one of them claimed its bytes."""
    claimed = False
    try:
        for event in decode(frame):
            if isinstance(event, Message):
                questions.finish(event)
                if not claimed and len(frame.data) < frame.size:
                    event.problems.append(_truncated(frame))
                claimed = True
            elif isinstance(event, Skipped):
                claimed = True
            yield event
    except Malformed as error:
        yield _placed(Problem("malformed", "error", str(error)), frame)
    except Exception as error:  # noqa: BLE001  # the border of the plugin
        yield _placed(Problem("internal", "error", f"{type(error).__name__} in {plugin}.decode"), frame)
    return claimed


def _placed(problem: Problem, frame: Frame) -> Problem:
    problem.side, problem.offset, problem.size = frame.side, frame.offset, frame.size
    problem.ts_ns, problem.packet = frame.first_ts_ns, frame.first_packet
    return problem


def _truncated(frame: Frame) -> Problem:
    lost = sum(stop - start for start, stop in frame.holes)
    if lost:
        detail = f"{lost} of {frame.size} bytes were lost by the capture"
    else:
        detail = f"{frame.size - len(frame.data)} of {frame.size} bytes are not there"
    return Problem("truncated", "error", detail, "", frame.side, frame.offset, frame.size - len(frame.data))
