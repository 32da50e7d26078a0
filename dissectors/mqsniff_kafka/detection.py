"""Decides by the first bytes of both sides whether a connection speaks Kafka.

1. At the start of a connection: the body of the first request decodes to its last byte, or the response has its
   correlation id.
2. In the middle: at the start of a segment there are two requests in a row, or one that decodes exactly and has a
   printable client id or at least NAMELESS_MIN bytes. A response can look like a Produce request (size and correlation
   id read as size, key and version): a Produce without a client id also needs a response with its correlation id.
3. Responses alone are no proof, since ZooKeeper's correlation ids count up too: the port decides.
4. An unknown version of ApiVersions is a newer client, if the response has its correlation id.
"""

from __future__ import annotations

from typing import Final

from mqsniff.dissector import NEED, NO_FRAME, Sample, Verdict
from mqsniff.limits import KIB, Limits
from mqsniff.spec.wire import Malformed
from mqsniff_kafka import bodies, heads

BEGUN: Final = 32 * KIB
"""Bytes of a large first request that are enough to decide."""
_LIMITS: Final = Limits(elements_max=64 * KIB)
PRODUCE: Final = 0
FETCH: Final = 1
"""Zeros of other protocols (ZooKeeper's first frame) read as the start of these two: no bytes may follow them."""
PRODUCE_OR_FETCH: Final = (b"\0\0", b"\0\1")
NAMELESS_MIN: Final = 32
"""Smallest request without a client id that is accepted alone: a few numbers are no proof."""
NO_CLIENT_ID: Final = (b"\0\0", b"\xff\xff")


def detect(client: Sample, server: Sample) -> Verdict:
    """The verdict on both samples."""
    if not client.data:
        return _server_alone(server)
    if client.from_start:
        return _from_start(client.data, server.data)
    verdict = max((_at(client.data, start, server) for start in client.starts), default=Verdict.NO)
    return verdict or Verdict.MORE


# ---- clients


def _from_start(data: bytes, answers: bytes) -> Verdict:
    size = heads.probe_request(data[: heads.HEAD_MAX])
    if size is NEED:
        return _begun(data, answers)
    if not isinstance(size, int):
        return _unproven(data, answers)
    if len(data) < size < BEGUN or (len(data) < size and len(data) < BEGUN):
        return _begun(data, answers)
    fit = request_fit(data[:size], size)
    if fit is Verdict.YES or (fit is Verdict.MAYBE and _echoed(data, 0, answers)):
        return Verdict.YES
    if fit is Verdict.MAYBE and isinstance(heads.probe_request(data[size : size + heads.HEAD_MAX]), int):
        return Verdict.YES
    return fit


def _begun(data: bytes, answers: bytes) -> Verdict:
    """The verdict on a request that is not whole: a response with its correlation id proves it.

    Zeros read as the start of a Produce request: that one needs a client id too.
    """
    zeros = data[4:6] in PRODUCE_OR_FETCH and (len(data) < 14 or data[12:14] in NO_CLIENT_ID)
    return Verdict.YES if not zeros and _echoed(data, 0, answers) else Verdict.MORE


def _unproven(data: bytes, answers: bytes) -> Verdict:
    """The verdict on a first frame that ``probe_request`` refuses: rule 4, or the token of a 0.9 client."""
    if len(data) < 14:
        return Verdict.NO
    size = int.from_bytes(data[:4], "big")
    if data[4] == heads.GSSAPI_TOKEN and size <= 64 * KIB:
        return Verdict.MAYBE
    key, version, _ = heads.REQUEST_HEAD.unpack_from(data, 4)
    newer = key == bodies.API_VERSIONS and heads.known()[key].last < version <= heads.VERSION_FOLLOWED
    if not newer or not heads.REQUEST_MIN <= size <= 64 * KIB:
        return Verdict.NO
    if not answers:
        return Verdict.MORE
    return Verdict.YES if _echoed(data, 0, answers) else Verdict.NO


def _at(data: bytes, start: int, server: Sample) -> Verdict:
    """The verdict on a request that may start at ``start``."""
    size = heads.probe_request(data[start : start + heads.HEAD_MAX])
    if size is NO_FRAME:
        return Verdict.NO
    key = int.from_bytes(data[start + 4 : start + 6], "big")
    echoed = any(_echoed(data, start, server.data[at:]) for at in server.starts)
    if not isinstance(size, int) or start + size > len(data):
        return Verdict.YES if echoed and key != PRODUCE else Verdict.MORE
    stop = start + size
    fit = request_fit(data[start:stop], size)
    if fit is Verdict.NO:
        return fit
    behind = heads.probe_request(data[stop : stop + heads.HEAD_MAX]) if stop < len(data) else NEED
    if echoed or (fit is Verdict.YES and (_is_named(data, start) or (size >= NAMELESS_MIN and key != PRODUCE))):
        return Verdict.YES
    if isinstance(behind, int) and key != PRODUCE:
        return Verdict.YES
    return Verdict.MAYBE


def _is_named(data: bytes, start: int) -> bool:
    """Whether the request at ``start`` has a client id of printable text."""
    if int.from_bytes(data[start + 4 : start + 8], "big") == heads.CONTROLLED_SHUTDOWN << 16:
        return False
    stop = start + 14 + int.from_bytes(data[start + 12 : start + 14], "big", signed=True)
    try:
        name = data[start + 14 : stop].decode()
    except UnicodeDecodeError:
        return False
    return bool(name) and name.isprintable()


def request_fit(frame: bytes, size: int) -> Verdict:
    """Whether a request's body decodes: YES to its last byte, MAYBE with bytes after it."""
    key, number, _ = heads.REQUEST_HEAD.unpack_from(frame, 4)
    version = bodies.version_of(key, number)
    try:
        header = bodies.read_request_header(frame, version)
    except Malformed:
        return Verdict.NO
    claimed = None if len(frame) == size else size
    if claimed is None and any(layout.exact(frame, header.stop, _LIMITS) is not None for layout in version.requests):
        return Verdict.YES
    verdict = Verdict.NO
    for layout in version.requests:
        decoded = layout.decode(frame, header.stop, limits=_LIMITS, claimed=claimed)
        if decoded.broken is None and not decoded.problems:
            trailing = decoded.stop < len(frame)
            if not trailing or key not in (PRODUCE, FETCH):
                verdict = max(verdict, Verdict.MAYBE if trailing else Verdict.YES)
        elif claimed is not None and decoded.broken is not None and decoded.stop > len(frame) // 2:
            verdict = Verdict.YES
    return verdict


def _echoed(data: bytes, start: int, answers: bytes) -> bool:
    """Whether the first response has the correlation id of the request at ``start``."""
    if len(answers) < 10 or len(data) < start + 12:
        return False
    same = answers[4:8] == data[start + 8 : start + 12]
    return same and isinstance(heads.probe_response(answers[: heads.PROBED]), int)


# ---- servers


def _server_alone(server: Sample) -> Verdict:
    """The verdict on responses without requests."""
    if server.from_start:
        return _responses(server.data, 0) if server.data else Verdict.MORE
    return max((_responses(server.data, start) for start in server.starts), default=Verdict.NO) or Verdict.MORE


def _responses(data: bytes, start: int) -> Verdict:
    """MAYBE if two responses follow each other from ``start`` on, NO if they cannot."""
    size = heads.probe_response(data[start : start + heads.PROBED])
    if not isinstance(size, int):
        return Verdict.MORE if size is NEED else Verdict.NO
    behind = data[start + size : start + size + heads.PROBED]
    return Verdict.NO if behind and heads.probe_response(behind) is NO_FRAME else Verdict.MAYBE
