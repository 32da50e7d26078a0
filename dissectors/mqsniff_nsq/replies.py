"""Which command a reply of nsqd is for: the words of the reply in, the commands that it can answer out.

1. nsqd executes one command after the other, so replies come in the order of the commands; messages and heartbeats
   come in between. Commands without a reply get one only when they fail, in the same order.
2. A reply's words narrow down the commands that it can be for; those before the command found get no reply any more.
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
"""What a response of one word answers."""
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


class Sent(NamedTuple):
    """A command that stands in the queue for a reply."""

    name: str
    about: str | None = None
    """Its message id or count."""
    settled: bool = False
    """Whether it ended a delivery in time: one that did is the last to be suspected of a failure."""


class Blame(NamedTuple):
    """What a reply says of the command that it is for."""

    names: frozenset[str]
    about: str | None = None
    """The message id or the count that the command must have."""
    odd_id: bool = False
    """Whether its message id must be of a wrong length."""
    idle: bool = False
    """Whether it must be one that ended no delivery."""

    def fits(self, sent: Sent) -> bool:
        """Whether this command can be meant."""
        if sent.name not in self.names or (self.about is not None and sent.about != self.about):
            return False
        return not (self.odd_id and len(sent.about or "") == MESSAGE_ID_SIZE) and not (self.idle and sent.settled)


def blamed(code: str, description: str) -> list[Blame]:
    """The commands that an error can be for, the likeliest first.

    "FIN <id> failed …", "cannot RDY in current state", "AUTH required before PUB", "PUB message too big …".
    """
    if description.startswith("invalid command"):
        return [Blame(frozenset(("unknown",)))]
    if description.casefold() == "invalid message id":
        return [Blame(ABOUT_MESSAGES, odd_id=True)]
    if match := _FAILED.match(description):
        one = Blame(frozenset((match["name"],)), match["about"])
        return [one._replace(idle=True), one]
    blames = [Blame(_BY_CODE.get(code, _NAMES))]
    if (match := _NAMED.match(description)) and match["name"] in _NAMES:
        blames.insert(0, Blame(frozenset((match["name"],))))
    if match := _RDY.match(description):
        blames.insert(0, Blame(frozenset((match["name"],)), match["about"]))
    return blames


def answered_by_json(fields: dict[str, Value] | None) -> frozenset[str]:
    """What a JSON object answers; None for one that cannot be read."""
    if fields is None:
        return JSON_AUTH | JSON_IDENTIFY
    return JSON_AUTH if "permission_count" in fields or "identity" in fields else JSON_IDENTIFY


def replies_in(length: int) -> int:
    """How many OK frames were lost with so many bytes, if they were nothing but OK frames and few heartbeats."""
    for heartbeats in range(_HEARTBEATS_MAX + 1):
        rest = length - heartbeats * _HEARTBEAT_SIZE
        if rest >= 0 and rest % _OK_SIZE == 0:
            return rest // _OK_SIZE
    return 0
