// Frames made by the encoders of Apache Pulsar's own Java client, with what was put into them, as lines of JSON.
//
// Every field of every command, of the metadata and of the markers is filled through the setters of the generated
// classes; batches go through the client's codecs. How the committed lines were made (Java 17, Maven):
//
//   a pom.xml with org.apache.pulsar:pulsar-client-original:5.0.0-M1 and com.google.protobuf:protobuf-java:4.31.1, then
//   mvn dependency:copy-dependencies -DoutputDirectory=lib
//   java -cp 'lib/*' PulsarVectors.java > pulsar_vectors.jsonl

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.impl.schema.KeyValueSchemaInfo;
import org.apache.pulsar.client.impl.schema.SchemaInfoImpl;
import org.apache.pulsar.common.api.proto.BaseCommand;
import org.apache.pulsar.common.api.proto.CompressionType;
import org.apache.pulsar.common.api.proto.MarkersMessageIdData;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.api.proto.SingleMessageMetadata;
import org.apache.pulsar.common.compression.CompressionCodecProvider;
import org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor;
import org.apache.pulsar.common.protocol.ByteBufPair;
import org.apache.pulsar.common.protocol.Commands;
import org.apache.pulsar.common.protocol.Commands.ChecksumType;
import org.apache.pulsar.common.protocol.Markers;
import org.apache.pulsar.common.schema.KeyValueEncodingType;
import org.apache.pulsar.common.schema.SchemaInfo;
import org.apache.pulsar.common.schema.SchemaType;

public class PulsarVectors {
    static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    static long counter = 0;

    public static void main(String[] args) throws Exception {
        for (BaseCommand.Type type : BaseCommand.Type.values()) {
            BaseCommand command = new BaseCommand().setType(type);
            Object content = content(command, type);
            Map<String, Object> body = fill(content, 0);
            ByteBuf frame = type == BaseCommand.Type.SEND || type == BaseCommand.Type.MESSAGE
                    ? coalesce(Commands.serializeCommandMessageWithSize(command, metadataAndPayload(body)))
                    : Commands.serializeWithSize(command);
            print("command", type.name(), frame, body);
        }
        for (CompressionType codec : CompressionType.values()) {
            batch(codec);
        }
        markers();
        schemas();
    }

