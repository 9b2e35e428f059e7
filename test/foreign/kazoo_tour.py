#!/usr/bin/env python3
"""kazoo_tour.py HOST:PORT[,HOST:PORT...]: the suite "kazoo".

A tour of the Python client through each member, then what needs several
sessions (reconnection, session moves), then kazoo's recipes with one client
per member. Needs kazoo (install.sh).
"""
import logging
import os
import queue
import socket
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError, BadArgumentsError, BadVersionError, InvalidACLError,
    NoAuthError, NoChildrenForEphemeralsError, NodeExistsError, NoNodeError,
    NotEmptyError, RolledBackError, RuntimeInconsistency)
from kazoo.protocol.states import KazooState
from kazoo.security import ACL, CREATOR_ALL_ACL, Id, make_acl, make_digest_acl

import kazoo_recipes
from checks import Checks, equal, members, raises


def connect(hosts, **options):
    """A started client; the recipes and steps stop it with close()."""
    client = KazooClient(hosts=hosts, timeout=10, **options)
    client.start(timeout=10)
    return client


def close(*clients):
    for client in clients:
        client.stop()
        client.close()


def basics(c, name, client, base):
    with c.step(name + "version"):
        # server_version() asks for envi, which a server with stock settings refuses.
        answer = client.command(b"srvr")
        if not answer.startswith("Zookeeper version: 3.") or "\nMode: " not in answer:
            raise AssertionError("srvr answered %r" % answer)
    with c.step(name + "create"):
        equal(client.create(base + "/a", b"one"), base + "/a")
        raises(NodeExistsError, client.create, base + "/a", b"")
        raises(NoNodeError, client.create, base + "/none/a", b"")
        raises(BadArgumentsError, client.create, base + "/a/\x01", b"")
    with c.step(name + "create-stat"):
        path, stat = client.create(base + "/b", b"two!", include_data=True)
        equal((path, stat.version, stat.dataLength, stat.ephemeralOwner), (base + "/b", 0, 4, 0))
        equal(stat.czxid, stat.mzxid)
    with c.step(name + "makepath"):
        client.create(base + "/deep/er/est", b"x", makepath=True)
        client.ensure_path(base + "/deep/er/est/too")
        equal(client.get_children(base + "/deep/er"), ["est"])
    with c.step(name + "read"):
        data, stat = client.get(base + "/a")
        equal((data, stat.version, stat.numChildren), (b"one", 0, 0))
        equal(client.exists(base + "/a"), stat)
        equal(client.exists(base + "/none"), None)
        raises(NoNodeError, client.get, base + "/none")
        if abs(stat.ctime / 1000 - time.time()) > 300:
            raise AssertionError("ctime %d is not now" % stat.ctime)
    with c.step(name + "update"):
        stat = client.set(base + "/a", b"three", version=0)
        equal((stat.version, stat.dataLength), (1, 5))
        if stat.mzxid <= stat.czxid:
            raise AssertionError("mzxid did not grow: %r" % (stat,))
        raises(BadVersionError, client.set, base + "/a", b"", version=0)
        raises(NoNodeError, client.set, base + "/none", b"")
        equal(client.get(base + "/a")[0], b"three")
    with c.step(name + "values"):
        for value in (b"", bytes(range(256)), os.urandom(1_000_000)):
            client.set(base + "/b", value)
            equal(client.get(base + "/b")[0] == value, True, "same value back")
    with c.step(name + "unicode-path"):
        path = base + "/\u00e9t\u00e9 \u65e5\u672c"
        equal(client.create(path, b""), path)
        equal(path.rsplit("/", 1)[1] in client.get_children(base), True)
    with c.step(name + "list"):
        client.create(base + "/list", b"")
        for child in "zxy":
            client.create(base + "/list/" + child, b"")
        children, stat = client.get_children(base + "/list", include_data=True)
        equal((sorted(children), stat.numChildren, stat.cversion), (["x", "y", "z"], 3, 3))
        raises(NoNodeError, client.get_children, base + "/none")
    with c.step(name + "delete"):
        raises(NotEmptyError, client.delete, base + "/list")
        raises(BadVersionError, client.delete, base + "/list/x", version=3)
        client.delete(base + "/list/x", version=0)
        equal(client.exists(base + "/list").cversion, 4, "cversion")
        client.delete(base + "/list", recursive=True)
        raises(NoNodeError, client.delete, base + "/list")
    with c.step(name + "sequences"):
        client.create(base + "/seq", b"")
        paths = [client.create(base + "/seq/n-", b"", sequence=True) for _ in range(3)]
        equal(paths, [base + "/seq/n-%010d" % i for i in range(3)])
        equal(client.create(base + "/seq/", b"", sequence=True), base + "/seq/0000000003")
    with c.step(name + "pipeline"):
        client.create(base + "/pipe", b"")
        asked = [client.create_async(base + "/pipe/%04d" % i, b"") for i in range(300)]
        asked += [client.get_async(base + "/pipe/%04d" % i) for i in range(300)]
        for one in asked:
            one.get(timeout=10)
        equal(len(client.get_children(base + "/pipe")), 300)
    with c.step(name + "chroot"):
        inner = connect("%s:%d%s" % (*client.hosts[0], base))
        try:
            equal(inner.get("/a")[0], b"three")
            equal(inner.create("/rooted", b""), "/rooted")
            equal(client.exists(base + "/rooted").version, 0)
        finally:
            close(inner)


