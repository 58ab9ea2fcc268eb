"""A client of the console gateway.

    websocket.py URL SECONDS [--say TEXT | --hex BYTES] [--origin ORIGIN] --until TEXT

Opens the WebSocket, sends the TEXT of --say (with escapes such as \\n) or BYTES, and prints the output until it has the
TEXT of --until. Exit status: 0 the TEXT of --until came; 1 it did not come in time, or the other side ended
first; 2 there is no console, and the status of the answer is printed.
"""

import argparse
import base64
import os
import socket
import struct
import sys
import time
import urllib.parse


def read(sock, count):
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def frame(kind, payload):
    mask = os.urandom(4)
    length = len(payload)
    head = bytes([0x80 | kind])
    head += bytes([0x80 | length]) if length < 126 else bytes([0x80 | 126]) + struct.pack(">H", length)
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("url")
    options.add_argument("seconds", type=float)
    options.add_argument("--say", default="")
    options.add_argument("--hex", default="")
    options.add_argument("--origin")
    options.add_argument("--until", required=True)
    asked = options.parse_args()
    end = time.monotonic() + asked.seconds
    url = urllib.parse.urlsplit(asked.url)
    sock = socket.create_connection((url.hostname, url.port), asked.seconds)
    lines = [
        f"GET {url.path}?{url.query} HTTP/1.1",
        f"Host: {url.netloc}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        "Sec-WebSocket-Protocol: binary",
    ]
    lines += [f"Origin: {asked.origin}"] if asked.origin else []
    sock.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += read(sock, 1)
    status = head.split()[1].decode()
    if status != "101":
        print(status)
        return 2
    said = bytes.fromhex(asked.hex) or asked.say.encode().decode("unicode_escape").encode()
    # The input buffer of a slow guest is small.
    for at in range(0, len(said), 64):
        sock.sendall(frame(2, said[at : at + 64]))
    heard = b""
    while asked.until.encode() not in heard:
        left = end - time.monotonic()
        if left <= 0:
            break
        sock.settimeout(left)
        try:
            first, length = read(sock, 2)
            if length == 126:
                (length,) = struct.unpack(">H", read(sock, 2))
            elif length == 127:
                (length,) = struct.unpack(">Q", read(sock, 8))
            payload = read(sock, length)
        except (EOFError, TimeoutError, ConnectionError):
            break
        kind = first & 0x0F
        if kind == 9:
            sock.sendall(frame(10, payload))
        elif kind == 8:
            break
        elif kind < 3:
            heard += payload
    sys.stdout.write(heard.decode(errors="replace"))
    return 0 if asked.until.encode() in heard else 1


sys.exit(main())
