// Record data in all formats that Kafka has had, written and read by Kafka.
//
// java BatchVectors > batches.ndjson: a line a field of records; "told" is what Kafka reads back of its batches and records.

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.BufferSupplier;

public final class BatchVectors {
    private static final long BASE = 4_711;
    private static final long TIME = 1_700_000_000_123L;
    private static final long APPENDED = TIME + 86_400_000;
    private static final int LAST_SEQUENCES = Integer.MAX_VALUE - 2;
    private static final Header[] HEADERS = {
        new RecordHeader("trace-é", new byte[] {0, (byte) 0xff}), new RecordHeader("", null), new RecordHeader("trace-é", new byte[0])
    };

    public static void main(String[] arguments) throws Exception {
        for (byte magic = 0; magic <= RecordBatch.CURRENT_MAGIC_VALUE; magic++) {
            for (CompressionType codec : CompressionType.values()) {
                if (codec == CompressionType.ZSTD && magic < 2) {
                    continue;
                }
                print("magic " + magic + ", " + codec + ", by the client", written(magic, codec, TimestampType.CREATE_TIME));
                if (magic > 0) {
                    print("magic " + magic + ", " + codec + ", at the log's time", written(magic, codec, TimestampType.LOG_APPEND_TIME));
                }
                print("magic " + magic + ", " + codec + ", compacted", compacted(written(magic, codec, TimestampType.CREATE_TIME), 2));
            }
        }
        MemoryRecords transaction = written((byte) 2, CompressionType.NONE, TimestampType.CREATE_TIME);
        print("magic 2, compacted to nothing", compacted(transaction, Long.MAX_VALUE));
    }

    private static MemoryRecords written(byte magic, CompressionType codec, TimestampType type) {
        boolean producer = magic == 2;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), magic, Compression.of(codec).build(), type,
                BASE, APPENDED, producer ? 77 : -1, (short) (producer ? 3 : -1), producer ? LAST_SEQUENCES : -1, producer, 12);
        for (int index = 0; index < 6; index++) {
            byte[] key = index == 0 ? null : index == 1 ? new byte[0] : bytes("kéy-" + index);
            byte[] value = index == 4 ? null : index == 3 ? bytes("long ".repeat(300)) : bytes("välue " + index);
            builder.append(TIME - 40L * index, key, value, magic == 2 && index % 2 == 1 ? HEADERS : new Header[0]);
        }
        return builder.build();
    }

    /** What the cleaner leaves: one record in so many. */
    private static MemoryRecords compacted(MemoryRecords records, long keep) {
        ByteBuffer space = ByteBuffer.allocate(1 << 16);
        RecordFilter filter = new RecordFilter(APPENDED, 1_000) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                boolean newest = batch.magic() == 2; // older ones cannot be empty
                return new BatchRetentionResult(newest ? BatchRetention.RETAIN_EMPTY : BatchRetention.DELETE_EMPTY, newest);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return (record.offset() - BASE + 1) % keep == 0;
            }
        };
        records.filterTo(filter, space, BufferSupplier.NO_CACHING, Integer.MAX_VALUE);
        return MemoryRecords.readableRecords(space.flip());
    }

    private static void print(String what, MemoryRecords records) throws Exception {
        ObjectNode line = Lines.line(what).put("bytes", Lines.hex(records.buffer()));
        ArrayNode told = line.putArray("told");
        for (MutableRecordBatch batch : records.batches()) {
            ObjectNode one = told.addObject().put("magic", batch.magic()).put("codec", batch.compressionType().name);
            one.put("base_offset", batch.baseOffset()).put("last_offset", batch.lastOffset());
            one.put("max_timestamp", batch.maxTimestamp()).put("timestamp_type", batch.timestampType().name());
            one.put("producer_id", batch.producerId()).put("producer_epoch", batch.producerEpoch());
            one.put("base_sequence", batch.baseSequence()).put("last_sequence", batch.lastSequence());
            one.put("transactional", batch.isTransactional()).put("partition_leader_epoch", batch.partitionLeaderEpoch());
            batch.deleteHorizonMs().ifPresent(horizon -> one.put("delete_horizon", horizon));
            batch.ensureValid();
            ArrayNode all = one.putArray("records");
            for (Record record : batch) {
                tell(all.addObject(), record);
            }
        }
        Lines.print(line);
    }

    private static void tell(ObjectNode told, Record record) {
        told.put("offset", record.offset()).put("timestamp", record.timestamp()).put("sequence", record.sequence());
        told.put("key", record.hasKey() ? Lines.hex(record.key()) : null);
        told.put("value", record.hasValue() ? Lines.hex(record.value()) : null);
        ArrayNode headers = told.putArray("headers");
        for (Header header : List.of(record.headers())) {
            headers.addArray().add(header.key()).add(header.value() == null ? null : Lines.hex(header.value()));
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
