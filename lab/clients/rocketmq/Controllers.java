import java.util.List;
import java.util.Properties;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What an administrator asks of a controller: "elect" while both brokers live, "clean" when one is gone. */
public final class Controllers {
    private static final String AT = "127.0.0.1:9878";
    private static final String CLUSTER = "lab";
    private static final String BROKER = "broker-a";

    public static void main(String[] arguments) {
        try {
            DefaultMQAdminExt admin = new DefaultMQAdminExt(8000);
            admin.setNamesrvAddr("127.0.0.1:9876");
            admin.start();
            if (arguments[0].equals("elect")) {
                elect(admin);
            } else {
                clean(admin);
            }
            admin.shutdown();
            System.exit(0);
        } catch (Exception failure) {  // the threads of clients would go on for ever
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void elect(DefaultMQAdminExt admin) throws Exception {
        Calls.sent("CONTROLLER_GET_METADATA_INFO", () -> admin.getControllerMetaData(AT));
        Calls.sent("GET_CONTROLLER_CONFIG", () -> admin.getControllerConfig(List.of(AT)));
        Calls.sent("UPDATE_CONTROLLER_CONFIG", () -> {
            Properties settings = new Properties();
            settings.setProperty("notifyBrokerRoleChanged", "true");
            admin.updateControllerConfig(settings, List.of(AT));
            return null;
        });
        Calls.refused("a setting that nobody may change", () -> {
            Properties settings = new Properties();
            settings.setProperty("configStorePath", "/elsewhere");
            admin.updateControllerConfig(settings, List.of(AT));
            return null;
        });
        Calls.sent("CONTROLLER_GET_SYNC_STATE_DATA", () -> admin.getInSyncStateData(AT, List.of(BROKER)));
        Calls.sent("GET_BROKER_EPOCH_CACHE", () -> admin.getBrokerEpochCache("127.0.0.1:10911"));
        Calls.refused("an election of a broker that nobody knows", () -> admin.electMaster(AT, CLUSTER, BROKER, 9L));
        Calls.refused("an election of a name that nobody has", () -> admin.electMaster(AT, CLUSTER, "nobody", 1L));
        Calls.sent("CONTROLLER_ELECT_MASTER", () -> elect(admin, 2));
        Calls.sent("CONTROLLER_ELECT_MASTER", () -> elect(admin, 1));
    }

    private static Object elect(DefaultMQAdminExt admin, long broker) throws Exception {
        try {
            return admin.electMaster(AT, CLUSTER, BROKER, broker);
        } catch (RuntimeException failure) {  // the client cannot always read the answer
            System.err.println(failure);
            return null;
        } finally {
            Thread.sleep(4000);
        }
    }

    private static void clean(DefaultMQAdminExt admin) throws Exception {
        Calls.sent("CONTROLLER_GET_SYNC_STATE_DATA", () -> admin.getInSyncStateData(AT, List.of(BROKER)));
        Calls.refused("the removal of a broker that lives", () -> {
            admin.cleanControllerBrokerData(AT, CLUSTER, BROKER, null, false);
            return null;
        });
        Calls.refused("the removal of a name that nobody has", () -> {
            admin.cleanControllerBrokerData(AT, CLUSTER, "nobody", null, true);
            return null;
        });
        Calls.sent("CLEAN_BROKER_DATA", () -> {
            admin.cleanControllerBrokerData(AT, CLUSTER, BROKER, "1", false);
            return null;
        });
    }
}
