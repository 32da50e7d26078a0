"""Finds the command that a reply of nsqd answers, by the words of the reply.

1. nsqd executes commands one by one, so replies come in their order, with messages and heartbeats in between. A command
   without a reply gets one only if it fails, in the same order.
2. The words of a reply restrict the commands that it can answer. Commands before the answered one get no reply any
   more.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mqsniff.model import Value
from mqsniff_nsq.tables import COMMANDS, MESSAGE_ID_SIZE

BY_WORD: Final = {
    b"OK": frozenset(("IDENTIFY", "SUB", "PUB", "MPUB", "DPUB")),
    b"CLOSE_WAIT": frozenset(("CLS",)),
}
"""Response of one word -> commands that it can answer."""
JSON_AUTH: Final = frozenset(("AUTH",))
JSON_IDENTIFY: Final = frozenset(("IDENTIFY",))
ANY: Final = frozenset(command.name for command in COMMANDS.values() if command.kind == "request")

_OK_SIZE: Final = 10
_HEARTBEAT_SIZE: Final = 19
_HEARTBEATS_MAX: Final = 3

_NAMED: Final = re.compile(r"(?:E_[A-Z_]+ )?(?:cannot |AUTH required before |AUTH failed for )?(?P<name>[A-Z]+)\b")
_FAILED: Final = re.compile(r"(?P<name>FIN|REQ|TOUCH) (?P<about>\S+) failed ")
_RDY: Final = re.compile(r"(?P<name>RDY) (?:could not parse )?count (?P<about>\S+)")
_BY_CODE: Final = {
    code: frozenset(command.name for command in COMMANDS.values() if code in command.errors)
    for command in COMMANDS.values()
    for code in command.errors
} | {
    "E_BAD_PROTOCOL": frozenset(("MAGIC",)),
    "E_PUT_FAILED": frozenset(("PUB",)),
    "E_CLOSE_FAILED": frozenset(("CLS",)),
    "E_TOO_MANY_CHANNEL_CONSUMERS": frozenset(("SUB",)),
}
ABOUT_MESSAGES: Final = frozenset(("FIN", "REQ", "TOUCH"))
"""Commands that name a message."""
_NAMES: Final = frozenset(command.name for command in COMMANDS.values())


class SentCommand(NamedTuple):
    """A command in the queue of those that may get a reply."""

    name: str
    about: str | None = None
    """Its message id or count."""
    settled: bool = False
    """Whether it settled a delivery in time: such a command is the least likely to have failed."""


class ReplyTarget(NamedTuple):
    """The commands that a reply can answer."""

    names: frozenset[str]
    about: str | None = None
    """The message id or count that the command must have."""
    odd_id: bool = False
    """Whether its message id must have a wrong length."""
    idle: bool = False
    """Whether it must have settled no delivery."""

    def fits(self, sent: SentCommand) -> bool:
        """Whether the reply can answer this command."""
        if sent.name not in self.names or (self.about is not None and sent.about != self.about):
            return False
        return not (self.odd_id and len(sent.about or "") == MESSAGE_ID_SIZE) and not (self.idle and sent.settled)


def targets_of_error(code: str, description: str) -> list[ReplyTarget]:
    """The commands that an error can answer, the likeliest first.

    "FIN <id> failed …", "cannot RDY in current state", "AUTH required before PUB", "PUB message too big …".
    """
    if description.startswith("invalid command"):
        return [ReplyTarget(frozenset(("unknown",)))]
    if description.casefold() == "invalid message id":
        return [ReplyTarget(ABOUT_MESSAGES, odd_id=True)]
    if match := _FAILED.match(description):
        one = ReplyTarget(frozenset((match["name"],)), match["about"])
        return [one._replace(idle=True), one]
    targets = [ReplyTarget(_BY_CODE.get(code, _NAMES))]
    if (match := _NAMED.match(description)) and match["name"] in _NAMES:
        targets.insert(0, ReplyTarget(frozenset((match["name"],))))
    if match := _RDY.match(description):
        targets.insert(0, ReplyTarget(frozenset((match["name"],)), match["about"]))
    return targets


def names_answered_by(fields: dict[str, Value] | None) -> frozenset[str]:
    """Names of the commands that a JSON object can answer; ``fields`` is None if it cannot be read."""
    if fields is None:
        return JSON_AUTH | JSON_IDENTIFY
    return JSON_AUTH if "permission_count" in fields or "identity" in fields else JSON_IDENTIFY


def lost_replies(length: int) -> int:
    """Number of OK frames in ``length`` lost bytes, if these were only OK frames and a few heartbeats; else 0."""
    for heartbeats in range(_HEARTBEATS_MAX + 1):
        rest = length - heartbeats * _HEARTBEAT_SIZE
        if rest >= 0 and rest % _OK_SIZE == 0:
            return rest // _OK_SIZE
    return 0
