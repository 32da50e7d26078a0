"""Detects the protocol of a new connection from its first events, and which direction is the client.

1. Both sides are considered; in both orientations if the handshake was not captured.
2. A sample is at most ``detect_max`` bytes a side; a connection undecided beyond that is unknown.
3. TLS, HTTP and others (``foreign``) are named. No event is dropped: the conversation keeps them and replays them
   after the verdict.
4. Bytes after a gap are a sample of their own. The bytes before it are judged too, since the peer may have replied to
   them: captures that cut their packets lose the end of every frame.
5. Where the start was not captured, a message may begin with any packet. Of tiny packets the last ``STARTS_MAX`` are
   tried, and beyond as many a verdict is looked for after each eighth more: else cost grows with the square of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product

from mqsniff.decode.foreign import may_be_foreign, name_foreign
from mqsniff.decode.proxyhead import ProxyHead, read_head
from mqsniff.decode.registry import Claim, Registry
from mqsniff.decode.tls import is_hello, is_record_run
from mqsniff.dissector import Sample
from mqsniff.limits import KIB, Limits
from mqsniff.streams.events import StreamChunk

_HTTP_REQUEST = re.compile(rb"(?:GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH) [!-~]{1,4096} HTTP/1\.[01]\r?\n")
_HTTP_BEGUN = re.compile(rb"(?:GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH) [ -~]*\r?\Z")
_HTTP_RESPONSE = re.compile(rb"HTTP/1\.[01] [1-5][0-9][0-9][ \r]")
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

ANSWER_MAX = 64
"""Bytes of a peer's first reply that may correct a verdict: a broker refuses HTTP with a message of its protocol."""
STARTS_MAX = 64
"""Packets of a stream that is joined late where a message may begin, the last of them (rule 5)."""
BEFORE_MAX = 8 * KIB
"""Bytes before a gap that are judged again with each chunk after it (rule 4)."""


@dataclass(slots=True)
class Detected:
    """A verdict: the protocol (``claim`` if a dissector takes it), and which direction is the client."""

    client_direction: int
    protocol: str
    claim: Claim | None = None
    heads: dict[int, ProxyHead] = field(default_factory=dict)
    """PROXY heads by direction."""


