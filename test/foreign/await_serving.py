#!/usr/bin/env python3
"""await_serving.py HOST:PORT,... SECONDS: waits until each member serves.

A member serves when the four-letter word srvr answers with a Mode line. Exit
code 1, with the names of the silent members, when the time is over.
"""
import socket
import sys
import time


def serves(member):
    host, port = member.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=2) as s:
            s.sendall(b"srvr")
            answer = b""
            while chunk := s.recv(4096):
                answer += chunk
    except OSError:
        return False
    return b"\nMode: " in answer


def main():
    waiting = sys.argv[1].split(",")
    end = time.monotonic() + float(sys.argv[2])
    while True:
        waiting = [m for m in waiting if not serves(m)]
        if not waiting:
            return 0
        if time.monotonic() > end:
            print("await_serving.py: not serving: " + ", ".join(waiting), file=sys.stderr)
            return 1
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
