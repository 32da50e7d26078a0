import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/** Calls of an administrator, as lines of JSON. */
final class Calls {
    private Calls() {}

    interface Call {
        Object run() throws Exception;
    }

    /** A call, answered or refused, and the commands that it puts on the wire. */
    static void sent(String commands, Call call) throws Exception {
        if (answered(commands, call)) {
            System.out.printf("{\"what\":\"sent\",\"commands\":[\"%s\"]}%n", commands.replace(",", "\",\""));
        }
    }

    static void refused(String what, Call call) throws Exception {
        if (answered(what, call)) {
            throw new IllegalStateException(what + " was not refused");
        }
    }

    private static boolean answered(String what, Call call) throws Exception {
        int code;
        try {
            call.run();
            return true;
        } catch (MQBrokerException refusal) {
            code = refusal.getResponseCode();
        } catch (MQClientException refusal) {
            code = refusal.getResponseCode();
        }
        System.out.printf("{\"what\":\"refused\",\"call\":\"%s\",\"error\":%d}%n", what, code);
        return false;
    }
}
