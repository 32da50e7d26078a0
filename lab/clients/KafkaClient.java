import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Produces COUNT records to TOPIC, reads them as GROUP and commits; logs each as a line of JSON. */
public final class KafkaClient {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[0];
        String group = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        Properties common = new Properties();
        common.put("bootstrap.servers", "127.0.0.1:9092");
        produce(common, topic, count);
        consume(common, topic, group, count);
    }

    private static void produce(Properties common, String topic, int count) throws Exception {
        Properties properties = new Properties();
        properties.putAll(common);
        properties.put("acks", "all");
        properties.put("linger.ms", "2");
        properties.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            for (int index = 0; index < count; index++) {
                String key = index % 3 == 2 ? null : "customer-" + index % 7;
                String value = "order " + index;
                RecordMetadata stored = producer.send(new ProducerRecord<>(topic, key, value)).get();
                log("produced", topic, stored.partition(), stored.offset(), key, value);
            }
        }
    }

    private static void consume(Properties common, String topic, String group, int count) {
        Properties properties = new Properties();
        properties.putAll(common);
        properties.put("group.id", group);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        int read = 0;
        long until = System.currentTimeMillis() + 60_000;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(List.of(topic));
            while (read < count && System.currentTimeMillis() < until) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(500))) {
                    log("read", each.topic(), each.partition(), each.offset(), each.key(), each.value());
                    read++;
                }
            }
            consumer.commitSync();
            System.out.println("{\"what\":\"sent\",\"commands\":[\"OffsetCommit\"]}");
        }
    }

    private static void log(String what, String topic, int partition, long offset, String key, String value) {
        String quoted = key == null ? "null" : '"' + key + '"';
        System.out.printf(
            "{\"what\":\"%s\",\"topic\":\"%s\",\"partition\":%d,\"offset\":%d,\"key\":%s,\"value\":\"%s\"}%n",
            what, topic, partition, offset, quoted, value);
    }
}
