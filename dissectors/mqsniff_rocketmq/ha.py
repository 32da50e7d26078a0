"""Names the replication stream between brokers (port 10912): it is no remoting, and it is not decoded.

    slave  -> master   maxOffset i64, over and over
    master -> slave    physicOffset i64 | size i32 | so many bytes of the commit log (size 0 is a heartbeat)

    with automatic switching (controller mode):
    slave  -> master   state i32 = 1 | isSyncFromLastFile i16 | isAsyncLearner i16 | brokerId i64
                       state i32 = 2 | maxOffset i64, over and over
    master -> slave    state i32 = 1 | size i32 | offset i64 | epoch i32 | (epoch i32 | startOffset i64) size / 12 times
                       state i32 = 2 | size i32 | offset i64 | epoch i32 | epochStartOffset i64 | confirmOffset i64
                       | size bytes of the commit log, over and over

1. Detection needs offsets that continue where the last piece ended, or a stored message with its magic after the head;
   and a slave that reports offsets which never fall.
2. Bytes are counted, not kept: one Skipped for each run without a gap.

Source: DefaultHAConnection, DefaultHAClient, AutoSwitchHAConnection, AutoSwitchHAClient of apache/rocketmq.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import ClassVar, Final

from mqsniff.dissector import NO_FRAME, Dissector, Sample, Settings, Table, Verdict
from mqsniff.framing.lengthprefix import LengthPrefix
from mqsniff.model import Chunk, Event, Gap, Side, Skipped
from mqsniff_rocketmq.heads import STORED_V1, STORED_V2

WHY: Final = "RocketMQ replication between brokers (HA), not decoded"
REPORT: Final = Struct(">q")
PIECE: Final = Struct(">qi")
SIZES: Final = Struct(">ii")
PIECE_MAX: Final = 4 << 20
"""The default of haTransferBatchSize is 32 KiB."""
OFFSET_MAX: Final = 1 << 56
REPORTS_MIN: Final = 2

HANDSHAKE: Final = 1
TRANSFER: Final = 2
SLAVE_HANDSHAKE: Final = Struct(">ihhq")
SLAVE_REPORT: Final = Struct(">iq")
MASTER_HANDSHAKE: Final = Struct(">iiqi")
MASTER_TRANSFER: Final = Struct(">iiqiqq")
PIECE_SIZE: Final = LengthPrefix(4, 0, PIECE_MAX, at=8)
HANDSHAKE_SIZE: Final = LengthPrefix(4, 0, PIECE_MAX, at=4, uncounted=MASTER_HANDSHAKE.size)
TRANSFER_SIZE: Final = LengthPrefix(4, 0, PIECE_MAX, at=4, uncounted=MASTER_TRANSFER.size)

FRAMES: Final[tuple[tuple[str, str, tuple[str, ...], Struct], ...]] = (
    ("slave", "report", ("max_offset",), REPORT),
    ("master", "piece of the commit log, size 0: heartbeat", ("physic_offset", "size"), PIECE),
    (
        *("slave", "handshake of the controller mode"),
        ("state = 1", "is_sync_from_last_file", "is_async_learner", "broker_id"),
        SLAVE_HANDSHAKE,
    ),
    ("slave", "report of the controller mode", ("state = 2", "max_offset"), SLAVE_REPORT),
    (
        *("master", "handshake of the controller mode, then epochs with their start offsets"),
        ("state = 1", "size", "offset", "epoch"),
        MASTER_HANDSHAKE,
    ),
    (
        *("master", "piece of the commit log in the controller mode"),
        ("state = 2", "size", "offset", "epoch", "epoch_start_offset", "confirm_offset"),
        MASTER_TRANSFER,
    ),
)
"""(sender, meaning, fields, form) of each frame; data of the commit log follows the pieces."""


def _is_message(data: bytes, at: int) -> bool | None:
    """Whether a stored message begins here; None: more bytes are needed."""
    if len(data) < at + SIZES.size:
        return None
    size, magic = SIZES.unpack_from(data, at)
    return magic in (STORED_V1, STORED_V2) and size > 0


def judge_slave(data: bytes) -> Verdict:
    """The verdict on the slave's first bytes."""
    if len(data) < 4:
        return Verdict.MORE
    if data.startswith((b"\0\0\0\1", b"\0\0\0\2")):
        return _judge_switching_slave(data)
    reports = [REPORT.unpack_from(data, at)[0] for at in range(0, len(data) - 7, 8)]
    if not reports:
        return Verdict.MORE
    rising = all(0 <= one <= other < OFFSET_MAX for one, other in pairwise(reports))
    if not rising or not 0 <= reports[0] < OFFSET_MAX:
        return Verdict.NO
    return Verdict.MAYBE if len(reports) >= REPORTS_MIN else Verdict.MORE


