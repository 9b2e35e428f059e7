package tour;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Runs checks one by one, each within a bound, and prints a line for each. */
final class Checks {
    /** How long anything that must happen may take. */
    static final long PATIENCE_MS = 15_000;

    private final String suite;
    private final ExecutorService threads = Executors.newCachedThreadPool(r -> {
        Thread t = new Thread(r);
        t.setDaemon(true);
        return t;
    });
    private int passed;
    private int failed;

    Checks(String suite) {
        this.suite = suite;
    }

    interface Body {
        void run() throws Exception;
    }

    void check(String name, Body body) {
        Future<?> done = threads.submit((Callable<Void>) () -> {
            body.run();
            return null;
        });
        try {
            done.get(3 * PATIENCE_MS, TimeUnit.MILLISECONDS);
            passed++;
            System.out.println("ok " + suite + " " + name);
        } catch (Exception e) {
            done.cancel(true);
            failed++;
            Throwable cause = e.getCause() == null ? e : e.getCause();
            StackTraceElement[] at = cause.getStackTrace();
            String where = "";
            for (StackTraceElement el : at) {
                if (el.getClassName().startsWith("tour.") && !el.getClassName().equals("tour.Checks")) {
                    where = " at " + el;
                    break;
                }
            }
            System.out.println("FAIL " + suite + " " + name + ": " + cause + where);
        }
    }

    /** Ends the program. */
    void finish() {
        System.out.println(passed + " passed, " + failed + " failed");
        System.out.flush();
        Runtime.getRuntime().halt(failed == 0 ? 0 : 1);
    }

    static void that(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object want, Object got) {
        if (!java.util.Objects.equals(want, got)) {
            throw new AssertionError("want " + want + ", got " + got);
        }
    }

    /** Waits until the condition holds. */
    static void eventually(String what, Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
        while (!holds.call()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("not within " + PATIENCE_MS + " ms: " + what);
            }
            Thread.sleep(10);
        }
    }

    /** Reports whether the call throws an exception of the class. */
    static void refused(Class<? extends Exception> want, Body body) throws Exception {
        try {
            body.run();
        } catch (Exception e) {
            that(want.isInstance(e), "want " + want.getSimpleName() + ", got " + e);
            return;
        }
        throw new AssertionError("want " + want.getSimpleName() + ", got an answer");
    }
}
