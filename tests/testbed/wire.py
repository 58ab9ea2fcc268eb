#!/usr/bin/env python3
"""Captures the traffic between the hosts of hosts.sh, and reports for each TCP connection whether all of it is TLS.

    hosts.sh ctl python3 wire.py [WORD...]

Says "reading" when it reads. Continues until SIGTERM, then prints a line for each connection between two hosts, or between
a host and the control plane. Tabs separate the fields:

    VERDICT  FROM  TO  BYTES FROM->TO  BYTES TO->FROM  WORDS  FIRST BYTES

    tls     all bytes in both directions are records of TLS, and the capture has the handshake from its start. The
            NBD connection of a disk may begin in plain text, until both sides have agreed on TLS
    plain   the connection has other bytes
    older   the connection is older than the capture, so it is not known whether it is TLS
    holes   the capture lacks a part of the connection
    empty   nothing was sent

WORDS are the words of the command line that could be read in the connection. If the kernel had to drop frames, a last
line says so: "lost  N". The script reads a raw socket in the namespace that has all bridges, and counts each frame once:
where it enters a bridge.
"""

import re
import select
import signal
import socket
import struct
import sys

EVERY_PROTOCOL = 3
PACKET_OUTGOING = 4
SOL_PACKET, PACKET_STATISTICS = 263, 6
SO_RCVBUFFORCE = 33
ROOM = 256 << 20
# The bridge ports of the hosts' management and migration links, and of this machine's own link (see hosts.sh).
PORTS = re.compile(r"([mv]\d+|rl)$")
FIN, SYN, RST = 1, 2, 4

HANDSHAKE = 22
CONTENT = range(20, 24)  # change of cipher, alert, handshake, data
LONGEST = (1 << 14) + 2048
GREETINGS = {1, 2}  # a client's, a server's

# The start of NBD before TLS: the server greets, the client first requests TLS (option 5), and the server agrees.
NBD_SERVER = re.compile(rb"NBDMAGICIHAVEOPT..\x00\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x05\0\0\0\x01\0\0\0\0", re.DOTALL)
NBD_CLIENT = re.compile(rb"\0\0\0[\0-\x03]IHAVEOPT\0\0\0\x05\0\0\0\0", re.DOTALL)
NBD = {ord("N"): (NBD_SERVER, 38), 0: (NBD_CLIENT, 20)}


class Way:
    """The bytes of one direction, in the order in which they were sent."""

    def __init__(self):
        self.next = None  # the sequence number of the next byte; unknown until the connection begins
        self.ahead = {}
        self.size = 0
        self.start = b""
        self.plain = False
        self.head = b""  # the received part of the current record's header
        self.left = 0  # the bytes of the current record that are still to come
        self.records = 0
        self.greeting = None  # the first byte of the first record
        self.prelude = None  # the length of the allowed plain prelude before TLS
        self.pattern = None  # the pattern of that prelude

    def take(self, number, data):
        if self.next is None:
            return
        if len(self.ahead.get(number, b"")) < len(data):
            self.ahead[number] = data
        while self.ahead:
            # The distance from each segment's start to the next expected byte; negative if a segment in between is
            # missing.
            behind = {one: ((self.next - one + (1 << 31)) & 0xFFFFFFFF) - (1 << 31) for one in self.ahead}
            first = max(behind, key=behind.get)
            if behind[first] < 0:
                return
            fresh = self.ahead.pop(first)[behind[first] :]
            self.next = (self.next + len(fresh)) & 0xFFFFFFFF
            self.feed(fresh)

    def feed(self, data):
        self.size += len(data)
        if len(self.start) < 64:
            self.start += data[: 64 - len(self.start)]
        while data and not self.plain:
            if self.left:
                if self.records == 1 and self.greeting is None:
                    self.greeting = data[0]
                    self.plain = self.greeting not in GREETINGS
                gone = min(self.left, len(data))
                self.left, data = self.left - gone, data[gone:]
                continue
            if self.prelude is None:
                self.pattern, self.prelude = NBD.get(data[0], (None, 0))
            length = self.prelude or 5
            gone = length - len(self.head)
            self.head, data = self.head + data[:gone], data[gone:]
            if len(self.head) < length:
                continue
            if self.prelude:
                self.plain = not self.pattern.fullmatch(self.head)
                self.prelude = 0
            else:
                self.begin(*struct.unpack("!BBBH", self.head))
            self.head = b""

    def begin(self, kind, major, minor, length):
        known = kind in CONTENT and major == 3 and minor <= 4 and 0 < length <= LONGEST
        self.plain = not known or (self.records == 0 and kind != HANDSHAKE)
        self.records += 1
        self.left = length

    def is_tls(self):
        return not self.plain and self.records > 0


