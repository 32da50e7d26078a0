import com.alibaba.fastjson.JSON;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarFile;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/** Headers as RocketMQ 4.9.7 writes them, with its own classes: among them those that were removed since. */
public class OldVectors {
    public static void main(String[] args) throws Exception {
        List<String> names = new ArrayList<>();
        try (JarFile jar = new JarFile(args[0])) {
            jar.stream().map(entry -> entry.getName())
                .filter(name -> name.startsWith("org/apache/rocketmq/common/protocol/header/") && name.endsWith(".class"))
                .sorted().forEach(names::add);
        }
        for (String name : names) {
            Class<?> type = Class.forName(name.replace('/', '.').substring(0, name.length() - 6));
            if (!CommandCustomHeader.class.isAssignableFrom(type) || Modifier.isAbstract(type.getModifiers())) continue;
            for (SerializeType serialization : SerializeType.values()) write(type, serialization);
        }
    }

    static void write(Class<?> type, SerializeType serialization) throws Exception {
        RemotingCommand command = RemotingCommand.createRequestCommand(0, filled(type));
        command.setSerializeTypeCurrentRPC(serialization);
        command.setOpaque(4711);
        command.setRemark("a remark \u00fc");
        command.setBody(new byte[] {'b'});
        ByteBuffer buffer = command.encode();
        byte[] frame = new byte[buffer.remaining()];
        buffer.get(frame);
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("class", type.getSimpleName());
        line.put("serialization", serialization.name());
        line.put("fields", command.getExtFields() == null ? new TreeMap<>() : new TreeMap<>(command.getExtFields()));
        line.put("frame", Base64.getEncoder().encodeToString(frame));
        System.out.println(JSON.toJSONString(line));
    }

    static CommandCustomHeader filled(Class<?> type) throws Exception {
        Constructor<?> constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
        Object made = constructor.newInstance();
        int place = 0;
        for (Class<?> c = type; c != Object.class; c = c.getSuperclass()) {
            for (Field field : c.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers())) continue;
                field.setAccessible(true);
                Object value = value(field, ++place);
                if (value != null) field.set(made, value);
            }
        }
        return (CommandCustomHeader) made;
    }

    static Object value(Field field, int place) {
        Class<?> type = field.getType();
        String name = field.getName();
        if (type == String.class && (name.equals("properties") || name.equals("i"))) {
            Map<String, String> properties = new LinkedHashMap<>();
            properties.put("KEYS", "key one");
            properties.put("UNIQ_KEY", "7F0000016B5D4E0E2F2A693886730000");
            return MessageDecoder.messageProperties2String(properties);
        }
        if (type == String.class) return name + " \u00fc\u00df \"quoted\" \\ \u4f60\ud83d\ude00";
        if (type == int.class || type == Integer.class) return place % 2 == 0 ? 7 + place : -3 - place;
        if (type == long.class || type == Long.class) return (1L << 40) + place;
        if (type == boolean.class || type == Boolean.class) return place % 2 == 0;
        return null;
    }
}
