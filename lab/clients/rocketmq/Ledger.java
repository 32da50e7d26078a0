import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.DLedgerServer;
import io.openmessaging.storage.dledger.client.DLedgerClient;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Three nodes of DLedger in one program, and their client; logs lines of JSON. */
public final class Ledger {
    private static final String GROUP = "lab";
    private static final String PEERS = "n0-127.0.0.1:20911;n1-127.0.0.1:20912;n2-127.0.0.1:20913";
    private static final int DONE = 200;

    public static void main(String[] arguments) {
        try {
            play(arguments[0], Integer.parseInt(arguments[1]));
            System.exit(0);
        } catch (Exception failure) {  // the threads of nodes would go on for ever
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void play(String folder, int count) throws Exception {
        List<DLedgerServer> nodes = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            nodes.add(new DLedgerServer(config(folder, "n" + number)));
        }
        nodes.forEach(DLedgerServer::startup);
        DLedgerServer leader = leader(nodes, null);
        DLedgerClient client = new DLedgerClient(GROUP, PEERS);
        client.startup();
        long[] last = new long[1];
        Calls.sent("DLEDGER_METADATA,DLEDGER_APPEND", () -> {
            for (int index = 0; index < count; index++) {
                last[0] = done(client.append(("entry " + index).getBytes(StandardCharsets.UTF_8))).getIndex();
            }
            return null;
        });
        Calls.sent("DLEDGER_GET", () -> done(client.get(last[0])));
        refused("an entry that is not there", client.get(1000).getCode());
        String from = leader.getDLedgerConfig().getSelfId();
        String to = from.equals("n0") ? "n1" : "n0";
        refused("a hand-over without a term", client.leadershipTransfer(from, to, last[0]).getCode());
        Calls.sent("DLEDGER_LEADERSHIP_TRANSFER", () -> {
            nodes.forEach(node -> node.getDLedgerConfig().setPreferredLeaderIds(to));
            return leader(nodes, to);
        });
        DLedgerClient stranger = new DLedgerClient("nobody", PEERS);
        stranger.startup();
        refused("an entry of a group that nobody has", stranger.append(new byte[1]).getCode());
        stranger.shutdown();
        client.shutdown();
        nodes.forEach(DLedgerServer::shutdown);
    }

    private static DLedgerConfig config(String folder, String name) {
        DLedgerConfig config = new DLedgerConfig();
        config.setGroup(GROUP);
        config.setPeers(PEERS);
        config.setSelfId(name);
        config.setStoreBaseDir(folder + "/" + name);
        config.setStoreType(DLedgerConfig.FILE);
        config.setMappedFileSizeForEntryData(1 << 20);
        config.setMappedFileSizeForEntryIndex(1 << 16);
        config.setHeartBeatTimeIntervalMs(1000);
        return config;
    }

    /** The node that leads; {@code name}: once this one does. */
    private static DLedgerServer leader(List<DLedgerServer> nodes, String name) throws Exception {
        for (int tries = 0; tries < 200; tries++) {
            for (DLedgerServer node : nodes) {
                boolean wanted = name == null || node.getDLedgerConfig().getSelfId().equals(name);
                if (wanted && node.getMemberState().isLeader()) {
                    return node;
                }
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("no leader");
    }

    private static <T extends io.openmessaging.storage.dledger.protocol.RequestOrResponse> T done(T answer) {
        if (answer.getCode() != DONE) {
            throw new IllegalStateException(answer.getClass().getSimpleName() + ": code " + answer.getCode());
        }
        return answer;
    }

    private static void refused(String what, int code) {
        if (code == DONE) {
            throw new IllegalStateException(what + " was not refused");
        }
        System.out.printf("{\"what\":\"refused\",\"call\":\"%s\",\"error\":%d}%n", what, code);
    }
}
