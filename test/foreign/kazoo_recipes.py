"""kazoo's recipes, each used by three clients spread over the members."""
import threading
import time
from datetime import timedelta

from kazoo.recipe.barrier import Barrier, DoubleBarrier
from kazoo.recipe.cache import TreeCache
from kazoo.recipe.counter import Counter
from kazoo.recipe.election import Election
from kazoo.recipe.lease import NonBlockingLease
from kazoo.recipe.lock import Lock, ReadLock, Semaphore, WriteLock
from kazoo.recipe.partitioner import SetPartitioner
from kazoo.recipe.party import Party, ShallowParty
from kazoo.recipe.queue import LockingQueue, Queue
from kazoo.recipe.watchers import ChildrenWatch, DataWatch

from checks import equal, eventually, together


def lock(clients, path):
    """A counter that only the lock protects."""
    tally = {"n": 0, "inside": 0}

    def work(client, who):
        mine = Lock(client, path, who)
        for _ in range(5):
            with mine:
                tally["inside"] += 1
                equal(tally["inside"], 1, "holders at once")
                n = tally["n"]
                time.sleep(0.005)
                tally["n"] = n + 1
                tally["inside"] -= 1

    together([lambda c=c, i=i: work(c, "worker-%d" % i) for i, c in enumerate(clients)])
    equal(tally["n"], 5 * len(clients), "lock-protected count")
    equal(clients[0].get_children(path), [])


def lock_waiting(clients, path):
    first, second = Lock(clients[0], path, "first"), Lock(clients[1], path, "second")
    equal(first.acquire(timeout=5), True)
    equal(second.acquire(blocking=False), False, "lock that is held")
    waiting = threading.Thread(target=second.acquire, daemon=True)
    waiting.start()
    eventually(first.contenders, ["first", "second"])
    first.release()
    waiting.join(10)
    equal((waiting.is_alive(), second.is_acquired), (False, True), "handed over")
    second.release()


def lock_holder_dies(clients, path, connect, close):
    dying = connect()
    equal(Lock(dying, path, "dying").acquire(timeout=5), True)
    heir = Lock(clients[1], path, "heir")
    waiting = threading.Thread(target=heir.acquire, daemon=True)
    waiting.start()
    eventually(lambda: len(clients[2].get_children(path)), 2, "contenders")
    close(dying)
    waiting.join(10)
    equal(heir.is_acquired, True, "lock of a closed session is free")
    heir.release()


def read_write_lock(clients, path):
    one, two = ReadLock(clients[0], path, "r1"), ReadLock(clients[1], path, "r2")
    writer = WriteLock(clients[2], path, "w")
    equal((one.acquire(timeout=5), two.acquire(timeout=5)), (True, True), "two readers")
    equal(writer.acquire(blocking=False), False, "writer beside readers")
    one.release()
    two.release()
    equal(writer.acquire(timeout=5), True)
    equal(one.acquire(blocking=False), False, "reader beside a writer")
    writer.release()


def semaphore(clients, path):
    held = [Semaphore(c, path, "s%d" % i, max_leases=2) for i, c in enumerate(clients)]
    equal((held[0].acquire(timeout=5), held[1].acquire(timeout=5)), (True, True))
    equal(held[2].acquire(blocking=False), False, "third of two leases")
    held[0].release()
    equal(held[2].acquire(timeout=5), True)
    held[1].release()
    held[2].release()


def election(clients, path):
    """Everyone leads once, one after the other."""
    led, inside = [], []

    def lead(who):
        inside.append(who)
        equal(inside, [who], "leaders at once")
        time.sleep(0.02)
        led.append(who)
        inside.remove(who)

    names = ["candidate-%d" % i for i in range(len(clients))]
    together([lambda c=c, n=n: Election(c, path, n).run(lead, n) for c, n in zip(clients, names)])
    equal(sorted(led), names)


def barrier(clients, path):
    Barrier(clients[0], path).create()
    clients[1].sync(path)
    equal(Barrier(clients[1], path).wait(timeout=0.2), False, "closed barrier")
    timer = threading.Timer(0.2, Barrier(clients[0], path).remove)
    timer.start()
    equal(Barrier(clients[1], path).wait(timeout=10), True, "barrier opens")
    timer.join()


def double_barrier(clients, path):
    entered = []
    # Whoever leaves deletes kazoo's mark that all have entered, and one that has not looked for it yet would wait for
    # ever; so nobody leaves before the last has entered.
    inside = threading.Barrier(len(clients), timeout=30)

    def work(client, who):
        gate = DoubleBarrier(client, path, len(clients), who)
        gate.enter()
        entered.append(who)
        inside.wait()
        gate.leave()

    together([lambda c=c, i=i: work(c, "d%d" % i) for i, c in enumerate(clients)])
    equal(sorted(entered), ["d%d" % i for i in range(len(clients))])


def counter(clients, path):
    def add(client):
        mine = Counter(client, path)
        for _ in range(10):
            mine += 1

    together([lambda c=c: add(c) for c in clients])
    clients[0].sync(path)
    equal(Counter(clients[0], path).value, 10 * len(clients))


