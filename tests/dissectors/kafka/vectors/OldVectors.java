// Every request and response of a release of Kafka before it generated message classes (before 2.4), at every version.
//
// java OldVectors > vectors.ndjson: a line a message, version and case; written from a Struct by Kafka's Schema, and told as
// what Kafka's generic reader finds in the bytes.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.types.ArrayOf;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;

public final class OldVectors {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    public static void main(String[] arguments) throws Exception {
        for (ApiKeys api : ApiKeys.values()) {
            for (short version = api.oldestVersion(); version <= api.latestVersion(); version++) {
                for (Values.Fill fill : Values.Fill.values()) {
                    print(api.name + "Request", api.id, version, fill, api.requestSchemas[version]);
                    print(api.name + "Response", api.id, version, fill, api.responseSchemas[version]);
                }
            }
        }
        Struct oldest = new RequestHeader(ApiKeys.CONTROLLED_SHUTDOWN, (short) 0, "", 77).toStruct();
        print("RequestHeader", -1, (short) 0, Values.Fill.SOME, oldest);
        Struct usual = new RequestHeader(ApiKeys.FETCH, (short) 7, "täglich", Integer.MAX_VALUE).toStruct();
        print("RequestHeader", -1, (short) 1, Values.Fill.SOME, usual);
        print("ResponseHeader", -1, (short) 0, Values.Fill.SOME, new ResponseHeader(-5).toStruct());
    }

    private static void print(String name, int key, short version, Values.Fill fill, Schema schema)
            throws Exception {
        print(name, key, version, fill, filled(schema, new Values(name, fill), "", 0));
    }

    private static void print(String name, int key, short version, Values.Fill fill, Struct struct)
            throws Exception {
        ByteBuffer buffer = ByteBuffer.allocate(struct.sizeOf());
        struct.writeTo(buffer);
        buffer.flip();
        ObjectNode line = NODES.objectNode().put("name", name).put("key", key).put("version", version);
        line.put("case", fill.name().toLowerCase());
        line.set("value", told(struct.schema().read(buffer.duplicate())));
        line.put("bytes", Lines.hex(buffer.array()));
        Lines.print(line);
    }

    // ---- in

    private static Struct filled(Schema schema, Values values, String path, int depth) throws ReflectiveOperationException {
        Struct struct = new Struct(schema);
        for (BoundField field : schema.fields()) {
            struct.set(field, value(field.def.type, values, path + field.def.name, depth));
        }
        return struct;
    }

    private static Object value(Type type, Values values, String path, int depth) throws ReflectiveOperationException {
        boolean records = type.toString().equals("RECORDS"); // null is for the newest versions only, says the code around it
        if (type.isNullable() && !records && values.isMissing(path + " null")) {
            return null;
        }
        if (type instanceof ArrayOf array) {
            Object[] many = new Object[values.count(path, depth)];
            for (int index = 0; index < many.length; index++) {
                many[index] = value(array.type(), values, path + '[' + index + ']', depth + 1);
            }
            return many;
        }
        if (type instanceof Schema schema) {
            return filled(schema, values, path + '.', depth + 1);
        }
        boolean least = values.fill == Values.Fill.LEAST;
        return switch (type.toString()) {
            case "BOOLEAN" -> !least && values.truth(path);
            case "INT8" -> (byte) (least ? 0 : values.integer(path, 8, true));
            case "INT16" -> (short) (least ? 0 : values.integer(path, 16, true));
            case "INT32" -> (int) (least ? 0 : values.integer(path, 32, true));
            case "INT64" -> least ? 0L : values.integer(path, 64, true);
            case "STRING", "NULLABLE_STRING" -> least ? "" : values.text(path);
            case "BYTES", "NULLABLE_BYTES" -> ByteBuffer.wrap(least ? new byte[0] : values.bytes(path));
            case "RECORDS" -> Batches.some(least ? "" : values.text(path));
            default -> throw new IllegalStateException(path + " is a " + type);
        };
    }

    // ---- out

    private static JsonNode told(Object value) throws ReflectiveOperationException {
        if (value instanceof Struct struct) {
            ObjectNode node = NODES.objectNode();
            for (BoundField field : struct.schema().fields()) {
                node.set(field.def.name, told(struct.get(field)));
            }
            return node;
        } else if (value instanceof Object[] many) {
            ArrayNode array = NODES.arrayNode();
            for (Object one : many) {
                array.add(told(one));
            }
            return array;
        } else if (value instanceof ByteBuffer buffer) {
            byte[] raw = new byte[buffer.remaining()];
            buffer.duplicate().get(raw);
            return NODES.textNode(Base64.getEncoder().encodeToString(raw));
        } else if (value == null) {
            return NODES.nullNode();
        } else if (value instanceof Boolean flag) {
            return NODES.booleanNode(flag);
        } else if (value instanceof Number number) {
            return NODES.numberNode(number.longValue());
        } else if (Batches.isRecords(value.getClass())) {
            return told(Batches.bytes(value));
        }
        return NODES.textNode(value.toString());
    }
}
