import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.header.UpdateGroupForbiddenRequestHeader;
import org.apache.rocketmq.remoting.protocol.statictopic.TopicQueueMappingDetail;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** A consumer that gives messages back, and what an administrator asks a broker for; logs lines of JSON. */
public final class RocketAdmin {
    private static final String NAMES = "127.0.0.1:9876";
    private static final String BROKER = "127.0.0.1:10911";
    private static final String TOPIC = "orders";
    private static final String GROUP = "billing";

    private static SendResult last;

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
        Calls.sent("UPDATE_AND_CREATE_TOPIC_LIST", () -> {
            admin.createAndUpdateTopicConfigList(BROKER, List.of(topic(TOPIC, 2), topic("spare", 1)));
            return null;
        });
        DefaultMQProducer producer = new DefaultMQProducer("lab-producers");
        producer.setNamesrvAddr(NAMES);
        producer.start();
        Thread.sleep(2000);
        for (int index = 0; index < count; index++) {
            String body = "order " + index;
            Message message = new Message(TOPIC, "tag", "key-" + index, body.getBytes(StandardCharsets.UTF_8));
            SendResult stored = producer.send(message, 10_000);
            last = stored;
            log("produced", stored.getMessageQueue().getQueueId(), stored.getQueueOffset(), "key-" + index, body);
        }
        DefaultMQPushConsumer consumer = giveBack(count);
        DefaultMQPushConsumer ordered = inOrder();
        administrate(admin);
        ask(admin, consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId());
        consumer.shutdown();
        Calls.sent("UNLOCK_BATCH_MQ", () -> {
            ordered.shutdown();
            return null;
        });
        producer.shutdown();
        admin.shutdown();
    }

    private static TopicConfig topic(String name, int queues) {
        return new TopicConfig(name, queues, queues);
    }

    private static DefaultMQPushConsumer giveBack(int count) throws Exception {
        CountDownLatch read = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(GROUP);
        consumer.setNamesrvAddr(NAMES);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullInterval(3000);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt each : messages) {
                if (each.getReconsumeTimes() == 0) {
                    String body = new String(each.getBody(), StandardCharsets.UTF_8);
                    log("read", each.getQueueId(), each.getQueueOffset(), each.getKeys(), body);
                    read.countDown();
                }
            }
            boolean again = messages.get(0).getReconsumeTimes() == 0 && messages.get(0).getQueueOffset() == 0;
            return again ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Calls.sent("CONSUMER_SEND_MSG_BACK", () -> {
            consumer.start();
            read.await(60, TimeUnit.SECONDS);
            Thread.sleep(1000);
            return null;
        });
        return consumer;
    }

    private static DefaultMQPushConsumer inOrder() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("ledger");
        consumer.setNamesrvAddr(NAMES);
        consumer.setInstanceName("ledger");
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> ConsumeOrderlyStatus.SUCCESS);
        Calls.sent("LOCK_BATCH_MQ", () -> {
            consumer.start();
            Thread.sleep(3000);
            return null;
        });
        return consumer;
    }

    /** What an administrator asks for, of messages, clients, offsets and topics. */
    private static void ask(DefaultMQAdminExt admin, String client) throws Exception {
        MQClientAPIImpl api = admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl();
        String stored = last.getOffsetMsgId();
        String broker = last.getMessageQueue().getBrokerName();
        Calls.sent("QUERY_MESSAGE", () -> admin.queryMessage(TOPIC, "key-1", 5, 0, Long.MAX_VALUE));
        Calls.sent("VIEW_MESSAGE_BY_ID", () -> admin.viewMessage(TOPIC, stored));
        Calls.sent("CONSUME_MESSAGE_DIRECTLY", () -> admin.consumeMessageDirectly(GROUP, client, TOPIC, stored));
        Calls.sent("GET_CONSUMER_RUNNING_INFO", () -> admin.getConsumerRunningInfo(GROUP, client, false));
        Calls.sent("GET_CONSUMER_CONNECTION_LIST", () -> admin.examineConsumerConnectionInfo(GROUP));
        Calls.sent("GET_PRODUCER_CONNECTION_LIST", () -> admin.examineProducerConnectionInfo("lab-producers", TOPIC));
        Calls.sent("GET_ALL_PRODUCER_INFO", () -> admin.getAllProducerInfo(BROKER));
        Calls.sent("INVOKE_BROKER_TO_GET_CONSUMER_STATUS,GET_CONSUMER_STATUS_FROM_CLIENT", () ->
            admin.getConsumeStatus(TOPIC, GROUP, client));
        Calls.sent("INVOKE_BROKER_TO_RESET_OFFSET", () -> admin.resetOffsetByTimestamp(TOPIC, GROUP, 0, true));
        Calls.sent("GET_CONSUME_STATS", () -> admin.examineConsumeStats(GROUP));
        Calls.sent("GET_BROKER_CONSUME_STATS", () -> admin.fetchConsumeStatsInBroker(BROKER, false, 8000));
        Calls.sent("QUERY_CONSUME_TIME_SPAN", () -> admin.queryConsumeTimeSpan(TOPIC, GROUP));
        Calls.sent("QUERY_CONSUME_QUEUE", () -> admin.queryConsumeQueue(BROKER, TOPIC, 0, 0, 3, GROUP));
        Calls.sent("QUERY_CORRECTION_OFFSET", () ->
            api.queryCorrectionOffset(BROKER, TOPIC, GROUP, Set.of("archive"), 8000));
        Calls.sent("CLONE_GROUP_OFFSET", () -> {
            admin.cloneGroupOffset(GROUP, "archive", TOPIC, false);
            return null;
        });
        Calls.sent("RESUME_CHECK_HALF_MESSAGE", () -> admin.resumeCheckHalfMessage(TOPIC, stored));
        MessageQueue queue = new MessageQueue(TOPIC, broker, 0);
        Calls.sent("SEARCH_OFFSET_BY_TIMESTAMP", () -> admin.searchOffset(queue, 1));
        Calls.sent("GET_MIN_OFFSET", () -> admin.minOffset(queue));
        Calls.sent("GET_EARLIEST_MSG_STORETIME", () -> admin.earliestMsgStoreTime(queue));
        Calls.sent("GET_TOPIC_CONFIG", () -> admin.examineTopicConfig(BROKER, TOPIC));
        Calls.sent("GET_TOPICS_BY_CLUSTER", () -> api.getTopicsByCluster("lab", 8000));
        Calls.sent("GET_UNIT_TOPIC_LIST", () -> api.getUnitTopicList(false, 8000));
        Calls.sent("GET_HAS_UNIT_SUB_TOPIC_LIST", () -> api.getHasUnitSubTopicList(false, 8000));
        Calls.sent("GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", () -> api.getHasUnitSubUnUnitTopicList(false, 8000));
        admin.createAndUpdateKvConfig("LAB", "colour", "blue");
        Calls.sent("PUT_KV_CONFIG,GET_KV_CONFIG", () -> admin.getKVConfig("LAB", "colour"));
        Calls.sent("GET_KVLIST_BY_NAMESPACE", () -> admin.getKVListByNamespace("LAB"));
        Calls.sent("DELETE_KV_CONFIG", () -> {
            admin.deleteKvConfig("LAB", "colour");
            return null;
        });
        Calls.sent("QUERY_TOPIC_CONSUME_BY_WHO", () -> admin.queryTopicConsumeByWho(TOPIC));
        Calls.sent("GET_TOPIC_STATS_INFO", () -> admin.examineTopicStats(TOPIC));
        Calls.sent("CLEAN_UNUSED_TOPIC", () -> admin.cleanUnusedTopicByAddr(BROKER));
        Calls.sent("DELETE_TOPIC_IN_NAMESRV", () -> {
            admin.deleteTopicInNameServer(Set.of(NAMES), "spare");
            return null;
        });
        Calls.sent("UPDATE_AND_CREATE_STATIC_TOPIC", () -> {
            TopicQueueMappingDetail mapping = new TopicQueueMappingDetail("fixed", 1, broker, 1);
            admin.createStaticTopic(BROKER, "TBW102", topic("fixed", 1), mapping, false);
            return null;
        });
        DefaultLitePullConsumer puller = new DefaultLitePullConsumer("pullers");
        puller.setNamesrvAddr(NAMES);
        puller.setInstanceName("pullers");
        Calls.sent("LITE_PULL_MESSAGE", () -> {
            puller.start();
            puller.assign(List.of(queue));
            return puller.poll(3000);
        });
        puller.shutdown();
    }

    private static void administrate(DefaultMQAdminExt admin) throws Exception {
        MQClientAPIImpl api =
            admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl();
        Calls.sent("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", () -> {
            api.createSubscriptionGroupList(BROKER, List.of(group("archive"), group("audit")), 8000);
            return null;
        });
        Calls.sent("GET_SUBSCRIPTIONGROUP_CONFIG", () -> api.getSubscriptionGroupConfig(BROKER, "archive", 8000));
        Calls.sent("GET_SYSTEM_TOPIC_LIST_FROM_NS", () -> api.getSystemTopicList(8000));
        Calls.sent("QUERY_TOPICS_BY_CONSUMER", () -> api.queryTopicsByConsumer(BROKER, GROUP, 8000));
        Calls.sent("QUERY_SUBSCRIPTION_BY_CONSUMER", () -> api.querySubscriptionByConsumer(BROKER, GROUP, TOPIC, 8000));
        Calls.sent("UPDATE_AND_GET_GROUP_FORBIDDEN", () -> {
            UpdateGroupForbiddenRequestHeader header = new UpdateGroupForbiddenRequestHeader();
            header.setGroup("archive");
            header.setTopic(TOPIC);
            header.setReadable(false);
            return api.updateAndGetGroupForbidden(BROKER, header, 8000);
        });
        Calls.sent("GET_ALL_TOPIC_CONFIG", () -> api.getAllTopicConfig(BROKER, 8000));
        Calls.refused("GET_CONSUMER_CONNECTION_LIST of none", () ->
            admin.examineConsumerConnectionInfo("nobody", BROKER));
        Calls.sent("DELETE_SUBSCRIPTIONGROUP", () -> {
            admin.deleteSubscriptionGroup(BROKER, "audit", true);
            return null;
        });
        Calls.sent("DELETE_TOPIC_IN_BROKER", () -> {
            admin.deleteTopicInBroker(Set.of(BROKER), "spare");
            return null;
        });
    }

    private static SubscriptionGroupConfig group(String name) {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(name);
        return config;
    }

    private static synchronized void log(String what, int queue, long offset, String key, String body) {
        System.out.printf(
            "{\"what\":\"%s\",\"topic\":\"%s\",\"partition\":%d,\"offset\":%d,\"key\":\"%s\",\"value\":\"%s\"}%n",
            what, TOPIC, queue, offset, key, body);
    }
}
