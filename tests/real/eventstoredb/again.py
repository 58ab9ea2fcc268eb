"""Checks that a persistent subscription goes on after a restart of the control plane.

Environment: LOG_PORT of the control plane, WORK a folder with cert.pem. client.py has settled the first two events of the
group.
"""

import os

from kurrentdbclient import KurrentDBClient

CERTIFICATE = open(os.path.join(os.environ["WORK"], "cert.pem")).read()
ADDRESS = f"esdb://shop:shop-password@localhost:{os.environ['LOG_PORT']}?Tls=true"

shop = KurrentDBClient(ADDRESS, root_certificates=CERTIFICATE)
with shop.read_subscription_to_stream("kept", "orders-1", timeout=60) as events:
    for event in events:
        events.ack(event)
        break
assert event.type == "Sent", event
print("ok    a persistent subscription goes on after a restart", flush=True)
shop.close()
