#!/usr/bin/env python3
"""Runs each command of a client in a fork of one process, which saves a second of start-up per command.

client.py serve SOCKET [nova]   imports the client once (`openstack`, or `nova`) and runs each command in a fork of itself
                                (python of the client)
client.py run SOCKET ARGS...    runs the client with ARGS in such a fork, which writes to the caller's output; exits with
                                the command's status (any python3)
"""
import importlib
import os
import signal
import socket
import sys


def serve(path, client):
    sys.argv[0] = client  # the name in the texts of help
    shell = importlib.import_module({"openstack": "openstackclient.shell", "nova": "novaclient.shell"}[client])
    for name in () if client == "nova" else ("compute.v2.server", "network.v2.port", "image.v2.image", "common.quota", "identity.v3.token"):
        importlib.import_module("openstackclient." + name)
    for name in ("openstack.connection", "keystoneauth1.loading", "osc_placement.resources.resource_provider"):
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(64)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            answer(connection, shell)
            os._exit(0)
        connection.close()


def answer(connection, shell):
    data, outputs, _, _ = socket.recv_fds(connection, 1 << 20, 2)
    for number, output in enumerate(outputs, start=1):
        os.dup2(output, number)
    try:
        status = shell.main(data.decode().split("\0"))
    except SystemExit as end:
        status = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    # `nova` returns nothing after success.
    status = 0 if status is None else status if isinstance(status, int) else 1
    connection.sendall(b"%d" % status)


def run(path, arguments):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    socket.send_fds(connection, ["\0".join(arguments).encode()], [1, 2])
    return int(connection.recv(16) or b"70")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], *sys.argv[3:] or ["openstack"])
    sys.exit(run(sys.argv[2], sys.argv[3:]))
