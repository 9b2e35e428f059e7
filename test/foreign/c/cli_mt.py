#!/usr/bin/env python3
"""cli_mt.py HOST:PORT[,HOST:PORT...]: the suite "cli_mt".

Debian's shell of the C client, one session through each member, fed through a
pipe. What is compared is the text that it prints.
"""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import Checks, core_only, members  # noqa: E402
from piped import Piped  # noqa: E402

CLI = "/usr/lib/zookeeper/bin/cli_mt"


EXTRA = {"create-container", "delete-box"}


def script(base):
    """(check, commands, what the answer to the last of them must match)."""
    p = re.escape(base)
    return [
        ("create", "create %s" % base, r"\[%s\]: rc = 0\s+name = %s\n" % (p, p)),
        ("create-again", "create %s" % base, r"\[%s\]: rc = -110" % p),
        ("create-ephemeral", "create +e %s/e" % base, r"rc = 0\s+name = %s/e\n" % p),
        ("create-sequential", "create +s %s/s-" % base, r"rc = 0\s+name = %s/s-0000000001\n" % p),
        ("create-container", "create +c %s/box" % base, r"rc = 0\s+name = %s/box\n" % p),
        ("create2", "create2 %s/two" % base, r"name = %s/two\n(?s:.*)version=0" % p),
        ("set", "set %s hello" % base, r"%s: rc = 0(?s:.*)version=1\s" % p),
        ("get", "get %s" % base, r"%s: rc = 0\s+value_len = 5\s+hello" % p),
        ("get-missing", "get %s/none" % base, r"%s/none: rc = -101" % p),
        ("ls", "ls %s" % base, r"%s: rc = 0\n(?=(?s:.*)\te\n)(?=(?s:.*)\ts-0000000001\n)" % p),
        ("ls2", "ls2 %s" % base, r"%s: rc = 0\n(?s:.*)czxid=[0-9a-f]+\n" % p),
        ("ephemeral-owner", "get %s/e" % base, r"ephemeralOwner = [1-9a-f][0-9a-f]*\n"),
        ("sync", "sync %s" % base, r"\[%s\]: rc = 0" % p),
        # wexists prints nothing when it finds the node.
        ("watch", "wexists %s/none\ncreate +e %s/none" % (base, base),
         r"Watcher CREATED_EVENT state = CONNECTED_STATE for path %s/none\n" % p),
        ("watch-children", "ls %s\ndelete %s/none" % (base, base),
         r"Watcher CHILD_EVENT state = CONNECTED_STATE for path %s\n" % p),
        ("delete-not-empty", "delete %s" % base, r"%s: rc = -111" % p),
        ("delete-e", "delete %s/e" % base, r"%s/e: rc = 0" % p),
        ("delete-s", "delete %s/s-0000000001" % base, r"%s/s-0000000001: rc = 0" % p),
        ("delete-box", "delete %s/box" % base, r"%s/box: rc = 0" % p),
        ("delete-two", "delete %s/two" % base, r"%s/two: rc = 0" % p),
        ("delete", "delete %s" % base, r"%s: rc = 0" % p),
        ("create-last-ephemeral", "create +e %s" % base, r"name = %s\n" % p),
    ]


def one_shot(connect, command, want):
    got = subprocess.run([CLI, "-h", connect, "-c", command], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, timeout=10, text=True)
    if got.returncode != 0 or want not in got.stdout:
        raise AssertionError("exit code %d, printed %r" % (got.returncode, got.stdout))


def main():
    hosts = members(sys.argv)
    c = Checks("cli_mt")
    for i, member in enumerate(hosts):
        name = "m%d/" % i
        base = "/foreign-cli-%d-%d-%d" % (time.time(), os.getpid(), i)
        cli = Piped([CLI, "-h", member])
        try:
            with c.step(name + "connect"):
                cli.expect(r"Got a new session id: 0x[0-9a-f]+")
            for check, commands, pattern in script(base):
                if check in EXTRA and core_only():
                    continue
                with c.step(name + check):
                    cli.say(commands)
                    cli.expect(pattern)
            with c.step(name + "quit"):
                cli.quit("quit")
            with c.step(name + "ephemeral-gone"):
                one_shot(member, "get " + base, "%s: rc = -101" % base)
        finally:
            cli.kill()
    with c.step("one-shot"):
        one_shot(",".join(hosts), "ls /", "\tzookeeper\n")
    return c.end()


if __name__ == "__main__":
    sys.exit(main())
