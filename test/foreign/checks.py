"""What the Python suites share: one line per check, each bounded in time."""
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager


class StepTimeout(BaseException):
    """A step took too long. Not an Exception, so that no client swallows it."""


class Checks:
    """Prints "ok SUITE CHECK" or "FAIL SUITE CHECK: detail" and counts.

    Used on the main thread only: the bound on a step is SIGALRM.
    """

    def __init__(self, suite):
        self.suite, self.passed, self.failed = suite, 0, 0
        signal.signal(signal.SIGALRM, self._alarm)

    @staticmethod
    def _alarm(signum, frame):
        raise StepTimeout("took too long")

    @contextmanager
    def step(self, name, seconds=15):
        """Runs the body as one check; what it raises is the detail of a FAIL."""
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        except (Exception, StepTimeout) as e:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.report(name, False, "%s: %s" % (type(e).__name__, e))
        else:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.report(name, True)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def report(self, name, ok, detail=""):
        if ok:
            self.passed += 1
            print("ok %s %s" % (self.suite, name), flush=True)
        else:
            self.failed += 1
            detail = " ".join(detail.split())[:2000]
            print("FAIL %s %s: %s" % (self.suite, name, detail), flush=True)

    def end(self):
        """Prints the sum; the result is the exit code."""
        print("%d passed, %d failed" % (self.passed, self.failed), flush=True)
        return 1 if self.failed or not self.passed else 0


def equal(got, want, what="got"):
    if got != want:
        raise AssertionError("%s %r, want %r" % (what, got, want))


def raises(error, call, *args, **kwargs):
    """call must raise exactly this class of error."""
    try:
        result = call(*args, **kwargs)
    except error:
        return
    raise AssertionError("no %s, but the result %r" % (error.__name__, result))


def eventually(probe, want, what="got", seconds=10):
    """Waits until probe() is want."""
    end = time.monotonic() + seconds
    while True:
        got = probe()
        if got == want:
            return
        if time.monotonic() > end:
            raise AssertionError("%s still %r, want %r" % (what, got, want))
        time.sleep(0.02)


def together(calls, seconds=15):
    """Runs the calls on threads of their own; returns their results in order."""
    results, errors = [None] * len(calls), []

    def run(i, call):
        try:
            results[i] = call()
        except Exception as e:  # reported below, on the main thread
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i, c), daemon=True) for i, c in enumerate(calls)]
    for t in threads:
        t.start()
    end = time.monotonic() + seconds
    for t in threads:
        t.join(max(0, end - time.monotonic()))
    if errors:
        raise errors[0]
    if any(t.is_alive() for t in threads):
        raise AssertionError("a thread does not end")
    return results


def members(argv):
    """The members of the connect string in argv[1]."""
    if len(argv) != 2 or not argv[1]:
        sys.exit("usage: %s HOST:PORT[,HOST:PORT...]" % argv[0])
    return argv[1].split(",")


def core_only():
    """Whether to leave out what needs requests beyond those of ZooKeeper 3.4."""
    return bool(os.environ.get("ZKD_FOREIGN_CORE"))
