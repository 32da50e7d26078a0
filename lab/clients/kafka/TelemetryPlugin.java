import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/** Runs in the broker, which takes metrics of clients only where somebody receives them. */
@SuppressWarnings("deprecation")
public final class TelemetryPlugin implements MetricsReporter, ClientTelemetry {
    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}

    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> {};
    }
}
