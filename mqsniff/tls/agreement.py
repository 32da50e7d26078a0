"""What both hellos of a handshake agreed on and the secrets of a key log in, protections of records out.

1. Secrets are looked up by the client's random; sessions of NSS's older lines by session id, or by the encrypted
   premaster secret.
2. Where the hellos were not captured, the secrets of the key log are tried, up to a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Final

from mqsniff.model import Side
from mqsniff.tls.hello import ClientHello, ServerHello
from mqsniff.tls.keylog import KeyRing, SecretsByLabel
from mqsniff.tls.keyschedule import TLS_1_2, TLS_1_3, key_block, master_secret
from mqsniff.tls.protection import Aead13, Protection, protection_of
from mqsniff.tls.suites import SUITES_13, Suite, suite_name, suite_of

EARLY: Final = "CLIENT_EARLY_TRAFFIC_SECRET"
HANDSHAKE: Final = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")
TRAFFIC: Final = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
"""By side."""
MASTER: Final = "CLIENT_RANDOM"
PREMASTER: Final = "PMS_CLIENT_RANDOM"
TRANSCRIPT_MAX: Final = 1 << 18
CONNECTIONS_MAX: Final = 4096
"""Connections of a key log that are tried where a client random was not captured."""


class TlsAgreement:
    """One handshake of a connection: what it agreed on, and the protections that follow from it."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys
        self.client: ClientHello | None = None
        self.server: ServerHello | None = None
        self.retried = False
        self.done_seen = False
        """Whether a ServerHelloDone was seen: a full handshake up to TLS 1.2."""
        self.exchange: bytes | None = None
        """The body of the ClientKeyExchange."""
        self.transcript = bytearray()
        """Messages up to the ClientKeyExchange, for an extended master secret of an RSA line."""
        self._made: dict[Side, Protection] = {}

    @property
    def version(self) -> int:
        """The version that was agreed on; 0 before."""
        return self.server.version if self.server is not None else 0

    @property
    def suite(self) -> Suite | None:
        """The suite that was agreed on, if it is known."""
        return suite_of(self.server.suite) if self.server is not None else None

    def refusal(self) -> str | None:
        """Why nothing of what was agreed on can be decrypted here; None where it can."""
        server = self.server
        if server is None:
            return None
        if not 0x0301 <= server.version <= TLS_1_3:
            return f"version 0x{server.version:04x} is not decrypted"
        if server.compression:
            return f"TLS compression (method {server.compression}) is not decrypted"
        if server.mac_cut:
            return "a truncated HMAC is not decrypted"
        suite = self.suite
        if suite is None or (server.version == TLS_1_3) != (server.suite in SUITES_13):
            return f"{suite_name(server.suite)} is not decrypted"
        if not suite.mac and server.version < TLS_1_2:
            return f"{suite.name} is none of this version"
        return None

    def secrets(self) -> SecretsByLabel:
        """The secrets of this connection that the key log has."""
        if self.client is None or len(self.client.random) != 32:
            return {}
        found = self._keys.find(self.client.random)
        server = self.server
        if server is not None and server.version < TLS_1_3 and MASTER not in found:
            found = found | self._older(server)
        return found

    def _older(self, server: ServerHello) -> SecretsByLabel:
        """Secrets of lines that name a session or an encrypted premaster secret."""
        if len(server.session) >= 8 and (by_session := self._keys.find(server.session)).get("RSA"):
            return {MASTER: by_session["RSA"]}
        if self.exchange is not None and len(self.exchange) > 10:
            premaster = self._keys.find(self.exchange[2:10]).get("RSA")
            if premaster is not None:
                return {PREMASTER: premaster}
        return {}

    # ---- up to TLS 1.2

    def protections_12(self) -> dict[Side, Protection]:
        """Protections of both sides; empty without a secret."""
        if self._made or self.refusal() is not None:
            return self._made
        secrets = self.secrets()
        master = secrets.get(MASTER) or self._master(secrets.get(PREMASTER))
        if master is not None and self.client is not None:
            self._made = self._derived(master, self.client.random)
            self.transcript.clear()
        return self._made

    def _master(self, premaster: bytes | None) -> bytes | None:
        server, client, suite = self.server, self.client, self.suite
        if premaster is None or server is None or client is None or suite is None:
            return None
        transcript = bytes(self.transcript) if server.extended else None
        return master_secret(server.version, suite.hash, premaster, client.random + server.random, transcript)

    def _derived(self, master: bytes, client_random: bytes) -> dict[Side, Protection]:
        server, suite = self.server, self.suite
        assert server is not None
        assert suite is not None
        keys = key_block(server.version, suite, master, client_random, server.random)
        return {
            side: protection_of(server.version, suite, keys[side], mac_last=server.mac_last and suite.block > 0)
            for side in Side
        }

    # ---- TLS 1.3

    def ladder_13(self, side: Side, *, late: bool) -> list[Protection]:
        """Protections that a side goes through, one after the other, of those whose secrets there are.

        ``late``: its handshake was not captured, so that only data is left.
        """
        if self.server is None or self.refusal() is not None:
            return []
        secrets = self.secrets()
        if late:
            secrets = {label: secret for label, secret in secrets.items() if label in TRAFFIC}
        return self._rungs(secrets, side, self.server.suite)

    def _rungs(self, secrets: SecretsByLabel, side: Side, code: int) -> list[Protection]:
        suite = suite_of(code)
        assert suite is not None
        named = [(HANDSHAKE[side], "handshake"), (TRAFFIC[side], "traffic")]
        if side is Side.CLIENT and self.client is not None and self.client.early:
            named.insert(0, (EARLY, "early"))
        rungs: list[Protection] = []
        for label, name in named:
            if (secret := secrets.get(label)) is not None:
                suites = self._early_suites(secret) if name == "early" else [suite]
                rungs += [Aead13(each, secret, name) for each in suites]
        return rungs

    def _early_suites(self, secret: bytes) -> list[Suite]:
        """Suites of early data: the one that was agreed on first, else one that was offered (RFC 8446, 4.2.10)."""
        first = self.server.suite if self.server is not None else 0
        offered = self.client.suites if self.client is not None else []
        suites = [suite_of(code) for code in dict.fromkeys((first, *offered)) if code in SUITES_13]
        return [suite for suite in suites if suite is not None and _fits(suite, secret)]

    # ---- hellos that were not captured

    def tries(self, side: Side, *, own: bool) -> list[tuple[bytes, int, Callable[[], list[Protection]]]]:
        """(client random, suite, protections) of all that a protected record of a side may have.

        Where the client's random is known, those of its own secrets only. ``own``: the hello of the side was captured,
        so that its records are protected with handshake secrets first.
        """
        server = self.server
        if server is not None and server.version < TLS_1_3:
            return self._tries_12(server, side) if self.refusal() is None else []
        labels = (HANDSHAKE[side], TRAFFIC[side]) if own else (TRAFFIC[side],)
        suites = SUITES_13 if server is None else (server.suite,)
        found: list[tuple[bytes, int, Callable[[], list[Protection]]]] = []
        for (random, secrets), code in product(self._candidates((*HANDSHAKE, *TRAFFIC)), suites):
            suite = suite_of(code)
            chosen = {label: secrets[label] for label in labels if label in secrets}
            if suite is not None and chosen and all(_fits(suite, secret) for secret in chosen.values()):
                found.append((random, code, partial(self._rungs, chosen, side, code)))
        return found

    def _tries_12(self, server: ServerHello, side: Side) -> list[tuple[bytes, int, Callable[[], list[Protection]]]]:
        def made(master: bytes, random: bytes) -> list[Protection]:
            return [self._derived(master, random)[side]]

        return [
            (random, server.suite, partial(made, secrets[MASTER], random))
            for random, secrets in self._candidates((MASTER,))
        ]

    def _candidates(self, labels: tuple[str, ...]) -> list[tuple[bytes, SecretsByLabel]]:
        if self.client is not None:
            own = self.secrets()
            return [(self.client.random, own)] if own else []
        return self._keys.connections(labels, CONNECTIONS_MAX)


def _fits(suite: Suite, secret: bytes) -> bool:
    """Whether a secret is as long as the hash of a suite."""
    return len(secret) == (48 if suite.hash == "sha384" else 32)
