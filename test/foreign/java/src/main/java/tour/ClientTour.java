package tour;

import static tour.Checks.equal;
import static tour.Checks.eventually;
import static tour.Checks.refused;
import static tour.Checks.that;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** The Java client itself, once through each member. */
final class ClientTour {
    private final Checks checks;
    private final String prefix;
    private final String member;
    private final String other;
    private final String root;
    private ZooKeeper zk;

    ClientTour(Checks checks, int index, String[] members) {
        this.checks = checks;
        this.prefix = "m" + index + "/";
        this.member = members[index];
        this.other = members[(index + 1) % members.length];
        this.root = "/java-" + System.nanoTime() + "-" + index;
    }

    static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    static ZooKeeper open(String connect) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper zk = new ZooKeeper(connect, 20_000, e -> {
            if (e.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        that(connected.await(Checks.PATIENCE_MS, TimeUnit.MILLISECONDS), "connected to " + connect);
        return zk;
    }

    /** Collects events. */
    static final class Events implements Watcher {
        final BlockingQueue<WatchedEvent> queue = new LinkedBlockingQueue<>();

        @Override
        public void process(WatchedEvent e) {
            if (e.getType() != EventType.None) {
                queue.add(e);
            }
        }

        void next(EventType type, String path) throws Exception {
            WatchedEvent e = queue.poll(Checks.PATIENCE_MS, TimeUnit.MILLISECONDS);
            that(e != null, "no event " + type + " of " + path);
            equal(type + " " + path, e.getType() + " " + e.getPath());
        }
    }

    private String make(String name) throws Exception {
        return zk.create(root + name, bytes("0"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    private void check(String name, Checks.Body body) {
        checks.check(prefix + name, body);
    }

    void run() {
        check("connect", () -> {
            zk = open(member);
            make("");
        });
        check("create-read-update-delete", this::crud);
        check("errors", this::errors);
        check("watches", this::watches);
        check("persistent-watches", this::persistentWatches);
        check("remove-watches", this::removeWatches);
        check("sequence-and-ephemerals", this::ephemerals);
        check("containers", () -> {
            String c = zk.create(root + "/container", null, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER);
            equal(0L, zk.exists(c, false).getEphemeralOwner());
        });
        check("transactions", this::transactions);
        check("multi-read", this::multiRead);
        check("acls", this::acls);
        check("session-moves", this::sessionMoves);
        check("large-data", () -> {
            byte[] big = new byte[900_000];
            big[899_999] = 7;
            String p = zk.create(root + "/big", big, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            equal((byte) 7, zk.getData(p, false, null)[899_999]);
        });
        check("pipeline", this::pipeline);
        check("close", () -> zk.close());
    }

    private void crud() throws Exception {
        String p = make("/a");
        Stat stat = new Stat();
        equal("0", new String(zk.getData(p, false, stat)));
        equal(0, stat.getVersion());
        equal(1, zk.setData(p, bytes("1"), 0).getVersion());
        zk.sync(p);
        Stat made = new Stat();
        equal(p + "/b", zk.create(p + "/b", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, made));
        that(made.getCzxid() > stat.getCzxid(), "zxids grow");
        equal(List.of("b"), zk.getChildren(p, false));
        equal(1, zk.getAllChildrenNumber(p));
        equal(null, zk.getData(p + "/b", false, null));
        zk.delete(p + "/b", 0);
        equal(null, zk.exists(p + "/b", false));
    }

    private void errors() throws Exception {
        String p = make("/errors");
        refused(KeeperException.NodeExistsException.class, () -> make("/errors"));
        refused(KeeperException.NoNodeException.class, () -> make("/none/x"));
        refused(KeeperException.BadVersionException.class, () -> zk.setData(p, null, 7));
        make("/errors/x");
        refused(KeeperException.NotEmptyException.class, () -> zk.delete(p, -1));
        zk.create(p + "/e", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        refused(KeeperException.NoChildrenForEphemeralsException.class, () -> make("/errors/e/x"));
        refused(KeeperException.InvalidACLException.class,
                () -> zk.create(p + "/y", null, new ArrayList<>(), CreateMode.PERSISTENT));
        refused(KeeperException.BadArgumentsException.class, () -> zk.delete("/zookeeper", -1));
    }

    private void watches() throws Exception {
        ZooKeeper writer = open(other);
        try {
            Events events = new Events();
            String p = root + "/watched";
            equal(null, zk.exists(p, events));
            writer.create(p, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            events.next(EventType.NodeCreated, p);
            zk.getData(p, events, null);
            zk.getChildren(p, events);
            writer.setData(p, bytes("x"), -1);
            events.next(EventType.NodeDataChanged, p);
            writer.create(p + "/c", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            events.next(EventType.NodeChildrenChanged, p);
            zk.getData(p + "/c", events, null);
            writer.delete(p + "/c", -1);
            events.next(EventType.NodeDeleted, p + "/c");
            that(events.queue.isEmpty(), "one event per watch");
        } finally {
            writer.close();
        }
    }

    private void persistentWatches() throws Exception {
        ZooKeeper writer = open(other);
        try {
            String p = make("/persistent");
            Events plain = new Events();
            Events deep = new Events();
            zk.addWatch(p, plain, AddWatchMode.PERSISTENT);
            zk.addWatch(p, deep, AddWatchMode.PERSISTENT_RECURSIVE);
            for (int i = 0; i < 3; i++) {
                writer.create(p + "/c", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                plain.next(EventType.NodeChildrenChanged, p);
                deep.next(EventType.NodeCreated, p + "/c");
                writer.create(p + "/c/d", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                deep.next(EventType.NodeCreated, p + "/c/d");
                writer.delete(p + "/c/d", -1);
                deep.next(EventType.NodeDeleted, p + "/c/d");
                writer.delete(p + "/c", -1);
                plain.next(EventType.NodeChildrenChanged, p);
                deep.next(EventType.NodeDeleted, p + "/c");
            }
            zk.removeWatches(p, deep, Watcher.WatcherType.PersistentRecursive, false);
            writer.setData(p, bytes("x"), -1);
            plain.next(EventType.NodeDataChanged, p);
        } finally {
            writer.close();
        }
    }

    private void removeWatches() throws Exception {
        String p = make("/removed");
        Events events = new Events();
        refused(KeeperException.NoWatcherException.class, () -> zk.removeWatches(p, events, Watcher.WatcherType.Data, false));
        zk.getData(p, events, null);
        zk.getChildren(p, events);
        zk.removeWatches(p, events, Watcher.WatcherType.Data, false);
        events.next(EventType.DataWatchRemoved, p);
        zk.setData(p, null, -1);
        zk.create(p + "/c", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        events.next(EventType.NodeChildrenChanged, p);
    }

    private void ephemerals() throws Exception {
        String p = make("/ephemerals");
        ZooKeeper owner = open(other);
        String first = owner.create(p + "/s-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
        String second = owner.create(p + "/s-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
        equal(p + "/s-0000000000", first);
        equal(p + "/s-0000000001", second);
        equal(2, owner.getEphemerals(p).size());
        equal(owner.getSessionId(), owner.exists(first, false).getEphemeralOwner());
        eventually("seen through " + member, () -> zk.getChildren(p, false).size() == 2);
        owner.close();
        eventually("gone with the session", () -> zk.getChildren(p, false).isEmpty());
    }

    private void transactions() throws Exception {
        String p = make("/multi");
        List<OpResult> done = zk.multi(List.of(
                Op.create(p + "/a", bytes("1"), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
                Op.setData(p + "/a", bytes("2"), 0),
                Op.create(p + "/a/s-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL),
                Op.check(p + "/a", 1)));
        equal(4, done.size());
        equal(p + "/a/s-0000000000", ((OpResult.CreateResult) done.get(2)).getPath());
        try {
            zk.multi(List.of(Op.delete(p + "/a/s-0000000000", -1), Op.check(p + "/a", 9), Op.delete(p + "/a", -1)));
            throw new AssertionError("a failing transaction was carried out");
        } catch (KeeperException.BadVersionException e) {
            equal(KeeperException.Code.BADVERSION.intValue(), ((OpResult.ErrorResult) e.getResults().get(1)).getErr());
        }
        that(zk.exists(p + "/a/s-0000000000", false) != null, "nothing of it is done");
    }

    private void multiRead() throws Exception {
        String p = make("/multiread");
        List<OpResult> got = zk.multi(List.of(Op.getData(p), Op.getChildren(root), Op.getData(p + "/none")));
        equal("0", new String(((OpResult.GetDataResult) got.get(0)).getData()));
        that(((OpResult.GetChildrenResult) got.get(1)).getChildren().contains("multiread"), "children");
        equal(KeeperException.Code.NONODE.intValue(), ((OpResult.ErrorResult) got.get(2)).getErr());
    }

    private void acls() throws Exception {
        ZooKeeper bob = open(other);
        try {
            bob.addAuthInfo("digest", bytes("bob:secret"));
            String p = root + "/bobs";
            bob.sync(root);
            bob.create(p, bytes("x"), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
            eventually("there", () -> {
                try {
                    return zk.exists(p, false) != null;
                } catch (KeeperException.NoAuthException e) {
                    return true;
                }
            });
            refused(KeeperException.NoAuthException.class, () -> zk.getData(p, false, null));
            refused(KeeperException.NoAuthException.class, () -> zk.setACL(p, Ids.OPEN_ACL_UNSAFE, -1));
            equal("bob:fyVmFCwVbTJYrznoSu1koqYEYF0=", bob.getACL(p, new Stat()).get(0).getId().getId());
            bob.setACL(p, Ids.READ_ACL_UNSAFE, 0);
            zk.sync(p);
            equal("x", new String(zk.getData(p, false, null)));
            refused(KeeperException.NoAuthException.class, () -> zk.setData(p, null, -1));
            that(bob.whoAmI().stream().anyMatch(c -> c.getAuthScheme().equals("digest") && c.getUser().equals("bob")), "whoAmI");
        } finally {
            bob.close();
        }
    }

    private void sessionMoves() throws Exception {
        ZooKeeper old = open(member);
        String p = old.create(root + "/moving", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper moved = new ZooKeeper(other, 20_000, e -> {
            if (e.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, old.getSessionId(), old.getSessionPasswd());
        that(connected.await(Checks.PATIENCE_MS, TimeUnit.MILLISECONDS), "taken up elsewhere");
        equal(old.getSessionId(), moved.getSessionId());
        moved.setData(p, bytes("moved"), -1);
        moved.close();
        eventually("ended with its session", () -> zk.exists(p, false) == null);
        old.close(100);
    }

    private void pipeline() throws Exception {
        String p = make("/pipeline");
        int n = 500;
        BlockingQueue<String> names = new LinkedBlockingQueue<>();
        for (int i = 0; i < n; i++) {
            zk.create(p + "/s-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL,
                    (rc, path, ctx, name) -> names.add(rc == 0 ? name : "error " + rc), null);
        }
        for (int i = 0; i < n; i++) {
            equal(String.format("%s/s-%010d", p, i), names.poll(Checks.PATIENCE_MS, TimeUnit.MILLISECONDS));
        }
        equal(n, zk.getChildren(p, false).size());
    }
}
