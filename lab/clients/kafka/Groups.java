import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Groups of the consumer protocol and share groups, with what an administrator asks and changes; client metrics. */
public final class Groups {
    private static final String TOPIC = "jobs";
    private static final Duration TICK = Duration.ofMillis(300);

    public static void main(String[] arguments) throws Exception {
        Log.bootstrap = arguments[0];
        int count = Integer.parseInt(arguments[1]);
        try (Admin admin = Log.admin()) {
            Log.call("CreateTopics", () -> admin.createTopics(Log.one(new NewTopic(TOPIC, 2, (short) 1))).all());
            set(admin, ConfigResource.Type.CLIENT_METRICS, "lab", Map.of(
                "metrics", "org.apache.kafka.producer.record.send.total", "interval.ms", "500"));
            set(admin, ConfigResource.Type.GROUP, "share", Map.of("share.auto.offset.reset", "earliest"));
            try (KafkaProducer<String, String> producer = Log.producer("client.id=lab-producer")) {
                for (int index = 0; index < count; index++) {
                    Log.send(producer, TOPIC, "key-" + index % 3, "job " + index);
                }
                consumerGroup(admin, count);
                Log.call("GetTelemetrySubscriptions,PushTelemetry", () -> producer.clientInstanceId(TICK));
            }
            shareGroup(admin, count);
        }
    }

    private static void set(Admin admin, ConfigResource.Type type, String name, Map<String, String> values)
            throws Exception {
        List<AlterConfigOp> operations = values.entrySet().stream()
            .map(each -> new AlterConfigOp(new ConfigEntry(each.getKey(), each.getValue()), AlterConfigOp.OpType.SET))
            .toList();
        Log.call("IncrementalAlterConfigs", () ->
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), operations)).all());
    }

    private static void consumerGroup(Admin admin, int count) throws Exception {
        Set<TopicPartition> first = Set.of(new TopicPartition(TOPIC, 0));
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(Log.settings(
                "client.id=lab-consumer", "group.id=billing", "group.protocol=consumer",
                "auto.offset.reset=earliest", "enable.auto.commit=false"))) {
            Log.call("ConsumerGroupHeartbeat", () -> {
                consumer.subscribe(List.of(TOPIC));
                for (int read = 0; read < count; ) {
                    for (ConsumerRecord<String, String> each : consumer.poll(TICK)) {
                        Log.read(each);
                        read++;
                    }
                }
                return null;
            });
            Log.call("OffsetCommit", () -> {
                consumer.commitSync();
                return null;
            });
            Log.call("ConsumerGroupDescribe", () -> admin.describeConsumerGroups(List.of("billing")).all());
            Log.refused("OffsetDelete while subscribed", () ->
                admin.deleteConsumerGroupOffsets("billing", first).all());
            Log.refused("DeleteGroups while not empty", () -> admin.deleteConsumerGroups(List.of("billing")).all());
        }
        Log.call("OffsetDelete", () -> admin.deleteConsumerGroupOffsets("billing", first).all());
        Log.call("DeleteGroups", () -> admin.deleteConsumerGroups(List.of("billing")).all());
        Log.refused("DeleteGroups of none", () -> admin.deleteConsumerGroups(List.of("billing")).all());
    }

    private static void shareGroup(Admin admin, int count) throws Exception {
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(Log.settings(
                "client.id=lab-sharer", "group.id=share", "share.acknowledgement.mode=explicit"))) {
            Log.call("ShareGroupHeartbeat,ShareFetch,ShareAcknowledge", () -> {
                consumer.subscribe(List.of(TOPIC));
                for (int accepted = 0; accepted < count; ) {
                    for (ConsumerRecord<String, String> each : consumer.poll(TICK)) {
                        boolean again = each.offset() == 1 && each.deliveryCount().orElse((short) 1) == 1;
                        consumer.acknowledge(each, again ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                        accepted += again ? 0 : 1;
                    }
                    consumer.commitSync();
                }
                return null;
            });
            Log.call("ShareGroupDescribe", () -> admin.describeShareGroups(List.of("share")).all());
        }
        Log.call("InitializeShareGroupState,ReadShareGroupState,WriteShareGroupState", () -> null);
        Log.call("DescribeShareGroupOffsets,ReadShareGroupStateSummary", () ->
            admin.listShareGroupOffsets(Map.of("share", new ListShareGroupOffsetsSpec())).all());
        Log.call("AlterShareGroupOffsets", () ->
            admin.alterShareGroupOffsets("share", Map.of(new TopicPartition(TOPIC, 0), 1L)).all());
        Log.call("DeleteShareGroupOffsets,DeleteShareGroupState", () ->
            admin.deleteShareGroupOffsets("share", Set.of(TOPIC)).all());
        Log.call("DeleteGroups", () -> admin.deleteShareGroups(List.of("share")).all());
    }
}