class _Half:
    """The sample of one direction."""

    __slots__ = ("_due", "_head_open", "before", "data", "from_start", "head", "passed_over", "starts")

    def __init__(self, *, from_start: bool) -> None:
        self.data = bytearray()
        self.starts: list[int] = []
        self.from_start = from_start
        self.before: list[Sample] = []
        """The sample before the first gap, if it holds the start of the stream, and the one before the last gap."""
        self.head: ProxyHead | None = None
        self._head_open = from_start
        self._due = 0
        self.passed_over = False
        """Whether there are packets after which no verdict was looked for."""

    def add(self, chunk: StreamChunk) -> None:
        base = chunk.offset - len(self.data)
        self.starts += [max(0, mark.offset - base) for mark in chunk.marks]
        self.data += chunk.data
        if self._head_open:
            self._read_head()

    def _read_head(self) -> None:
        head = read_head(bytes(self.data[:4096]))
        if isinstance(head, ProxyHead):
            self.head = head
        self._head_open = head is True and len(self.data) < 4096

    def is_due(self, detect_max: int) -> bool:
        """Whether to look for a verdict now (rule 5)."""
        count = len(self.starts)
        if self.from_start or count >= self._due or len(self.data) > detect_max:
            self._due = count + (count // 8 if count > STARTS_MAX else 1)
            self.passed_over = False
            return True
        self.passed_over = True
        return False

    @property
    def open(self) -> bool:
        """Whether a PROXY head may still be incomplete."""
        return self._head_open and bool(self.data)

    def sample(self, size: int | None = None) -> Sample:
        """What waits for a verdict, ``size`` bytes at most."""
        if not self.data:
            return Sample(b"", (0,), self.from_start)
        skip = self.head.size if self.head else 0
        if not skip and size is None:
            return Sample(bytes(self.data), tuple(self.starts[-STARTS_MAX:]), self.from_start)
        data = bytes(self.data[skip : None if size is None else skip + size])
        starts = tuple(start - skip for start in self.starts[-STARTS_MAX:] if skip <= start < skip + len(data))
        return Sample(data, starts or (0,), self.from_start)

    def lose(self) -> None:
        """At a gap: set the sample aside and begin a new one."""
        if self.data:
            self.before = [*(sample for sample in self.before if sample.from_start), self.sample(BEFORE_MAX)]
        self.data.clear()
        self.starts.clear()
        self._due, self.passed_over = 0, False
        self.from_start = self._head_open = False


class Detection:
    """A connection that waits for its verdict."""

    __slots__ = ("_client_direction", "_halves", "_limits", "_ports", "_registry")

    def __init__(
        self,
        registry: Registry,
        limits: Limits,
        ports: tuple[int, int],
        client_direction: int | None,
        *,
        from_start: bool,
    ) -> None:
        self._registry = registry
        self._limits = limits
        self._ports = ports
        self._client_direction = client_direction
        self._halves = (_Half(from_start=from_start), _Half(from_start=from_start))

    def chunk(self, chunk: StreamChunk) -> Detected | None:
        """Take bytes; the verdict when there is one."""
        half = self._halves[chunk.direction]
        half.add(chunk)
        return self._decide() if half.is_due(self._limits.detect_max) else None

    def last(self) -> Detected | None:
        """A verdict at the end, with the packets after which none was looked for."""
        return self._decide() if any(half.passed_over for half in self._halves) else None

    def reply_to(self, chunk: StreamChunk) -> Detected | None:
        """Take the peer's bytes of a connection that got no dissector; a verdict if they name one."""
        half, peer = self._halves[chunk.direction], self._halves[1 - chunk.direction]
        half.add(chunk)
        verdict = self._decide() if peer.data and len(half.data) <= ANSWER_MAX else None
        return verdict if verdict is not None and verdict.claim is not None else None

    @property
    def awaits_answer(self) -> bool:
        """Whether one side sent nearly nothing yet, and the other no more than ``detect_max``."""
        fewer, more = sorted(len(half.data) for half in self._halves)
        return fewer < ANSWER_MAX and more <= self._limits.detect_max

    @property
    def state_size(self) -> int:
        """Bytes of samples that are kept."""
        return sum(len(half.data) + sum(len(sample.data) for sample in half.before) for half in self._halves)

    def gap(self, direction: int) -> None:
        """Take note of lost bytes."""
        self._halves[direction].lose()

    def _decide(self) -> Detected | None:
        one, two = self._halves
        if one.open or two.open:
            return None
        heads = {direction: half.head for direction, half in ((0, one), (1, two)) if half.head is not None}
        samples = one.sample(), two.sample()
        undecided = False
        best: Detected | None = None
        for client in self.orientations(heads):
            wanted = self._registry.decode_as(self._ports[1 - client])
            if wanted is not None:
                return Detected(client, wanted.names[0], Claim(wanted, "user"), heads)
            claim, more = self._registry.claim(samples[client], samples[1 - client], self._ports[1 - client])
            undecided = undecided or more
            if claim is not None and (claim.detected_by == "content" or best is None):
                best = Detected(client, claim.dissector.names[0], claim, heads)
                if claim.detected_by == "content":
                    return best
        if (one.before or two.before) and (earlier := self._earlier(samples, heads)) is not None:
            return earlier
        if best is None:
            named = self._named(samples, heads)
            if named is not None:
                return named
        if best is not None:
            return best
        full = any(len(sample.data) > self._limits.detect_max for sample in samples)
        undecided = undecided or any(_may_be_named(sample) for sample in samples)
        if full or not undecided:
            return Detected(self.likely_client(heads), "unknown", None, heads)
        return None

    def _earlier(self, now: tuple[Sample, ...], heads: dict[int, ProxyHead]) -> Detected | None:
        """The verdict with the samples from before a gap, if a dissector is sure of one (rule 4)."""
        choices = [[sample, *half.before] for sample, half in zip(now, self._halves, strict=True)]
        for samples in product(*choices):
            for client in self.orientations(heads) if samples != now else ():
                claim, _ = self._registry.claim(samples[client], samples[1 - client], self._ports[1 - client])
                if claim is not None and claim.detected_by == "content":
                    return Detected(client, claim.dissector.names[0], claim, heads)
        return None

    def orientations(self, heads: dict[int, ProxyHead]) -> tuple[int, ...]:
        """Directions that may be the client, the likelier one first."""
        if self._client_direction is not None:
            return (self._client_direction,)
        likely = self.likely_client(heads)
        return (likely, 1 - likely)

    def likely_client(self, heads: dict[int, ProxyHead] | None = None) -> int:
        """The direction that is the client by handshake, PROXY head, known port, or else the higher port."""
        if self._client_direction is not None:
            return self._client_direction
        return next(iter(heads)) if heads else client_by_ports(self._registry, self._ports)

    def _named(self, samples: tuple[Sample, ...], heads: dict[int, ProxyHead]) -> Detected | None:
        for direction, sample in enumerate(samples):
            found = name_undecoded(sample)
            if found is not None:
                protocol, from_client = found
                client = self.likely_client(heads)
                if from_client is not None and self._client_direction is None:
                    client = direction if from_client else 1 - direction
                return Detected(client, protocol, None, heads)
        return None


def client_by_ports(registry: Registry, ports: tuple[int, int]) -> int:
    """The direction whose port is not the server's: the known port, or else the lower one, is."""
    server_port = registry.server_port(*ports) or min(ports)
    return 1 if ports[0] == server_port else 0


def _may_be_named(sample: Sample) -> bool:
    """Whether more bytes may show a foreign protocol: there are too few, or its first unit is not complete."""
    data = sample.data
    if not sample.from_start:
        return False
    if len(data) < len(_HTTP2_PREFACE) or may_be_foreign(data):
        return True
    return len(data) < 8192 and _HTTP_BEGUN.match(data) is not None


def name_undecoded(sample: Sample) -> tuple[str, bool | None] | None:
    """(protocol, whether its client sent the sample, None if unknown) of protocols that are named, not decoded."""
    for start in (0,) if sample.from_start else sample.starts:
        data = sample.data[start : start + 8192]
        if data.startswith(_HTTP2_PREFACE):
            return "http2", True
        if _HTTP_REQUEST.match(data):
            return "http", True
        if _HTTP_RESPONSE.match(data):
            return "http", False
        if is_hello(data):
            return "tls", data[5] == 1
        if not sample.from_start and is_record_run(sample.data[start:]):
            return "tls", None
        if (foreign := name_foreign(data, from_start=sample.from_start)) is not None:
            return foreign
    return None
