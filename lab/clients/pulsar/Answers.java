import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.Schema;

/** What a client did, as lines of JSON. */
final class Answers {
    private Answers() {}

    /** A call that has to succeed, and the commands that it puts on the wire. */
    static <T> T call(String commands, Callable<T> work) throws Exception {
        T result = work.call();
        if (result instanceof CompletableFuture<?> future) {
            future.get();
        }
        System.out.printf("{\"what\":\"sent\",\"commands\":[\"%s\"]}%n", commands.replace(",", "\",\""));
        return result;
    }

    /** A call that a broker has to refuse with this error. */
    static void refused(String call, String error, Callable<?> work) throws Exception {
        try {
            if (work.call() instanceof CompletableFuture<?> future) {
                future.get();
            }
        } catch (Exception failure) {
            Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
            System.err.println(call + ": " + cause);
            System.out.printf("{\"what\":\"refused\",\"call\":\"%s\",\"error\":\"%s\"}%n", call, error);
            return;
        }
        throw new IllegalStateException(call + " was not refused");
    }

    static void send(Producer<String> producer, String key, String value) throws Exception {
        producer.newMessage(Schema.STRING).key(key).value(value).send();
        record("produced", producer.getTopic(), key, value);
    }

    static void read(Message<String> message) {
        record("read", message.getTopicName(), message.getKey(), message.getValue());
    }

    private static synchronized void record(String what, String topic, String key, String value) {
        System.out.printf(
            "{\"what\":\"%s\",\"topic\":\"%s\",\"partition\":null,\"offset\":null,\"key\":\"%s\",\"value\":\"%s\"}%n",
            what, topic, key, value);
    }
}
