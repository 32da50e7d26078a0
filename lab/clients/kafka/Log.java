import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a client did, as lines of JSON; and the settings that all clients here share. */
final class Log {
    static String bootstrap;

    private Log() {}

    /** Settings, as key=value. */
    static Properties settings(String... pairs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        for (String pair : pairs) {
            int at = pair.indexOf('=');
            properties.put(pair.substring(0, at), pair.substring(at + 1));
        }
        return properties;
    }

    static Admin admin() {
        return Admin.create(settings("client.id=lab-admin", "enable.metrics.push=false"));
    }

    static KafkaProducer<String, String> producer(String... pairs) {
        return new KafkaProducer<>(settings(pairs), new StringSerializer(), new StringSerializer());
    }

    /** A call that has to succeed, and the commands that it puts on the wire. */
    static <T> T call(String commands, Callable<T> work) throws Exception {
        T result = work.call();
        if (result instanceof KafkaFuture<?> future) {
            future.get();
        }
        System.out.printf("{\"what\":\"sent\",\"commands\":[\"%s\"]}%n", commands.replace(",", "\",\""));
        return result;
    }

    /** A call that a broker has to refuse. */
    static void refused(String call, Callable<?> work) throws Exception {
        try {
            if (work.call() instanceof KafkaFuture<?> future) {
                future.get();
            }
        } catch (Exception failure) {
            Throwable cause = failure instanceof java.util.concurrent.ExecutionException ? failure.getCause() : failure;
            System.out.printf(
                "{\"what\":\"refused\",\"call\":\"%s\",\"error\":\"%s\"}%n", call, Errors.forException(cause).name());
            return;
        }
        throw new IllegalStateException(call + " was not refused");
    }

    /** Send one record and wait for its offset. */
    static void send(KafkaProducer<String, String> producer, String topic, String key, String value) throws Exception {
        RecordMetadata stored = producer.send(new ProducerRecord<>(topic, key, value)).get();
        record("produced", topic, stored.partition(), stored.offset(), key, value);
    }

    static void read(ConsumerRecord<String, String> got) {
        record("read", got.topic(), got.partition(), got.offset(), got.key(), got.value());
    }

    private static synchronized void record(
            String what, String topic, int partition, long offset, String key, String value) {
        String quoted = key == null ? "null" : '"' + key + '"';
        System.out.printf(
            "{\"what\":\"%s\",\"topic\":\"%s\",\"partition\":%d,\"offset\":%d,\"key\":%s,\"value\":\"%s\"}%n",
            what, topic, partition, offset, quoted, value);
    }

    static <T> List<T> one(T only) {
        return List.of(only);
    }
}
