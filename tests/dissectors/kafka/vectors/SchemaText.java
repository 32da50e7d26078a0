// Kafka's own description of a message's bytes (Schema) as text, and what its generic reader finds as JSON.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Map;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

final class SchemaText {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private SchemaText() { }

    /** Types, tags and where null may stand: what the bytes depend on, without names. */
    static String of(Type type) throws ReflectiveOperationException {
        String null_ = type.isNullable() ? "?" : "";
        if (type instanceof Schema schema) {
            StringBuilder text = new StringBuilder("{");
            for (BoundField field : schema.fields()) {
                text.append(of(field.def.type)).append(' ');
            }
            return text.append('}').append(null_).toString();
        }
        if (type instanceof TaggedFields tagged) {
            StringBuilder text = new StringBuilder("<");
            for (Map.Entry<Integer, Field> entry : fieldsOf(tagged).entrySet()) {
                text.append(entry.getKey()).append('=').append(of(entry.getValue().type)).append(' ');
            }
            return text.append('>').toString();
        }
        Type element = elementOf(type);
        return element != null ? type.getClass().getSimpleName() + '[' + of(element) + ']' + null_ : type.toString();
    }

    static boolean isFlexible(Schema schema) {
        BoundField[] fields = schema.fields();
        return fields.length > 0 && fields[fields.length - 1].def.type instanceof TaggedFields;
    }

    @SuppressWarnings("unchecked")
    static Map<Integer, Field> fieldsOf(TaggedFields tagged) throws ReflectiveOperationException {
        java.lang.reflect.Field fields = TaggedFields.class.getDeclaredField("fields"); // older releases have no getter
        fields.setAccessible(true);
        return (Map<Integer, Field>) fields.get(tagged);
    }

    /** The type of an array's elements; null for what is no array. */
    static Type elementOf(Type type) {
        return type instanceof Type.DocumentedType documented ? documented.arrayElementType().orElse(null) : null;
    }

    /** A value of Kafka's generic reader; names are Kafka's. */
    static JsonNode told(Object value) throws ReflectiveOperationException {
        if (value instanceof Struct struct) {
            return toldStruct(struct);
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
        } else if (value != null && Batches.isRecords(value.getClass())) {
            return told(Batches.bytes(value));
        } else if (value == null) {
            return NODES.nullNode();
        } else if (value instanceof Boolean flag) {
            return NODES.booleanNode(flag);
        } else if (value instanceof Double real) {
            return NODES.numberNode(real);
        } else if (value instanceof Number number) {
            return NODES.numberNode(number.longValue());
        }
        return NODES.textNode(value.toString());
    }

    private static ObjectNode toldStruct(Struct struct) throws ReflectiveOperationException {
        ObjectNode node = NODES.objectNode();
        for (BoundField field : struct.schema().fields()) {
            if (field.def.type instanceof TaggedFields tagged) {
                Map<Integer, Field> known = fieldsOf(tagged);
                for (Map.Entry<?, ?> entry : ((Map<?, ?>) struct.get(field)).entrySet()) {
                    if (known.containsKey(entry.getKey())) {
                        node.set(known.get(entry.getKey()).name, told(entry.getValue()));
                    }
                }
            } else {
                node.set(field.def.name, told(struct.get(field)));
            }
        }
        return node;
    }
}
