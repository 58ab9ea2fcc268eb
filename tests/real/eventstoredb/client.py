"""Checks what the official Python client of EventStoreDB can read of a control plane's log, and append to it.

Environment: PORT and LOG_PORT of the control plane, DATA its data directory, WORK a folder with cert.pem. Prints one line
for each check that passes, and ends with an AssertionError at the first that fails.
"""

import json
import os
import threading
import time
import urllib.request
import uuid

from kurrentdbclient import KurrentDBClient, NewEvent, StreamState
from kurrentdbclient.exceptions import (
    AccessDeniedError,
    AlreadyExistsError,
    FailedPreconditionError,
    KurrentDBClientError,
    NotFoundError,
    UnauthenticatedError,
    WrongCurrentVersionError,
)

CERTIFICATE = open(os.path.join(os.environ["WORK"], "cert.pem")).read()
API = f"http://127.0.0.1:{os.environ['PORT']}"


def client(user, password):
    address = f"esdb://{user}:{password}@localhost:{os.environ['LOG_PORT']}?Tls=true"
    return KurrentDBClient(address, root_certificates=CERTIFICATE)


def ok(what):
    print("ok   ", what, flush=True)


def refused(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError(f"{call.__name__}{args} was not refused")


# ------------------------------------------------------------------------------------------------------ the compute API


def field(name):
    """A value of clouds.yaml, which is flat enough not to need a parser."""
    for line in open(os.path.join(os.environ["DATA"], "clouds.yaml")):
        key, _, value = line.strip().partition(":")
        if key == name:
            return value.strip().strip("\"'")
    raise KeyError(name)


def ask(method, path, body=None, token=None):
    headers = {"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {})}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(API + path, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
        return (json.loads(text) if text else None), answer.headers


def log_in():
    user = {"name": field("username"), "password": field("password"), "domain": {"id": "default"}}
    scope = {"project": {"name": field("project_name"), "domain": {"id": "default"}}}
    identity = {"methods": ["password"], "password": {"user": user}}
    _, headers = ask("POST", "/identity/v3/auth/tokens", {"auth": {"identity": identity, "scope": scope}})
    return headers["X-Subject-Token"]


def make_servers(count):
    token = log_in()
    flavor = {"name": "log", "ram": 64, "vcpus": 1, "disk": 1}
    flavor = ask("POST", "/compute/v2.1/flavors", {"flavor": flavor}, token)[0]["flavor"]["id"]
    image = {"name": "log", "disk_format": "raw", "container_format": "bare"}
    image = ask("POST", "/image/v2/images", image, token)[0]["id"]
    upload = {"X-Auth-Token": token, "Content-Type": "application/octet-stream"}
    request = urllib.request.Request(f"{API}/image/v2/images/{image}/file", bytes(1024), upload, method="PUT")
    urllib.request.urlopen(request, timeout=30).close()
    network = ask("POST", "/network/v2.0/networks", {"network": {"name": "log"}}, token)[0]["network"]["id"]
    subnet = {"network_id": network, "ip_version": 4, "cidr": "10.75.0.0/24"}
    ask("POST", "/network/v2.0/subnets", {"subnet": subnet}, token)
    made = []
    for number in range(count):
        server = {"name": f"log-{number}", "flavorRef": flavor, "imageRef": image, "networks": [{"uuid": network}]}
        made.append(ask("POST", "/compute/v2.1/servers", {"server": server}, token)[0]["server"]["id"])
    return made


# -------------------------------------------------------------------------------------------------------------- reading

auditor, shop = client("auditor", "auditor-password"), client("shop", "shop-password")

everything = list(auditor.read_all())
positions = [event.commit_position for event in everything]
assert positions == sorted(set(positions)) and positions[0] == 1, positions
assert auditor.get_commit_position() == positions[-1]
ok(f"the whole log is read in order: {len(everything)} events")
assert [event.id for event in auditor.read_all(backwards=True)] == [event.id for event in reversed(everything)]
middle = positions[len(positions) // 2]
assert [e.commit_position for e in auditor.read_all(commit_position=middle, limit=2)] == [middle, middle + 1]
assert [e.commit_position for e in auditor.read_all(commit_position=middle, limit=2, backwards=True)] == [middle - 1, middle - 2]
ok("backwards, and from a position in both directions")
hosts = list(auditor.read_all(filter_include=("host-",), filter_by_stream_name=True, filter_by_prefix=True))
assert {event.type.split(".")[0] for event in hosts} == {"host"} and len({event.stream_name for event in hosts}) == 2
assert [event.id for event in auditor.read_all(filter_include=(r"host\..*",))] == [event.id for event in hosts]
assert len(list(auditor.read_all(filter_exclude=(r"host\..*",)))) == len(everything) - len(hosts)
ok("filtered by stream names and by event types")
first = everything[0]
payload, envelope = json.loads(first.data), json.loads(first.metadata)
assert isinstance(payload, dict) and first.content_type == "application/json"
assert uuid.UUID(envelope["$correlationId"]) and envelope["cause"] == {"system": "bootstrap"}, envelope
ok("payload and envelope are JSON")
stream = auditor.get_stream(first.stream_name)
assert [event.stream_position for event in stream] == list(range(len(stream)))
assert auditor.get_stream(first.stream_name, stream_position=1, limit=2) == stream[1:3]
assert auditor.get_stream(first.stream_name, backwards=True, limit=2) == tuple(reversed(stream[-2:]))
assert auditor.get_stream(first.stream_name, stream_position=1, backwards=True) == tuple(reversed(stream[:2]))
assert auditor.get_current_version(first.stream_name) == len(stream) - 1
ok("a stream is read from both ends")
refused(NotFoundError, auditor.get_stream, "instance-of-nothing")
assert auditor.get_current_version("orders-1") is StreamState.NO_STREAM
ok("a stream that is not there is not found")

# ------------------------------------------------------------------------------------------------------------ appending

placed, paid = NewEvent("OrderPlaced", b'{"order": 1}'), NewEvent("Paid", b"\x00\xff", b"{}", "application/octet-stream")
at = shop.append_to_stream("orders-1", current_version=StreamState.NO_STREAM, events=[placed, paid])
read = shop.get_stream("orders-1")
assert [(e.id, e.type, e.data, e.metadata, e.content_type) for e in read] == [
    (e.id, e.type, e.data, e.metadata, e.content_type) for e in (placed, paid)
]
assert read[-1].commit_position == at
ok("what another program appends is read as it was written")
for version in (StreamState.NO_STREAM, StreamState.ANY):
    assert shop.append_to_stream("orders-1", current_version=version, events=[placed, paid]) == at
ok("a repeated append gets the same answer and writes nothing")
for version in (StreamState.NO_STREAM, 0, 7):
    for events in (NewEvent("Late", b"{}"), [NewEvent("Late", b"{}")]):
        error = refused(WrongCurrentVersionError, shop.append_to_stream, "orders-1", current_version=version, events=events)
        assert error.actual_version == 1, error
refused(WrongCurrentVersionError, shop.append_to_stream, "orders-2", current_version=StreamState.EXISTS, events=placed)
assert shop.append_to_stream("orders-1", current_version=1, events=NewEvent("Sent", b"{}")) > at
assert len(shop.get_stream("orders-1")) == 3
ok("the expected revision is held, whether one event is appended or several")

# ------------------------------------------------------------------------------------------------------------- refusals

for wrong in (("auditor", "wrong-password"), ("nobody", "auditor-password")):
    refused(UnauthenticatedError, client(*wrong).get_commit_position)
ok("a wrong name or password is refused")
one = NewEvent("X", b"{}")
refused(AccessDeniedError, auditor.append_to_stream, "orders-1", current_version=StreamState.ANY, events=one)
for name in ("instance-1", "ledger-cell1", "$system"):
    refused(AccessDeniedError, shop.append_to_stream, name, current_version=StreamState.ANY, events=one)
    refused(AccessDeniedError, shop.append_to_stream, name, current_version=StreamState.ANY, events=[one])
ok("a reader appends nothing, and nobody else to our streams")
large = NewEvent("Large", bytes(1 << 20), b"", "application/octet-stream")
refused(KurrentDBClientError, shop.append_to_stream, "orders-1", current_version=StreamState.ANY, events=large)
refused(KurrentDBClientError, shop.append_to_stream, "orders-1", current_version=StreamState.ANY, events=[large])
ok("too large an event is refused")
refused(FailedPreconditionError, shop.delete_stream, "orders-1", current_version=2)
refused(FailedPreconditionError, shop.tombstone_stream, "orders-1", current_version=2)
assert len(shop.get_stream("orders-1")) == 3
ok("nothing is deleted")

# ------------------------------------------------------------------------------------------------------------ following

COUNT = 3
caught_up, done, seen, of_shop = threading.Event(), threading.Event(), [], []


def follow():
    with auditor.subscribe_to_all(from_end=True, include_caught_up=True, timeout=120) as events:
        for event in events:
            if type(event).__name__ == "CaughtUp":
                caught_up.set()
                continue
            seen.append(event)
            if sum(event.type == "instance.build_succeeded" for event in seen) == COUNT:
                done.set()
                return


def follow_shop():
    with shop.subscribe_to_stream("orders-1", stream_position=1, timeout=120) as events:
        for event in events:
            of_shop.append(event.type)
            if event.type == "Closed":
                return


followers = [threading.Thread(target=follow, daemon=True), threading.Thread(target=follow_shop, daemon=True)]
for follower in followers:
    follower.start()
assert caught_up.wait(60), "a subscription from the end does not catch up"
made = make_servers(COUNT)
shop.append_to_stream("orders-1", current_version=StreamState.ANY, events=NewEvent("Closed", b"{}"))
assert done.wait(120), f"the builds were not seen: {[event.type for event in seen]}"
for follower in followers:
    follower.join(60)
built = {event.stream_name for event in seen if event.type == "instance.build_succeeded"}
assert built == {f"instance-{server}" for server in made}, built
positions = [event.commit_position for event in seen]
assert positions == list(range(positions[0], positions[0] + len(positions))), "a gap or a repetition"
ok(f"{COUNT} servers are seen being built, live: {len(seen)} events without a gap")
assert of_shop == ["Sent", "Closed"], of_shop
ok("a subscription to a stream goes on after the revision it is given")
again = list(auditor.read_all(commit_position=positions[0], limit=len(positions)))
assert [event.id for event in again] == [event.id for event in seen]
ok("what was followed is what is read")

# ------------------------------------------------------------------------------------------- categories and types

links = auditor.get_stream("$ce-host", resolve_links=True)
assert [event.id for event in links][: len(hosts)] == [event.id for event in hosts]
assert all(event.link.stream_position == event.commit_position for event in links)
second = links[1].link.stream_position
assert [e.id for e in auditor.get_stream("$ce-host", stream_position=second, resolve_links=True, limit=2)] == [e.id for e in links[1:3]]
newest = auditor.get_stream("$ce-orders", backwards=True, resolve_links=True, limit=2)
assert [event.type for event in newest] == ["Closed", "Sent"]
built = auditor.get_stream("$et-instance.build_succeeded", resolve_links=True)
assert {event.stream_name for event in built} == {f"instance-{server}" for server in made}, built
refused(NotFoundError, auditor.get_stream, "$ce-nothing", resolve_links=True)
ok("a category and a type are read as links, from both ends and from a revision")

# ------------------------------------------------------------------------------------------- persistent subscriptions

GROUP = {"group_name": "billing", "stream_name": "$ce-orders"}
refused(AccessDeniedError, auditor.create_subscription_to_stream, **GROUP)
shop.create_subscription_to_stream(**GROUP, resolve_links=True, max_checkpoint_count=1, min_checkpoint_count=1)
refused(AlreadyExistsError, shop.create_subscription_to_stream, **GROUP)


def settle(count, parked=(), group=GROUP):
    """Settles the next events of the group: parks some types, acknowledges the others."""
    types = []
    with shop.read_subscription_to_stream(**group, timeout=60) as events:
        for event in events:
            types.append(event.type)
            if event.type in parked:
                events.nack(event, "park")
            else:
                events.ack(event)
            if len(types) == count:
                break
    return types


def settled(parked):
    """Waits until nothing of the group is outstanding."""
    for _ in range(300):
        info = shop.get_subscription_info(**GROUP)
        if info.outstanding_messages_count == 0 and info.parked_message_count == parked:
            return
        time.sleep(0.1)
    raise AssertionError(info)


assert settle(4, parked=("Paid",)) == ["OrderPlaced", "Paid", "Sent", "Closed"]
settled(parked=1)
ok("a persistent subscription on a category: acknowledged and parked")
shop.append_to_stream("orders-2", current_version=StreamState.ANY, events=NewEvent("Reopened", b"{}"))
assert settle(1) == ["Reopened"]
settled(parked=1)
shop.replay_parked_events(**GROUP)
assert settle(1) == ["Paid"]
settled(parked=0)
assert [info.group_name for info in shop.list_subscriptions()] == ["billing"]
ok("it goes on after its checkpoint, and replays what is parked")
shop.delete_subscription(**GROUP)
refused(NotFoundError, shop.get_subscription_info, **GROUP)
ok("a deleted persistent subscription is gone")
# again.py continues with this group after a restart.
KEPT = {"group_name": "kept", "stream_name": "orders-1"}
shop.create_subscription_to_stream(**KEPT, max_checkpoint_count=1, min_checkpoint_count=1)
assert settle(2, group=KEPT) == ["OrderPlaced", "Paid"]
for _ in range(300):
    if shop.get_subscription_info(**KEPT).last_checkpointed_event_position == "1":
        break
    time.sleep(0.1)
else:
    raise AssertionError(shop.get_subscription_info(**KEPT))

auditor.close()
shop.close()
