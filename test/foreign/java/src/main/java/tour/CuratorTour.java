package tour;

import static tour.Checks.equal;
import static tour.Checks.eventually;
import static tour.Checks.that;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/** Curator's recipes between two clients: one at the member, one at the next. */
final class CuratorTour {
    private final Checks checks;
    private final String prefix;
    private final String[] members;
    private final int index;
    private final String root;
    private CuratorFramework a;
    private CuratorFramework b;

    CuratorTour(Checks checks, int index, String[] members) {
        this.checks = checks;
        this.prefix = "m" + index + "/";
        this.members = members;
        this.index = index;
        this.root = "/curator-" + System.nanoTime() + "-" + index;
    }

    private static CuratorFramework open(String connect) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.newClient(connect, 20_000, 10_000, new RetryNTimes(3, 200));
        c.start();
        that(c.blockUntilConnected(10, TimeUnit.SECONDS), "connected to " + connect);
        return c;
    }

    private void check(String name, Checks.Body body) {
        checks.check(prefix + name, body);
    }

    void run() {
        check("connect", () -> {
            a = open(members[index]);
            b = open(members[(index + 1) % members.length]);
            a.create().creatingParentContainersIfNeeded().forPath(root + "/base");
            b.sync().forPath(root);
        });
        check("mutex", this::mutex);
        check("read-write-lock", this::readWriteLock);
        check("semaphore", this::semaphore);
        check("leader-latch", this::leaderLatch);
        check("leader-selector", this::leaderSelector);
        check("curator-cache", this::curatorCache);
        check("path-children-cache", this::pathChildrenCache);
        check("tree-cache", this::treeCache);
        check("barrier", this::barrier);
        check("double-barrier", this::doubleBarrier);
        check("atomic-long", this::atomicLong);
        check("shared-count", this::sharedCount);
        check("persistent-node", this::persistentNode);
        check("persistent-ttl-node", this::persistentTtlNode);
        check("group-member", this::groupMember);
        check("transaction", this::transaction);
        check("namespace-and-protection", this::protection);
        check("close", () -> {
            a.delete().deletingChildrenIfNeeded().forPath(root);
            a.close();
            b.close();
        });
    }

    private void mutex() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger counted = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        List<Throwable> faults = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            CuratorFramework client = t % 2 == 0 ? a : b;
            Thread thread = new Thread(() -> {
                InterProcessMutex lock = new InterProcessMutex(client, root + "/mutex");
                try {
                    for (int i = 0; i < 5; i++) {
                        that(lock.acquire(15, TimeUnit.SECONDS), "acquired");
                        that(inside.incrementAndGet() == 1, "alone inside");
                        counted.incrementAndGet();
                        inside.decrementAndGet();
                        lock.release();
                    }
                } catch (Throwable e) {
                    synchronized (faults) {
                        faults.add(e);
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread t : threads) {
            t.join();
        }
        equal(List.of(), faults);
        equal(20, counted.get());
    }

    private void readWriteLock() throws Exception {
        InterProcessReadWriteLock one = new InterProcessReadWriteLock(a, root + "/rw");
        InterProcessReadWriteLock two = new InterProcessReadWriteLock(b, root + "/rw");
        that(one.readLock().acquire(10, TimeUnit.SECONDS), "first reader");
        that(two.readLock().acquire(10, TimeUnit.SECONDS), "second reader");
        two.readLock().release();
        that(!two.writeLock().acquire(300, TimeUnit.MILLISECONDS), "no writer beside a reader");
        one.readLock().release();
        that(two.writeLock().acquire(10, TimeUnit.SECONDS), "writer");
        that(!one.readLock().acquire(300, TimeUnit.MILLISECONDS), "no reader beside a writer");
        two.writeLock().release();
    }

    private void semaphore() throws Exception {
        InterProcessSemaphoreV2 one = new InterProcessSemaphoreV2(a, root + "/semaphore", 2);
        InterProcessSemaphoreV2 two = new InterProcessSemaphoreV2(b, root + "/semaphore", 2);
        Lease first = one.acquire(10, TimeUnit.SECONDS);
        Lease second = two.acquire(10, TimeUnit.SECONDS);
        that(first != null && second != null, "two leases");
        equal(null, one.acquire(500, TimeUnit.MILLISECONDS));
        two.returnLease(second);
        Lease third = one.acquire(10, TimeUnit.SECONDS);
        that(third != null, "a lease that was given back");
        one.returnLease(first);
        one.returnLease(third);
    }

    private void leaderLatch() throws Exception {
        LeaderLatch one = new LeaderLatch(a, root + "/latch", "one");
        LeaderLatch two = new LeaderLatch(b, root + "/latch", "two");
        one.start();
        that(one.await(10, TimeUnit.SECONDS), "one leads");
        two.start();
        eventually("two takes part", () -> one.getParticipants().size() == 2);
        that(!two.hasLeadership(), "one leader");
        equal("one", two.getLeader().getId());
        one.close();
        that(two.await(10, TimeUnit.SECONDS), "two follows");
        two.close();
    }

    private void leaderSelector() throws Exception {
        BlockingQueue<String> led = new LinkedBlockingQueue<>();
        List<LeaderSelector> all = new ArrayList<>();
        for (CuratorFramework c : List.of(a, b)) {
            String name = c == a ? "a" : "b";
            LeaderSelector s = new LeaderSelector(c, root + "/selector", new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    led.add(name);
                    Thread.sleep(20);
                }
            });
            s.autoRequeue();
            s.start();
            all.add(s);
        }
        Set<String> seen = ConcurrentHashMap.newKeySet();
        eventually("both lead in turn", () -> {
            String name = led.poll(1, TimeUnit.SECONDS);
            if (name != null) {
                seen.add(name);
            }
            return seen.size() == 2;
        });
        all.forEach(LeaderSelector::close);
    }

    private void curatorCache() throws Exception {
        String p = root + "/cache";
        a.create().forPath(p, new byte[] {1});
        b.sync().forPath(p);
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        CuratorCache cache = CuratorCache.build(b, p);
        cache.listenable().addListener(CuratorCacheListener.builder()
                .forCreates(n -> events.add("+" + n.getPath().substring(root.length())))
                .forChanges((o, n) -> events.add("=" + n.getPath().substring(root.length())))
                .forDeletes(n -> events.add("-" + n.getPath().substring(root.length()))).build());
        cache.start();
        equal("+/cache", events.poll(10, TimeUnit.SECONDS));
        a.create().forPath(p + "/x", new byte[] {1});
        equal("+/cache/x", events.poll(10, TimeUnit.SECONDS));
        a.create().forPath(p + "/x/y");
        equal("+/cache/x/y", events.poll(10, TimeUnit.SECONDS));
        a.setData().forPath(p + "/x", new byte[] {2});
        equal("=/cache/x", events.poll(10, TimeUnit.SECONDS));
        a.delete().forPath(p + "/x/y");
        equal("-/cache/x/y", events.poll(10, TimeUnit.SECONDS));
        equal((byte) 2, cache.get(p + "/x").orElseThrow().getData()[0]);
        cache.close();
    }

    @SuppressWarnings("deprecation")
    private void pathChildrenCache() throws Exception {
        String p = root + "/children";
        a.create().forPath(p);
        b.sync().forPath(p);
        try (PathChildrenCache cache = new PathChildrenCache(b, p, true)) {
            cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
            for (int i = 0; i < 10; i++) {
                a.create().forPath(p + "/" + i, new byte[] {0});
            }
            eventually("ten children", () -> cache.getCurrentData().size() == 10);
            a.setData().forPath(p + "/3", new byte[] {9});
            eventually("a change", () -> cache.getCurrentData(p + "/3").getData()[0] == 9);
            a.delete().forPath(p + "/3");
            eventually("a deletion", () -> cache.getCurrentData().size() == 9);
        }
    }

    @SuppressWarnings("deprecation")
    private void treeCache() throws Exception {
        String p = root + "/tree";
        a.create().creatingParentsIfNeeded().forPath(p + "/a/b", new byte[] {1});
        b.sync().forPath(p);
        try (TreeCache cache = new TreeCache(b, p)) {
            cache.start();
            eventually("the tree", () -> cache.getCurrentData(p + "/a/b") != null);
            a.create().forPath(p + "/a/b/c", new byte[] {3});
            eventually("a node below", () -> cache.getCurrentData(p + "/a/b/c") != null);
            a.delete().deletingChildrenIfNeeded().forPath(p + "/a");
            eventually("all gone", () -> cache.getCurrentChildren(p) != null && cache.getCurrentChildren(p).isEmpty());
        }
    }

    private void barrier() throws Exception {
        DistributedBarrier one = new DistributedBarrier(a, root + "/barrier");
        DistributedBarrier two = new DistributedBarrier(b, root + "/barrier");
        one.setBarrier();
        b.sync().forPath(root);
        that(!two.waitOnBarrier(300, TimeUnit.MILLISECONDS), "it stands");
        one.removeBarrier();
        that(two.waitOnBarrier(10, TimeUnit.SECONDS), "it is gone");
    }

    private void doubleBarrier() throws Exception {
        CountDownLatch through = new CountDownLatch(2);
        List<Throwable> faults = new ArrayList<>();
        for (CuratorFramework c : List.of(a, b)) {
            new Thread(() -> {
                try {
                    DistributedDoubleBarrier d = new DistributedDoubleBarrier(c, root + "/double", 2);
                    that(d.enter(10, TimeUnit.SECONDS), "entered");
                    that(d.leave(10, TimeUnit.SECONDS), "left");
                } catch (Throwable e) {
                    synchronized (faults) {
                        faults.add(e);
                    }
                }
                through.countDown();
            }).start();
        }
        that(through.await(25, TimeUnit.SECONDS), "both are through");
        equal(List.of(), faults);
    }

    private void atomicLong() throws Exception {
        List<Thread> threads = new ArrayList<>();
        AtomicInteger succeeded = new AtomicInteger();
        for (CuratorFramework c : List.of(a, b)) {
            Thread t = new Thread(() -> {
                DistributedAtomicLong n = new DistributedAtomicLong(c, root + "/long", new RetryNTimes(50, 10));
                for (int i = 0; i < 20; i++) {
                    try {
                        if (n.increment().succeeded()) {
                            succeeded.incrementAndGet();
                        }
                    } catch (Exception e) {
                        return;
                    }
                }
            });
            t.start();
            threads.add(t);
        }
        for (Thread t : threads) {
            t.join();
        }
        a.sync().forPath(root);
        equal((long) succeeded.get(), new DistributedAtomicLong(a, root + "/long", new RetryNTimes(5, 10)).get().postValue());
        that(succeeded.get() > 0, "some succeeded");
    }

    private void sharedCount() throws Exception {
        SharedCount one = new SharedCount(a, root + "/count", 5);
        SharedCount two = new SharedCount(b, root + "/count", 5);
        one.start();
        two.start();
        one.setCount(9);
        eventually("the other sees it", () -> two.getCount() == 9);
        that(two.trySetCount(two.getVersionedValue(), 10), "set by version");
        eventually("and back", () -> one.getCount() == 10);
        one.close();
        two.close();
    }

    private void persistentNode() throws Exception {
        PersistentNode node = new PersistentNode(a, CreateMode.EPHEMERAL, false, root + "/persistent", new byte[] {4});
        node.start();
        that(node.waitForInitialCreate(10, TimeUnit.SECONDS), "made");
        eventually("seen", () -> b.checkExists().forPath(node.getActualPath()) != null);
        b.delete().forPath(node.getActualPath());
        eventually("made again", () -> b.checkExists().forPath(root + "/persistent") != null);
        node.close();
        eventually("gone", () -> b.checkExists().forPath(root + "/persistent") == null);
    }

    private void persistentTtlNode() throws Exception {
        try {
            a.create().withTtl(60_000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath(root + "/probe");
        } catch (KeeperException.UnimplementedException e) {
            that(System.getenv().getOrDefault("TOUR_TTL", "").isEmpty(), "TTL nodes, which should be on");
            return; // this server has none
        }
        PersistentTtlNode node = new PersistentTtlNode(a, root + "/ttl", 60_000, new byte[] {1});
        node.start();
        that(node.waitForInitialCreate(10, TimeUnit.SECONDS), "made");
        b.sync().forPath(root);
        that(b.checkExists().forPath(root + "/ttl") != null, "there");
        node.close();
    }

    private void groupMember() throws Exception {
        GroupMember one = new GroupMember(a, root + "/group", "one");
        GroupMember two = new GroupMember(b, root + "/group", "two");
        one.start();
        two.start();
        eventually("two members", () -> one.getCurrentMembers().size() == 2 && two.getCurrentMembers().size() == 2);
        two.close();
        eventually("one left", () -> one.getCurrentMembers().size() == 1);
        one.close();
    }

    private void transaction() throws Exception {
        List<CuratorTransactionResult> got = a.transaction().forOperations(
                a.transactionOp().create().forPath(root + "/t", new byte[] {1}),
                a.transactionOp().setData().withVersion(0).forPath(root + "/t", new byte[] {2}),
                a.transactionOp().check().withVersion(1).forPath(root + "/t"),
                a.transactionOp().create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(root + "/t/s-"));
        // The last op is refused only if the parent is an ephemeral, which /t is not.
        equal(4, got.size());
        equal(root + "/t/s-0000000000", got.get(3).getResultPath());
        try {
            a.transaction().forOperations(a.transactionOp().delete().forPath(root + "/t/s-0000000000"),
                    a.transactionOp().check().withVersion(7).forPath(root + "/t"));
            throw new AssertionError("a failing transaction was carried out");
        } catch (KeeperException.BadVersionException e) {
            that(a.checkExists().forPath(root + "/t/s-0000000000") != null, "nothing of it is done");
        }
    }

    private void protection() throws Exception {
        CuratorFramework n = a.usingNamespace(root.substring(1) + "/space");
        String p = n.create().creatingParentsIfNeeded().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/x/p-");
        that(p.startsWith("/x/_c_"), p);
        b.sync().forPath(root);
        equal(1, b.getChildren().forPath(root + "/space/x").size());
    }
}
