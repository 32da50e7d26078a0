"""What both sides of a connection to nsqd share: the questions between them, and what each told of itself.

1. Commands stand in one queue, REPLY, in the order in which nsqd works them off; their context is a Sent.
2. The topic and channel of the connection's SUB are those of every message that is delivered on it. Commands and
   frames of a consumer are about that channel; what is published on the same connection is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from dissectors.nsq.deliveries import Deliveries
from dissectors.nsq.negotiation import Negotiation
from dissectors.nsq.replies import Blame, Sent, replies_in
from dissectors.nsq.rules import State
from mqsniff.framing import FramedDissector
from mqsniff.model import Asked, Identity, Side, Status, Upgrade

REPLY: Final = "reply"
LOOK_BACK: Final = 1_024
"""Open commands that are looked through for the one that a reply is for: a hostile queue must not cost more."""


class Session:
    """One connection."""

    def __init__(self, dissector: FramedDissector) -> None:
        self._dissector = dissector
        self._lost: list[Asked] = []
        self._refused: list[Blame] = []
        self.settings = dissector.settings
        self.state = State()
        self.negotiation = Negotiation()
        self.deliveries = Deliveries(dissector.settings.limits.questions_max)
        self.topics: tuple[str, ...] = ()
        self.group: str | None = None
        self.client_seen = False
        self.unanswered_heartbeats = 0

    @property
    def identity(self) -> Identity:
        """What the connection says of its ends."""
        return self._dissector.identity

    def client_fed(self) -> int:
        """Stream offset behind the client's last byte."""
        return self._dissector.fed(Side.CLIENT)

    def placed(self, upgrades: Iterable[Upgrade]) -> list[Upgrade]:
        """Layers that begin where they should, or behind what a side already said in the layer before."""
        return [
            replace(upgrade, at={side: max(at, self._dissector.passed(side)) for side, at in upgrade.at.items()})
            for upgrade in upgrades
        ]

    def client_spoke(self) -> None:
        """A command came: it counts as an answer to heartbeats, and the client waits for nothing."""
        self.client_seen = True
        self.unanswered_heartbeats = 0
        self.negotiation.waiting = False

    def server_left(self) -> None:
        """The server closed first: behind a heartbeat that stayed without an answer, that was the cause."""
        if self.client_seen and self.unanswered_heartbeats and self.identity.close_reason is None:
            self.identity.close_reason = "keepalive missed"

    # ---- questions

    def ask_command(self, sent: Sent, *, expects: int) -> None:
        """The command being decoded waits for a reply, or (``expects`` 0) may fail."""
        asked = self._dissector.ask(REPLY, sent, expects=expects)
        if self._refused and any(blame.fits(sent) for blame in self._refused):
            self._dissector.settle(asked, "error")
            self._refused = []

    def ask_delivery(self, message_id: bytes, attempts: int | None) -> None:
        """The message being decoded waits for FIN or REQ; what was open for it has timed out."""
        again = self.deliveries.pop(message_id)
        if again is not None:
            self._dissector.settle(again, "unanswered")
        asked = self._dissector.ask(("message", message_id), link="settlement", in_order=False)
        self.deliveries.add(message_id, attempts, asked)

    def settle_delivery(self, message_id: bytes, by: str) -> bool:
        """The command being decoded ends the delivery of a message; gives whether there was one."""
        delivered = self.deliveries.pop(message_id)
        if delivered is None:
            return False
        delivered.extra["settled_by"] = by
        self._dissector.settle(delivered, answered=True)
        return True

    def replied(self, asked: Asked, status: Status | None = None) -> None:
        """The reply being decoded is for this command."""
        self._dissector.settle(asked, status, answered=True)

    def asked_for(self, blames: Sequence[Blame], *, failed: bool = False) -> Asked | None:
        """The oldest command that a reply can be for; those before it will not be answered any more."""
        if len(blames[0].names) > 1:
            for asked in self._lost:
                if asked.status is None:
                    self._dissector.settle(asked, "lost")
        self._lost.clear()
        for blame in blames:
            passed: list[Asked] = []
            for asked in islice(self._dissector.questions(REPLY), LOOK_BACK):
                if (failed or asked.expects > 0) and blame.fits(asked.context):
                    for other in passed:
                        self._dissector.settle(other, self._status_of_passed(other))
                    return asked
                passed.append(asked)
        return None

    def refuse_ahead(self, blames: list[Blame]) -> None:
        """A command was refused by its head, while its body was on the way: the next one that fits has failed."""
        self._refused = blames

    def _status_of_passed(self, asked: Asked) -> Status:
        if asked.expects == 0:
            return "oneway"
        return "lost" if self._dissector.gaps_of(Side.SERVER) > asked.gaps_before else "unanswered"

    def lose_replies(self, length: int) -> None:
        """So many bytes of the server are lost: the replies among them leave their commands unanswered.

        They end with the next reply, which so finds its own command; a reply that names its command needs no guess.
        """
        waiting = (asked for asked in self._dissector.questions(REPLY) if asked.expects > 0)
        self._lost += islice(waiting, replies_in(length))
