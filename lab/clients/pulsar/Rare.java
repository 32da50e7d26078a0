import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerEventListener;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageListener;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;
import org.apache.pulsar.client.api.transaction.TxnID;
import org.apache.pulsar.client.impl.ConsumerImpl;
import org.apache.pulsar.client.impl.PulsarClientImpl;
import org.apache.pulsar.common.api.proto.BaseCommand;
import org.apache.pulsar.common.policies.data.BacklogQuota;
import org.apache.pulsar.common.policies.data.ClusterPolicies.ClusterUrl;

/** Commands that few applications send, and answers that few get; logs lines of JSON. */
public final class Rare {
    private static final String SERVICE = "pulsar://127.0.0.1:6652";
    private static final String HOME = "persistent://public/default/";
    private static final String FULL = "public/full";

    /** An order, and one with a field more. */
    public static final class Order {
        public String name;
    }

    public static final class PricedOrder {
        public String name;
        public Integer price;
    }

    private final PulsarClient client;
    private final PulsarAdmin admin;

    private Rare(PulsarClient client, PulsarAdmin admin) {
        this.client = client;
        this.admin = admin;
    }

    public static void main(String[] arguments) throws Exception {
        try (PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl("http://127.0.0.1:8080").build();
                PulsarClient client = client()) {
            Rare play = new Rare(client, admin);
            play.sendAndSeek(Integer.parseInt(arguments[0]));
            play.takeOver();
            play.schemas();
            play.transactions();
            play.topicsThatMatch();
            play.refusals();
            play.endOfTopic();
            play.statistics();
            play.migrate();
        }
        System.exit(0);  // threads of a client that was sent elsewhere would go on
    }

    private static PulsarClient client() throws Exception {
        return PulsarClient.builder().serviceUrl(SERVICE).listenerName("clients").enableTransaction(true)
            .statsInterval(0, TimeUnit.SECONDS).build();
    }

    private Producer<String> producer(String topic) throws Exception {
        return client.newProducer(Schema.STRING).topic(topic).enableBatching(false).create();
    }