    static void print(String kind, String name, ByteBuf frame, Object told) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("kind", kind);
        line.put("name", name);
        line.put("frame", ByteBufUtil.hexDump(frame));
        line.put("told", told);
        System.out.println(JSON.toJson(line));
    }

    static ByteBuf coalesce(ByteBufPair pair) {
        return ByteBufPair.coalesce(pair);
    }

    // ---- every field, by reflection

    static Object content(BaseCommand command, BaseCommand.Type type) throws Exception {
        String wanted = "set" + camel(type.name());
        for (Method method : command.getClass().getMethods()) {
            String name = method.getName().toLowerCase();
            if (method.getParameterCount() == 0 && aliases(wanted).contains(name)) {
                return method.invoke(command);
            }
        }
        throw new IllegalStateException(type.name());
    }

    static Set<String> aliases(String wanted) {
        return switch (wanted) {
            case "setPartitionedMetadata" -> Set.of("setpartitionmetadata");
            case "setPartitionedMetadataResponse" -> Set.of("setpartitionmetadataresponse");
            case "setLookup" -> Set.of("setlookuptopic");
            case "setLookupResponse" -> Set.of("setlookuptopicresponse");
            default -> Set.of(wanted.toLowerCase());
        };
    }

    static String camel(String upper) {
        StringBuilder text = new StringBuilder();
        for (String word : upper.split("_")) {
            text.append(word.charAt(0)).append(word.substring(1).toLowerCase());
        }
        return text.toString();
    }

    /** Fills every field; gives what was put in, by the names of the setters without "set" and "add". */
    static Map<String, Object> fill(Object message, int depth) throws Exception {
        Map<String, Object> told = new TreeMap<>();
        Method[] methods = message.getClass().getMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName).thenComparing(m -> Arrays.toString(m.getParameterTypes())));
        for (Method method : methods) {
            boolean set = method.getName().startsWith("set");
            boolean add = method.getName().startsWith("add") && !method.getName().startsWith("addAll");
            if (!(set || add) || Modifier.isStatic(method.getModifiers())) {
                continue;
            }
            String name = method.getName().substring(3);
            if (method.getParameterCount() == 0) {
                if (depth < 2) {
                    List<Object> many = new ArrayList<>();
                    for (int i = 0; i < (add ? 2 : 1); i++) {
                        many.add(fill(method.invoke(message), depth + 1));
                    }
                    told.put(name, add ? many : many.get(0));
                }
            } else if (method.getParameterCount() == 1) {
                Class<?> type = method.getParameterTypes()[0];
                List<Object> many = new ArrayList<>();
                for (int i = 0; i < (add ? 3 : 1); i++) {
                    Object value = value(type, name);
                    if (value == null) {
                        break;
                    }
                    method.invoke(message, value);
                    many.add(shown(value));
                }
                if (!many.isEmpty()) {
                    told.put(name, add ? many : many.get(0));
                }
            }
        }
        for (String name : List.copyOf(told.keySet())) {
            try {
                if (!(boolean) message.getClass().getMethod("has" + name).invoke(message)) {
                    told.remove(name); // another member of its oneof was set behind it
                }
            } catch (NoSuchMethodException required) {
                continue;
            }
        }
        return told;
    }

    static Object value(Class<?> type, String name) {
        counter++;
        if (type == long.class) {
            return counter % 5 == 0 ? -1L : counter * 1_000_000_007L;
        } else if (type == int.class) {
            return counter % 4 == 0 ? -1 : (int) (counter * 1_003);
        } else if (type == boolean.class) {
            return counter % 2 == 0;
        } else if (type == double.class) {
            return counter * 0.25;
        } else if (type == String.class) {
            return name + "-" + counter + (counter % 3 == 0 ? " \u00e4\u20ac" : "");
        } else if (type == byte[].class) {
            return new byte[] {(byte) counter, 0, (byte) 0xff, 'x'};
        } else if (type.isEnum()) {
            Object[] constants = type.getEnumConstants();
            return constants[(int) (counter % constants.length)];
        }
        return null;
    }

    static Object shown(Object value) {
        if (value instanceof byte[] bytes) {
            return Map.of("hex", ByteBufUtil.hexDump(bytes));
        }
        return value instanceof Enum<?> constant ? constant.name() : value;
    }

    // ---- payloads

    static ByteBuf metadataAndPayload(Map<String, Object> body) throws Exception {
        MessageMetadata metadata = new MessageMetadata();
        Map<String, Object> told = fill(metadata, 0);
        body.put("Metadata", told);
        return Commands.serializeMetadataAndPayload(ChecksumType.Crc32c, metadata, bytes("sealed"));
    }

    static ByteBuf bytes(String text) {
        return Unpooled.wrappedBuffer(text.getBytes(StandardCharsets.UTF_8));
    }

    /** A batch of five messages through the client's codec, as SEND and, with entry metadata, as MESSAGE. */
    static void batch(CompressionType codec) throws Exception {
        ByteBuf plain = Unpooled.buffer();
        List<Object> records = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            String value = ("value " + i + " of " + codec + "; ").repeat(20 + i);
            SingleMessageMetadata single = new SingleMessageMetadata().setSequenceId(100 + i).setEventTime(1_700_000_000_000L + i);
            Map<String, Object> record = new LinkedHashMap<>();
            if (i % 2 == 0) {
                single.setPartitionKey("key-" + i);
                record.put("key", "key-" + i);
            }
            single.addProperty().setKey("n").setValue(Integer.toString(i));
            ByteBuf payload = bytes(value);
            Commands.serializeSingleMessageInBatchWithPayload(single, payload, plain);
            record.put("value", value);
            record.put("properties", Map.of("n", Integer.toString(i)));
            record.put("sequence", 100 + i);
            record.put("event_time", 1_700_000_000_000L + i);
            records.add(record);
        }
        int size = plain.readableBytes();
        ByteBuf packed = CompressionCodecProvider.getCompressionCodec(codec).encode(plain);
        MessageMetadata metadata = new MessageMetadata().setProducerName("vectors").setSequenceId(100)
                .setHighestSequenceId(104).setPublishTime(1_700_000_000_500L).setNumMessagesInBatch(5).setUncompressedSize(size);
        if (codec != CompressionType.NONE) {
            metadata.setCompression(codec);
        }
        for (ChecksumType checksum : ChecksumType.values()) {
            ByteBufPair pair = Commands.newSend(7, 100, 104, 5, checksum, metadata, packed.retainedDuplicate());
            print("send", codec.name() + " " + checksum.name(), coalesce(pair), records);
        }
        AppendIndexMetadataInterceptor index = new AppendIndexMetadataInterceptor();
        index.recoveryIndexGenerator(41);
        ByteBuf stored = Commands.serializeMetadataAndPayload(ChecksumType.Crc32c, metadata, packed);
        ByteBuf entry = Commands.addBrokerEntryMetadata(stored, Set.of(index), 5);
        print("message", codec.name(), coalesce(Commands.newMessage(3, 12, 34, 2, 6, entry, null)), records);
    }

    static void markers() throws Exception {
        MarkersMessageIdData id = new MarkersMessageIdData().setLedgerId(11).setEntryId(22);
        Map<String, MarkersMessageIdData> ids = Map.of("far", id);
        Map<String, Object> cluster = Map.of("cluster", "far", "message_id", Map.of("ledger_id", 11, "entry_id", 22));
        marker("REPLICATED_SUBSCRIPTION_SNAPSHOT_REQUEST", Markers.newReplicatedSubscriptionsSnapshotRequest("snap", "near"),
                Map.of("snapshot_id", "snap", "source_cluster", "near"));
        marker("REPLICATED_SUBSCRIPTION_SNAPSHOT_RESPONSE",
                Markers.newReplicatedSubscriptionsSnapshotResponse("snap", "near", "far", 11, 22),
                Map.of("snapshot_id", "snap", "cluster", cluster));
        marker("REPLICATED_SUBSCRIPTION_SNAPSHOT",
                Markers.newReplicatedSubscriptionsSnapshot("snap", "near", 33, 44, ids),
                Map.of("snapshot_id", "snap", "local_message_id", Map.of("ledger_id", 33, "entry_id", 44), "clusters", List.of(cluster)));
        marker("REPLICATED_SUBSCRIPTION_UPDATE", Markers.newReplicatedSubscriptionsUpdate("sub", ids),
                Map.of("subscription_name", "sub", "clusters", List.of(cluster)));
        marker("TXN_COMMIT", Markers.newTxnCommitMarker(5, 6, 7), Map.of());
        marker("TXN_ABORT", Markers.newTxnAbortMarker(5, 6, 7), Map.of());
    }

    static void marker(String name, ByteBuf stored, Map<String, Object> told) {
        print("marker", name, coalesce(Commands.newMessage(3, 12, 34, -1, 0, stored, null)), told);
    }

    static void schemas() {
        SchemaInfo key = SchemaInfoImpl.builder().name("k").type(SchemaType.AVRO)
                .schema("{\"type\":\"string\"}".getBytes(StandardCharsets.UTF_8)).properties(Map.of("a", "b")).build();
        SchemaInfo value = SchemaInfoImpl.builder().name("v").type(SchemaType.JSON)
                .schema("{\"type\":\"int\"}".getBytes(StandardCharsets.UTF_8)).properties(Map.of()).build();
        for (KeyValueEncodingType encoding : KeyValueEncodingType.values()) {
            SchemaInfo both = KeyValueSchemaInfo.encodeKeyValueSchemaInfo("kv", key, value, encoding);
            ByteBuf frame = Commands.newGetOrCreateSchema(9, "persistent://public/default/kv", "kv", both);
            print("schema", encoding.name(), frame, Map.of("key", Map.of("type", "string"), "value", Map.of("type", "int")));
        }
        SchemaInfo timestamp = Schema.PROTOBUF_NATIVE(com.google.protobuf.Timestamp.class).getSchemaInfo();
        ByteBuf frame = Commands.newGetOrCreateSchema(9, "persistent://public/default/pb", "pb", timestamp);
        print("schema", "PROTOBUF_NATIVE", frame, Map.of("rootMessageTypeName", "google.protobuf.Timestamp"));
    }
}
