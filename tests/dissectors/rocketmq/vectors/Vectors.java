import com.alibaba.fastjson2.JSON;
import java.lang.reflect.*;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.jar.JarFile;
import org.apache.rocketmq.common.action.RocketMQAction;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.common.producer.RecallMessageHandle;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.*;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;

/**
 * Makes test vectors with RocketMQ's own classes: every header in both serialisations, every JSON body, stored messages,
 * batches and compressed REGISTER_BROKER bodies. One JSON object a line on stdout; see README.md for how to run it.
 *
 * Values are made from the field's name and place, so that nothing is random.
 */
public class Vectors {
    /** Where classes stand that are sent as JSON. */
    static final java.util.regex.Pattern BODY_PACKAGES = java.util.regex.Pattern.compile(
        "org\\.apache\\.rocketmq\\.remoting\\.protocol\\.(body|subscription|route|heartbeat|admin|statictopic|header)|org\\.apache\\.rocketmq\\.remoting\\.protocol");

    public static void main(String[] args) throws Exception {
        String what = args[0];
        List<Class<?>> classes = scan(Arrays.copyOfRange(args, 1, args.length));
        switch (what) {
            case "headers": headers(classes); break;
            case "bodies": bodies(classes); break;
            case "messages": messages(); break;
            default: throw new IllegalArgumentException(what);
        }
    }

