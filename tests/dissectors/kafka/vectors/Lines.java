// Lines of JSON out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

final class Lines {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Lines() { }

    static ObjectNode object() {
        return JSON.createObjectNode();
    }

    /** The start of a line about a thing. */
    static ObjectNode line(String what) {
        return object().put("what", what);
    }

    static void print(JsonNode line) throws Exception {
        OUT.println(JSON.writeValueAsString(line));
    }

    static String hex(byte[] raw) {
        return HexFormat.of().formatHex(raw);
    }

    static String hex(ByteBuffer buffer) {
        byte[] raw = new byte[buffer.remaining()];
        buffer.duplicate().get(raw);
        return hex(raw);
    }
}
