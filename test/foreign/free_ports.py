#!/usr/bin/env python3
"""free_ports.py COUNT: prints COUNT loopback ports that were free just now.

With --run it prints one number P such that P, P+1 ... P+COUNT-1 are all free.
"""
import socket
import sys


def listen(port):
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", port))
    except OSError:
        s.close()
        return None
    return s


def scattered(count):
    held = [listen(0) for _ in range(count)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def run_of(count):
    for _ in range(200):
        first = scattered(1)[0]
        held = [listen(p) for p in range(first, first + count) if p < 65536]
        free = len(held) == count and all(held)
        for s in held:
            if s:
                s.close()
        if free:
            return first
    sys.exit("free_ports.py: no %d free ports in a row" % count)


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        print(run_of(int(sys.argv[2])))
    else:
        print(*scattered(int(sys.argv[1])))
