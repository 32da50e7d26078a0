// Every message class of a release of Kafka at every version, filled, written by Kafka, and told as JSON by Kafka.
//
// java MessageVectors JARS_FOLDER SEEN_FILE [only-new] > vectors.ndjson: a line a message, version and case. SEEN_FILE holds
// what earlier runs wrote, by Kafka's own description of the bytes (Schema); "only-new" leaves all that out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.regex.Pattern;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;

public final class MessageVectors {
    private static final int UNKNOWN_TAG = 9_001;
    private static final byte[] UNKNOWN = {7, 0, (byte) 0xff};
    private static final Pattern GENERATED = Pattern.compile(".*/(generated|message|metadata)/(?!.*JsonConverter)[A-Za-z]+\\.class");

    public static void main(String[] arguments) throws Exception {
        Path seenFile = Path.of(arguments[1]);
        Set<String> seen = new TreeSet<>(Files.exists(seenFile) ? Files.readAllLines(seenFile) : List.of());
        boolean onlyNew = arguments.length > 2;
        for (Class<? extends Message> type : messages(Path.of(arguments[0])).values()) {
            Message message = type.getDeclaredConstructor().newInstance();
            Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
            for (short version = message.lowestSupportedVersion(); version <= message.highestSupportedVersion(); version++) {
                String description = nameOf(type) + ' ' + version + ' ' + SchemaText.of(schemas[version]);
                if (seen.add(description) || !onlyNew) {
                    print(type, schemas[version], version);
                }
            }
        }
        Files.write(seenFile, seen);
    }

    private static void print(Class<? extends Message> type, Schema schema, short version) throws Exception {
        for (Values.Fill fill : Values.Fill.values()) {
            try {
                Lines.print(line(type, schema, version, fill));
            } catch (RuntimeException unwritable) { // Kafka 2.7 writes records by another class
                System.err.println("left out: " + nameOf(type) + ' ' + version + ": " + unwritable.getMessage());
            }
        }
    }

    /** Classes of messages that Kafka generated, by name. */
    private static TreeMap<String, Class<? extends Message>> messages(Path folder) throws Exception {
        TreeMap<String, Class<? extends Message>> found = new TreeMap<>();
        try (DirectoryStream<Path> jars = Files.newDirectoryStream(folder, "kafka*.jar")) {
            for (Path path : jars) {
                try (JarFile jar = new JarFile(path.toFile())) {
                    for (String name : jar.stream().map(JarEntry::getName).filter(GENERATED.asMatchPredicate()).toList()) {
                        add(found, name.replace(".class", "").replace('/', '.'));
                    }
                }
            }
        }
        return found;
    }

    private static void add(Map<String, Class<? extends Message>> found, String name) throws ClassNotFoundException {
        Class<?> type = Class.forName(name, false, MessageVectors.class.getClassLoader());
        if (ApiMessage.class.isAssignableFrom(type) && !type.isInterface()) {
            found.put(nameOf(type), type.asSubclass(Message.class));
        }
    }

    static String nameOf(Class<?> type) {
        return type.getSimpleName().replaceFirst("(Request|Response|Header)Data$", "$1");
    }

    private static ObjectNode line(Class<? extends Message> type, Schema schema, short version, Values.Fill fill) throws Exception {
        Filler filler = new Filler(new Values(nameOf(type), fill));
        Message message = filler.filled(type, schema);
        ObjectNode line = Lines.object();
        line.put("name", nameOf(type));
        line.put("key", ((ApiMessage) message).apiKey());
        line.put("version", version);
        line.put("case", fill.name().toLowerCase());
        if (type.getSimpleName().matches(".*(Request|Response)Data")) {
            ApiMessageType api = ApiMessageType.fromApiKey(((ApiMessage) message).apiKey());
            boolean request = type.getSimpleName().endsWith("RequestData");
            line.put("header", request ? api.requestHeaderVersion(version) : api.responseHeaderVersion(version));
        }
        if (fill == Values.Fill.MOST && SchemaText.isFlexible(schema)) {
            message.unknownTaggedFields().add(new RawTaggedField(UNKNOWN_TAG, UNKNOWN));
            line.putObject("unknown_tags").put(String.valueOf(UNKNOWN_TAG), Lines.hex(UNKNOWN));
        }
        byte[] raw = written(message, version);
        line.set("value", told(message, type, schema, version, raw));
        line.put("bytes", Lines.hex(raw));
        return line;
    }

    static byte[] written(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(message.getClass() + " is smaller than it said");
        }
        return buffer.array();
    }

    /** The message as Kafka's converter tells it; by Kafka's generic reader where the release has no converter for it. */
    static JsonNode told(Message message, Class<?> type, Schema schema, short version, byte[] raw) throws Exception {
        Class<?> converter;
        try {
            converter = Class.forName(type.getName() + "JsonConverter");
        } catch (ClassNotFoundException none) {
            return SchemaText.told(schema.read(ByteBuffer.wrap(raw)));
        }
        JsonNode node;
        try {
            Method withoutRecords = converter.getMethod("write", type, short.class, boolean.class);
            node = (JsonNode) withoutRecords.invoke(null, message, version, false);
        } catch (NoSuchMethodException beforeKafka28) {
            node = (JsonNode) converter.getMethod("write", type, short.class).invoke(null, message, version);
        }
        Filler.tellRecords(node, message);
        return node;
    }
}
