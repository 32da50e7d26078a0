"""Every limit of the engine, by name: what it bounds, its range, and what to do when it is hit.

1. A limit that can change a row is per connection and in capture time, so that results depend on the packets only.
2. A limit of the whole process only protects the process; when it is hit there is a ``limit`` problem. A batch task
   holds one flow at a time and never meets it (decision 017).
3. ``--limit NAME=VALUE`` sets any of them; sizes are bytes, ``_ns`` are nanoseconds of capture time.
4. Below its least value a limit would damage ordinary traffic (every head fits ``frame_max``). Above its greatest value
   it would bound nothing, or overflow.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

KIB = 1024
MIB = 1024 * KIB
GIB: Final = 1024 * MIB
TIB: Final = 1024 * GIB
MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000
HOUR_NS: Final = 3_600 * SECOND_NS
DAY_NS: Final = 24 * HOUR_NS
YEAR_NS: Final = 366 * DAY_NS

Unit: TypeAlias = Literal["bytes", "ns", ""]


class Limit(NamedTuple):
    """A limit; ``unit`` is empty for a number of things."""

    default: int
    least: int
    most: int
    unit: Unit
    why: str
    advice: str

    def text_of(self, value: int) -> str:
        """A value with its unit, as messages name it."""
        return f"{value} {self.unit}".rstrip()

    def refusal(self, value: int) -> str | None:
        """Why a value is not allowed; None if it is."""
        if value < self.least:
            return f"{value} is too small; its least value is {self.text_of(self.least)}"
        if value > self.most:
            return f"{value} is too large; its greatest value is {self.text_of(self.most)}"
        return None


def _limit(default: int, why: str, advice: str = "", *, least: int = 1, most: int = 1 << 50, unit: Unit = "") -> Any:
    """A field of Limits: default, reason, what to do when it is hit, and range."""
    return field(default=default, metadata={"limit": Limit(default, least, most, unit, why, advice)})


def _bytes(default: int, least: int, most: int, why: str, advice: str) -> Any:
    """A limit in bytes."""
    return _limit(default, why, advice, least=least, most=most, unit="bytes")


def _time(default: int, least: int, most: int, why: str, advice: str) -> Any:
    """A limit in nanoseconds of capture time."""
    return _limit(default, why, advice, least=least, most=most, unit="ns")


def _count(default: int, least: int, most: int, why: str, advice: str) -> Any:
    """A limit on a number of things."""
    return _limit(default, why, advice, least=least, most=most)


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits of one run; immutable, made by the command."""

    # fmt: off
    window: int = _bytes(8 * MIB, 64 * KIB, GIB,
        "bytes of a capture that are read and split into packets at once",
        "less needs less memory, more is hardly faster; results stay the same")
    windows_total: int = _bytes(64 * MIB, 64 * KIB, TIB,
        "bytes of all windows together when many captures overlap in time",
        "raise it where hundreds of captures overlap and reading is slow")
    packet_max: int = _bytes(64 * MIB, 256 * KIB, GIB,
        "largest packet that is accepted: a false length must not take memory",
        "raise it for a `limit` or `format` problem of a capture with larger packets")
    interfaces_max: int = _count(65_536, 1, 1 << 24,
        "interfaces that one section of a pcapng file may describe",
        "raise it for a `limit` problem of the capture")
    notes_max: int = _bytes(MIB, 1, GIB,
        "bytes of comments and host names of one capture that are kept",
        "raise it for a `limit` problem of the capture; decoding does not need notes")
    secrets_max: int = _bytes(16 * MIB, 1, GIB,
        "bytes of decryption secrets of one capture that are kept",
        "raise it for a `limit` problem of the capture")
    capture_ratio: int = _count(32, 1, 1 << 20,
        "bytes that each byte of a compressed capture may become on the whole: packets compress to a tenth or so",
        "raise it for a `limit` problem that names it: what follows is read then")
    capture_free: int = _bytes(16 * MIB, 64 * KIB, 1024 * TIB,
        "bytes of a compressed capture beyond capture_ratio: equal packets are no attack",
        "as capture_ratio")
    capture_row_cost: int = _count(4, 1, 1 << 20,
        "bytes of a compressed capture that pay a row, or as much work: a message leaves more, however it compresses",
        "lower it for a `limit` problem that names it: what follows is read then")
    capture_rows_free: int = _count(1 << 18, 1, 1 << 48,
        "rows of compressed captures beyond capture_row_cost: equal messages are no attack",
        "raise it for a `limit` problem that names it: what follows is read then")
    codec_memory: int = _bytes(256 * MIB, MIB, 2 * GIB,
        "bytes of history that a compressed capture may ask its decoder to hold",
        "raise it where an input is said to need more, such as `zstd --long=31`")
    detect_max: int = _bytes(64 * KIB, 4 * KIB, 64 * MIB,
        "bytes of a side that wait for detection before a connection is called unknown",
        "a connection that is `unknown` beyond it: name its protocol with --decode-as")
    frame_max: int = _bytes(64 * MIB, 64 * KIB, 4 * GIB,
        "bytes of one frame that are kept: a false length must not take memory",
        "raise it for a `limit` problem of a message larger than this")
    search_max: int = _bytes(16 * MIB, 64 * KIB, 4 * GIB,
        "largest frame that a search for the next frame accepts",
        "raise it where frames larger than this follow a loss")
    search_sure: int = _bytes(MIB, 1, 4 * GIB,
        "a frame found by search that is larger than this needs two frames after it",
        "lower it where other bytes after a loss become a message, raise it where a large message is skipped")
    wait_max: int = _bytes(4 * MIB, 64 * KIB, 4 * GIB,
        "bytes of a side that wait for the peer's answer before framing continues without it",
        "raise it where a client sends much before an answer that changes how it is read")
    pending_max: int = _count(65_536, 16, 1 << 26,
        "requests of one connection that wait for their answers: a server may never answer",
        "raise it where requests of a busy connection are `unanswered` though their answers came")
    unanswered_max: int = _count(256, 1, 1 << 26,
        "commands without a reply that stay pending, for a late error",
        "raise it where late errors of one-way commands are `unmatched`")
    refusals_max: int = _count(2_560, 1, 1 << 26,
        "of these, those that settled a delivery: NSQ's RDY allows 2,500 in flight",
        "raise it where settlements of a busy consumer are `ok` though nsqd refused them later")
    refusal_ns: int = _time(500 * MILLISECOND_NS, MILLISECOND_NS, HOUR_NS,
        "capture time within which nsqd refuses a command; if it sends something later, it did not refuse",
        "raise it where nsqd answers later than this")
    reorder_max: int = _bytes(4 * MIB, 64 * KIB, GIB,
        "bytes of one direction that wait after a hole",
        "raise it where `gap` problems name bytes that come later in the capture")
    reorder_segments: int = _count(4_096, 16, 1 << 24,
        "segments of one direction that wait after a hole",
        "as reorder_max")
    gap_grace_packets: int = _count(64, 1, 1 << 20,
        "packets of a connection that may still fill an acknowledged hole",
        "raise it for captures that are out of order by more packets")
    gap_grace_ns: int = _time(200 * MILLISECOND_NS, 1, HOUR_NS,
        "capture time that may still fill an acknowledged hole",
        "raise it for captures that are out of order by more time")
    overlap_history: int = _bytes(64 * KIB, 1, GIB,
        "delivered bytes of a direction that are kept, to compare retransmissions with them",
        "raise it where an `overlap` problem says that bytes could not be compared")
    recent_segments: int = _count(64, 1, 1 << 16,
        "segments of a direction that are remembered, to recognise packets that a tap doubled",
        "raise it where a tap doubles packets and copies count as retransmissions")
    doubled_ns: int = _time(10 * MILLISECOND_NS, 1, SECOND_NS,
        "the same segment within this time is a copy by the tap",
        "raise it where copies come later than this, lower it where retransmissions count as copies")
    idle_ns: int = _time(3_600 * SECOND_NS, SECOND_NS, YEAR_NS,
        "a connection that is silent for this long is given up",
        "raise it where a silent connection goes on as a new one, lower it to save memory")
    linger_ns: int = _time(60 * SECOND_NS, MILLISECOND_NS, DAY_NS,
        "time after its close for which a connection takes late packets",
        "raise it where late packets open a new connection")
    jump_max: int = _bytes(1024 * MIB, 64 * KIB, GIB,
        "largest distance of an acknowledgement that is accepted: TCP's largest window",
        "lower it where a broken acknowledgement opens a huge `gap`")
    reach_max: int = _bytes(16 * MIB, 64 * KIB, GIB,
        "largest distance of a segment that is accepted before the peer acknowledges it",
        "raise it where segments are ignored though their connection lost more than this")
    strays_max: int = _count(64, 1, 1 << 16,
        "implausible segments of a direction that are kept until others confirm them",
        "raise it where a `gap` stands for segments that are in the capture")
    strays_sure: int = _count(4, 1, 1 << 16,
        "implausible segments together that are accepted if the peer is not captured",
        "lower it where one side is captured and segments after a large loss are ignored")
    oddities_max: int = _count(16, 1, 1 << 20,
        "ignored segments of a direction that are reported one by one: noise must not fill tables",
        "raise it to see every ignored segment as a problem")
    connections_max: int = _count(1_000_000, 1, 1 << 28,
        "open connections of the process: a SYN flood must not exhaust memory",
        "raise it for a `limit` problem that says connections were forgotten")
    state_max: int = _bytes(GIB, MIB, 1024 * TIB,
        "bytes that open connections of a process may hold together, counted at every 32,768th packet",
        "raise it for a `limit` problem that names it: the connection was forgotten though it was open")
    layer_piece: int = _bytes(64 * KIB, KIB, 64 * MIB,
        "bytes that a decompressing layer passes on at once: bounds the memory of a decompression bomb",
        "none: results stay the same")
    tls_trials_max: int = _count(65_536, 64, 1 << 26,
        "tries to open a TLS record whose key or sequence number is not known: each costs as much as opening one",
        "raise it where TLS is not decrypted after a loss, or joined late, though its keys are given")
    chunk_max: int = _bytes(MIB, KIB, GIB,
        "bytes of one chunk that reassembly passes on",
        "none: results stay the same")
    handles_max: int = _count(16_384, 16, 1 << 26,
        "producers and consumers of a connection that are remembered by their ids",
        "raise it where topics are missing on a connection with many consumers or producers")
    trace_records_max: int = _count(10_000, 1, 1 << 26,
        "records, groups, connections or transactions that `mqsniff trace` tells apart",
        "ask for less: a partition, an offset; or raise it")
    trace_steps_max: int = _count(1_000, 2, 1 << 26,
        "steps of one trace that are kept",
        "raise it where steps are left out")
    records_wait_max: int = _count(65_536, 1, 1 << 26,
        "produced records of one connection that wait for the broker's answer",
        "raise it where produced records have no offset though their answer was captured")
    records_wait_size: int = _bytes(64 * MIB, KIB, TIB,
        "bytes of these: a capture may have no answers",
        "as records_wait_max")
    replay_max: int = _bytes(16 * MIB, KIB, GIB,
        "bytes of packets of an open connection, compressed or encrypted, that the next batch run decodes again",
        "raise it for a `limit` problem that names it: the connection goes on then")
    chunks_wait_size: int = _bytes(64 * MIB, KIB, TIB,
        "bytes of chunks of a side's large messages that wait to be joined",
        "raise it for a `limit` problem that names it: larger messages in chunks are joined then")
    fragments_max: int = _count(4_096, 64, 1 << 20,
        "IP fragments that wait for the rest of their datagram",
        "raise it for a `limit` problem that names fragments")
    fragments_size: int = _bytes(16 * MIB, 64 * KIB, 16 * GIB,
        "bytes of IP fragments that wait: 4,096 of the largest would be 256 MiB",
        "as fragments_max")
    fragments_ns: int = _time(30 * SECOND_NS, MILLISECOND_NS, HOUR_NS,
        "capture time that a datagram waits for its fragments, as Linux does",
        "raise it where fragments of a datagram come later than this")
    tunnel_depth: int = _count(8, 1, 64,
        "tunnels inside each other: a packet may consist of nothing but their headers",
        "raise it for a `limit` problem that names tunnels")
    elements_max: int = _count(1 << 20, 1000, 1 << 31,
        "array elements and unknown tags of one message (Pulsar: nested messages count as four): two bytes make one",
        "raise it for a `limit` problem of a message that has more elements")
    message_problems_max: int = _count(100, 1, 1 << 20,
        "problems noted in one message: a body may be wrong in every byte",
        "raise it to see all problems of a message")
    decompress_max: int = _bytes(128 * MIB, 64 * KIB, 2 * GIB,
        "bytes to which one compressed batch of records may expand",
        "raise it for a `limit` problem that names decompress_max")
    inflate_ratio: int = _count(128, 1, 1 << 20,
        "plain bytes for each byte of a connection: DEFLATE makes 1,032 of one, zstd 30,000",
        "raise it for a `limit` problem that names it: what compresses better is decoded then")
    inflate_start: int = _bytes(MIB, 64 * KIB, TIB,
        "plain bytes that a connection may owe from its first byte on, 1,024 more with each byte, to inflate_free",
        "as inflate_ratio")
    inflate_free: int = _bytes(64 * MIB, 64 * KIB, TIB,
        "plain bytes of a connection beyond inflate_ratio: a batch of equal records is no attack",
        "as inflate_ratio")
    record_cost: int = _bytes(2, 1, MIB,
        "bytes on the wire that pay for one record: compressed, a byte may hold thousands of empty ones",
        "raise records_start and records_free for a `limit` problem that names it")
    records_free: int = _count(1 << 18, 1000, 1 << 40,
        "records of a connection that record_cost does not pay for",
        "raise it for a `limit` problem that names it")
    records_start: int = _count(256, 1, 1 << 40,
        "records that a connection may owe from its first byte on, one more with each byte, to records_free",
        "as records_free")
    wrapper_depth: int = _count(4, 1, 1_000,
        "compressed Kafka message sets inside each other: a kilobyte may hold a thousand",
        "raise it for a `limit` problem that names it")
    unknown_max: int = _count(64, 1, 1 << 26,
        "commands in a row that NSQ does not have and that are messages: nsqd closes the connection at the first",
        "raise it for a `limit` problem that names it: more of them are messages then")
    nops_max: int = _count(64, 1, 1 << 26,
        "NSQ's NOPs after each other in one packet that are messages: a client sends one for a heartbeat",
        "raise it for a `limit` problem that names it: more of them are messages then")
    topics_max: int = _count(1 << 20, 1, 1 << 30,
        "topic ids whose names are remembered: traffic may bring ids without end",
        "raise it for a `limit` problem that names topics_max")
    part_size: int = _bytes(256 * MIB, 64 * KIB, TIB,
        "size of a Parquet file after which the next one begins",
        "as the readers of the tables like it")
    row_group_size: int = _bytes(16 * MIB, 64 * KIB, GIB,
        "bytes of rows that make a row group of a Parquet file",
        "less needs less memory to write and to read, more compresses better")
    tables_buffer: int = _bytes(48 * MIB, 64 * KIB, 64 * GIB,
        "bytes of rows of all tables that wait for their row groups to fill",
        "as row_group_size")
    query_memory: int = _bytes(2048 * MIB, 64 * MIB, 1024 * TIB,
        "bytes that the process of a query or a --where may take, before it spills or fails",
        "raise it where a query says that it needs more memory")
    query_spill: int = _bytes(16 * GIB, MIB, 1024 * TIB,
        "bytes of disk for what a query does not hold in memory, in a private folder that is deleted",
        "raise it where a query says that it needs more disk")
    query_row: int = _bytes(64 * MIB, MIB, GIB,
        "bytes of one row of a query's result: one cell could hold a whole table",
        "raise it where a query says that a row is larger")
    troubles_max: int = _count(16, 1, 1 << 20,
        "retransmissions, zero windows and stalls of a connection, of each, that are reported one by one",
        "raise it to see every one of them as a problem")
    stall_ns: int = _time(10 * MILLISECOND_NS, 1, HOUR_NS,
        "bytes that wait this long are reported as a stall: reordering takes less",
        "raise it where ordinary reordering is reported as stalls, lower it to see shorter ones")
    swept_max: int = _count(16_384, 1, 1 << 26,
        "ended connections that are remembered, to report those that a wrong clock ended",
        "raise it where clocks jump in captures of very many connections")
    stats_rows_max: int = _count(10_000, 1, 1 << 26,
        "rows that each list of `mqsniff stats` keeps, in the order of their coming; the rest is counted together",
        "raise it where a list of `mqsniff stats` ends with (others)")
    metrics_rows_max: int = _count(1_000, 1, 1 << 20,
        "combinations of protocol, command and broker that `mqsniff live` counts apart for --metrics, --otlp and "
        "--summary; the rest is counted together",
        "raise it where metrics show (others)")
    # fmt: on

    @classmethod
    def about(cls) -> dict[str, Limit]:
        """Name -> limit."""
        return {f.name: f.metadata["limit"] for f in fields(cls)}

    def with_value(self, name: str, value: int) -> Limits:
        """A copy with one limit changed; KeyError for an unknown name, ValueError for a value out of its range."""
        refusal = self.about()[name].refusal(value)
        if refusal is not None:
            raise ValueError(refusal)
        return replace(self, **{name: value})
