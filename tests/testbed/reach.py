#!/usr/bin/env python3
"""Lets programs in a host of hosts.sh reach services that listen on 127.0.0.1 of this machine.

reach.py NETNS[,NETNS]... PORT...

Listens on 127.0.0.1:PORT in each network namespace, and passes each connection on to 127.0.0.1:PORT of this machine.
Prints a line when it listens. Runs until a signal ends it.
"""

import asyncio
import ctypes
import os
import socket
import sys

namespaces, ports = sys.argv[1].split(","), [int(port) for port in sys.argv[2:]]
libc = ctypes.CDLL(None, use_errno=True)


def enter(path):
    with open(path, "rb") as namespace:
        if libc.setns(namespace.fileno(), 0x40000000):  # CLONE_NEWNET
            raise OSError(ctypes.get_errno(), path)


def listeners():
    """Sockets stay in the namespace in which they were opened."""
    with open("/proc/self/ns/net", "rb") as own:
        for namespace in namespaces:
            enter(f"/run/netns/{namespace}")
            for port in ports:
                yield port, socket.create_server(("127.0.0.1", port), backlog=100)
            enter(f"/proc/self/fd/{own.fileno()}")


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


def passing(port):
    async def serve(reader, writer):
        try:
            onwards, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, back), copy(onwards, writer))
        back.close()
        writer.close()

    return serve


async def main():
    for port, listener in list(listeners()):
        await asyncio.start_server(passing(port), sock=listener)
    print("listening", flush=True)
    await asyncio.Event().wait()


os.umask(0o077)
asyncio.run(main())
