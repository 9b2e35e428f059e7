"""A command-line client fed through a pipe, its answers matched as they come."""
import os
import re
import subprocess
import time


class Piped:
    """One process; its two outputs are one stream."""

    def __init__(self, argv, env=None):
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
        os.set_blocking(self.process.stdout.fileno(), False)

    def expect(self, pattern, seconds=10):
        """Reads until the output since the last say matches, and returns it."""
        text, end = "", time.monotonic() + seconds
        while not re.search(pattern, text):
            if time.monotonic() > end:
                raise AssertionError("want %s, printed %r" % (pattern, text[-600:]))
            chunk = self.process.stdout.read()
            if chunk:
                text += chunk.decode(errors="replace")
            elif self.process.poll() is not None:
                raise AssertionError("ended with %d, printed %r" % (self.process.returncode, text[-600:]))
            else:
                time.sleep(0.005)
        return text

    def say(self, commands):
        """Sends the lines; what earlier ones still print is dropped, if it comes soon."""
        time.sleep(0.03)
        self.process.stdout.read()
        self.process.stdin.write(commands.encode() + b"\n")
        self.process.stdin.flush()

    def quit(self, command):
        """Ends the client by its own command; it must exit with 0."""
        self.say(command)
        self.process.stdin.close()
        if self.process.wait(timeout=10) != 0:
            raise AssertionError("exit code %d" % self.process.returncode)

    def kill(self):
        self.process.kill()
        self.process.wait()
