// What brokers and controllers of Kafka 4.4 put into records and into bytes of messages, written by the classes that they use.
//
// java FormatVectors > formats.ndjson: a line a thing; "told" is what Kafka's converters say of it.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.kafka.common.message.EndTxnMarker;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.requests.RequestUtils;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.serialization.BytesApiMessageSerde;

public final class FormatVectors {
    private static final List<Values.Fill> FILLS = List.of(Values.Fill.MOST, Values.Fill.SOME, Values.Fill.LEAST);

    public static void main(String[] arguments) throws Exception {
        coordinator("__consumer_offsets", new GroupCoordinatorRecordSerde(),
                org.apache.kafka.coordinator.group.generated.CoordinatorRecordType.values());
        coordinator("__share_group_state", new ShareCoordinatorRecordSerde(),
                org.apache.kafka.coordinator.share.generated.CoordinatorRecordType.values());
        coordinator("__transaction_state", new TransactionCoordinatorRecordSerde(),
                org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordType.values());
        metadata();
        remoteLog();
        control();
        principal();
        envelopes();
    }

    // ---- messages

    private static <M extends Message> M filled(Class<M> type, int version, Values.Fill fill) throws Exception {
        return type.cast(new Filler(new Values(MessageVectors.nameOf(type), fill)).filled(type, schema(type, version)));
    }

    private static Schema schema(Class<?> type, int version) throws Exception {
        return ((Schema[]) type.getField("SCHEMAS").get(null))[version];
    }

    private static JsonNode told(Message message, int version) throws Exception {
        Class<?> type = message.getClass();
        return MessageVectors.told(message, type, schema(type, version), (short) version, new byte[0]);
    }

    // ---- records

    /** Every type of a coordinator's records; {@code types} are of an enum that each coordinator generates for itself. */
    private static void coordinator(String topic, CoordinatorRecordSerde serde, Enum<?>[] types) throws Exception {
        for (Enum<?> type : types) {
            ApiMessage key = (ApiMessage) type.getClass().getMethod("newRecordKey").invoke(type);
            ApiMessage value = (ApiMessage) type.getClass().getMethod("newRecordValue").invoke(type);
            for (short version = value.lowestSupportedVersion(); version <= value.highestSupportedVersion(); version++) {
                for (Values.Fill fill : FILLS) {
                    key = filled(key.getClass(), key.lowestSupportedVersion(), fill);
                    value = filled(value.getClass(), version, fill);
                    CoordinatorRecord record = CoordinatorRecord.record(key, new ApiMessageAndVersion(value, version));
                    ObjectNode line = Lines.line("record").put("topic", topic).put("type", key.apiKey()).put("version", version);
                    line.put("key", Lines.hex(serde.serializeKey(record)));
                    line.put("value", Lines.hex(serde.serializeValue(record)));
                    line.set("told_key", told(key, key.lowestSupportedVersion()));
                    line.set("told", told(value, version));
                    Lines.print(line);
                }
            }
        }
    }