def watches(c, name, client, other, base):
    """The changes come from other, a client of another member if there is one."""
    events = queue.Queue()
    path = base + "/w"

    def fired(kind, at):
        event = events.get(timeout=10)
        equal((event.type, event.path, event.state), (kind, at, "CONNECTED"))

    with c.step(name + "watch-exists"):
        equal(client.exists(path, watch=events.put), None)
        other.create(path, b"")
        fired("CREATED", path)
    with c.step(name + "watch-data"):
        client.get(path, watch=events.put)
        other.set(path, b"new")
        fired("CHANGED", path)
        equal(client.get(path)[0], b"new", "data after its event")
    with c.step(name + "watch-child"):
        client.get_children(path, watch=events.put)
        other.create(path + "/kid", b"")
        fired("CHILD", path)
        equal(client.get_children(path), ["kid"], "children after their event")
    with c.step(name + "watch-once"):
        other.set(path, b"newer")
        other.delete(path + "/kid")
        client.sync(path)
        equal(client.get(path)[0], b"newer")
        equal(events.empty(), True, "no event without a watch")
    with c.step(name + "watch-deleted"):
        client.exists(path, watch=events.put)
        other.delete(path)
        fired("DELETED", path)


def ephemerals(c, name, client, member, other, base):
    with c.step(name + "ephemeral"):
        owner = connect(member)
        path = owner.create(base + "/e", b"", ephemeral=True)
        equal(client.exists(path).ephemeralOwner, owner.client_id[0])
        raises(NoChildrenForEphemeralsError, client.create, path + "/kid", b"")
        sequel = owner.create(base + "/es-", b"", ephemeral=True, sequence=True)
        events = queue.Queue()
        other.sync(path)
        equal(other.exists(path, watch=events.put) is not None, True, "seen by another session")
        close(owner)
        event = events.get(timeout=10)
        equal((event.type, event.path), ("DELETED", path))
        other.sync(base)
        equal(other.exists(path), None)
        equal(other.exists(sequel), None)


def transactions(c, name, client, base):
    with c.step(name + "transaction"):
        client.create(base + "/t", b"0")
        t = client.transaction()
        t.check(base + "/t", version=0)
        t.create(base + "/t/one", b"1")
        t.set_data(base + "/t", b"2", version=0)
        t.create(base + "/t/s-", b"", sequence=True)
        t.delete(base + "/t/one")
        checked, created, stat, sequel, deleted = t.commit()
        equal((checked, created, deleted), (True, base + "/t/one", True))
        equal(stat.version, 1)
        equal(sequel, base + "/t/s-0000000001")
        equal(client.get(base + "/t")[0], b"2")
    with c.step(name + "transaction-refused"):
        t = client.transaction()
        t.create(base + "/t/two", b"")
        t.check(base + "/t", version=9)
        t.delete(base + "/t")
        equal([type(r) for r in t.commit()],
              [RolledBackError, BadVersionError, RuntimeInconsistency])
        equal(client.exists(base + "/t/two"), None)
    with c.step(name + "transaction-atomic-stat"):
        one, two = client.exists(base + "/t"), client.get(base + "/t")[1]
        equal(one, two)
        equal(one.cversion, 3, "cversion")


