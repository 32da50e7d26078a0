// What clients of Kafka 4.3 put into bytes of group messages and into their own topics: consumers, Streams, Connect, MirrorMaker.
//
// java MemberFormats > formats.ndjson: a line a thing; "told" is what was put in, under the names that the dissector uses.

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.ProcessorMetadata;
import org.apache.kafka.streams.processor.internals.TopicPartitionMetadata;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

public final class MemberFormats {
    private static final TopicPartition FIRST = new TopicPartition("ördersé", 0);
    private static final TopicPartition SECOND = new TopicPartition("payments", 70_000);
    private static final int STREAMS_NEWEST = 11;

    private MemberFormats() { }

    public static void main(String[] arguments) throws Exception {
        consumers();
        for (int version = 1; version <= STREAMS_NEWEST; version++) {
            streamsSubscription(version);
            streamsAssignment(version);
        }
        streamsOffsets();
        connect();
        mirrors();
    }

    private static ObjectNode member(String mark, String protocolType, String protocol, ByteBuffer raw) {
        return Lines.line("marked").put("mark", mark).put("protocol_type", protocolType).put("protocol", protocol)
                .put("data", Lines.hex(raw));
    }

    // ---- consumers

    @SuppressWarnings("removal") // the only way to tell an assignor its generation
    private static void consumers() throws Exception {
        ConsumerGroupMetadata metadata = new ConsumerGroupMetadata("group", 42, "member", Optional.empty());
        Assignment owned = new Assignment(List.of(FIRST, SECOND));
        for (ConsumerPartitionAssignor assignor : List.of(new StickyAssignor(), new CooperativeStickyAssignor())) {
            assignor.onAssignment(owned, metadata);
            ByteBuffer userData = assignor.subscriptionUserData(Set.of("payments"));
            for (short version = 0; version <= 3; version++) {
                Subscription subscription = new Subscription(List.of("a", "payments"), userData.duplicate(),
                        List.of(FIRST, SECOND), 42, Optional.of("rack-é"));
                ObjectNode line = member("member_metadata", "consumer", assignor.name(),
                        ConsumerProtocol.serializeSubscription(subscription, version));
                ObjectNode told = line.putObject("told").put("version", version);
                told.putArray("topics").add("a").add("payments");
                ObjectNode user = told.putObject("user_data").put("generation", 42);
                if (assignor instanceof StickyAssignor) {
                    partitions(user.putArray("previous_assignment"));
                }
                if (version >= 1) {
                    partitions(told.putArray("owned_partitions"));
                }
                if (version >= 2) {
                    told.put("generation_id", 42);
                }
                if (version >= 3) {
                    told.put("rack_id", "rack-é");
                }
                Lines.print(line);
            }
        }
        for (short version = 0; version <= 3; version++) {
            ObjectNode line = member("member_assignment", "consumer", "range",
                    ConsumerProtocol.serializeAssignment(owned, version));
            partitions(line.putObject("told").put("version", version).putNull("user_data").putArray("assigned_partitions"));
            Lines.print(line);
        }
    }

    private static void partitions(ArrayNode array) {
        for (TopicPartition one : List.of(FIRST, SECOND)) {
            array.addObject().put("topic", one.topic()).putArray("partitions").add(one.partition());
        }
    }

    // ---- Streams

    private static TaskId task(int version, int subtopology) {
        return version < 10 ? new TaskId(subtopology, 3) : new TaskId(subtopology, 3, "näme");
    }

    private static void streamsSubscription(int version) throws Exception {
        Map<TaskId, Long> offsets = new LinkedHashMap<>();
        offsets.put(task(version, 1), -2L); // the mark of a task that runs
        offsets.put(task(version, 2), 1_000_000_007L);
        SubscriptionInfo info = new SubscriptionInfo(version, STREAMS_NEWEST, new ProcessId(new UUID(77, 88)), "host:80",
                offsets, (byte) 5, 1, Map.of("zone", "é"));
        ByteBuffer raw = ConsumerProtocol.serializeSubscription(new Subscription(List.of("a"), info.encode()), (short) 1);
        ObjectNode line = member("member_metadata", "consumer", "stream", raw);
        ObjectNode told = line.putObject("told").put("version", version);
        told.put("process_id", new org.apache.kafka.common.Uuid(77, 88).toString());
        told.put("end_point", version >= 2 ? "host:80" : null);
        told.put("zone", version >= 11 ? "é" : null);
        Lines.print(line);
    }

    private static void streamsAssignment(int version) throws Exception {
        Map<HostInfo, Set<TopicPartition>> active = Map.of(new HostInfo("ä.example", 80), Set.of(FIRST));
        Map<HostInfo, Set<TopicPartition>> standby = Map.of(new HostInfo("b.example", 81), Set.of(SECOND));
        AssignmentInfo info = new AssignmentInfo(version, STREAMS_NEWEST, List.of(task(version, 1)),
                Map.of(task(version, 2), Set.of(SECOND)), active, standby, 9);
        info.setNextRebalanceTime(1_700_000_000_123L);
        ByteBuffer raw = ConsumerProtocol.serializeAssignment(new Assignment(List.of(FIRST), info.encode()), (short) 1);
        ObjectNode line = member("member_assignment", "consumer", "stream", raw);
        ObjectNode told = line.putObject("told").put("version", version);
        if (version >= 3) {
            told.put("commonly_supported_version", STREAMS_NEWEST);
        }
        tellTask(told.putArray("active_tasks").addObject(), version, 1);
        ObjectNode waiting = told.putArray("standby_tasks").addObject();
        tellTask(waiting.putObject("task"), version, 2);
        waiting.putArray("partitions").addObject().put("topic", SECOND.topic()).put("partition", SECOND.partition());
        if (version >= 2) {
            tellHost(told.putArray("partitions_by_host").addObject(), "ä.example", 80, FIRST);
        }
        if (version >= 6) {
            tellHost(told.putArray("standby_partitions_by_host").addObject(), "b.example", 81, SECOND);
        }
        if (version >= 4) {
            told.put("error_code", 9);
        }
        if (version >= 7) {
            told.put("next_scheduled_rebalance_ms", 1_700_000_000_123L);
        }
        Lines.print(line);
    }

