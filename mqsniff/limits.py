"""Every cap of the engine, by name: what it bounds, and the attack or accident it stops.

1. A limit that changes a row is per connection and uses capture time, so results stay a function of the packets.
2. A limit of the whole process only protects it; when hit it leaves a ``limit`` problem.
3. ``--limit NAME=VALUE`` sets any of them; sizes are bytes, ``_ns`` are nanoseconds of capture time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

KIB = 1024
MIB = 1024 * KIB
MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000


def _limit(default: int, why: str) -> int:
    """A field of Limits: its default and the reason it exists."""
    return field(default=default, metadata={"why": why})


@dataclass(frozen=True, slots=True)
class Limits:
    """All caps of one run; immutable, handed down from the command."""

    window: int = _limit(8 * MIB, "bytes of a capture that are read and taken apart at once")
    windows_total: int = _limit(64 * MIB, "bytes of all windows together when many captures overlap in time")
    packet_max: int = _limit(64 * MIB, "bytes of one packet that are believed: a lying length must not buy memory")
    interfaces_max: int = _limit(65_536, "interfaces that one section of a pcapng file may describe")
    notes_max: int = _limit(MIB, "bytes of comments and host names of one capture that are kept")
    secrets_max: int = _limit(16 * MIB, "bytes of decryption secrets of one capture that are kept")
    codec_memory: int = _limit(256 * MIB, "bytes of history that a compressed capture may ask its decoder to hold")
    detect_max: int = _limit(64 * KIB, "bytes a side that may wait undecided before a connection is called unknown")
    frame_max: int = _limit(64 * MIB, "bytes of one frame that are kept: a lying length must not buy memory")
    search_max: int = _limit(16 * MIB, "largest frame that a search for the next frame will believe")
    search_sure: int = _limit(MIB, "a frame found by search that is larger than this needs two frames behind it")
    wait_max: int = _limit(
        4 * MIB, "bytes a side that may wait for the peer's answer before framing goes on without it"
    )
    questions_max: int = _limit(
        65_536, "open questions of one connection: a server that never answers must not grow us"
    )
    unanswered_max: int = _limit(256, "commands without a reply that stay open for a late error")
    refusals_max: int = _limit(2_560, "of these, those that settled a delivery: NSQ's RDY allows 2,500 in flight")
    refusal_ns: int = _limit(
        SECOND_NS, "capture time within which nsqd refuses a command, if it says anything at all behind that time"
    )
    reorder_max: int = _limit(4 * MIB, "bytes of one direction that wait behind a hole")
    reorder_segments: int = _limit(4_096, "segments of one direction that wait behind a hole")
    gap_grace_packets: int = _limit(64, "packets of a connection that may still fill an acknowledged hole")
    gap_grace_ns: int = _limit(200 * MILLISECOND_NS, "capture time that may still fill an acknowledged hole")
    overlap_history: int = _limit(64 * KIB, "delivered bytes a direction that are kept to compare retransmissions with")
    recent_segments: int = _limit(64, "segments a direction that are remembered to tell doubled packets")
    doubled_ns: int = _limit(10 * MILLISECOND_NS, "the same segment within this time is a copy by the tap")
    idle_ns: int = _limit(3_600 * SECOND_NS, "a connection silent for so long is forgotten")
    linger_ns: int = _limit(60 * SECOND_NS, "after its close a connection takes its late packets for so long")
    jump_max: int = _limit(1024 * MIB, "bytes an acknowledgement may be off and be believed: TCP's largest window")
    reach_max: int = _limit(16 * MIB, "bytes a segment may be off and be believed before the peer acknowledges it")
    strays_max: int = _limit(64, "segments of a direction that are kept while nobody believes them")
    strays_sure: int = _limit(4, "unbelieved segments together that are believed where the peer is not captured")
    oddities_max: int = _limit(
        16, "ignored segments of a direction that are told one by one: noise must not fill tables"
    )
    connections_max: int = _limit(1_000_000, "open connections of the process: a SYN flood must not grow us")
    layer_piece: int = _limit(64 * KIB, "bytes that a decompressing layer hands on at once: a bomb is fed by the piece")
    chunk_max: int = _limit(MIB, "bytes of one chunk that reassembly hands on")
    handles_max: int = _limit(16_384, "numbers that a connection gave to what it opened and that are remembered")
    records_wait_max: int = _limit(65_536, "produced records of one connection that wait for the broker's answer")
    records_wait_size: int = _limit(64 * MIB, "bytes of these: a capture without answers must not grow us")
    fragments_max: int = _limit(4_096, "IP fragments that wait for the rest of their datagram")
    fragments_size: int = _limit(16 * MIB, "bytes of IP fragments that wait: 4,096 of the largest would be 256 MiB")
    fragments_ns: int = _limit(30 * SECOND_NS, "capture time that a datagram waits for its fragments, as Linux does")
    tunnel_depth: int = _limit(8, "tunnels inside each other: a packet may consist of nothing but their headers")
    elements_max: int = _limit(1 << 20, "array elements and unknown tags of one message: two bytes may buy an object")
    message_problems_max: int = _limit(100, "problems noted in one message: a body may be odd in every byte")
    decompress_max: int = _limit(256 * MIB, "bytes that one compressed batch of records may become")
    topics_max: int = _limit(1 << 20, "topic ids whose names are remembered: traffic may teach ids without end")
    part_size: int = _limit(256 * MIB, "bytes of a Parquet file behind which the next one begins")
    row_group_size: int = _limit(16 * MIB, "bytes of rows that make a row group of a Parquet file")
    tables_buffer: int = _limit(48 * MIB, "bytes of rows of all tables that wait for their row groups to fill")
    query_memory: int = _limit(2048 * MIB, "bytes that a query of `mqsniff sql` may hold before it spills or fails")

    @classmethod
    def names(cls) -> dict[str, tuple[int, str]]:
        """Name -> (default, why), for help texts."""
        return {f.name: (int(f.default), str(f.metadata["why"])) for f in fields(cls)}  # type: ignore[arg-type]

    def with_value(self, name: str, value: int) -> Limits:
        """A copy with one cap changed; KeyError for a name that is none, ValueError for a value below 1."""
        if name not in self.names():
            raise KeyError(name)
        if value < 1:
            raise ValueError(f"{name} must be at least 1")
        return replace(self, **{name: value})
