import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.header.ExportRocksDBConfigToJsonRequestHeader.ConfigType;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** A producer that asks and a consumer that answers, with the long names of old clients; logs lines of JSON. */
public final class Replies {
    private static final String NAMES = "127.0.0.1:9876";
    private static final String BROKER = "127.0.0.1:10911";
    private static final String TOPIC = "questions";

    public static void main(String[] arguments) {
        try {
            play(Integer.parseInt(arguments[0]));
            System.exit(0);
        } catch (Exception failure) {  // the threads of clients would go on for ever
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void play(int count) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(8000);
        admin.setNamesrvAddr(NAMES);
        admin.start();
        admin.createAndUpdateTopicConfig(BROKER, new TopicConfig(TOPIC, 1, 1));
        Thread.sleep(2000);
        DefaultMQProducer answering = producer("answers");
        DefaultMQPushConsumer consumer = answerWith(answering);
        DefaultMQProducer asking = producer("questions");
        Calls.sent("SEND_MESSAGE,SEND_REPLY_MESSAGE,PUSH_REPLY_MESSAGE_TO_CLIENT", () -> {
            for (int index = 0; index < count; index++) {
                byte[] body = ("question " + index).getBytes(StandardCharsets.UTF_8);
                asking.request(new Message(TOPIC, "tag", "key-" + index, body), 30_000);
            }
            return null;
        });
        Calls.sent("EXPORT_ROCKSDB_CONFIG_TO_JSON", () -> {
            admin.exportRocksDBConfigToJson(BROKER, List.of(ConfigType.TOPICS));
            return null;
        });
        asking.shutdown();
        consumer.shutdown();
        answering.shutdown();
        admin.shutdown();
    }

    private static DefaultMQProducer producer(String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(NAMES);
        producer.setInstanceName(group);
        producer.start();
        return producer;
    }

    private static DefaultMQPushConsumer answerWith(DefaultMQProducer producer) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("answering");
        consumer.setNamesrvAddr(NAMES);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                try {
                    producer.send(MessageUtil.createReplyMessage(each, "an answer".getBytes(StandardCharsets.UTF_8)));
                } catch (Exception failure) {
                    failure.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Thread.sleep(2000);
        return consumer;
    }
}
