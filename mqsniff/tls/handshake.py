"""Contents of handshake records in, what was agreed on and the protections of both sides out.

Sources: RFC 8446 sections 4 and 5.1, RFC 5246 section 7.4, RFC 5077 (tickets), RFC 5746 (renegotiation).

1. Messages may share a record and may go over several.
2. A ClientHello after a ServerHello begins a new handshake: a renegotiation, or one after a HelloRetryRequest.
3. Up to TLS 1.2 a session is resumed if the server changes ciphers without a ServerHelloDone; in 1.3 if it took a PSK.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mqsniff.model import Side
from mqsniff.tls import hello
from mqsniff.tls.agreement import TRAFFIC, TRANSCRIPT_MAX, TlsAgreement
from mqsniff.tls.certificate import names_of
from mqsniff.tls.hello import (
    MESSAGE_KINDS,
    RETRY,
    VERSIONS,
    ClientHello,
    ServerHello,
    TlsFacts,
    first_certificate,
    read_client_hello,
    read_encrypted_extensions,
    read_server_hello,
)
from mqsniff.tls.keylog import KeyRing
from mqsniff.tls.keyschedule import TLS_1_3
from mqsniff.tls.opener import Opener
from mqsniff.tls.protection import Opened, Protection
from mqsniff.tls.suites import suite_name

MESSAGE_MAX: Final = 1 << 18
"""Largest message that is kept: chains of certificates; a lying length must not buy memory."""
FIRST_NUMBERS: Final = 64
"""Sequence numbers that are tried for the first protected record of a side whose own hello was captured."""
_HEAD: Final = 4


class Guess(NamedTuple):
    """Secrets that opened a record without its hellos."""

    random: bytes
    suite: int
    rung: Protection
    opened: Opened
    tries: int


class Handshakes:
    """The handshakes of one connection, one after the other."""

    def __init__(self, keys: KeyRing, facts: TlsFacts) -> None:
        self._keys = keys
        self._facts = facts
        self.agreed = TlsAgreement(keys)
        self.hello_seen = [False, False]
        """Whether the hello of a side was captured."""
        self.early_accepted: bool | None = None
        """Whether the server took early data; None where it did not say so yet."""
        self.tried = 0
        """Connections of the key log that were tried for one whose client random is not known."""

    # ---- messages

    def take(self, side: Side, opener: Opener, buffer: bytearray, content: bytes) -> None:
        """The next content of handshake records of a side; ``buffer`` holds the beginning of a message."""
        buffer += content
        at = 0
        while len(buffer) - at >= _HEAD:
            size = int.from_bytes(buffer[at + 1 : at + _HEAD], "big")
            if buffer[at] not in MESSAGE_KINDS or size > MESSAGE_MAX:
                buffer.clear()
                return
            if len(buffer) - at < _HEAD + size:
                break
            self._message(side, opener, bytes(buffer[at : at + _HEAD + size]))
            at += _HEAD + size
        del buffer[:at]

    def _message(self, side: Side, opener: Opener, message: bytes) -> None:
        kind, body = message[0], message[_HEAD:]
        agreed = self.agreed
        match kind:
            case hello.CLIENT_HELLO if side is Side.CLIENT:
                self._client_hello(body)
            case hello.SERVER_HELLO if side is Side.SERVER:
                self._server_hello(body)
            case hello.END_OF_EARLY_DATA:
                opener.advance("handshake")
            case hello.ENCRYPTED_EXTENSIONS:
                self.early_accepted = read_encrypted_extensions(body, self._facts)
            case hello.CERTIFICATE:
                self._certificate(side, body)
            case hello.SERVER_HELLO_DONE:
                agreed.done_seen = True
            case hello.CLIENT_KEY_EXCHANGE if agreed.exchange is None:
                agreed.exchange = body
            case hello.FINISHED if opener.in_handshake:
                opener.advance("traffic")
            case hello.KEY_UPDATE:
                opener.update()
        self._remember(kind, message)

    def _remember(self, kind: int, message: bytes) -> None:
        """Keep the messages of a handshake up to its ClientKeyExchange."""
        agreed = self.agreed
        open_ended = agreed.exchange is None and agreed.version != TLS_1_3 and kind != hello.HELLO_REQUEST
        room = bool(self._keys) and len(agreed.transcript) + len(message) <= TRANSCRIPT_MAX
        if room and (kind == hello.CLIENT_KEY_EXCHANGE or open_ended):
            agreed.transcript += message

    def _client_hello(self, body: bytes) -> None:
        agreed, said = self.agreed, read_client_hello(body, self._facts)
        self.hello_seen[Side.CLIENT] = True
        if agreed.server is not None and agreed.version < TLS_1_3:
            self.agreed = TlsAgreement(self._keys)  # a renegotiation
        elif agreed.client is not None:
            said.early = agreed.client.early  # after a HelloRetryRequest
        self.agreed.client = said

    def _server_hello(self, body: bytes) -> None:
        agreed = self.agreed
        self.hello_seen[Side.SERVER] = True
        if body[2:34] == RETRY:
            agreed.retried = True
            return
        if agreed.server is not None:
            return
        said = agreed.server = read_server_hello(body, self._facts)
        if said.version == TLS_1_3:
            self._facts.resumed = said.psk

    def _certificate(self, side: Side, body: bytes) -> None:
        certificate = first_certificate(body, context=self.agreed.version == TLS_1_3)
        if certificate is None:
            return
        subject, issuer = names_of(certificate)
        facts = self._facts
        if side is Side.SERVER:
            facts.certificate_subject, facts.certificate_issuer = subject, issuer
        else:
            facts.client_certificate_subject, facts.client_certificate_issuer = subject, issuer

    def change_cipher(self, side: Side) -> None:
        """A ChangeCipherSpec up to TLS 1.2."""
        if side is Side.SERVER and self.agreed.server is not None and self.hello_seen[Side.CLIENT]:
            self._facts.resumed = not self.agreed.done_seen

    # ---- keys

    def ladder(self, side: Side) -> list[Protection]:
        """Protections of a side, as far as the key log has secrets of this connection."""
        agreed = self.agreed
        if agreed.server is None:
            return []
        if agreed.version == TLS_1_3:
            return agreed.ladder_13(side, late=not self.hello_seen[side])
        made = agreed.protections_12()
        return [made[side]] if side in made else []

    @property
    def may_guess(self) -> bool:
        """Whether a hello that was not captured is in the way of the keys."""
        agreed = self.agreed
        return agreed.client is None or agreed.server is None

    def guess(self, side: Side, head: bytes, body: bytes, trials_max: int) -> Guess | None:
        """Secrets of the key log that open a record, where a hello is missing; bounded."""
        agreed = self.agreed
        candidates = agreed.tries(side, own=self.hello_seen[side])
        self.tried = len(candidates)
        most = max(1, trials_max // max(1, len(candidates)))
        numbers = range(min(most, FIRST_NUMBERS) if self.hello_seen[side] else most)
        for random, suite, make in candidates:
            for rung in make():
                opened = rung.find(numbers, head, body)
                if opened is not None:
                    self._accept(random, suite)
                    return Guess(random, suite, rung, opened, opened.number + 1)
        return None

    def _accept(self, random: bytes, suite: int) -> None:
        """Take over what was guessed."""
        agreed = self.agreed
        if agreed.client is None:
            agreed.client = ClientHello(random)
        if agreed.server is None:
            agreed.server = ServerHello(TLS_1_3, b"", b"", suite, 0)
            self._facts.version, self._facts.cipher = VERSIONS[TLS_1_3], suite_name(suite)

    def lacking(self, side: Side) -> str | None:
        """The label of TLS 1.3 that the key log does not have for a side, although it has others of its connection."""
        agreed = self.agreed
        secrets = agreed.secrets()
        if agreed.version != TLS_1_3 or not secrets or TRAFFIC[side] in secrets:
            return None
        return TRAFFIC[side]

    def why_no_keys(self) -> str:
        """Why there are no keys, in words."""
        agreed = self.agreed
        if agreed.client is None and agreed.server is None:
            return (
                f"its hellos were not captured; {self.tried} TLS 1.3 connections of the key log were tried, "
                "and TLS 1.2 needs both hellos"
            )
        if agreed.server is None:
            return "the server's hello was not captured"
        if agreed.client is None:
            return f"the client's hello was not captured; {self.tried} connections of the key log were tried"
        if not agreed.secrets():
            again = ", not even under the session that it resumes" if self._facts.resumed else ""
            return f"the key log has no line for its client random{again}"
        return "the key log has other lines of this connection, but none that fits its version"
