"""Calls a plugin's ``decode`` for one frame; gives its events, and a problem of that frame for what it raises.

1. ``Malformed`` means bad traffic, any other exception a bug of ours; either loses one frame, never the connection.
2. If bytes of the frame are missing, its first message gets a ``truncated`` problem.
3. Of a skipped frame only captured bytes are counted as skipped: its holes were reported as gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mqsniff.framing.pending import PendingRequests
from mqsniff.model import Event, Frame, Message, Problem, Skipped
from mqsniff.spec.wire import Malformed


def decode_safely(
    decode: Callable[[Frame], Iterable[Event]], frame: Frame, reach: int, requests: PendingRequests, plugin: str
) -> list[Event]:
    """The events of a frame; if no event claims it, ``reach`` bytes of the stream become Skipped. Hot."""
    events: list[Event] = []
    claimed = False
    try:
        for event in decode(frame):
            if isinstance(event, Message):
                requests.finish(event)
                if not claimed and len(frame.data) < frame.size:
                    event.problems.append(_truncated(frame))
                claimed = True
            elif isinstance(event, Skipped):
                event.lost = max(0, event.length - frame.captured)
                claimed = True
            events.append(event)
    except Malformed as damage:
        events.append(_placed(Problem("malformed", "error", str(damage)), frame))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the border of the plugin
        events.append(_placed(Problem("internal", "error", f"{type(error).__name__} in {plugin}.decode"), frame))
    if not claimed:
        events.append(_skipped(frame, reach))
    return events


def _placed(problem: Problem, frame: Frame) -> Problem:
    problem.side, problem.offset, problem.size = frame.side, frame.offset, frame.size
    problem.ts_ns, problem.packet = frame.first_ts_ns, frame.first_packet
    return problem


def _skipped(frame: Frame, reach: int) -> Skipped:
    ts_ns, packet, lost = frame.first_ts_ns, frame.first_packet, reach - frame.captured
    why = "a frame that could not be decoded"
    return Skipped(frame.side, frame.offset, reach, why, first_ts_ns=ts_ns, first_packet=packet, lost=lost)


def _truncated(frame: Frame) -> Problem:
    """A problem that says which bytes of a frame are missing; its ``size`` counts the bytes that cannot be decoded."""
    size, lost = frame.size, sum(stop - start for start, stop in frame.holes)
    parts = []
    if lost:
        parts.append(f"{lost} of {size} bytes were lost by the capture")
    elif frame.captured < size:
        parts.append(f"{size - frame.captured} of {size} bytes are not there")
    if frame.unread:
        parts.append(f"{frame.unread} {'after them' if parts else f'of {size} bytes'} are not decoded")
    return Problem("truncated", "error", "; ".join(parts), "", frame.side, frame.offset, size - len(frame.data))