    private Consumer<String> consumer(String topic, String subscription) throws Exception {
        return client.newConsumer(Schema.STRING).topic(topic).subscriptionName(subscription)
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    private void sendAndSeek(int count) throws Exception {
        String topic = HOME + "orders";
        try (Producer<String> producer = producer(topic); Consumer<String> consumer = consumer(topic, "billing")) {
            for (int index = 0; index < count; index++) {
                Answers.send(producer, "key-" + index % 5, "order " + index);
            }
            for (int index = 0; index < count; index++) {
                Message<String> message = consumer.receive(20, TimeUnit.SECONDS);
                Answers.read(message);
                consumer.acknowledge(message);
            }
            Answers.call("GET_LAST_MESSAGE_ID", consumer::getLastMessageIds);
            Answers.call("SEEK", () -> consumer.seekAsync(MessageId.earliest));
            Answers.read(consumer.receive(20, TimeUnit.SECONDS));
        }
    }

    /** The second consumer of a failover subscription becomes the active one. */
    private void takeOver() throws Exception {
        CountDownLatch active = new CountDownLatch(1);
        ConsumerEventListener listener = new ConsumerEventListener() {
            @Override
            public void becameActive(Consumer<?> consumer, int partition) {
                active.countDown();
            }

            @Override
            public void becameInactive(Consumer<?> consumer, int partition) {}
        };
        Consumer<String> first = standby("a", null);
        Answers.call("ACTIVE_CONSUMER_CHANGE", () -> {
            Consumer<String> second = standby("b", listener);
            first.close();
            active.await(20, TimeUnit.SECONDS);
            second.close();
            return null;
        });
    }

    private Consumer<String> standby(String name, ConsumerEventListener listener) throws Exception {
        var builder = client.newConsumer(Schema.STRING).topic(HOME + "orders").subscriptionName("standby")
            .consumerName(name).subscriptionType(SubscriptionType.Failover);
        return (listener == null ? builder : builder.consumerEventListener(listener)).subscribe();
    }

    private void schemas() throws Exception {
        try (Producer<Order> producer = client.newProducer(Schema.JSON(Order.class)).topic(HOME + "priced").create()) {
            PricedOrder order = new PricedOrder();
            order.name = "ink";
            order.price = 3;
            Answers.call("GET_OR_CREATE_SCHEMA", () ->
                producer.newMessage(Schema.JSON(PricedOrder.class)).value(order).sendAsync());
            Answers.refused("a schema that does not fit", "IncompatibleSchema", () ->
                producer.newMessage(Schema.INT32).value(7).sendAsync());
        }
    }

    private void transactions() throws Exception {
        try (Producer<String> producer = producer(HOME + "ledger");
                Consumer<String> consumer = consumer(HOME + "orders", "audit")) {
            Message<String> order = consumer.receive(20, TimeUnit.SECONDS);
            Transaction committed = begin();
            Answers.call("ADD_PARTITION_TO_TXN", () -> producer.newMessage(committed).value("paid").sendAsync());
            Answers.call("ADD_SUBSCRIPTION_TO_TXN", () -> consumer.acknowledgeAsync(order.getMessageId(), committed));
            Transaction late = begin();
            Answers.refused("an acknowledgement in two transactions", "TransactionConflict", () ->
                consumer.acknowledgeAsync(order.getMessageId(), late));
            Answers.call("END_TXN", committed::commit);
            late.abort().get();
            var coordinator = ((PulsarClientImpl) client).getTcClient();
            Answers.refused("the end of no transaction", "TransactionNotFound", () ->
                coordinator.commitAsync(new TxnID(0, 999)));
        }
    }

    private Transaction begin() throws Exception {
        return client.newTransaction().withTransactionTimeout(1, TimeUnit.MINUTES).build().get();
    }

    private void topicsThatMatch() throws Exception {
        Answers.call("WATCH_TOPIC_LIST,WATCH_TOPIC_LIST_SUCCESS,WATCH_TOPIC_UPDATE,WATCH_TOPIC_LIST_CLOSE", () -> {
            Consumer<String> all = client.newConsumer(Schema.STRING).topicsPattern(Pattern.compile(HOME + "shop-.*"))
                .subscriptionName("shops").subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .subscribe();
            try (Producer<String> producer = producer(HOME + "shop-north")) {
                Answers.send(producer, "k", "opened");
                Answers.read(all.receive(30, TimeUnit.SECONDS));
            }
            all.close();
            return null;
        });
    }

    private void refusals() throws Exception {
        Consumer<String> shared = sticky("one");
        Answers.refused("a range of keys that another has", "ConsumerAssignError", () -> sticky("two"));
        shared.close();
        try (Producer<String> producer = producer(HOME + "short")) {
            producer.send("fits");
            admin.topicPolicies().setMaxMessageSize(HOME + "short", 8);
            Thread.sleep(2000);
            Answers.refused("a message above the limit", "NotAllowedError", () -> producer.sendAsync("does not fit"));
        }
        Answers.call("SEND_ERROR", () -> null);
        admin.namespaces().createNamespace(FULL, Set.of("standalone"));
        quota(BacklogQuota.RetentionPolicy.producer_exception, "ProducerBlockedQuotaExceededException");
        quota(BacklogQuota.RetentionPolicy.producer_request_hold, "ProducerBlockedQuotaExceededError");
    }

    private Consumer<String> sticky(String name) throws Exception {
        return client.newConsumer(Schema.STRING).topic(HOME + "orders").subscriptionName("ranges").consumerName(name)
            .subscriptionType(SubscriptionType.Key_Shared)
            .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(0, 65535))).subscribe();
    }

    /** A producer comes to a topic whose backlog is above its quota. */
    private void quota(BacklogQuota.RetentionPolicy policy, String error) throws Exception {
        String topic = "persistent://" + FULL + "/" + policy;
        admin.namespaces().setBacklogQuota(FULL, BacklogQuota.builder().limitSize(8).retentionPolicy(policy).build());
        consumer(topic, "slow").close();
        try (Producer<String> producer = producer(topic)) {
            producer.send("more than eight bytes");
            producer.send("and more");
        } catch (Exception late) {
            System.err.println(late);
        }
        Thread.sleep(4000);
        Answers.refused("a producer of a full topic", error, () -> {
            try (PulsarClient other = PulsarClient.builder().serviceUrl(SERVICE).listenerName("clients")
                    .operationTimeout(4, TimeUnit.SECONDS).build()) {
                return other.newProducer(Schema.STRING).topic(topic).create();
            }
        });
    }

    private void endOfTopic() throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        Producer<String> producer = producer(HOME + "finished");
        producer.send("last");
        Consumer<String> consumer = client.newConsumer(Schema.STRING).topic(HOME + "finished").subscriptionName("end")
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
            .messageListener(new MessageListener<String>() {
                @Override
                public void received(Consumer<String> of, Message<String> message) {
                    of.acknowledgeAsync(message);
                }

                @Override
                public void reachedEndOfTopic(Consumer<String> of) {
                    ended.countDown();
                }
            }).subscribe();
        Answers.call("REACHED_END_OF_TOPIC", () -> {
            admin.topics().terminateTopic(HOME + "finished");
            ended.await(20, TimeUnit.SECONDS);
            return null;
        });
        Answers.refused("a message after the end", "TopicTerminatedError", () -> producer.sendAsync("too late"));
        consumer.close();
        producer.closeAsync();
    }

    /** A command that brokers answer and clients do not send any more, on the connection of a client of its own. */
    private void statistics() throws Exception {
        Answers.call("CONSUMER_STATS,CONSUMER_STATS_RESPONSE", () -> {
            ask(0);
            ask(77);
            return null;
        });
    }

    /** Asks for statistics; the client hangs up at the answer, the broker if it has no such consumer. */
    private void ask(int number) throws Exception {
        try (PulsarClient other = client()) {
            var consumer = (ConsumerImpl<byte[]>)
                other.newConsumer().topic(HOME + "orders").subscriptionName("counted").subscribe();
            BaseCommand command = new BaseCommand().setType(BaseCommand.Type.CONSUMER_STATS);
            command.setConsumerStats().setRequestId(1000 + number).setConsumerId(number);
            consumer.getClientCnx().ctx().writeAndFlush(framed(command)).sync();
            Thread.sleep(1000);
            consumer.closeAsync();
        }
    }

    private static ByteBuf framed(BaseCommand command) {
        int size = command.getSerializedSize();
        ByteBuf frame = Unpooled.buffer(8 + size).writeInt(4 + size).writeInt(size);
        command.writeTo(frame);
        return frame;
    }

    /** The cluster moves: its clients are told where. */
    private void migrate() throws Exception {
        Producer<String> producer = producer(HOME + "moving");
        producer.send("before");
        ClusterUrl there = new ClusterUrl("http://127.0.0.1:8081", null, "pulsar://127.0.0.1:6651", null);
        Answers.call("TOPIC_MIGRATED", () -> {
            admin.clusters().updateClusterMigration("standalone", true, there);
            Thread.sleep(4000);
            return null;
        });
    }
}
