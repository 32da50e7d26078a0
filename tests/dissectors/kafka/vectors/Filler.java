// Message classes that Kafka generated, filled through their setters by Kafka's own description of a version (Schema).

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;

final class Filler {
    private static final String RECORDS_SIZE = "SizeInBytes";
    private final Values values;

    Filler(Values values) {
        this.values = values;
    }

    Message filled(Class<? extends Message> type, Schema schema) throws ReflectiveOperationException {
        Message message = type.getDeclaredConstructor().newInstance();
        fill(message, schema, "", 0);
        return message;
    }

    private void fill(Object struct, Schema schema, String path, int depth) throws ReflectiveOperationException {
        for (BoundField field : schema.fields()) {
            if (field.def.type instanceof TaggedFields tagged) {
                for (Field known : SchemaText.fieldsOf(tagged).values()) {
                    if (!values.isMissing(path + known.name + " tag")) {
                        set(struct, known, path + known.name, depth);
                    }
                }
            } else {
                set(struct, field.def, path + field.def.name, depth);
            }
        }
    }

    private void set(Object struct, Field field, String path, int depth) throws ReflectiveOperationException {
        Method setter = setterOf(struct.getClass(), field.name);
        Class<?> type = setter.getParameterTypes()[0];
        boolean records = Batches.isRecords(type); // older descriptions call every one nullable
        if (field.type.isNullable() && !type.isPrimitive() && !records && values.isMissing(path + " null")) {
            setter.invoke(struct, (Object) null);
        } else if (values.fill != Values.Fill.LEAST || records) {
            setter.invoke(struct, value(field.type, setter.getGenericParameterTypes()[0], type, path, depth));
        }
    }

    private static Method setterOf(Class<?> type, String field) throws NoSuchMethodException {
        String wanted = "set" + field.replace("_", "");
        for (Method method : type.getMethods()) {
            if (method.getName().equalsIgnoreCase(wanted) && method.getParameterCount() == 1) {
                return method;
            }
        }
        throw new NoSuchMethodException(type + " " + field);
    }

    private Object value(org.apache.kafka.common.protocol.types.Type wire, Type generic, Class<?> type, String path, int depth)
            throws ReflectiveOperationException {
        if (Collection.class.isAssignableFrom(type)) {
            return many(wire, generic, type, path, depth);
        }
        if (Message.class.isAssignableFrom(type)) {
            Object struct = type.getDeclaredConstructor().newInstance();
            fill(struct, (Schema) wire, path + '.', depth + 1);
            return struct;
        }
        if (Batches.isRecords(type)) {
            return Batches.some(values.text(path));
        }
        return scalar(wire, type, path);
    }

    private Object scalar(org.apache.kafka.common.protocol.types.Type wire, Class<?> type, String path)
            throws ReflectiveOperationException {
        return switch (type.getName()) {
            case "boolean", "java.lang.Boolean" -> values.truth(path);
            case "byte", "java.lang.Byte" -> (byte) values.integer(path, 8, true);
            case "short", "java.lang.Short" -> (short) values.integer(path, 16, true);
            case "int", "java.lang.Integer" ->
                (int) (wire.toString().equals("UINT16") ? values.integer(path, 16, false) : values.integer(path, 32, true));
            case "long", "java.lang.Long" ->
                wire.toString().startsWith("U") ? values.integer(path, 32, false) : values.integer(path, 64, true);
            case "double" -> values.real(path);
            case "java.lang.String" -> values.text(path);
            case "[B" -> values.bytes(path);
            case "java.nio.ByteBuffer" -> ByteBuffer.wrap(values.bytes(path));
            case "org.apache.kafka.common.Uuid", "java.util.UUID" -> {
                long[] halves = values.uuid(path);
                yield type.getConstructor(long.class, long.class).newInstance(halves[0], halves[1]);
            }
            default -> throw new IllegalStateException(path + " is a " + type);
        };
    }

    @SuppressWarnings("unchecked")
    private Object many(org.apache.kafka.common.protocol.types.Type wire, Type generic, Class<?> type, String path, int depth)
            throws ReflectiveOperationException {
        boolean list = type == List.class;
        Collection<Object> found = list ? new ArrayList<>() : (Collection<Object>) type.getDeclaredConstructor().newInstance();
        Type element = ((ParameterizedType) (list ? generic : type.getGenericSuperclass())).getActualTypeArguments()[0];
        int count = values.count(path, depth);
        for (int index = 0; index < count; index++) {
            found.add(value(SchemaText.elementOf(wire), element, (Class<?>) element, path + '[' + index + ']', depth + 1));
        }
        return found;
    }

    /** Kafka's converters tell the size of records only: puts the bytes in their place. */
    static void tellRecords(JsonNode node, Object struct) throws ReflectiveOperationException {
        if (!(node instanceof ObjectNode object)) {
            return;
        }
        List<String> names = new ArrayList<>();
        object.fieldNames().forEachRemaining(names::add);
        for (String name : names) {
            JsonNode inner = object.get(name);
            if (name.endsWith(RECORDS_SIZE) && getterOf(struct, name) == null) {
                String field = name.substring(0, name.length() - RECORDS_SIZE.length());
                Object records = getterOf(struct, field).invoke(struct);
                object.remove(name);
                object.set(field, SchemaText.told(records));
            } else if (inner.isObject()) {
                tellRecords(inner, getterOf(struct, name).invoke(struct));
            } else if (inner.isArray()) {
                Iterator<?> elements = ((Collection<?>) getterOf(struct, name).invoke(struct)).iterator();
                for (JsonNode one : inner) {
                    tellRecords(one, elements.next());
                }
            }
        }
    }

    /** The getter of a field; null where there is no such field. */
    private static Method getterOf(Object struct, String field) {
        try {
            return struct.getClass().getMethod(field);
        } catch (NoSuchMethodException none) {
            return null;
        }
    }
}