def acls(c, name, client, member, base):
    with c.step(name + "digest"):
        alice = connect(member, auth_data=[("digest", "alice:secret")])
        bob = connect(member)
        try:
            path = base + "/acl"
            alice.create(path, b"private", acl=[make_digest_acl("alice", "secret", all=True)])
            equal(alice.get(path)[0], b"private")
            raises(NoAuthError, bob.get, path)
            raises(NoAuthError, bob.set, path, b"")
            raises(NoAuthError, bob.get_acls, path)
            raises(NoAuthError, bob.create, path + "/kid", b"")
            bob.add_auth("digest", "alice:secret")
            equal(bob.get(path)[0], b"private", "after add_auth")
        finally:
            close(alice, bob)
    with c.step(name + "acl-auth"):
        alice = connect(member, auth_data=[("digest", "alice:secret")])
        try:
            path = base + "/creator"
            alice.create(path, b"", acl=CREATOR_ALL_ACL)
            got, stat = alice.get_acls(path)
            equal(got, [make_digest_acl("alice", "secret", all=True)])
            alice.set_acls(path, [make_acl("world", "anyone", read=True)] + got, version=stat.aversion)
            raises(BadVersionError, alice.set_acls, path, got, version=stat.aversion)
            masked, stat = client.get_acls(path)
            equal(masked[1], ACL(31, Id("digest", "alice:x")), "without ADMIN")
            equal((stat.aversion, stat.version), (1, 0))
            equal(client.get(path)[0], b"")
            raises(NoAuthError, client.set, path, b"")
        finally:
            close(alice)
    with c.step(name + "acl-invalid"):
        raises(InvalidACLError, client.create, base + "/bad", b"", acl=CREATOR_ALL_ACL)
        raises(InvalidACLError, client.create, base + "/bad", b"", acl=[make_acl("nosuch", "x", all=True)])
    with c.step(name + "auth-refused"):
        eve = connect(member)
        try:
            raises(AuthFailedError, eve.add_auth, "nosuch", "x:y")
        finally:
            close(eve)


def sync(c, name, client, other, base):
    with c.step(name + "sync"):
        path = base + "/sync"
        client.create(path, b"")
        for i in range(30):
            value = b"%d" % i
            client.set(path, value)
            equal(other.sync(path), path)
            equal(other.get(path)[0], value, "read after sync")


def cut(client):
    """Breaks the TCP connection under a client."""
    client._connection._socket.shutdown(socket.SHUT_RDWR)


def sessions(c, hosts, base):
    """What a session must survive, and what it must not."""
    with c.step("reconnect"):
        client = connect(",".join(hosts))
        try:
            session = client.client_id
            path = client.create(base + "/stay", b"", ephemeral=True)
            states = queue.Queue()
            client.add_listener(states.put)
            for _ in range(3):
                cut(client)
                equal(states.get(timeout=10), KazooState.SUSPENDED)
                equal(states.get(timeout=10), KazooState.CONNECTED)
                equal(client.client_id, session)
                equal(client.exists(path).ephemeralOwner, session[0])
                client.set(path, b"still mine")
        finally:
            close(client)
    with c.step("session-moves"):
        client = connect(hosts[0])
        try:
            session = client.client_id
            path = client.create(base + "/moved", b"", ephemeral=True)
            states = queue.Queue()
            client.add_listener(states.put)
            for member in hosts[1:] + hosts:
                client.set_hosts(member)
                cut(client)
                equal(states.get(timeout=10), KazooState.SUSPENDED)
                equal(states.get(timeout=10), KazooState.CONNECTED)
                equal(client.client_id, session)
                equal(client.exists(path).ephemeralOwner, session[0])
                client.set(path, member.encode())
                equal(client.get(path)[0], member.encode(), "own write")
        finally:
            close(client)
    with c.step("session-refused"):
        client = connect(hosts[0], client_id=(0x123456789abcdef, b"\x01" * 16))
        try:
            equal(client.client_id[0] != 0x123456789abcdef, True, "new session")
            client.get("/")
        finally:
            close(client)
    with c.step("session-ids-differ"):
        clients = [connect(h) for h in hosts * 2]
        try:
            equal(len({x.client_id[0] for x in clients}), len(clients))
        finally:
            close(*clients)


def main():
    hosts = members(sys.argv)
    logging.disable(logging.CRITICAL)
    c = Checks("kazoo")
    root = "/foreign-kazoo-%d-%d" % (time.time(), os.getpid())
    try:
        for i, member in enumerate(hosts):
            name, base = "m%d/" % i, "%s/m%d" % (root, i)
            client = other = None
            with c.step(name + "connect"):
                client = connect(member)
                other = connect(hosts[(i + 1) % len(hosts)])
                client.create(base, b"", makepath=True)
                other.sync(base)
            if not other:
                continue
            basics(c, name, client, base)
            watches(c, name, client, other, base)
            ephemerals(c, name, client, member, other, base)
            transactions(c, name, client, base)
            acls(c, name, client, member, base)
            sync(c, name, client, other, base)
            with c.step(name + "close"):
                close(client, other)
        sessions(c, hosts, root)
        kazoo_recipes.run(c, [lambda h=h: connect(h) for h in hosts], close, root)
    finally:
        with c.step("cleanup"):
            client = connect(",".join(hosts), auth_data=[("digest", "alice:secret")])
            client.delete(root, recursive=True)
            close(client)
    return c.end()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a thread of a hung client must not keep the process
