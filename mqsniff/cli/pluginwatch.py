"""While plugins decode: what they print goes to stderr, and one that hangs is named.

1. stdout is for rows: a print of a plugin would be between them. It becomes a line on stderr that names the module.
2. A dissector that works on one frame for ``SLOW_S`` is named on stderr with the packet, so that the user who presses
   Ctrl-C knows why. It is not ended: rows depend on packets, never on the time that decoding takes.
3. Nothing is done per packet: a thread looks now and then what the main thread does.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from types import FrameType
from typing import Final

from mqsniff.cli.talk import say
from mqsniff.decode.registry import load_dissectors, package_of
from mqsniff.model import CaptureInfo, Frame
from mqsniff.model.streams import packet_capture, packet_number

SLOW_S: Final = 10.0
_LOOKS: Final = 5
"""Times that one looks within ``SLOW_S``."""


@contextmanager
def watched_plugins(captures: Sequence[CaptureInfo], slow_s: float = SLOW_S) -> Iterator[None]:
    """Decode inside of this; stdout is to be written through streams that were taken before."""
    ended = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(threading.get_ident(), captures, ended, slow_s), name="plugins", daemon=True
    )
    watcher.start()
    try:
        with redirect_stdout(PluginTalk()):
            yield
    finally:
        ended.set()


def foreign_dissectors() -> str:
    """The dissectors of other packages than mqsniff, such as "mqtt (mqsniff-mqtt 1.0)"; empty if there are none."""
    packages = ((entry.name, package_of(entry.name)) for entry in load_dissectors())
    found = [f"{name} ({package})" for name, package in packages if package.partition(" ")[0] != "mqsniff"]
    return " or ".join(found)


class PluginTalk(io.TextIOBase):
    """Takes what plugins print."""

    def writable(self) -> bool:
        """See io.IOBase."""
        return True

    def write(self, text: str, /) -> int:
        """Say a text with the name of the module that printed it."""
        caller = sys._getframe(1)  # noqa: SLF001  # the documented way to it
        for line in text.splitlines():
            say(f"mqsniff: {caller.f_globals.get('__name__', '?')} printed: {line}")
        return len(text)


def _watch(thread: int, captures: Sequence[CaptureInfo], ended: threading.Event, slow_s: float) -> None:
    """Say once of each call of a plugin that it takes long."""
    classes = (entry.dissector for entry in load_dissectors())
    packages = {dissector.__module__.partition(".")[0] for dissector in classes if dissector is not None}
    seen: FrameType | None = None
    looks = 0
    while not ended.wait(slow_s / _LOOKS):
        call = _plugin_call(sys._current_frames().get(thread), packages)  # noqa: SLF001  # as above
        looks = looks + 1 if call is not None and call is seen else 0
        seen = call
        if call is not None and looks == _LOOKS:
            say(f"mqsniff: {_described(call, captures)} takes more than {slow_s:g} s; Ctrl-C ends the run")


def _plugin_call(frame: FrameType | None, packages: Container[str]) -> FrameType | None:
    """The outermost call into one of these packages of what a thread does; None if it does something else."""
    found = None
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in packages:
            found = frame
        frame = frame.f_back
    return found


def _packet(packet: int, captures: Sequence[CaptureInfo]) -> str:
    """A packet by its number and capture."""
    index = packet_capture(packet)
    name = captures[index].name if index < len(captures) else "?"
    return f"packet {packet_number(packet)} of {name}"


def _described(call: FrameType, captures: Sequence[CaptureInfo]) -> str:
    """A call of a plugin, and the packet that it is about, if it says."""
    name = f"{call.f_globals.get('__name__')}.{call.f_code.co_qualname}"
    about = next((value for value in call.f_locals.values() if isinstance(value, Frame)), None)
    return name if about is None else f"{name}, on {_packet(about.first_packet, captures)},"
