import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListStreamsGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;

/** Kafka Streams with the streams protocol: words are counted, an administrator looks on. */
public final class Words {
    public static void main(String[] arguments) throws Exception {
        Log.bootstrap = arguments[0];
        try (Admin admin = Log.admin(); KafkaProducer<String, String> producer = Log.producer("client.id=lab-producer")) {
            List<NewTopic> topics = List.of(new NewTopic("text", 2, (short) 1), new NewTopic("words", 1, (short) 1));
            Log.call("CreateTopics", () -> admin.createTopics(topics).all());
            for (int index = 0; index < Integer.parseInt(arguments[2]); index++) {
                Log.send(producer, "text", "line-" + index, "red " + (index % 2 == 0 ? "green" : "blue"));
            }
            Properties settings = Log.settings(
                "application.id=counter", "group.protocol=streams", "auto.offset.reset=earliest",
                "commit.interval.ms=1000", "num.stream.threads=1", "state.dir=" + arguments[3],
                "bootstrap.servers=" + arguments[1],
                "default.key.serde=" + Serdes.StringSerde.class.getName(),
                "default.value.serde=" + Serdes.StringSerde.class.getName());
            StreamsBuilder builder = new StreamsBuilder();
            builder.<String, String>stream("text")
                .flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.as("by-word"))
                .count()
                .toStream()
                .mapValues(String::valueOf)
                .to("words");
            KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
            Log.call("StreamsGroupHeartbeat", () -> {
                streams.start();
                Thread.sleep(9000);
                return null;
            });
            Log.call("StreamsGroupDescribe", () -> admin.describeStreamsGroups(List.of("counter")).all());
            streams.close(Duration.ofSeconds(10));
            Log.call("OffsetFetch", () ->
                admin.listStreamsGroupOffsets(Map.of("counter", new ListStreamsGroupOffsetsSpec())).all());
            Log.refused("StreamsGroupDescribe of none", () -> admin.describeStreamsGroups(List.of("nobody")).all());
            Log.call("DeleteGroups", () -> admin.deleteStreamsGroups(List.of("counter")).all());
        }
    }
}