    private static void tellTask(ObjectNode told, int version, int subtopology) {
        told.put("subtopology", subtopology).put("partition", 3);
        if (version >= 10) {
            told.put("named_topology", "näme");
        }
    }

    private static void tellHost(ObjectNode told, String host, int port, TopicPartition partition) {
        told.put("host", host).put("port", port).putArray("partitions").addObject()
                .put("topic", partition.topic()).put("partition", partition.partition());
    }

    private static void streamsOffsets() throws Exception {
        ProcessorMetadata metadata = new ProcessorMetadata(new LinkedHashMap<>(Map.of("kéy", 12L)));
        ObjectNode line = Lines.line("text");
        line.put("data", new TopicPartitionMetadata(1_700_000_000_123L, metadata).encode());
        line.putObject("told").put("partition_time", 1_700_000_000_123L).put("key", "kéy").put("value", 12L);
        Lines.print(line);
    }

    // ---- Connect and MirrorMaker

    private static void connect() throws Exception {
        List<ConnectorTaskId> tasks = List.of(new ConnectorTaskId("sink", 0), new ConnectorTaskId("sink", 4));
        ConnectProtocol.Assignment eager = new ConnectProtocol.Assignment((short) 1, "leader-é", "http://a/", 12, List.of("sink"), tasks);
        ObjectNode line = member("member_assignment", "connect", "default", ConnectProtocol.serializeAssignment(eager));
        tellAssignment(line.putObject("told"), 0);
        Lines.print(line);
        line = member("member_metadata", "connect", "default",
                ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState("http://b/", 7)));
        line.putObject("told").put("version", 0).put("url", "http://b/").put("config_offset", 7);
        Lines.print(line);
        for (short version = 1; version <= 2; version++) {
            boolean sessioned = version == 2;
            String protocol = sessioned ? "sessioned" : "compatible";
            ExtendedAssignment assignment = new ExtendedAssignment(version, (short) 1, "leader-é", "http://a/", 12, List.of("sink"),
                    tasks, List.of("old"), List.of(), 300);
            line = member("member_assignment", "connect", protocol,
                    IncrementalCooperativeConnectProtocol.serializeAssignment(assignment, sessioned));
            tellAssignment(line.putObject("told"), version);
            Lines.print(line);
            line = member("member_metadata", "connect", protocol, IncrementalCooperativeConnectProtocol.serializeMetadata(
                    new ExtendedWorkerState("http://b/", 7, assignment), sessioned));
            ObjectNode told = line.putObject("told").put("version", version).put("url", "http://b/").put("config_offset", 7);
            tellAssignment(told.putObject("allocation"), version);
            Lines.print(line);
        }
    }

    private static void tellAssignment(ObjectNode told, int version) {
        told.put("version", version).put("error", 1).put("leader", "leader-é").put("leader_url", "http://a/").put("config_offset", 12);
        told.putArray("assignment").addObject().put("connector", "sink").putArray("tasks").add(-1).add(0).add(4);
        if (version >= 1) {
            told.putArray("revoked").addObject().put("connector", "old").putArray("tasks").add(-1);
            told.put("scheduled_delay", 300);
        }
    }

    private static void mirrors() throws Exception {
        ObjectNode line = record("mm2-offset-syncs.far.internal", new OffsetSync(SECOND, 5, Long.MAX_VALUE));
        line.putObject("told_key").put("topic", SECOND.topic()).put("partition", SECOND.partition());
        line.putObject("told").put("upstream_offset", 5).put("downstream_offset", Long.MAX_VALUE);
        Lines.print(line);
        line = record("far.checkpoints.internal", new Checkpoint("gröup", FIRST, 6, 7, "nöte"));
        line.putObject("told_key").put("group", "gröup").put("topic", FIRST.topic()).put("partition", 0);
        line.putObject("told").put("version", 0).put("upstream_offset", 6).put("downstream_offset", 7).put("metadata", "nöte");
        Lines.print(line);
        line = record("heartbeats", new Heartbeat("nëar", "far", 1_700_000_000_123L));
        line.putObject("told_key").put("source_cluster_alias", "nëar").put("target_cluster_alias", "far");
        line.putObject("told").put("version", 0).put("timestamp", 1_700_000_000_123L);
        Lines.print(line);
    }

    private static ObjectNode record(String topic, Object holder) throws Exception {
        ObjectNode line = Lines.line("mirror").put("topic", topic);
        for (String half : List.of("Key", "Value")) {
            Method method = holder.getClass().getDeclaredMethod("record" + half);
            method.setAccessible(true); // only its own package calls it
            line.put(half.toLowerCase(), Lines.hex((byte[]) method.invoke(holder)));
        }
        return line;
    }
}