    static void line(Object... pairs) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) map.put((String) pairs[i], pairs[i + 1]);
        System.out.println(JSON.toJSONString(map));
    }

    static String base64(byte[] data) { return Base64.getEncoder().encodeToString(data); }

    static byte[] bytes(ByteBuffer buffer) {
        ByteBuffer copy = buffer.duplicate();
        byte[] data = new byte[copy.remaining()];
        copy.get(data);
        return data;
    }

    static List<Class<?>> scan(String[] jars) throws Exception {
        List<Class<?>> found = new ArrayList<>();
        for (String path : jars) {
            try (JarFile jar = new JarFile(path)) {
                jar.stream().map(entry -> entry.getName()).filter(name -> name.endsWith(".class"))
                    .filter(name -> name.startsWith("org/apache/rocketmq/remoting/protocol/") || name.startsWith("org/apache/rocketmq/common/"))
                    .sorted().forEach(name -> {
                        try {
                            found.add(Class.forName(name.replace('/', '.').substring(0, name.length() - 6)));
                        } catch (Throwable missing) { /* needs a library that is not there */ }
                    });
            }
        }
        return found;
    }

    // ---- values

    static List<Field> fields(Class<?> type) {
        List<Field> all = new ArrayList<>();
        for (Class<?> c = type; c != null && c != Object.class; c = c.getSuperclass())
            for (Field f : c.getDeclaredFields())
                if (!Modifier.isStatic(f.getModifiers()) && !f.getName().startsWith("this")) all.add(f);
        return all;
    }

    static Object simple(Class<?> type, String name, int place) {
        if (type == String.class) return text(name);
        if (type == int.class || type == Integer.class) return place % 2 == 0 ? 7 + place : -3 - place;
        if (type == long.class || type == Long.class) return (1L << 40) + place;
        if (type == boolean.class || type == Boolean.class) return place % 2 == 0;
        if (type == double.class || type == Double.class) return place + 0.5;
        if (type == AtomicLong.class) return new AtomicLong(place);
        if (type.isEnum()) return type.getEnumConstants()[place % type.getEnumConstants().length];
        return null;
    }

    static String text(String name) {
        Map<String, String> properties = new LinkedHashMap<>();
        properties.put("KEYS", "key one");
        properties.put("UNIQ_KEY", "7F0000016B5D4E0E2F2A693886730000");
        properties.put("gr\u00fc\u00df", "\u4f60\u597d \ud83d\ude00");
        switch (name) {
            case "properties": case "i": return MessageDecoder.messageProperties2String(properties);
            case "extraInfo": return ExtraInfoUtil.buildExtraInfo(12, 1795255473376L, 20000, 3, "%RETRY%g_t", "broker-a", 2, 17);
            case "startOffsetInfo": {
                StringBuilder b = new StringBuilder();
                ExtraInfoUtil.buildStartOffsetInfo(b, "t", 1, 15);
                ExtraInfoUtil.buildStartOffsetInfo(b, "%RETRY%g_t", 0, 3);
                return b.toString();
            }
            case "msgOffsetInfo": {
                StringBuilder b = new StringBuilder();
                ExtraInfoUtil.buildMsgOffsetInfo(b, "t", 1, Arrays.asList(15L, 16L, 19L));
                ExtraInfoUtil.buildMsgOffsetInfo(b, "%RETRY%g_t", 0, Arrays.asList(3L));
                return b.toString();
            }
            case "orderCountInfo": {
                StringBuilder b = new StringBuilder();
                ExtraInfoUtil.buildQueueIdOrderCountInfo(b, "t", 1, 2);
                ExtraInfoUtil.buildQueueOffsetOrderCountInfo(b, "t", 1, 15, 4);
                return b.toString();
            }
            case "recallHandle": return RecallMessageHandle.HandleV1.buildHandle("t", "broker-a", "1795255556001", "7F0000016B5D4E0E2F2A693886730000");
            case "topicName": return "topic_name";
            default: return name + " \u00fc\u00df \"quoted\" \\ \u4f60\ud83d\ude00";
        }
    }

    static Object make(Type type, String name, int place, int depth) throws Exception {
        if (type instanceof ParameterizedType) {
            ParameterizedType generic = (ParameterizedType) type;
            Class<?> raw = (Class<?>) generic.getRawType();
            Type[] of = generic.getActualTypeArguments();
            if (Collection.class.isAssignableFrom(raw)) {
                Object item = make(of[0], name, place + 1, depth + 1);
                Collection<Object> all = raw.isInterface() ? (Set.class.isAssignableFrom(raw) ? new LinkedHashSet<>() : new ArrayList<>()) : (Collection<Object>) raw.getDeclaredConstructor().newInstance();
                if (item != null) all.add(item);
                return all;
            }
            if (Map.class.isAssignableFrom(raw)) {
                Map<Object, Object> all = raw.isInterface() ? (raw.getSimpleName().startsWith("Concurrent") ? new java.util.concurrent.ConcurrentHashMap<>() : new LinkedHashMap<>()) : (Map<Object, Object>) raw.getDeclaredConstructor().newInstance();
                Object key = make(of[0], name + "Key", place + 1, depth + 1), value = make(of[1], name + "Value", place + 2, depth + 1);
                if (key != null && value != null) all.put(key, value);
                return all;
            }
            return null;
        }
        if (!(type instanceof Class)) return null;
        Class<?> c = (Class<?>) type;
        Object value = simple(c, name, place);
        if (value != null) return value;
        if (c == Properties.class) { Properties p = new Properties(); p.setProperty(name, "value"); return p; }
        if (c == BitSet.class) { BitSet bits = new BitSet(); bits.set(0); bits.set(3); return bits; }
        if (c == long[].class) return new long[] {1, 2, 3};
        if (c == MessageQueue.class) return new MessageQueue("t", "broker-a", 2);
        if (depth > 6 || c.isInterface() || c.isArray() || !c.getName().startsWith("org.apache.rocketmq")) return null;
        return filled(c, depth);
    }

    static Object filled(Class<?> type, int depth) throws Exception {
        Constructor<?> constructor;
        try {
            constructor = type.getDeclaredConstructor();
        } catch (NoSuchMethodException none) { // as the serialization of Java makes an object without calling a constructor
            constructor = sun.reflect.ReflectionFactory.getReflectionFactory()
                .newConstructorForSerialization(type, Object.class.getDeclaredConstructor());
        }
        constructor.setAccessible(true);
        Object made = constructor.newInstance();
        int place = 0;
        for (Field field : fields(type)) {
            place++;
            if (Modifier.isFinal(field.getModifiers()) && !Map.class.isAssignableFrom(field.getType())) continue;
            field.setAccessible(true);
            Object value = make(field.getGenericType(), field.getName(), place, depth + 1);
            if (value != null) field.set(made, value);
        }
        return made;
    }

    // ---- headers

    static void headers(List<Class<?>> classes) throws Exception {
        for (Class<?> type : classes) {
            if (!CommandCustomHeader.class.isAssignableFrom(type) || Modifier.isAbstract(type.getModifiers()) || type.isInterface()) continue;
            Object header = filled(type, 0);
            if (header == null) continue;
            RocketMQAction action = type.getAnnotation(RocketMQAction.class);
            int code = action == null ? 0 : action.value();
            for (SerializeType serialization : SerializeType.values()) {
                RemotingCommand command = action == null
                    ? RemotingCommand.createResponseCommandWithHeader(code, (CommandCustomHeader) header)
                    : RemotingCommand.createRequestCommand(code, (CommandCustomHeader) header);
                command.setSerializeTypeCurrentRPC(serialization);
                command.setOpaque(4711);
                command.setRemark("a remark \u00fc");
                command.setBody("a body".getBytes(StandardCharsets.UTF_8));
                byte[] frame = bytes(command.encode());
                line("class", type.getSimpleName(), "code", action == null ? null : code, "serialization", serialization.name(),
                    "fields", new TreeMap<>(command.getExtFields() == null ? Collections.emptyMap() : command.getExtFields()), "frame", base64(frame));
            }
        }
    }

    // ---- bodies

    static void bodies(List<Class<?>> classes) throws Exception {
        for (Class<?> type : classes) {
            if (Modifier.isAbstract(type.getModifiers()) || type.isInterface() || type.isEnum() || type.getName().contains("$")) continue;
            if (!BODY_PACKAGES.matcher(type.getPackage().getName()).matches()) continue;
            if (CommandCustomHeader.class.isAssignableFrom(type) || fields(type).isEmpty() || type == RemotingCommand.class) continue;
            try {
                Object body = filled(type, 0);
                if (body != null) line("class", type.getSimpleName(), "body", base64(RemotingSerializable.encode(body)));
            } catch (Exception cannot) {
                System.err.println("left out: " + type + ": " + cannot);
            }
        }
        org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody register = (org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody) filled(org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody.class, 0);
        for (boolean compress : new boolean[] {false, true})

                line("class", "RegisterBrokerBody", "compressed", compress, "body", base64(register.encode(compress)));
    }

    // ---- messages

    static MessageExt message(String topic, byte[] body) throws Exception {
        MessageExt m = new MessageExt();
        m.setTopic(topic);
        m.setBody(body);
        m.setBodyCRC(org.apache.rocketmq.common.UtilAll.crc32(body));
        m.setQueueId(3);
        m.setFlag(66);
        m.setQueueOffset(5);
        m.setCommitLogOffset(6627);
        m.setBornTimestamp(1795255473376L);
        m.setStoreTimestamp(1795255473399L);
        m.setBornHost(new InetSocketAddress(InetAddress.getByName("10.1.2.3"), 50123));
        m.setStoreHost(new InetSocketAddress(InetAddress.getByName("10.1.2.4"), 10911));
        m.setReconsumeTimes(2);
        m.setPreparedTransactionOffset(99);
        m.setKeys("key one");
        m.setTags("TagA");
        MessageAccessor.putProperty(m, "UNIQ_KEY", "7F0000016B5D4E0E2F2A693886730000");
        m.putUserProperty("gr\u00fc\u00df", "\u4f60\u597d \ud83d\ude00");
        return m;
    }

    static void stored(String what, MessageExt m, byte[] plain) throws Exception {
        byte[] encoded = MessageDecoder.encode(m, false);
        MessageExt again = MessageDecoder.decode(ByteBuffer.wrap(encoded), true, true);
        line("what", what, "bytes", base64(encoded), "plain", base64(plain), "message_id", MessageDecoder.createMessageId(
                ByteBuffer.allocate(again.getStoreHostBytes().limit() > 8 ? 28 : 16), again.getStoreHostBytes(), again.getCommitLogOffset()),
            "topic", again.getTopic(), "queue_id", again.getQueueId(), "queue_offset", again.getQueueOffset(), "flag", again.getFlag(),
            "sys_flag", again.getSysFlag(), "born_timestamp", again.getBornTimestamp(), "store_timestamp", again.getStoreTimestamp(),
            "reconsume_times", again.getReconsumeTimes(), "properties", new TreeMap<>(again.getProperties()), "body", base64(again.getBody()));
    }

    static void messages() throws Exception {
        byte[] body = "hello \u4f60\u597d".getBytes(StandardCharsets.UTF_8);
        stored("plain", message("t", body), body);
        StringBuilder large = new StringBuilder();
        while (large.length() < 5000) large.append("The quick brown fox jumps over the lazy dog. ");
        byte[] big = large.toString().getBytes(StandardCharsets.UTF_8);
        for (CompressionType type : CompressionType.values()) {
            MessageExt m = message("t", CompressorFactory.getCompressor(type).compress(big, 5));
            m.setSysFlag(MessageSysFlag.COMPRESSED_FLAG | type.getCompressionFlag());
            stored("compressed " + type.name(), m, big);
        }
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Message m = new Message("t", "TagA", "key" + i, ("body-" + i).getBytes(StandardCharsets.UTF_8));
            m.setFlag(i);
            MessageClientIDSetter.setUniqID(m);
            MessageAccessor.putProperty(m, "UNIQ_KEY", "7F0000016B5D4E0E2F2A69388673000" + i);
            batch.add(m);
        }
        line("what", "batch", "bytes", base64(MessageDecoder.encodeMessages(batch)));
    }
}