def _judge_switching_slave(data: bytes) -> Verdict:
    at = 0
    if data.startswith(b"\0\0\0\1"):
        if len(data) < SLAVE_HANDSHAKE.size:
            return Verdict.MORE
        _, last_file, learner, broker = SLAVE_HANDSHAKE.unpack_from(data)
        if last_file not in (0, 1) or learner not in (0, 1) or not -1 <= broker < OFFSET_MAX:
            return Verdict.NO
        at = SLAVE_HANDSHAKE.size
    while len(data) - at >= SLAVE_REPORT.size:
        state, offset = SLAVE_REPORT.unpack_from(data, at)
        if state != TRANSFER or not -1 <= offset < OFFSET_MAX:
            return Verdict.NO
        at += SLAVE_REPORT.size
    return Verdict.MAYBE


def judge_master(data: bytes) -> Verdict:
    """The verdict on the master's first bytes."""
    if len(data) < 4:
        return Verdict.MORE
    if data.startswith((b"\0\0\0\1", b"\0\0\0\2")):
        return _judge_switching_master(data)
    at, expected, proofs = 0, None, 0  # a run of zeros proves nothing
    while len(data) - at >= PIECE.size:
        head = data[at : at + PIECE.size]
        (offset,), size = REPORT.unpack_from(head), PIECE_SIZE.size(head)
        if not 0 <= offset < OFFSET_MAX or not isinstance(size, int) or expected not in (None, offset):
            return Verdict.NO
        proofs += expected is not None and offset > 0
        if size > PIECE.size and _is_message(data, at + PIECE.size):
            return Verdict.YES
        expected = offset + size - PIECE.size
        at += size
    return Verdict.YES if proofs >= REPORTS_MIN else Verdict.MORE


def _judge_switching_master(data: bytes) -> Verdict:
    if data.startswith(b"\0\0\0\1"):
        if len(data) < MASTER_HANDSHAKE.size:
            return Verdict.MORE
        at = HANDSHAKE_SIZE.size(data)
        _, size, offset, epoch = MASTER_HANDSHAKE.unpack_from(data)
        if not isinstance(at, int) or size % 12 or not -1 <= offset < OFFSET_MAX or epoch < -1:
            return Verdict.NO
    else:
        at = 0
    if len(data) - at < MASTER_TRANSFER.size:
        return Verdict.MORE
    state, size, offset, epoch, start, confirmed = MASTER_TRANSFER.unpack_from(data, at)
    fits = state == TRANSFER and -1 <= start <= offset < OFFSET_MAX and epoch >= -1
    if not fits or TRANSFER_SIZE.size(data[at:]) is NO_FRAME or not -1 <= confirmed < OFFSET_MAX:
        return Verdict.NO
    message = _is_message(data, at + MASTER_TRANSFER.size) if size else None
    return Verdict.YES if message or data.startswith(b"\0\0\0\1") else Verdict.MORE


class RocketMQHa(Dissector):
    """Names the replication stream and counts its bytes."""

    names: ClassVar[tuple[str, ...]] = ("rocketmq-ha",)
    ports: ClassVar[frozenset[int]] = frozenset({10912})

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._runs: dict[Side, Skipped] = {}

    @classmethod
    def describe(cls) -> dict[str, Table]:
        """The frames by which the stream is recognised; none is decoded."""
        return {
            "frames": [
                {"sent_by": sender, "frame": name, "fields": [*fields], "size": form.size}
                for sender, name, fields, form in FRAMES
            ]
        }

    @classmethod
    def message_names(cls) -> tuple[str, ...]:
        """No names: there are no messages."""
        return ()

    @classmethod
    def detect(cls, client: Sample, server: Sample) -> Verdict:
        """Both sides from their beginning: the master's is the proof, the slave's must not contradict it."""
        if not (client.from_start and server.from_start):
            return Verdict.NO
        slave = judge_slave(client.data) if client.data else Verdict.MORE
        master = judge_master(server.data) if server.data else Verdict.MORE
        if Verdict.NO in (slave, master):
            return Verdict.NO
        if master is Verdict.YES and len(client.data) >= REPORT.size:
            return Verdict.YES
        return Verdict.MAYBE if slave is Verdict.MAYBE and not server.data else Verdict.MORE

    def start(self, side: Side, *, in_step: bool) -> None:
        """Nothing to prepare."""

    def feed(self, chunk: Chunk) -> Iterator[Event]:
        """Count the bytes of a side."""
        mark = chunk.marks[0]
        self.now = max(self.now, chunk.marks[-1].release)
        run = self._runs.get(chunk.side)
        if run is None:
            self._runs[chunk.side] = Skipped(
                chunk.side, chunk.offset, len(chunk.data), WHY, first_ts_ns=mark.ts_ns, first_packet=mark.packet
            )
        else:
            run.length += len(chunk.data)
        return iter(())

    def gap(self, gap: Gap) -> Iterator[Event]:
        """A gap ends a run."""
        self.now = max(self.now, gap.mark.release)
        yield from self._end(gap.side)

    def close(self, side: Side) -> Iterator[Event]:
        """The side has ended, and its run with it."""
        yield from self._end(side)

    def _end(self, side: Side) -> Iterator[Event]:
        run = self._runs.pop(side, None)
        if run is not None:
            yield run
