import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;

/** Steps of a cluster's life, one a run: begin COUNT FOLDER prints the leader, forget NODE, move NODE. */
public final class Cluster {
    private static final String TOPIC = "orders";

    public static void main(String[] arguments) throws Exception {
        Log.bootstrap = arguments[0];
        try (Admin admin = Log.admin()) {
            switch (arguments[1]) {
                case "begin" -> begin(admin, Integer.parseInt(arguments[2]), arguments[3]);
                case "move" -> move(admin, Integer.parseInt(arguments[2]));
                case "forget" -> forget(admin, Integer.parseInt(arguments[2]));
                default -> throw new IllegalArgumentException(arguments[1]);
            }
        }
    }

    private static QuorumInfo quorum(Admin admin) throws Exception {
        return admin.describeMetadataQuorum().quorumInfo().get();
    }

    private static void begin(Admin admin, int count, String folder) throws Exception {
        Log.call("CreateTopics", () -> admin.createTopics(Log.one(new NewTopic(TOPIC, 3, (short) 3))).all());
        try (KafkaProducer<String, String> producer = Log.producer("client.id=lab-producer", "transactional.id=till")) {
            producer.initTransactions();
            for (boolean committed : new boolean[] {true, false}) {
                producer.beginTransaction();
                for (int index = 0; index < count; index++) {
                    Log.send(producer, TOPIC, "customer-" + index, (committed ? "paid " : "void ") + index);
                }
                if (committed) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            Log.call("InitProducerId,AllocateProducerIds,EndTxn,WriteTxnMarkers", () -> null);
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                Log.settings("enable.auto.commit=false", "isolation.level=read_committed", "auto.offset.reset=earliest"))) {
            consumer.assign(List.of(0, 1, 2).stream().map(each -> new TopicPartition(TOPIC, each)).toList());
            for (int read = 0; read < count; ) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(300))) {
                    Log.read(each);
                    read++;
                }
            }
        }
        Log.call("AlterReplicaLogDirs", () ->
            admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(TOPIC, 0, 1), folder)).all());
        System.out.println(quorum(admin).leaderId());
    }

    /** A node that is down leaves for good. */
    private static void forget(Admin admin, int node) throws Exception {
        QuorumInfo quorum = Log.call("DescribeQuorum", () -> quorum(admin));
        QuorumInfo.ReplicaState leaving =
            quorum.voters().stream().filter(each -> each.replicaId() == node).findFirst().orElseThrow();
        Log.call("RemoveRaftVoter", () -> admin.removeRaftVoter(node, leaving.replicaDirectoryId()).all());
        Log.call("UnregisterBroker", () -> admin.unregisterBroker(node).all());
        Log.call("UnregisterController", () -> admin.unregisterController(node).all());
        Log.refused("UnregisterController of none", () -> admin.unregisterController(77).all());
    }

    /** A new node gets a replica of the first partition. */
    private static void move(Admin admin, int node) throws Exception {
        TopicPartition first = new TopicPartition(TOPIC, 0);
        int leader = admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC).partitions().get(0).leader().id();
        NewPartitionReassignment target = new NewPartitionReassignment(List.of(leader, node));
        Log.call("AlterPartitionReassignments", () ->
            admin.alterPartitionReassignments(Map.of(first, Optional.of(target))).all());
        Log.call("ListPartitionReassignments", () -> admin.listPartitionReassignments().reassignments());
        Log.call("DescribeLogDirs", () -> admin.describeLogDirs(Set.of(node)).allDescriptions());
    }
}
