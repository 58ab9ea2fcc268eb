"""Runs a command in a guest, over its serial console, which is a root shell without a login (guest/README.md).

    console.py DOMAIN|/dev/pts/N SECONDS COMMAND

DOMAIN is a name or UUID at $INSIDE_URI (qemu:///system). Prints the command's output. The exit status is the
command's, or 124 if the guest did not answer in time. Lines of the console that begin with GUEST- are left out.
"""

import os
import select
import subprocess
import sys
import termios
import time
import tty
import uuid


def terminal(domain):
    if domain.startswith("/dev/"):
        return domain
    uri = os.environ.get("INSIDE_URI", "qemu:///system")
    found = subprocess.run(
        ["virsh", "-q", "-c", uri, "ttyconsole", domain], capture_output=True, text=True, check=False
    )
    if found.returncode or not found.stdout.strip():
        sys.exit(f"no console: {found.stderr.strip()}")
    return found.stdout.strip()


class Console:
    def __init__(self, path, seconds):
        self.end = time.monotonic() + seconds
        self.fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self.fd)
        termios.tcflush(self.fd, termios.TCIFLUSH)
        self.heard = b""

    def hear(self, wait):
        """Waits at most `wait` seconds for output, and reads it; returns whether there was any."""
        ready, _, _ = select.select([self.fd], [], [], wait)
        if not ready:
            return False
        try:
            self.heard += os.read(self.fd, 65536)
        except OSError:
            # The guest has closed the connection: it is off, or starting.
            time.sleep(0.2)
        return True

    def say(self, text):
        data = text.encode()
        # The input buffer of a slow guest is small.
        while data:
            data = data[os.write(self.fd, data[:64]):]
            if data:
                time.sleep(0.02)

    def hears(self, mark, seconds):
        """Whether the output has the text `mark` within this many seconds."""
        end = min(self.end, time.monotonic() + seconds)
        while mark not in self.heard and time.monotonic() < end:
            self.hear(0.2)
        return mark in self.heard

    def meet(self):
        """Waits until the shell answers. Input before that is lost, or becomes part of another line."""
        while time.monotonic() < self.end:
            mark = uuid.uuid4().hex
            # The shell echoes the line. The mark is split in the line, so the echo does not contain it.
            self.say("\x03\n")
            time.sleep(0.1)
            self.say(f'echo {mark[:16]}""{mark[16:]}\n')
            if self.hears(mark.encode(), 3):
                return True
        return False

    def run(self, command):
        mark = uuid.uuid4().hex
        half, rest = mark[:16], mark[16:]
        line = f'echo {half}""{rest}-begin; ({command}); echo {half}""{rest}-end $?-\n'
        begin, end = f"{mark}-begin".encode(), f"{mark}-end ".encode()
        # The command must not run twice, so it is typed again only if it did not start.
        while self.meet():
            self.say(line)
            if self.hears(begin, 10):
                break
        while time.monotonic() < self.end:
            at = self.heard.rfind(end)
            if at >= 0 and b"-" in self.heard[at + len(end):]:
                status = self.heard[at + len(end):].split(b"-")[0]
                text = self.heard[:at].rsplit(begin, 1)[-1].replace(b"\r", b"").lstrip(b"\n")
                return text, int(status)
            self.hear(0.5)
        return self.heard[-400:], 124


def main():
    domain, seconds, command = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    text, status = Console(terminal(domain), seconds).run(command)
    lines = [line for line in text.split(b"\n") if not line.startswith(b"GUEST-")]
    sys.stdout.buffer.write(b"\n".join(lines))
    sys.exit(status)


main()
