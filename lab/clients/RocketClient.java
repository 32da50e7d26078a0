import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends COUNT messages to TOPIC and consumes them as GROUP; logs each as a line of JSON. */
public final class RocketClient {
    public static void main(String[] arguments) {
        try {
            play(arguments[0], arguments[1], Integer.parseInt(arguments[2]));
            System.exit(0);
        } catch (Exception failure) {  // the threads of clients would go on for ever
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void play(String topic, String group, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("lab-producers");
        producer.setNamesrvAddr("127.0.0.1:9876");
        producer.start();
        for (int index = 0; index < count; index++) {
            String body = "order " + index;
            Message message = new Message(topic, "tag", "key-" + index, body.getBytes(StandardCharsets.UTF_8));
            SendResult stored = producer.send(message, 10_000);
            log("produced", topic, stored.getMessageQueue().getQueueId(), stored.getQueueOffset(), "key-" + index, body);
        }
        consume(topic, group, count);
        producer.shutdown();
    }

    private static void consume(String topic, String group, int count) throws Exception {
        CountDownLatch read = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr("127.0.0.1:9876");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                String body = new String(each.getBody(), StandardCharsets.UTF_8);
                log("read", topic, each.getQueueId(), each.getQueueOffset(), each.getKeys(), body);
                read.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        read.await(60, TimeUnit.SECONDS);
        consumer.shutdown();
    }

    private static synchronized void log(String what, String topic, int queue, long offset, String key, String body) {
        System.out.printf(
            "{\"what\":\"%s\",\"topic\":\"%s\",\"partition\":%d,\"offset\":%d,\"key\":\"%s\",\"value\":\"%s\"}%n",
            what, topic, queue, offset, key, body);
    }
}
