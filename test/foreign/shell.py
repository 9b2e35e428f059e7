#!/usr/bin/env python3
"""shell.py HOST:PORT[,HOST:PORT...]: the suite "shell".

Apache ZooKeeper's own Java shell as Debian packages it: one interactive session
through each member, fed through a pipe, and a few one-shot runs of zkCli.sh.
What is compared is the text that it prints. The shell has no transactions.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

from checks import Checks, core_only, equal, members
from piped import Piped

ZKCLI = "/usr/share/zookeeper/bin/zkCli.sh"
# A quick start matters more here than peak speed.
ENV = dict(os.environ, JVMFLAGS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xmx64m")
DIGEST = "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E="  # base64 of the SHA-1 of alice:secret

STAT = (r"cZxid = 0x[0-9a-f]+\nctime = .+\nmZxid = 0x[0-9a-f]+\nmtime = .+\npZxid = 0x[0-9a-f]+\n"
        r"cversion = %d\ndataVersion = %d\naclVersion = %d\nephemeralOwner = %s\n"
        r"dataLength = %d\nnumChildren = %d\n")


def stat(cversion=0, version=0, aversion=0, owner="0x0", length=0, children=0):
    return STAT % (cversion, version, aversion, owner, length, children)


def event(kind, path):
    # The line "WATCHER::" before it may be torn off: the shell's event thread and
    # its command thread print at the same time.
    return r"WatchedEvent state:SyncConnected type:%s path:%s\n" % (kind, re.escape(path))


def script(b):
    """(check, commands, what the answer to the last of them must match)."""
    e = re.escape(b)
    return [
        ("create", "create %s hello" % b, r"Created %s\n" % e),
        ("create-again", "create %s" % b, r"Node already exists: %s\n" % e),
        ("create-without-parent", "create %s/none/a" % b, r"Node does not exist: %s/none/a\n" % e),
        ("create-ephemeral", "create -e %s/e" % b, r"Created %s/e\n" % e),
        ("create-sequential", "create -s %s/s- x" % b, r"Created %s/s-0000000001\n" % e),
        ("create-ephemeral-sequential", "create -s -e %s/t- x" % b, r"Created %s/t-0000000002\n" % e),
        ("child-of-ephemeral", "create %s/e/kid" % b, r"Ephemerals cannot have children: %s/e/kid\n" % e),
        ("get", "get %s" % b, r"(?m)^hello\n"),
        ("get-stat", "get -s %s" % b, r"hello\n" + stat(cversion=3, length=5, children=3)),
        ("stat", "stat %s" % b, stat(cversion=3, length=5, children=3)),
        ("stat-ephemeral", "stat %s/e" % b, stat(owner="0x[1-9a-f][0-9a-f]*")),
        ("get-missing", "get %s/none" % b, r"Node does not exist: %s/none\n" % e),
        ("ls", "ls %s" % b, r"(?m)^\[e, s-0000000001, t-0000000002\]\n"),
        ("ls-stat", "ls -s %s" % b, r"\[e, s-0000000001, t-0000000002\]\s*" + stat(cversion=3, length=5, children=3)),
        ("ls-recursive", "ls -R %s" % b, r"%s\n%s/e\n%s/s-0000000001\n%s/t-0000000002\n" % (e, e, e, e)),
        ("set-stat", "set -s %s new" % b, stat(cversion=3, version=1, length=3, children=3)),
        ("set-old-version", "set -v 0 %s x" % b, r"version No is not valid : %s\n" % e),
        ("set", "set -v 1 %s newer\nget %s" % (b, b), r"(?m)^newer\n"),
        ("sync", "sync %s" % b, r"Sync is OK\n"),
        ("watch-data", "get -w %s\nset %s newest" % (b, b), event("NodeDataChanged", b)),
        ("watch-children", "ls -w %s\ncreate %s/kid" % (b, b), event("NodeChildrenChanged", b)),
        ("watch-stat", "stat -w %s/kid\ndelete %s/kid" % (b, b), event("NodeDeleted", b + "/kid")),
        ("delete-old-version", "delete -v 7 %s/e" % b, r"version No is not valid : %s/e\n" % e),
        ("delete-not-empty", "delete %s" % b, r"Node not empty: %s\n" % e),
        ("delete", "delete %s/t-0000000002\nls %s" % (b, b), r"(?m)^\[e, s-0000000001\]\n"),
        ("acl-invalid", "create %s/bad x auth::cdrwa" % b, r"KeeperErrorCode = InvalidACL for %s/bad\n" % e),
        ("acl-digest", "addauth digest alice:secret\ncreate %s/acl d auth::cdrwa" % b, r"Created %s/acl\n" % e),
        ("acl-get", "getAcl %s/acl" % b, r"'digest,'%s\n: cdrwa\n" % re.escape(DIGEST)),
        ("acl-set", "setAcl -s %s/acl world:anyone:r,auth::cdrwa" % b, stat(aversion=1, length=1)),
        ("acl-get-stat", "getAcl -s %s/acl" % b,
         r"'world,'anyone\n: r\n'digest,'%s\n: cdrwa\n" % re.escape(DIGEST) + stat(aversion=1, length=1)),
        ("acl-old-version", "setAcl -v 0 %s/acl world:anyone:r" % b, r"version No is not valid : %s/acl\n" % e),
        ("acl-locked", "create %s/locked d digest:%s:cdrwa" % (b, DIGEST), r"Created %s/locked\n" % e),
        ("acl-locked-get", "get %s/locked" % b, r"(?m)^d\n"),
    ]


def extra(b):
    """The same for what needs requests beyond those of ZooKeeper 3.4."""
    e = re.escape(b)
    return [
        ("create-container", "create -c %s/box" % b, r"Created %s/box\n" % e),
        ("create-ttl-disabled", "create -t 1000 %s/ttl" % b, r"KeeperErrorCode = Unimplemented for %s/ttl\n" % e),
        ("children-number", "getAllChildrenNumber %s" % b, r"(?m)^5\n"),
        ("ephemerals", "getEphemerals %s" % b, r"\[%s/e\]\n" % e),
        ("whoami", "whoami", r"Auth scheme: User\n(?=(?s:.*)digest: alice\n)(?=(?s:.*)ip: 127\.0\.0\.1\n)"),
        ("watch-persistent", "addWatch -m PERSISTENT %s\nset %s 1\nset %s 2" % (b, b, b),
         "(?s)" + event("NodeDataChanged", b) + ".*" + event("NodeDataChanged", b)),
        ("watch-removed", "removewatches %s" % b, event("PersistentWatchRemoved", b)),
        # On a path of its own, since 3.8 mixes up several modes on one path, and with
        # -m, since the shell remembers the last mode.
        ("watch-recursive", "addWatch -m PERSISTENT_RECURSIVE %s/s-0000000001\ncreate %s/s-0000000001/deep" % (b, b),
         event("NodeCreated", b + "/s-0000000001/deep")),
    ]


def tour(c, name, shell, base):
    for check, commands, pattern in script(base) + ([] if core_only() else extra(base)):
        with c.step(name + check):
            shell.say(commands)
            shell.expect(pattern)


def denied(c, name, shell, base):
    """Another session must not see what alice locked."""
    with c.step(name + "acl-denied"):
        shell.say("sync %s" % base)
        shell.expect(r"Sync is OK\n")
        shell.say("get %s/locked" % base)
        shell.expect(r"Insufficient permission : %s/locked\n" % re.escape(base))
        shell.say("getAcl %s/acl" % base)
        shell.expect(r"'world,'anyone\n: r\n'digest,'alice:x\n: cdrwa\n")


def line_up(c, shells, base):
    """A lock, or the election of a leader, by hand: each session makes an
    ephemeral sequential znode and watches the one before its own."""
    for i, shell in enumerate(shells):
        with c.step("lock/line-up-%d" % i):
            shell.say("create -s -e %s/n-" % base)
            shell.expect(r"Created %s/n-%010d\n" % (re.escape(base), i))
    for i, shell in enumerate(shells[1:]):
        with c.step("lock/wait-%d" % (i + 1)):
            shell.say("sync %s" % base)
            shell.expect(r"Sync is OK\n")
            shell.say("stat -w %s/n-%010d" % (base, i))
            shell.expect(stat(owner="0x[1-9a-f][0-9a-f]*"))
    for i, shell in enumerate(shells):
        with c.step("lock/leave-%d" % i):
            shell.quit("quit")
            if i + 1 < len(shells):
                shells[i + 1].expect(event("NodeDeleted", "%s/n-%010d" % (base, i)))
                shells[i + 1].say("ls %s" % base)
                rest = ", ".join("n-%010d" % n for n in range(i + 1, len(shells)))
                shells[i + 1].expect(r"\[%s\]\n" % rest)


def one_shot(c, hosts, root):
    def run(server, *words):
        got = subprocess.run([ZKCLI, "-server", server, *words], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, text=True, env=ENV)
        return got.returncode, got.stdout

    connect = ",".join(hosts)
    with c.step("one-shot/create", seconds=25):
        code, text = run(connect, "create", root + "/shot", "data")
        equal((code, "Created %s/shot\n" % root in text), (0, True), text)
    with c.step("one-shot/missing", seconds=25):
        code, text = run(connect, "get", root + "/none")
        equal((code, "Node does not exist: %s/none\n" % root in text), (1, True), text)
    with c.step("one-shot/chroot", seconds=25):
        code, text = run(connect + root, "ls", "/")
        found = re.search(r"(?m)^\[(.*)\]$", text)
        # The ephemerals of the closed sessions are gone, their other znodes stay.
        equal((code, found and found[1].split(", ")),
              (0, ["lock"] + ["m%d" % i for i in range(len(hosts))] + ["shot"]), text)
    with c.step("one-shot/ephemerals-gone", seconds=25):
        code, text = run(hosts[-1], "ls", root + "/m0")
        equal((code, re.search(r"(?m)^\[.*\be\b.*\]$", text)), (0, None), text)
    with c.step("cleanup", seconds=25):
        code, text = run(connect, "deleteall", root)
        equal((code, "Failed to delete" in text), (0, False), text)


def main():
    hosts = members(sys.argv)
    c = Checks("shell")
    root = "/foreign-shell-%d-%d" % (time.time(), os.getpid())
    # With one member there is a second session through it, for the lock.
    doors = hosts if len(hosts) > 1 else hosts * 2
    shells = []
    try:
        shells = [Piped([ZKCLI, "-server", member], env=ENV) for member in doors]
        for i, shell in enumerate(shells):
            with c.step("m%d/connect" % i, seconds=25):
                shell.expect(r"WatchedEvent state:SyncConnected type:None path:null\n", seconds=20)
        with c.step("setup"):
            shells[0].say("create %s\ncreate %s/lock" % (root, root))
            shells[0].expect(r"Created %s/lock\n" % re.escape(root))
            for shell in shells[1:]:
                shell.say("sync %s" % root)
                shell.expect(r"Sync is OK\n")
        for i in range(len(hosts)):
            base = "%s/m%d" % (root, i)
            tour(c, "m%d/" % i, shells[i], base)
            if i + 1 < len(shells):  # the next one has no identity yet
                denied(c, "m%d/" % (i + 1), shells[i + 1], base)
            with c.step("m%d/acl-locked-delete" % i):
                shells[i].say("delete %s/locked\nget %s/locked" % (base, base))
                shells[i].expect(r"Node does not exist: %s/locked\n" % re.escape(base))
        line_up(c, shells, root + "/lock")
    finally:
        for shell in shells:
            shell.kill()
    one_shot(c, hosts, root)
    return c.end()


if __name__ == "__main__":
    sys.exit(main())
