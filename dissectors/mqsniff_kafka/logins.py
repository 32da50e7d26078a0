"""SASL on one connection: the user, and which frames are tokens without Kafka headers.

1. After a handshake of version 0 or a raw token, the client's next frame may be a token or a request: only the server's
   answer tells. The frame waits for it, unless that answer is lost.
2. A connection that begins with a GSSAPI token is that of a 0.9 client, which sends no handshake.
3. If the server closes instead of answering a raw token, the login failed, unless the client closed first.
"""

from __future__ import annotations

from typing import Any, Final

from mqsniff.framing import FramedDissector
from mqsniff.model import Frame, Message, MessageKind, Pending, Secret, Side, Value
from mqsniff.spec.wire import as_name
from mqsniff_kafka import heads
from mqsniff_kafka.contexts import PROTOCOL, RequestContext, RequestRule, ResponseContext, ResponseRule
from mqsniff_kafka.sasl import Login, Sasl

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
TOKEN: Final = "SaslToken"  # noqa: S105  # a name, no secret
REFUSED: Final = "authentication"


class Logins:
    """The logins of one connection."""

    __slots__ = ("_begun", "_client_left", "_gate", "_identity", "_owner", "_sasl", "_sent_token")

    def __init__(self, owner: FramedDissector) -> None:
        self._owner = owner
        self._identity = owner.identity
        self._sasl = Sasl()
        self._gate: Pending | None = None
        self._begun = False
        self._client_left = False
        self._sent_token = False
        """Whether the client has sent a raw token."""

    def request_rule(self, key: int) -> RequestRule | None:
        """What requests of an API tell of logins."""
        if key == SASL_HANDSHAKE:
            return self._handshake
        return self._authenticate if key == SASL_AUTHENTICATE else None

    def response_rule(self, key: int) -> ResponseRule | None:
        """What responses of an API tell of logins."""
        if key == SASL_HANDSHAKE:
            return self._shook
        return self._authenticated if key == SASL_AUTHENTICATE else None

    # ---- framing

    def must_wait(self) -> bool:
        """Whether the client's next frame has to wait for the server (rule 1)."""
        gate, owner = self._gate, self._owner
        return gate is not None and owner.gaps_of(Side.SERVER) == gate.gaps_before and owner.may_wait(Side.CLIENT)

    def is_token(self, head: bytes) -> bool:
        """Whether the client's frame is a raw token."""
        if self._gate is not None:
            return not isinstance(heads.probe_request(head), int)
        if self._begun:
            return self._sasl.is_token(head)
        return len(head) > heads.SIZE_WORD and head[heads.SIZE_WORD] == heads.GSSAPI_TOKEN

    def expects_token(self) -> bool:
        """Whether the server's next frame answers a raw token."""
        return self._sent_token and bool(self._owner.pending(TOKEN))

    def request_seen(self) -> None:
        """The client has sent a request: no token comes before the next handshake."""
        self._begun = True
        self._sasl.end_raw()

    def handshake_sent(self, version: int, pending: Pending) -> None:
        """A handshake was requested; after one of version 0 the framing may change."""
        self._gate = pending if version == 0 else None

    def closed(self, side: Side) -> None:
        """No more bytes of a side come (rule 3)."""
        if side is Side.CLIENT:
            self._client_left = True
        elif self.expects_token() and not self._client_left and self._identity.close_reason is None:
            self._identity.close_reason = REFUSED

    # ---- raw tokens

    def client_token(self, frame: Frame) -> Message:
        """The message of a client's token."""
        if not self._begun:
            self._begun = True
            self._sasl.begin("GSSAPI", raw=True)
            self._identity.mechanism = self._sasl.mechanism
        message = _token(frame, "request")
        self._log_in(message, self._sasl.client_token(frame.data[heads.SIZE_WORD :]))
        self._sent_token = True
        self._gate = self._owner.expect_reply(TOKEN)
        return message

    def server_token(self, frame: Frame) -> Message:
        """The message of a server's token."""
        self._owner.reply_to(TOKEN)
        self._gate = None
        message = _token(frame, "response")
        outcome = self._sasl.server_token(frame.data[heads.SIZE_WORD :])
        if outcome is not None:
            message.notes += (("authenticated", outcome),)
            message.error_count = 0 if outcome else 1
            if not outcome:
                self._identity.close_reason = REFUSED
        return message

    # ---- handshakes and SaslAuthenticate

    def _handshake(self, _: Message, body: dict[str, Any], __: RequestContext) -> None:
        self._sasl.mechanism = as_name(body.get("mechanism"))
        self._identity.mechanism = self._sasl.mechanism

    def _shook(self, reply: ResponseContext) -> None:
        self._gate = None
        request = reply.pending.message
        mechanism = as_name(request.body.get("mechanism")) if request is not None else None
        if reply.message.error_code == 0:
            raw = reply.request.version.version == 0
            self._sasl.begin(mechanism, raw=raw)
        elif reply.message.error_code:
            self._identity.close_reason = REFUSED

    def _authenticate(self, message: Message, body: dict[str, Any], _: RequestContext) -> None:
        token = body.get("auth_bytes")
        if isinstance(token, Secret):
            self._log_in(message, self._sasl.client_token(token.data))

    def _authenticated(self, reply: ResponseContext) -> None:
        if reply.message.error_code:
            self._identity.close_reason = REFUSED

    def _log_in(self, message: Message, login: Login) -> None:
        """Note the user and mechanism that a client's token shows."""
        if self._sasl.mechanism is not None:
            message.notes += (("mechanism", self._sasl.mechanism),)
        if login.user is not None:
            self._identity.user = login.user
            message.notes += (("user", login.user),)
        if login.authzid is not None:
            message.notes += (("authzid", login.authzid),)
        message.notes += login.claims


def _token(frame: Frame, kind: MessageKind) -> Message:
    body: dict[str, Value] = {"token": Secret(frame.data[heads.SIZE_WORD :])}
    return Message(frame, PROTOCOL, TOKEN, kind, body)
