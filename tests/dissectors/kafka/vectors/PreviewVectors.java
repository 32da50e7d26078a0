// Records of the metadata log as the preview of KRaft in Kafka 2.8 wrote them, by its own serde.
//
// java PreviewVectors > formats.ndjson: lines as those of FormatVectors.

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.metadata.ApiMessageAndVersion;
import org.apache.kafka.raft.metadata.MetadataRecordSerde;

public final class PreviewVectors {
    public static void main(String[] arguments) throws Exception {
        for (MetadataRecordType type : MetadataRecordType.values()) {
            ApiMessage empty = type.newMetadataRecord();
            Schema[] schemas = (Schema[]) empty.getClass().getField("SCHEMAS").get(null);
            for (short version = empty.lowestSupportedVersion(); version <= empty.highestSupportedVersion(); version++) {
                for (Values.Fill fill : Values.Fill.values()) {
                    Values values = new Values(MessageVectors.nameOf(empty.getClass()), fill);
                    print(type.id(), (ApiMessage) new Filler(values).filled(empty.getClass(), schemas[version]), version, schemas[version]);
                }
            }
        }
    }

    private static void print(short type, ApiMessage message, short version, Schema schema) throws Exception {
        MetadataRecordSerde serde = new MetadataRecordSerde();
        ApiMessageAndVersion both = new ApiMessageAndVersion(message, version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(both, cache));
        serde.write(both, cache, new ByteBufferAccessor(buffer));
        ObjectNode line = Lines.line("record").put("topic", "@metadata").put("type", type).put("version", version);
        line.put("name", message.getClass().getSimpleName()).put("value", Lines.hex(buffer.flip()));
        line.set("told", MessageVectors.told(message, message.getClass(), schema, version, new byte[0]));
        Lines.print(line);
    }
}