class Connection:
    def __init__(self, one, other):
        self.ends = (one, other)  # the client first, if the capture has the start
        self.ways = {one: Way(), other: Way()}
        self.words = set()
        self.seen = False

    def verdict(self):
        ways = self.ways.values()
        if not self.seen:
            return "older"
        if any(way.plain for way in ways):
            return "plain"
        if any(way.ahead for way in ways):
            return "holes"
        if not any(way.size for way in ways):
            return "empty"
        return "tls" if all(way.is_tls() or way.size == 0 for way in ways) else "plain"

    def line(self):
        there, back = (self.ways[end] for end in self.ends)
        ends = [f"{address}:{port}" for address, port in self.ends]
        start = there.start or back.start
        told = "".join(chr(byte) if 32 < byte < 127 else "." for byte in start[:24])
        return "\t".join([self.verdict(), *ends, str(there.size), str(back.size), ",".join(sorted(self.words)) or "-", told])


class Wire:
    def __init__(self, words):
        self.words = [(word.encode(), word) for word in words]
        self.open = {}
        self.all = []

    def frame(self, frame):
        kind = frame[12:14]
        if kind == b"\x08\x00":
            packet = frame[14 : 14 + int.from_bytes(frame[16:18], "big")]
            length = (packet[0] & 15) * 4
            if packet[9] != socket.IPPROTO_TCP or int.from_bytes(packet[6:8], "big") & 0x1FFF:
                return
            source, target = socket.inet_ntop(socket.AF_INET, packet[12:16]), socket.inet_ntop(socket.AF_INET, packet[16:20])
        elif kind == b"\x86\xdd" and frame[20] == socket.IPPROTO_TCP:
            packet, length = frame[14 : 54 + int.from_bytes(frame[18:20], "big")], 40
            source, target = socket.inet_ntop(socket.AF_INET6, packet[8:24]), socket.inet_ntop(socket.AF_INET6, packet[24:40])
        else:
            return
        segment = packet[length:]
        ports = struct.unpack("!HH", segment[:4])
        self.segment((source, ports[0]), (target, ports[1]), segment)

    def segment(self, source, target, segment):
        number = int.from_bytes(segment[4:8], "big")
        flags, data = segment[13], segment[(segment[12] >> 4) * 4 :]
        pair = frozenset((source, target))
        connection = self.open.get(pair)
        if flags & SYN:
            first = (number + 1) & 0xFFFFFFFF
            begins = connection is None or (connection.ways[source].next is not None and connection.ways[source].size)
            if begins or not connection.seen:
                connection = self.begin(pair, *((source, target) if not flags & 16 else (target, source)))
                connection.seen = True
            if connection.ways[source].next is None:
                connection.ways[source].next = first
        elif connection is None:
            if flags & RST:
                return
            connection = self.begin(pair, source, target)
        if data:
            connection.words.update(word for known, word in self.words if known in data)
            connection.ways[source].take(number if not flags & SYN else number + 1, data)
            if not connection.seen:
                connection.ways[source].size += len(data)

    def begin(self, pair, source, target):
        connection = self.open[pair] = Connection(source, target)
        self.all.append(connection)
        return connection


def main():
    wire, ends = Wire(sys.argv[1:]), []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ends.append(True))
    line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL))
    line.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM)
    line.setblocking(False)
    print("reading", flush=True)
    buffer = bytearray(1 << 18)
    while True:
        over = bool(ends)
        if not select.select([line], [], [], 0 if over else 0.2)[0]:
            if over:
                break
            continue
        size, (port, _, kind, *_) = line.recvfrom_into(buffer)
        if kind != PACKET_OUTGOING and PORTS.match(port):
            wire.frame(bytes(buffer[:size]))
    for connection in wire.all:
        print(connection.line())
    _, lost = struct.unpack("II", line.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    if lost:
        print(f"lost\t{lost}")


if __name__ == "__main__":
    main()