def data_watch(clients, path):
    seen = []
    DataWatch(clients[1], path, lambda data, stat: seen.append(data))
    eventually(lambda: seen[-1:], [None], "data of a missing node")
    clients[0].create(path, b"a")
    eventually(lambda: seen[-1:], [b"a"], "created")
    clients[0].set(path, b"b")
    eventually(lambda: seen[-1:], [b"b"], "changed")
    clients[0].delete(path)
    eventually(lambda: seen[-1:], [None], "deleted")


def children_watch(clients, path):
    clients[0].create(path, b"")
    clients[1].sync(path)
    seen = []
    ChildrenWatch(clients[1], path, lambda kids: seen.append(sorted(kids)))
    for i in range(5):
        clients[0].create("%s/%d" % (path, i), b"")
    eventually(lambda: seen[-1:], [["0", "1", "2", "3", "4"]])
    clients[0].delete(path + "/2")
    eventually(lambda: seen[-1:], [["0", "1", "3", "4"]])


def watches_survive(clients, path, connect, close):
    """Watches fire for what changed while the client was away."""
    client = connect()
    try:
        client.create(path, b"")
        data, kids = [], []
        DataWatch(client, path, lambda d, stat: data.append(d))
        ChildrenWatch(client, path, kids.append)
        eventually(lambda: (data[-1:], kids[-1:]), ([b""], [[]]))
        client._connection._socket.shutdown(2)
        clients[2].sync(path)
        clients[2].set(path, b"meanwhile")
        clients[2].create(path + "/kid", b"")
        eventually(lambda: (data[-1:], kids[-1:]), ([b"meanwhile"], [["kid"]]))
    finally:
        close(client)


def parties(clients, path):
    for kind, where in ((Party, path + "/full"), (ShallowParty, path + "/shallow")):
        guests = [kind(c, where, "g%d" % i) for i, c in enumerate(clients)]
        for guest in guests:
            guest.join()
        clients[1].sync(where)
        equal(sorted(guests[1]), ["g%d" % i for i in range(len(clients))])
        guests[0].leave()
        clients[1].sync(where)
        equal(len(guests[1]), len(clients) - 1)


def partitioner(clients, path):
    """Every item of the set has exactly one owner."""
    items = list(range(7))
    parts = [SetPartitioner(c, path, items, identifier="p%d" % i,
                            time_boundary=0.5, max_reaction_time=0.3)
             for i, c in enumerate(clients)]
    end = time.monotonic() + 20
    while True:
        for p in parts:
            if p.release:
                p.release_set()
            elif p.failed:
                raise AssertionError("partitioner failed")
        if all(p.acquired for p in parts):
            owned = sorted(i for p in parts for i in p)
            if owned == items:
                break
        if time.monotonic() > end:
            raise AssertionError("states %r" % [p.state for p in parts])
        time.sleep(0.05)
    together([p.finish for p in parts])


def queues(clients, path):
    q = Queue(clients[0], path + "/plain")
    for value, priority in ((b"later", 200), (b"first", 1), (b"second", 1)):
        q.put(value, priority)
    other = Queue(clients[1], path + "/plain")
    clients[1].sync(path)
    equal([other.get() for _ in range(4)], [b"first", b"second", b"later", None])

    locking = LockingQueue(clients[0], path + "/locking")
    locking.put_all([b"x", b"y"])
    clients[1].sync(path)
    other = LockingQueue(clients[1], path + "/locking")
    equal(other.get(timeout=5), b"x")
    equal((other.holds_lock(), other.consume()), (True, True))
    equal(locking.get(timeout=5), b"y")
    equal(locking.consume(), True)


def lease(clients, path):
    hour = timedelta(hours=1)
    equal(bool(NonBlockingLease(clients[0], path, hour, "one")), True)
    clients[1].sync(path)
    equal(bool(NonBlockingLease(clients[1], path, hour, "two")), False, "lease of another")


def tree_cache(clients, path):
    clients[0].create(path, b"")
    clients[1].sync(path)
    cache = TreeCache(clients[1], path)
    cache.start()
    try:
        clients[0].create(path + "/a", b"1")
        clients[0].create(path + "/a/b", b"2")
        eventually(lambda: getattr(cache.get_data(path + "/a/b"), "data", None), b"2")
        clients[0].set(path + "/a", b"3")
        eventually(lambda: cache.get_data(path + "/a").data, b"3")
        clients[0].delete(path + "/a/b")
        eventually(lambda: cache.get_children(path + "/a"), frozenset())
    finally:
        cache.close()


def run(c, connects, close, root):
    """Runs every recipe with three clients; connects is one way in per member."""
    clients = []
    with c.step("recipes-connect"):
        clients = [connects[i % len(connects)]() for i in range(3)]
    if len(clients) < 3:
        return
    for recipe in (lock, lock_waiting, read_write_lock, semaphore, election, barrier,
                   double_barrier, counter, data_watch, children_watch, parties,
                   partitioner, queues, lease, tree_cache):
        name = recipe.__name__.replace("_", "-")
        with c.step("recipe-" + name, seconds=30):
            recipe(clients, "%s/%s" % (root, name))
    for recipe in (lock_holder_dies, watches_survive):
        name = recipe.__name__.replace("_", "-")
        with c.step("recipe-" + name, seconds=30):
            recipe(clients, "%s/%s" % (root, name), connects[-1], close)
    with c.step("recipes-close"):
        close(*clients)
