"""A class for the rows of each table, made by docs/build_rows.py from the schemas: do not edit.

What each column means, and its unit, stands in docs/tables.md.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from mqsniff.tables.schemas import TableName


class ConnectionsRow(NamedTuple):
    """A row of ``connections``."""

    connection_id: str
    client: str | None
    server: str | None
    client_id: str | None
    group: str | None
    community_id: str | None
    client_ip: str
    client_port: int
    server_ip: str
    server_port: int
    protocol: str
    detected_by: str | None
    outcome: str
    first_ts: datetime
    last_ts: datetime
    client_packets: int
    server_packets: int
    client_bytes: int
    server_bytes: int
    gap_bytes: int
    undecoded_bytes: int
    retransmitted_segments: int
    out_of_order_segments: int
    duplicate_packets: int
    sides_seen: str
    handshake_seen: bool
    close_reason: str | None
    open_at_end: bool
    client_rtt_ns: int | None
    server_rtt_ns: int | None
    client_software: str | None
    server_software: str | None
    user: str | None
    mechanism: str | None
    tls_version: str | None
    tls_cipher: str | None
    tls_alpn: str | None
    tls_server_name: str | None
    tunnel: str | None
    proxy_client: str | None
    proxy_server: str | None
    capture: str | None
    first_packet: int | None
    proxy_bytes: int | None
    client_plain_bytes: int | None
    server_plain_bytes: int | None
    closed_by: str | None
    client_zero_windows: int | None
    server_zero_windows: int | None
    client_longest_stall_ns: int | None
    server_longest_stall_ns: int | None
    tls_certificate_subject: str | None
    tls_certificate_issuer: str | None
    tls_client_certificate_subject: str | None
    tls_client_certificate_issuer: str | None
    tls_resumed: bool | None
    tls_keys: str | None


class MessagesRow(NamedTuple):
    """A row of ``messages``."""

    connection_id: str
    side: str
    stream_offset: int
    client: str | None
    server: str | None
    client_id: str | None
    group: str | None
    capture: str
    first_packet: int
    last_capture: str
    last_packet: int
    ts: datetime
    ts_ns: int
    last_ts: datetime
    size: int
    protocol: str
    name: str
    version: int | None
    kind: str
    correlation: str | None
    topics: tuple[str, ...] | None
    topic_ids: tuple[str, ...] | None
    error_code: int | None
    error_name: str | None
    error_count: int | None
    body: Any
    problems: int
    beyond_int64: Any


class ExchangesRow(NamedTuple):
    """A row of ``exchanges``."""

    connection_id: str | None
    side: str | None
    stream_offset: int | None
    client: str | None
    server: str | None
    client_id: str | None
    group: str | None
    link: str
    protocol: str
    name: str | None
    version: int | None
    correlation: str | None
    request_ts: datetime | None
    response_ts: datetime | None
    request_capture: str | None
    request_packet: int | None
    request_size: int | None
    request_stream_offset: int | None
    response_capture: str | None
    response_packet: int | None
    response_size: int | None
    response_stream_offset: int | None
    latency_ns: int | None
    total_ns: int | None
    queue_ns: int | None
    wait_limit_ns: int | None
    held: bool | None
    throttle_ns: int | None
    status: str
    error_code: int | None
    error_name: str | None
    topics: tuple[str, ...] | None
    response_name: str | None
    attempts: int | None
    touches: int | None
    in_flight: int | None
    credit: int | None
    settled_by: str | None
    topic_ids: tuple[str, ...] | None
    timed_out: bool | None
    work_ns: int | None
    beyond_int64: Any


class PartitionsRow(NamedTuple):
    """A row of ``partitions``."""

    connection_id: str
    side: str
    stream_offset: int
    client: str | None
    server: str | None
    client_id: str | None
    group: str | None
    ts: datetime
    protocol: str
    name: str
    kind: str
    topic: str | None
    topic_id: str | None
    partition: int | None
    offset: int | None
    error_code: int | None
    error_name: str | None
    high_watermark: int | None
    log_start_offset: int | None
    leader_epoch: int | None
    batches: int | None
    records: int | None
    wire_bytes: int | None
    reader: str | None
    beyond_int64: Any


class RecordsRow(NamedTuple):
    """A row of ``records``."""

    connection_id: str
    side: str
    stream_offset: int
    client: str | None
    server: str | None
    client_id: str | None
    group: str | None
    capture: str
    packet: int
    ts: datetime
    ts_ns: int
    direction: str | None
    protocol: str
    topic: str | None
    topic_id: str | None
    partition: int | None
    offset: int | None
    message_id: str | None
    client_offset: int | None
    ack: str | None
    record_ts: datetime | None
    deliver_at_ts: datetime | None
    key: bytes | None
    key_encoding: str | None
    value: bytes | None
    value_encoding: str | None
    value_size: int | None
    headers: tuple[tuple[str, Any], ...] | None
    schema_id: str | None
    unique_key: str | None
    codec: str | None
    checksum_ok: bool | None
    base_offset: int | None
    producer_id: int | None
    producer_epoch: int | None
    sequence: int | None
    transactional: bool | None
    control: bool | None
    aborted: bool | None
    attempts: int | None
    reader: str | None
    batch_index: int | None
    record_index: int | None
    store_ts: datetime | None
    before_asked: bool | None
    leader_epoch: int | None
    event_ts: datetime | None
    publish_ts: datetime | None
    producer_name: str | None
    replicated_from: str | None
    chunk_id: int | None
    chunk_count: int | None
    decoded: Any
    ordering_key: bytes | None
    ordering_key_encoding: str | None
    null_partition_key: bool | None
    partition_key_b64_encoded: bool | None
    slot_metadata_size: int | None
    left_out: str | None
    joined: bool | None
    key_hmac_sha256: str | None
    value_hmac_sha256: str | None
    timestamp_type: str | None
    crc: int | None
    attributes: int | None
    message_size: int | None
    beyond_int64: Any


class TopicsRow(NamedTuple):
    """A row of ``topics``."""

    protocol: str
    topic_id: str
    name: str
    first_ts: datetime


class ProblemsRow(NamedTuple):
    """A row of ``problems``."""

    connection_id: str | None
    side: str | None
    stream_offset: int | None
    client: str | None
    server: str | None
    client_id: str | None
    group: str | None
    capture: str | None
    packet: int | None
    ts: datetime | None
    ts_ns: int | None
    severity: str
    kind: str
    path: str | None
    detail: str
    size: int | None
    protocol: str | None
    name: str | None


TableRow: TypeAlias = ConnectionsRow | MessagesRow | ExchangesRow | PartitionsRow | RecordsRow | TopicsRow | ProblemsRow
"""A row of any table."""

ROW_TYPES: Final[dict[TableName, type[TableRow]]] = {
    "connections": ConnectionsRow,
    "messages": MessagesRow,
    "exchanges": ExchangesRow,
    "partitions": PartitionsRow,
    "records": RecordsRow,
    "topics": TopicsRow,
    "problems": ProblemsRow,
}
