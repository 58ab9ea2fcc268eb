"""Reads notifications from a queue and checks them: python3 consume.py URL QUEUE SERVERS TIMEOUT.

Waits until the notifications say that SERVERS servers are deleted, or for TIMEOUT seconds. Drops messages whose id was
already seen, as oslo.messaging's consumers do. The other messages must be, for each server, the notifications in LIFE,
in this order.
"""

import collections
import json
import sys
import time

from kombu import Connection, Exchange, Queue
from kombu.exceptions import OperationalError

LIFE = [
    "create.start", "create.end", "power_off.start", "power_off.end", "power_on.start", "power_on.end",
    "delete.start", "shutdown.start", "shutdown.end", "delete.end",
]


def main(url, name, servers, timeout):
    lives, ids, doubles = collections.defaultdict(list), set(), 0
    end = time.monotonic() + timeout
    queue = Queue(name, Exchange("nova", "topic", durable=True), routing_key=name, durable=True)

    def take(body, message):
        nonlocal doubles
        body = json.loads(body) if isinstance(body, (str, bytes)) else body
        assert body["oslo.version"] == "2.0", body
        said = json.loads(body["oslo.message"])
        message.ack()
        if said["event_type"].startswith("scheduler."):
            return
        if said["message_id"] in ids:
            doubles += 1
            return
        ids.add(said["message_id"])
        payload = said["payload"]["nova_object.data"]
        lives[payload["uuid"]].append(said["event_type"].removeprefix("instance."))

    while time.monotonic() < end and sum("delete.end" in life for life in lives.values()) < servers:
        try:
            with Connection(url) as connection, connection.Consumer(queue, callbacks=[take]):
                while sum("delete.end" in life for life in lives.values()) < servers:
                    connection.drain_events(timeout=5)
        except (OSError, OperationalError):
            time.sleep(0.5)
    wrong = {server: life for server, life in lives.items() if life != LIFE}
    print(f"{len(lives)} servers, {len(ids)} notifications, {doubles} doubles dropped, {len(wrong)} lives that differ")
    for server, life in list(wrong.items())[:3]:
        print(server, life)
    return 0 if len(lives) == servers and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