    private static void metadata() throws Exception {
        MetadataRecordSerde serde = new MetadataRecordSerde();
        for (MetadataRecordType type : MetadataRecordType.values()) {
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(); version++) {
                for (Values.Fill fill : FILLS) {
                    ApiMessage message = filled(type.newMetadataRecord().getClass(), version, fill);
                    ApiMessageAndVersion both = new ApiMessageAndVersion(message, version);
                    ObjectSerializationCache cache = new ObjectSerializationCache();
                    ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(both, cache));
                    serde.write(both, cache, new ByteBufferAccessor(buffer));
                    framed("__cluster_metadata", type.id(), version, buffer.flip(), message);
                }
            }
        }
    }

    private static void remoteLog() throws Exception {
        BytesApiMessageSerde serde = new BytesApiMessageSerde() {
            @Override
            public ApiMessage apiMessageFor(short type) {
                throw new UnsupportedOperationException("only writes");
            }
        };
        for (var type : org.apache.kafka.server.log.remote.metadata.storage.generated.MetadataRecordType.values()) {
            for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(); version++) {
                for (Values.Fill fill : FILLS) {
                    ApiMessage message = filled(type.newMetadataRecord().getClass(), version, fill);
                    ByteBuffer raw = ByteBuffer.wrap(serde.serialize(new ApiMessageAndVersion(message, version)));
                    framed("__remote_log_metadata", type.id(), version, raw, message);
                }
            }
        }
    }

    private static void framed(String topic, int type, int version, ByteBuffer raw, ApiMessage message) throws Exception {
        ObjectNode line = Lines.line("record").put("topic", topic).put("type", type).put("version", version);
        line.put("value", Lines.hex(raw)).put("name", message.getClass().getSimpleName()).set("told", told(message, version));
        Lines.print(line);
    }

    private static void control() throws Exception {
        ByteBuffer space = ByteBuffer.allocate(1 << 16);
        for (ControlRecordType type : List.of(ControlRecordType.COMMIT, ControlRecordType.ABORT)) {
            EndTransactionMarker marker = new EndTransactionMarker(type, 77);
            EndTxnMarker told = new EndTxnMarker().setCoordinatorEpoch(77);
            control(type, MemoryRecords.withEndTransactionMarker(5, (short) 1, marker), told, 0);
        }
        for (Values.Fill fill : FILLS) {
            short version = ControlRecordUtils.LEADER_CHANGE_CURRENT_VERSION;
            LeaderChangeMessage leader = filled(LeaderChangeMessage.class, version, fill).setVersion(version);
            control(ControlRecordType.LEADER_CHANGE,
                    MemoryRecords.withLeaderChangeMessage(0, 1, 2, space.clear(), leader), leader, version);
            SnapshotHeaderRecord header = filled(SnapshotHeaderRecord.class, 0, fill).setVersion((short) 0);
            control(ControlRecordType.SNAPSHOT_HEADER,
                    MemoryRecords.withSnapshotHeaderRecord(0, 1, 2, space.clear(), header), header, 0);
            SnapshotFooterRecord footer = filled(SnapshotFooterRecord.class, 0, fill).setVersion((short) 0);
            control(ControlRecordType.SNAPSHOT_FOOTER,
                    MemoryRecords.withSnapshotFooterRecord(0, 1, 2, space.clear(), footer), footer, 0);
            KRaftVersionRecord kraft = filled(KRaftVersionRecord.class, 0, fill).setVersion((short) 0);
            control(ControlRecordType.KRAFT_VERSION,
                    MemoryRecords.withKRaftVersionRecord(0, 1, 2, space.clear(), kraft), kraft, 0);
            VotersRecord voters = filled(VotersRecord.class, 0, fill).setVersion((short) 0);
            control(ControlRecordType.KRAFT_VOTERS,
                    MemoryRecords.withVotersRecord(0, 1, 2, space.clear(), voters), voters, 0);
        }
    }

    private static void control(ControlRecordType type, MemoryRecords records, Message message, int version) throws Exception {
        Record record = records.records().iterator().next();
        ObjectNode line = Lines.line("control").put("type", type.type()).put("name", type.name());
        line.put("layout", message.getClass().getSimpleName()).put("version", version);
        line.put("key", Lines.hex(record.key())).put("value", Lines.hex(record.value())).set("told", told(message, version));
        Lines.print(line);
    }

    // ---- inside messages

    private static void principal() throws Exception {
        for (boolean byToken : new boolean[] {false, true}) {
            KafkaPrincipal principal = new KafkaPrincipal("User", "CN=täglich,O=日本", byToken);
            ObjectNode line = Lines.line("marked").put("mark", "principal");
            line.put("data", Lines.hex(new DefaultKafkaPrincipalBuilder(null, null).serialize(principal)));
            line.putObject("told").put("version", 0).put("type", "User").put("name", "CN=täglich,O=日本")
                    .put("token_authenticated", byToken);
            Lines.print(line);
        }
    }

    /** Every request that brokers forward, and its response, as they stand in envelopes. */
    private static void envelopes() throws Exception {
        for (ApiKeys api : ApiKeys.values()) {
            for (short version = api.oldestVersion(); api.forwardable && version <= api.latestVersion(true); version++) {
                Message request = filled(api.messageType.newRequest().getClass(), version, Values.Fill.MOST);
                Message response = filled(api.messageType.newResponse().getClass(), version, Values.Fill.MOST);
                RequestHeaderData header = new RequestHeaderData().setRequestApiKey(api.id).setRequestApiVersion(version)
                        .setCorrelationId(9).setClientId("client-é");
                ByteBuffer asked = RequestUtils.serialize(header, api.requestHeaderVersion(version), request, version);
                ByteBuffer answered = RequestUtils.serialize(new ResponseHeaderData().setCorrelationId(9),
                        api.responseHeaderVersion(version), response, version);
                ObjectNode line = Lines.line("envelope").put("api", api.name).put("api_key", api.id).put("version", version);
                line.put("request", Lines.hex(asked)).put("response", Lines.hex(answered));
                line.set("told_request", told(request, version));
                line.set("told", told(response, version));
                Lines.print(line);
            }
        }
    }
}
