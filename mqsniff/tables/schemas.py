"""The seven tables as plain data: which columns a row has, of which type and unit, and what they mean.

1. This is the only list of columns: NDJSON, Parquet, SQL and Spark use it.
2. Types are simple: all integers are int64, no dictionaries, one type per column.
3. Within a major version columns are only added, nullable, at the end of their table.
4. Nothing of Arrow is imported until ``arrow_schema`` is called.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION: Final = "1.0"

TableName: TypeAlias = Literal["connections", "messages", "exchanges", "partitions", "records", "topics", "problems"]

ColumnType: TypeAlias = Literal["text", "texts", "int64", "bool", "timestamp", "json", "payload", "headers"]
"""``texts``: a list of text; ``timestamp``: nanoseconds here, microseconds in Arrow, RFC 3339 in NDJSON; ``json``: an
object, JSON text in Arrow; ``payload``: bytes, binary in Arrow, text in NDJSON; ``headers``: a list of {key, value}."""


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: ColumnType
    doc: str
    unit: str = ""
    nullable: bool = True


def _text(name: str, doc: str, *, nullable: bool = True) -> Column:
    return Column(name, "text", doc, "", nullable)


def _int(name: str, doc: str, unit: str = "", *, nullable: bool = True) -> Column:
    return Column(name, "int64", doc, unit, nullable)


def _bool(name: str, doc: str) -> Column:
    return Column(name, "bool", doc)


def _time(name: str, doc: str, *, nullable: bool = True) -> Column:
    return Column(name, "timestamp", doc, "", nullable)


_KEY: Final = (
    _text("connection_id", "hash of the capture domain, the tunnel, the 5-tuple and the connection's first packet"),
    _text("side", "sender: client or server"),
    _int("stream_offset", "bytes that this side sent before it, after TLS and decompression of the transport", "bytes"),
)
_WHO: Final = (
    _text("client", 'client as "ip:port"'),
    _text("server", 'server as "ip:port"'),
    _text("client_id", "name that the client gave itself, where it is known"),
    _text(
        "group",
        "Kafka group, Pulsar subscription, RocketMQ group or NSQ channel that the message names or acts for; "
        "of a connection the only one that it named",
    ),
)
_PLACE: Final = (
    _text("capture", "input that holds the packet"),
    _int("packet", "packet of the first byte, 1-based inside its capture"),
    _time("ts", "capture time of the first byte"),
    _int("ts_ns", "the same, exact", "ns"),
)
_ERROR: Final = (
    _int(
        "error_code", "error code of the message, else the first one inside it; 0 for none, null without such a field"
    ),
    _text("error_name", "name of the code in its specification"),
)

_BEYOND: Final = Column(
    "beyond_int64", "json", "numbers of the row that do not fit into int64, by column, which is null then"
)

_CONNECTIONS: Final = (
    _KEY[0]._replace(nullable=False),
    *_WHO,
    _text("community_id", "Community ID v1 of the 5-tuple"),
    _text("client_ip", "address of the client", nullable=False),
    _int("client_port", "port of the client", nullable=False),
    _text("server_ip", "address of the server", nullable=False),
    _int("server_port", "port of the server", nullable=False),
    _text(
        "protocol",
        "kafka, pulsar, rocketmq, nsq or nsqlookupd; named and not decoded: rocketmq-ha, tls, http, http2, amqp-0-9-1, "
        "amqp-1.0, mqtt, nats, stomp, redis, zookeeper, postgresql, mysql; what a plugin decodes "
        "(`mqsniff protocols` lists all); else unknown",
        nullable=False,
    ),
    _text("detected_by", "how the protocol was detected: content, port or user"),
    _text("outcome", "established, refused, no answer or mid-stream", nullable=False),
    _time("first_ts", "first packet", nullable=False),
    _time("last_ts", "last packet", nullable=False),
    _int("client_packets", "packets of the client", "packets", nullable=False),
    _int("server_packets", "packets of the server", "packets", nullable=False),
    _int("client_bytes", "bytes of the client's stream", "bytes", nullable=False),
    _int("server_bytes", "bytes of the server's stream", "bytes", nullable=False),
    _int("gap_bytes", "bytes that the capture lost", "bytes", nullable=False),
    _int(
        "undecoded_bytes",
        "captured bytes that were not decoded, also those after a hole in a message",
        "bytes",
        nullable=False,
    ),
    _int("retransmitted_segments", "segments that were sent again", "segments", nullable=False),
    _int("out_of_order_segments", "segments that came before an earlier one", "segments", nullable=False),
    _int("duplicate_packets", "packets that were captured twice", "packets", nullable=False),
    _text("sides_seen", "sides with packets in the capture: both, client or server", nullable=False),
    _bool("handshake_seen", "whether the TCP handshake is in the capture")._replace(nullable=False),
    _text("close_reason", "fin, rst, or the protocol's own cause where it was seen"),
    _bool(
        "open_at_end", "whether the capture shows no end of it; true also if it was given up after idle_after"
    )._replace(nullable=False),
    _int("client_rtt_ns", "round trip between tap and client in the handshake", "ns"),
    _int("server_rtt_ns", "round trip between tap and server in the handshake", "ns"),
    _text("client_software", "name and version that the client reports"),
    _text("server_software", "name and version that the server reports"),
    _text("user", "user that logged in"),
    _text("mechanism", "SASL mechanism or authentication method"),
    _text("tls_version", "TLS version that was agreed on"),
    _text("tls_cipher", "cipher suite that was agreed on"),
    _text("tls_alpn", "application protocol that was agreed on"),
    _text("tls_server_name", "server name that the client asked for"),
    _text("tunnel", "tunnel that the packets were seen in"),
    _text("proxy_client", "source address of a PROXY protocol head"),
    _text("proxy_server", "destination address of a PROXY protocol head"),
    _text("capture", "input that holds the first packet"),
    _int("first_packet", "first packet, 1-based inside its capture"),
    _int("proxy_bytes", "bytes of the PROXY protocol head before its first message", "bytes"),
    _int(
        "client_plain_bytes", "bytes of the client after TLS and decompression; null where there was neither", "bytes"
    ),
    _int(
        "server_plain_bytes", "bytes of the server after TLS and decompression; null where there was neither", "bytes"
    ),
    _text("closed_by", "client or server: whose FIN or RST came first; null where the capture shows none"),
    _int("client_zero_windows", "times that the client announced a window of zero: it took no more bytes"),
    _int("server_zero_windows", "times that the server announced a window of zero: it took no more bytes"),
    _int("client_longest_stall_ns", "longest time that bytes of the client were held up; null where none were", "ns"),
    _int("server_longest_stall_ns", "longest time that bytes of the server were held up; null where none were", "ns"),
    _text("tls_certificate_subject", "subject of the server's certificate; with TLS 1.3 only known with keys"),
    _text("tls_certificate_issuer", "issuer of the server's certificate; neither is verified"),
    _text("tls_client_certificate_subject", "subject of the client's certificate, if it sent one"),
    _text("tls_client_certificate_issuer", "issuer of the client's certificate"),
    _bool("tls_resumed", "whether a TLS session was resumed; null where it was not seen"),
    _text("tls_keys", "keys of TLS: used, missing or wrong; null where nothing was encrypted"),
)

_MESSAGES: Final = (
    *(column._replace(nullable=False) for column in _KEY),
    *_WHO,
    _text("capture", "input that holds the first packet", nullable=False),
    _int("first_packet", "packet of the first byte, 1-based inside its capture", nullable=False),
    _text("last_capture", "input that holds the last packet", nullable=False),
    _int("last_packet", "packet of the last byte", nullable=False),
    _time("ts", "capture time of the first byte", nullable=False),
    _int("ts_ns", "the same, exact", "ns", nullable=False),
    _time("last_ts", "capture time of the last byte", nullable=False),
    _int("size", "length on the wire after TLS and decompression of the transport", "bytes", nullable=False),
    _text("protocol", "protocol of the message", nullable=False),
    _text("name", "command or frame, as the specification names it", nullable=False),
    _int("version", "Kafka: version of the API"),
    _text("kind", "request, response, oneway or push", nullable=False),
    _text("correlation", "value that matches an answer to its request"),
    Column("topics", "texts", "topics that it names, as on the wire"),
    Column("topic_ids", "texts", "topic ids that it names"),
    *_ERROR,
    _int("error_count", "number of errors in it; codes of normal operation do not count; null without such a field"),
    Column("body", "json", "every field that was on the wire", nullable=False),
    _int("problems", "how many rows of the table problems belong to it", nullable=False),
    _BEYOND,
)

_EXCHANGES: Final = (
    *_KEY,
    *_WHO,
    _text("link", "answer, or settlement (a delivered message and what became of it)", nullable=False),
    _text("protocol", "protocol of the messages", nullable=False),
    _text("name", "name of the request"),
    _int("version", "Kafka: version of the API"),
    _text("correlation", "value that matches the answer to its request"),
    _time("request_ts", "first byte of the request"),
    _time("response_ts", "first byte of the answer"),
    _text("request_capture", "input that holds the request's first packet"),
    _int("request_packet", "first packet of the request"),
    _int("request_size", "length of the request", "bytes"),
    _int("request_stream_offset", "where the request starts in its side's stream", "bytes"),
    _text("response_capture", "input that holds the answer's first packet"),
    _int("response_packet", "first packet of the answer"),
    _int("response_size", "length of the answer", "bytes"),
    _int("response_stream_offset", "where the answer starts in its side's stream", "bytes"),
    _int("latency_ns", "last byte of the request to first byte of the answer", "ns"),
    _int("total_ns", "first byte of the request to last byte of the answer", "ns"),
    _int("queue_ns", "time that it waited for the answer before its own", "ns"),
    _int("wait_limit_ns", "how long the request allowed the broker to hold it", "ns"),
    _bool("held", "whether the broker let it wait; null without a limit or an answer, and of settlements"),
    _int("throttle_ns", "how long the broker says it throttled", "ns"),
    _text(
        "status",
        "ok (all that reports success was read; a code of normal operation is success too), partial, error, oneway, "
        "unanswered (no answer, or not to its end), pending (the capture ended before), lost (by the capture), unseen "
        "(its side was not captured, or the answer cannot be read) or unasked",
        nullable=False,
    ),
    *_ERROR,
    Column("topics", "texts", "topics that request and answer name"),
    _text("response_name", "name of the answer"),
    _int("attempts", "settlement: which delivery of the message it was"),
    _int("touches", "settlement: how often its time was extended"),
    _int("in_flight", "settlement: delivered and unsettled messages of the connection, this one included"),
    _int("credit", "settlement: how many the client had asked for"),
    _text("settled_by", "settlement: what ended it"),
    Column("topic_ids", "texts", "topic ids that request and answer name"),
    _bool("timed_out", "settlement: true if its time ran out, so that the broker delivers it again"),
    _int(
        "work_ns",
        "latency_ns without queue_ns and without the wait: of a held request what it took beyond its limit, else null",
        "ns",
    ),
    _BEYOND,
)

_PARTITIONS: Final = (
    *(column._replace(nullable=False) for column in _KEY),
    *_WHO,
    _time("ts", "capture time of the message's first byte", nullable=False),
    _text("protocol", "protocol of the message", nullable=False),
    _text("name", "name of the message", nullable=False),
    _text("kind", "request, response, oneway or push", nullable=False),
    _text("topic", "topic, as on the wire"),
    _text("topic_id", "id of the topic"),
    _int("partition", "partition or queue"),
    _int("offset", "asked, committed or base offset"),
    *_ERROR,
    _int("high_watermark", "offset after the last record that consumers may see"),
    _int("log_start_offset", "first offset that is kept"),
    _int("leader_epoch", "epoch of the partition's leader"),
    _int("batches", "record batches in it"),
    _int("records", "records in it"),
    _int("wire_bytes", "record data as sent, compressed", "bytes"),
    _text("reader", "who reads it: consumer, follower or other"),
    _BEYOND,
)

_RECORDS: Final = (
    *(column._replace(nullable=False) for column in _KEY),
    *_WHO,
    *(column._replace(nullable=False) for column in _PLACE),
    _text("direction", "produce or deliver"),
    _text("protocol", "protocol of the message", nullable=False),
    _text("topic", "topic, as on the wire"),
    _text("topic_id", "id of the topic"),
    _int("partition", "partition or queue"),
    _int("offset", "the broker's offset, for produced records from its answer"),
    _text("message_id", "the broker's message id, for produced records from its answer"),
    _int("client_offset", "offset in the produce request"),
    _text("ack", "acked, failed, none or unseen"),
    _time("record_ts", "timestamp of the record itself: as its client sent it, or as readers get it"),
    _time("deliver_at_ts", "not to be delivered before"),
    Column("key", "payload", "key of the record"),
    _text("key_encoding", "encoding of key here: utf8, base64, redacted or cut"),
    Column("value", "payload", "value of the record"),
    _text("value_encoding", "encoding of value here: utf8, base64, redacted or cut"),
    _int("value_size", "length of the whole value", "bytes"),
    Column("headers", "headers", "headers or properties of the record; redacted, a value is its size and hash as JSON"),
    _text("schema_id", "id or version of the schema that the value was written with"),
    _text("unique_key", "key that the client made to find the record again"),
    _text("codec", "how the batch was compressed"),
    _bool("checksum_ok", "whether the batch's checksum matches; null without a checksum"),
    _int("base_offset", "first offset of the batch"),
    _int("producer_id", "id of an idempotent or transactional producer"),
    _int("producer_epoch", "epoch of that producer"),
    _int("sequence", "sequence number of the record"),
    _bool("transactional", "whether it belongs to a transaction"),
    _bool("control", "whether it is a control record"),
    _bool("aborted", "whether its transaction was aborted"),
    _int("attempts", "deliveries so far, this one included"),
    _text("reader", "who read it: consumer, follower or other"),
    _int("batch_index", "position of its batch in the message"),
    _int("record_index", "position in its batch"),
    _time(
        "store_ts", "when the broker stored it: for produced records from its answer; Kafka: topics with append times"
    ),
    _bool("before_asked", "whether its offset is lower than the one that its reader asked for"),
    _int("leader_epoch", "epoch of the partition's leader that wrote its batch"),
    _time("event_ts", "Pulsar: time that the application gave the event"),
    _time("publish_ts", "Pulsar: when its producer published it"),
    _text("producer_name", "Pulsar: name of its producer"),
    _text("replicated_from", "Pulsar: cluster that it was replicated from"),
    _int("chunk_id", "Pulsar: number of the chunk, from 0"),
    _int("chunk_count", "Pulsar: number of chunks of the message"),
    Column("decoded", "json", "what a record of an internal topic holds; null for other topics and unknown formats"),
    Column("ordering_key", "payload", "Pulsar: key by which it is ordered in place of key"),
    _text("ordering_key_encoding", "encoding of ordering_key here: utf8, base64, redacted or cut"),
    _bool("null_partition_key", "Pulsar: whether its producer marked it as without a key; null: not marked"),
    _bool("partition_key_b64_encoded", "Pulsar: whether its key was base64 on the wire; null: unknown"),
    _int("slot_metadata_size", "Pulsar: length of the metadata before it in its batch", "bytes"),
    _text(
        "left_out",
        "Pulsar: why a slot of a batch is not for the application: compacted_out, or acknowledged (before it)",
    ),
    _bool("joined", "Pulsar: true for a message joined from chunks, which have rows of their own"),
    _text(
        "key_hmac_sha256",
        "HMAC-SHA256 of the whole key (by --hash-key), where the payload is redacted",
    ),
    _text("value_hmac_sha256", "HMAC-SHA256 of the whole value (by --hash-key), where the payload is redacted"),
    _text("timestamp_type", "Kafka: who set record_ts on the wire, CreateTime or LogAppendTime; null without a time"),
    _int("crc", "Kafka: checksum on the wire, of the message (magic 0 and 1) or of its batch (magic 2)"),
    _int("attributes", "Kafka: attributes of the message (magic 0 and 1) or of its batch (magic 2)"),
    _int("message_size", "Kafka: size field of a message of magic 0 or 1; it counts from the CRC on", "bytes"),
    _BEYOND,
)

_TOPICS: Final = (
    _text("protocol", "protocol that has these ids", nullable=False),
    _text("topic_id", "id of the topic", nullable=False),
    _text("name", "name of the topic", nullable=False),
    _time("first_ts", "when the traffic first showed it", nullable=False),
)

_PROBLEMS: Final = (
    *_KEY,
    *_WHO,
    *_PLACE,
    _text(
        "severity",
        "error: data lost or wrong; warning: unusual, all kept; info: a violated rule, or the network",
        nullable=False,
    ),
    _text("kind", "kind of problem", nullable=False),
    _text("path", "where in the message"),
    _text("detail", "what is wrong; never payload", nullable=False),
    _int("size", "bytes that it concerns", "bytes"),
    _text("protocol", "protocol of the connection"),
    _text("name", "name of the message that it belongs to"),
)

TABLES: Final[dict[TableName, tuple[Column, ...]]] = {
    "connections": _CONNECTIONS,
    "messages": _MESSAGES,
    "exchanges": _EXCHANGES,
    "partitions": _PARTITIONS,
    "records": _RECORDS,
    "topics": _TOPICS,
    "problems": _PROBLEMS,
}

STREAM_TABLES: Final[tuple[TableName, ...]] = ("messages", "problems", "connections")
"""The tables of text and NDJSON by default."""


def names_of(table: TableName, *types: ColumnType) -> tuple[str, ...]:
    """Names of a table's columns in their order; with ``types``, only columns of these types."""
    return tuple(column.name for column in TABLES[table] if not types or column.type in types)


@cache
def arrow_type(kind: ColumnType) -> pa.DataType:
    """The Arrow type of a type of column; imports pyarrow."""
    import pyarrow as pa  # noqa: PLC0415  # start-up is a budget: text and short NDJSON never need it

    types: dict[ColumnType, pa.DataType] = {
        "text": pa.string(),
        "texts": pa.list_(pa.string()),
        "int64": pa.int64(),
        "bool": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "json": pa.string(),
        "payload": pa.binary(),
        "headers": pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
    }
    return types[kind]


@cache
def arrow_schema(table: TableName) -> pa.Schema:
    """The Arrow schema of a table, with each column's meaning and unit as metadata; imports pyarrow."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    fields = [
        pa.field(c.name, arrow_type(c.type), c.nullable, {"doc": c.doc, **({"unit": c.unit} if c.unit else {})})
        for c in TABLES[table]
    ]
    return pa.schema(fields, metadata={"mqsniff.table": table, "mqsniff.schema_version": SCHEMA_VERSION})
