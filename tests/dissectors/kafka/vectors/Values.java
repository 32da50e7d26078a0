// Values for fields, made from the field's path and the case: the same in every version and release that has the field.

import java.util.List;
import java.util.SplittableRandom;

final class Values {
    /** What a message is filled with: all that it can hold; some of it; as little as it may hold. */
    enum Fill { MOST, SOME, OTHER, LEAST }

    private static final List<String> WORDS = List.of(
            "orders", "payments", "group-7", "broker-1.example.com", "", "täglich-€", "\uD83D\uDE80 rocket", "日本語", "a",
            "x".repeat(127), "x".repeat(128), "é".repeat(100));
    private static final long[] EDGES = {0, 1, -1, -2, 127, 128, 300, 65_535, Long.MIN_VALUE, Long.MAX_VALUE, 1_700_000_000_123L};

    final Fill fill;
    private final String message;

    Values(String message, Fill fill) {
        this.message = message;
        this.fill = fill;
    }

    private SplittableRandom chance(String path, String what) {
        String text = message + ' ' + path.toLowerCase().replace("_", "") + ' ' + fill + ' ' + what;
        return new SplittableRandom(text.hashCode());
    }

    /** Whether something that may be missing is: a null, or a tagged field that stays out. */
    boolean isMissing(String path) {
        return switch (fill) {
            case MOST -> false;
            case SOME, OTHER -> chance(path, "missing").nextInt(3) == 0;
            case LEAST -> true;
        };
    }

    /** How many elements an array gets: fewer the deeper it stands. */
    int count(String path, int depth) {
        return switch (fill) {
            case MOST -> depth == 0 ? 3 : 1 + chance(path, "count").nextInt(2);
            case SOME, OTHER -> depth == 0 ? chance(path, "count").nextInt(4) : chance(path, "count").nextInt(3);
            case LEAST -> 0;
        };
    }

    boolean truth(String path) {
        return fill == Fill.MOST || chance(path, "truth").nextBoolean();
    }

    /** A number that fits into so many bits, edges among them. */
    long integer(String path, int bits, boolean signed) {
        SplittableRandom chance = chance(path, "integer");
        long any = chance.nextInt(2) == 0 ? EDGES[chance.nextInt(EDGES.length)] : chance.nextLong(-3, 100_000);
        return signed ? any << (64 - bits) >> (64 - bits) : any & (1L << bits) - 1;
    }

    double real(String path) {
        return chance(path, "real").nextInt(-4_000, 4_000) / 16.0;
    }

    String text(String path) {
        SplittableRandom chance = chance(path, "text");
        return chance.nextInt(3) == 0 ? WORDS.get(chance.nextInt(WORDS.size())) : "name-" + chance.nextInt(1_000);
    }

    byte[] bytes(String path) {
        SplittableRandom chance = chance(path, "bytes");
        byte[] raw = new byte[switch (chance.nextInt(4)) { case 0 -> 0; case 1 -> 130; default -> 9; }];
        java.util.Arrays.fill(raw, (byte) chance.nextInt(256));
        if (raw.length > 1) {
            raw[0] = (byte) 0xff;
            raw[raw.length - 1] = 0;
        }
        return raw;
    }

    /** The two halves of a UUID. */
    long[] uuid(String path) {
        SplittableRandom chance = chance(path, "uuid");
        return chance.nextInt(8) == 0 ? new long[] {0, 0} : new long[] {chance.nextLong(), chance.nextInt(256)};
    }
}
