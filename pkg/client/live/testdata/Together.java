import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/** Carries out one word a line with Curator's recipes and prints what it is worth. */
public class Together {
    public static void main(String[] args) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.newClient(args[0], 30000, 15000, new RetryOneTime(100));
        c.start();
        c.blockUntilConnected();
        InterProcessMutex lock = new InterProcessMutex(c, "/lock");
        InterProcessReadWriteLock rw = new InterProcessReadWriteLock(c, "/rw");
        DistributedBarrier barrier = new DistributedBarrier(c, "/barrier");
        DistributedDoubleBarrier twice = new DistributedDoubleBarrier(c, "/double", 2);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        say("ready");
        for (String word = in.readLine(); word != null; word = in.readLine()) {
            switch (word) {
                case "lock": say(lock.acquire(30, TimeUnit.SECONDS)); break;
                case "trylock": say(lock.acquire(100, TimeUnit.MILLISECONDS)); break;
                case "unlock": lock.release(); say("ok"); break;
                case "read": say(rw.readLock().acquire(100, TimeUnit.MILLISECONDS)); break;
                case "unread": rw.readLock().release(); say("ok"); break;
                case "write": say(rw.writeLock().acquire(100, TimeUnit.MILLISECONDS)); break;
                case "unwrite": rw.writeLock().release(); say("ok"); break;
                case "close": barrier.setBarrier(); say("ok"); break;
                case "open": barrier.removeBarrier(); say("ok"); break;
                case "enter": say(twice.enter(30, TimeUnit.SECONDS)); break;
                case "leave": say(twice.leave(30, TimeUnit.SECONDS)); break;
                default: say("what?");
            }
        }
        c.close();
    }

    private static void say(Object what) {
        System.out.println(what);
        System.out.flush();
    }
}
