// A small record batch as Kafka's clients write it. By reflection: releases differ in where its classes are.

import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

final class Batches {
    private static final long TIME = 1_700_000_000_123L;

    private Batches() { }

    /** Whether a class is one of those that hold records. */
    static boolean isRecords(Class<?> type) {
        return type.getName().contains(".common.record.") && type.getSimpleName().endsWith("Records");
    }

    /** A plain batch of one record. */
    static Object some(String text) throws ReflectiveOperationException {
        Class<?> record = find("SimpleRecord");
        Object one = record.getConstructor(long.class, byte[].class, byte[].class)
                .newInstance(TIME, null, text.getBytes(StandardCharsets.UTF_8));
        Object many = Array.newInstance(record, 1);
        Array.set(many, 0, one);
        for (Method method : find("MemoryRecords").getMethods()) {
            Class<?>[] types = method.getParameterTypes();
            if (method.getName().equals("withRecords") && types.length == 2 && types[1] == many.getClass()) {
                return method.invoke(null, types[0].getField("NONE").get(null), many);
            }
        }
        throw new IllegalStateException("no way to make records");
    }

    static ByteBuffer bytes(Object records) throws ReflectiveOperationException {
        return (ByteBuffer) records.getClass().getMethod("buffer").invoke(records);
    }

    /** A class of Kafka's package of records. */
    static Class<?> find(String name) throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.record.internal." + name);
        } catch (ClassNotFoundException older) {
            return Class.forName("org.apache.kafka.common.record." + name);
        }
    }
}
