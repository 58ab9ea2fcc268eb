#!/usr/bin/env python3
"""The clients of hour.sh, and the comparison of all records at its end.

traffic.py run WORK SECONDS SEED   clients send random operations and write what was acknowledged to WORK/book.json
traffic.py settle WORK             waits until no work is under way; confirms resizes, ends rescues
traffic.py check WORK              compares the book, the APIs and the hosts; prints one line for each check
traffic.py clear WORK              deletes everything; nothing may be left

WORK/cloud.json has the address, the password, the hosts' libvirt URIs and the folder of the volumes.
"""
import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

VERSION = "2.90"
SERVERS, VOLUMES, IMAGES = 5, 5, 2
WORK = sys.argv[2]
CLOUD = json.load(open(os.path.join(WORK, "cloud.json")))


class Api:
    """Sends requests as the administrator. (0, None) means that no answer came: the outcome is unknown."""

    def __init__(self):
        self.token = None

    def _send(self, method, url, body, headers):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None, answer.headers
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                return error.code, json.loads(text), error.headers
            except ValueError:
                return error.code, {"text": text.decode(errors="replace")}, error.headers
        except (OSError, ValueError):
            return 0, None, {}

    def _authenticate(self):
        user = {"name": "admin", "domain": {"id": "default"}, "password": CLOUD["password"]}
        auth = {"identity": {"methods": ["password"], "password": {"user": user}},
                "scope": {"project": {"name": "admin", "domain": {"id": "default"}}}}
        status, answer, headers = self._send("POST", CLOUD["url"] + "/identity/v3/auth/tokens", {"auth": auth}, {})
        self.token = headers.get("X-Subject-Token") if status == 201 else None
        if self.token:
            self.project = answer["token"]["project"]["id"]

    def call(self, method, path, body=None, service="compute"):
        for _ in range(2):
            if not self.token:
                self._authenticate()
            if not self.token:
                return 0, None
            versions = {"compute": "compute " + VERSION, "placement": "placement 1.36", "volume": "volume 3.67"}
            headers = {"X-Auth-Token": self.token, "OpenStack-API-Version": versions.get(service, "compute 2.1")}
            root = {"compute": "/compute/v2.1", "placement": "/placement", "volume": "/volume/v3/" + self.project,
                    "image": "/image/v2"}[service]
            status, answer, _ = self._send(method, CLOUD["url"] + root + path, body, headers)
            if status != 401:
                return status, answer
            self.token = None
        return status, answer

    def patient(self, method, path, body=None, service="compute"):
        """Repeats a request, for two minutes at most, until it is answered. The request must be safe to repeat."""
        until = time.monotonic() + 120
        while True:
            status, answer = self.call(method, path, body, service)
            if 200 <= status < 500 or time.monotonic() > until:
                return status, answer
            time.sleep(1)

    def listed(self, path, key, service="compute"):
        status, answer = self.patient("GET", path, service=service)
        assert status == 200, f"GET {path}: {status} {answer}"
        return answer[key]


class Book:
    """The requests that the control plane acknowledged. `unsure` has the names of resources whose creation got no
    answer, or a server error.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.servers, self.volumes, self.images = {}, {}, {}
        self.unsure, self.counts, self.findings = [], {}, []

    def count(self, what, status):
        kind = ("accepted" if 200 <= status < 300 else "refused" if 400 <= status < 500 else
                "no answer" if status == 0 else "unavailable" if status in (503, 507) else "failed")
        with self.lock:
            counts = self.counts.setdefault(what, {})
            counts[kind] = counts.get(kind, 0) + 1
            if kind == "failed":
                self.findings.append(f"{what} was answered {status}")

    def save(self):
        with self.lock, open(os.path.join(WORK, "book.json"), "w") as file:
            json.dump({name: getattr(self, name) for name in
                       ("servers", "volumes", "images", "unsure", "counts", "findings")}, file, indent=1)


class Client(threading.Thread):
    def __init__(self, book, seed, until):
        super().__init__(daemon=True)
        self.book, self.draw, self.until, self.api = book, random.Random(seed), until, Api()

    def run(self):
        while time.monotonic() < self.until:
            operation = self.draw.choice(OPERATIONS)
            try:
                operation(self)
            except Exception as error:  # a defect of this program becomes a finding
                with self.book.lock:
                    self.book.findings.append(f"the client failed in {operation.__name__}: {error!r}")
            self.book.save()
            time.sleep(self.draw.uniform(0.2, 2))

    def send(self, what, method, path, body=None, service="compute"):
        status, answer = self.api.call(method, path, body, service)
        self.book.count(what, status)
        return status, answer

    def some(self, kind):
        with self.book.lock:
            alive = [key for key, state in getattr(self.book, kind).items() if state == "there"]
        return self.draw.choice(alive) if alive else None

    def name(self, kind):
        return f"hour-{kind}-{self.draw.getrandbits(40):010x}"

    def note(self, kind, what, status, answer, name):
        """Writes down a creation."""
        with self.book.lock:
            if 200 <= status < 300:
                getattr(self.book, kind)[answer["id"]] = "there"
            elif not 400 <= status < 500:
                self.book.unsure.append(name)

    def create(self):
        with self.book.lock:
            if sum(state == "there" for state in self.book.servers.values()) >= SERVERS:
                return
        name = self.name("server")
        server = {"name": name, "flavorRef": CLOUD["flavors"][0], "networks": [{"uuid": CLOUD["network"]}]}
        if self.draw.random() < 0.3:
            server["block_device_mapping_v2"] = [{
                "uuid": CLOUD["image"], "source_type": "image", "destination_type": "volume", "boot_index": 0,
                "volume_size": 1, "delete_on_termination": True}]
        else:
            server["imageRef"] = CLOUD["image"]
        status, answer = self.send("create a server", "POST", "/servers", {"server": server})
        self.note("servers", "server", status, answer["server"] if status == 202 else None, name)

    def remove(self, kind, what, path, service="compute"):
        key = self.some(kind)
        if key is None:
            return
        with self.book.lock:
            getattr(self.book, kind)[key] = "asked to go"
        status, _ = self.send(what, "DELETE", path + key, service=service)
        with self.book.lock:
            book = getattr(self.book, kind)
            # An image whose data never came is deleted by the process that made it, as in Nova.
            vanished = status == 404 and kind == "images"
            if status == 404 and not vanished:
                self.book.findings.append(f"{what}: {key} was not there")
            gone = 200 <= status < 300 or vanished
            book[key] = "gone" if gone else "there" if 400 <= status < 500 else "asked to go"

    def delete(self):
        self.remove("servers", "delete a server", "/servers/")

    def act(self, what, body):
        server = self.some("servers")
        if server:
            self.send(what, "POST", f"/servers/{server}/action", body)

    def stop(self): self.act("stop", {"os-stop": None})
    def start_server(self): self.act("start", {"os-start": None})
    def reboot(self): self.act("reboot", {"reboot": {"type": self.draw.choice(["SOFT", "HARD", "HARD"])}})
    def pause(self): self.act("pause", {"pause": None})
    def unpause(self): self.act("unpause", {"unpause": None})
    def suspend(self): self.act("suspend", {"suspend": None})
    def resume(self): self.act("resume", {"resume": None})
    def resize(self): self.act("resize", {"resize": {"flavorRef": self.draw.choice(CLOUD["flavors"])}})
    def migrate(self): self.act("migrate", {"migrate": None})
    def confirm(self): self.act("confirm", {"confirmResize": None})
    def revert(self): self.act("revert", {"revertResize": None})
    def live(self): self.act("live-migrate", {"os-migrateLive": {"host": None, "block_migration": "auto"}})
    def shelve(self): self.act("shelve", {"shelve": None})
    def unshelve(self): self.act("unshelve", {"unshelve": None})
    def rebuild(self): self.act("rebuild", {"rebuild": {"imageRef": CLOUD["image"]}})
    def rescue(self): self.act("rescue", {"rescue": {}})
    def unrescue(self): self.act("unrescue", {"unrescue": None})

    def evacuate(self):
        # A host that is merely cut off needs fencing before an evacuation, so this needs a host without power.
        if os.path.exists(os.path.join(WORK, "without-power")):
            self.act("evacuate", {"evacuate": {}})

    def snapshot(self):
        with self.book.lock:
            if sum(state == "there" for state in self.book.images.values()) >= IMAGES:
                return
        server, name = self.some("servers"), self.name("image")
        if server:
            status, answer = self.send("make an image", "POST", f"/servers/{server}/action", {"createImage": {"name": name}})
            self.note("images", "image", status, {"id": answer["image_id"]} if status == 202 else None, name)

    def delete_image(self): self.remove("images", "delete an image", "/images/", service="image")

    def create_volume(self):
        with self.book.lock:
            if sum(state == "there" for state in self.book.volumes.values()) >= VOLUMES:
                return
        name = self.name("volume")
        status, answer = self.send("create a volume", "POST", "/volumes", {"volume": {"size": 1, "name": name}}, "volume")
        self.note("volumes", "volume", status, answer["volume"] if status == 202 else None, name)

    def delete_volume(self): self.remove("volumes", "delete a volume", "/volumes/", service="volume")

    def attach(self):
        server, volume = self.some("servers"), self.some("volumes")
        if server and volume:
            body = {"volumeAttachment": {"volumeId": volume}}
            self.send("attach a volume", "POST", f"/servers/{server}/os-volume_attachments", body)

    def detach(self):
        server = self.some("servers")
        status, answer = self.api.call("GET", f"/servers/{server}/os-volume_attachments") if server else (0, None)
        for attachment in answer["volumeAttachments"] if status == 200 else []:
            self.send("detach a volume", "DELETE", f"/servers/{server}/os-volume_attachments/{attachment['volumeId']}")

    def look(self):
        for path in ("/servers/detail", "/os-hypervisors/detail", "/flavors", "/os-migrations", "/limits"):
            self.send("list", "GET", path)


C = Client
OPERATIONS = [C.create] * 8 + [C.delete] * 2 + [
    C.stop, C.start_server, C.start_server, C.reboot, C.pause, C.unpause, C.unpause, C.suspend, C.resume, C.resume, C.resize,
    C.migrate, C.confirm, C.confirm, C.confirm, C.revert, C.live, C.live, C.live, C.shelve, C.unshelve, C.unshelve, C.rebuild,
    C.rescue, C.unrescue, C.unrescue, C.evacuate, C.evacuate, C.evacuate, C.snapshot, C.delete_image, C.create_volume,
    C.create_volume, C.delete_volume, C.attach, C.attach, C.detach, C.look]


def run(seconds, seed):
    book, until = Book(), time.monotonic() + seconds
    clients = [Client(book, seed * 100 + number, until) for number in range(2)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    book.save()


# -------------------------------------------------------------------------------------------- comparison of all records

UNDER_WAY = ("accepted", "queued", "preparing", "running", "migrating", "finishing", "post-migrating", "pre-migrating")


def all_servers(api):
    return api.listed("/servers/detail?all_tenants=1", "servers")


def unsettled(api):
    """Returns the work that is still under way, as texts. Confirms the resizes that wait for a confirmation, and ends
    rescues.
    """
    waits, of_shelved = [], set()
    for server in all_servers(api):
        if server["status"] == "SHELVED_OFFLOADED":
            of_shelved |= {volume["id"] for volume in server["os-extended-volumes:volumes_attached"]}
        state, task = server["status"], server["OS-EXT-STS:task_state"]
        if task or state in ("BUILD", "MIGRATING", "RESIZE", "REBUILD"):
            waits.append(f"server {server['id']} is {state} {task}")
        elif state in ("VERIFY_RESIZE", "RESCUE"):
            body = {"confirmResize": None} if state == "VERIFY_RESIZE" else {"unrescue": None}
            api.call("POST", f"/servers/{server['id']}/action", body)
            waits.append(f"server {server['id']} is {state}")
    for migration in api.listed("/os-migrations", "migrations"):
        if migration["status"] in UNDER_WAY:
            waits.append(f"migration {migration['uuid']} is {migration['status']}")
    for volume in api.listed("/volumes/detail", "volumes", "volume"):
        # The volumes of an offloaded server stay reserved for it.
        unused = volume["status"] == "reserved" and not volume["attachments"] and volume["id"] not in of_shelved
        if volume["status"].endswith("ing") or unused:
            waits.append(f"volume {volume['id']} is {volume['status']}")
    waits += [f"image {image['id']} is {image['status']}" for image in api.listed("/images", "images", "image")
              if image["status"] in ("queued", "saving")]
    return waits


def settle():
    api, until, calm = Api(), time.monotonic() + 420, 0
    while calm < 3:
        waits = unsettled(api)
        calm = 0 if waits else calm + 1
        if time.monotonic() > until:
            print("\n".join(waits))
            return 1
        time.sleep(4)
    return 0


def virsh(host, *words):
    done = subprocess.run(["virsh", "-q", "-c", CLOUD["hosts"][host], *words], capture_output=True, text=True, timeout=60)
    return done.stdout.split("\n") if done.returncode == 0 else []


class Check:
    def __init__(self):
        self.bad = 0

    def none(self, what, wrong):
        wrong = sorted(wrong)
        self.bad += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '}  {what}")
        for line in wrong[:10]:
            print(f"        {line}")


def guests():
    """(host, server, running) of each domain."""
    found = []
    for host in CLOUD["hosts"]:
        running = set(filter(None, virsh(host, "list", "--uuid")))
        found += [(host, uuid, uuid in running) for uuid in filter(None, virsh(host, "list", "--all", "--uuid"))]
    return found


def disks():
    """(host, name) of each file of a server in the pool of a host."""
    found = []
    for host in CLOUD["hosts"]:
        virsh(host, "pool-refresh", "chronova")
        names = [line.split()[0] for line in virsh(host, "vol-list", "chronova") if line.split()]
        found += [(host, name) for name in names if len(name) > 37 and name[36] == "_"]
    return found


def check():
    api, book, check = Api(), json.load(open(os.path.join(WORK, "book.json"))), Check()
    servers = {server["id"]: server for server in all_servers(api)}
    volumes = {volume["id"]: volume for volume in api.listed("/volumes/detail", "volumes", "volume")}
    images = {image["id"] for image in api.listed("/images?limit=1000", "images", "image")}
    check.none("no client has a finding", book["findings"])
    for kind, real in (("servers", servers), ("volumes", volumes)):
        noted = book[kind]
        check.none(f"all {kind} whose creation was acknowledged exist", {key for key, state in noted.items() if state == "there"} - set(real))
        check.none(f"all {kind} whose deletion was acknowledged are gone",
                   {key for key, state in noted.items() if state == "gone"} & set(real))
    check.none("all images whose deletion was acknowledged are gone",
               {key for key, state in book["images"].items() if state == "gone"} & images)
    strangers = {key for key, server in servers.items() if key not in book["servers"] and server["name"] not in book["unsure"]}
    check.none("no server exists without a request for it", strangers)

    found = guests()
    placed = {key: server["OS-EXT-SRV-ATTR:host"] for key, server in servers.items()}
    check.none("every guest is on its server's host, and on no other",
               {f"{uuid} is on {host}, its server on {placed.get(uuid)}" for host, uuid, _ in found if placed.get(uuid) != host})
    runs = [uuid for _, uuid, running in found if running]
    check.none("no guest runs twice", {uuid for uuid in runs if runs.count(uuid) > 1})
    check.none("every ACTIVE server runs, and no SHUTOFF server runs",
               {f"{key} is {server['status']}" for key, server in servers.items()
                if server["status"] == "ACTIVE" and key not in runs or server["status"] == "SHUTOFF" and key in runs})
    check.none("every disk on a host belongs to a server on that host",
               {f"{name} on {host}" for host, name in disks() if placed.get(name[:36]) != host})

    providers = api.listed("/resource_providers", "resource_providers", "placement")
    held = {}
    for provider in providers:
        allocations = api.listed(f"/resource_providers/{provider['uuid']}/allocations", "allocations", "placement")
        for consumer, allocation in allocations.items():
            held.setdefault(consumer, []).append((provider["name"], allocation["resources"]))
    on_hosts = {key: host for key, host in placed.items() if host}
    check.none("every server on a host has one allocation there, with its flavor's VCPUs and memory",
               {f"{key} on {host} holds {held.get(key)}" for key, host in on_hosts.items()
                if len(held.get(key, [])) != 1 or held[key][0][0] != host
                or held[key][0][1].get("VCPU") != servers[key]["flavor"]["vcpus"]
                or held[key][0][1].get("MEMORY_MB") != servers[key]["flavor"]["ram"]})
    check.none("no other consumer has an allocation", set(held) - set(on_hosts))
    used = api.patient("GET", "/limits")[1]["limits"]["absolute"]
    real = (len(servers), sum(server["flavor"]["vcpus"] for server in servers.values()),
            sum(server["flavor"]["ram"] for server in servers.values()))
    told = (used["totalInstancesUsed"], used["totalCoresUsed"], used["totalRAMUsed"])
    check.none("the quota's usage equals the existing servers", set() if told == real else {f"servers, processors, memory: {told}, but {real} exist"})

    files = {name for name in os.listdir(CLOUD["volumes"])} if os.path.isdir(CLOUD["volumes"]) else set()
    snapshots = {snapshot["id"] for snapshot in api.listed("/snapshots", "snapshots", "volume")}
    kept = {f"volume-{key}" for key in volumes} | {f"snapshot-{key}" for key in snapshots}
    # A volume in error may have no file.
    broken = {f"volume-{key}" for key, volume in volumes.items() if volume["status"] == "error"}
    check.none("the pool has the files of the volumes and snapshots, and no others", files - kept | kept - broken - files)
    # As in Cinder, a volume shows only complete attachments. The list of attachments has the reserved ones, too: the volumes
    # of an offloaded server stay reserved for it.
    of_volumes = {(a["volume_id"], a["instance"]) for a in api.listed("/attachments", "attachments", "volume")}
    complete = {(volume["id"], attachment["server_id"]) for volume in volumes.values() for attachment in volume["attachments"]}
    of_servers = set()
    for key in servers:
        of_servers |= {(a["volumeId"], key) for a in api.listed(f"/servers/{key}/os-volume_attachments", "volumeAttachments")}
    check.none("servers and volumes agree about attachments",
               {f"volume {volume}, server {key}: only the {'volume' if (volume, key) in of_volumes else 'server'} has the attachment"
                for volume, key in of_volumes ^ of_servers})
    check.none("every attachment of a server on a host is complete",
               {f"volume {volume}, server {key}" for volume, key in of_servers - complete if key in on_hosts})
    in_guests = {(line.split("volume-")[1][:36], uuid) for host, uuid, _ in found
                 for line in virsh(host, "domblklist", uuid) if "volume-" in line}
    with_guest = {pair for pair in of_servers if pair[1] in {uuid for _, uuid, _ in found}}
    check.none("guests have the volumes of their servers", {f"{pair}" for pair in in_guests ^ with_guest})
    return 1 if check.bad else 0


def clear():
    api, check, until = Api(), Check(), time.monotonic() + 240
    for path, key, service in (("/servers", "servers", "compute"), ("/snapshots", "snapshots", "volume"),
                               ("/volumes", "volumes", "volume")):
        things = api.listed(path, key, service)
        while things:
            for thing in things:
                api.call("DELETE", f"{path}/{thing['id']}", service=service)
            time.sleep(3)
            things = api.listed(path, key, service)
            if time.monotonic() > until:
                break
        check.none(f"all {key} are deleted", {thing["id"] for thing in things})
    wait = time.monotonic() + 60
    while (guests() or disks()) and time.monotonic() < wait:
        time.sleep(3)
    check.none("no guest is left", {f"{uuid} on {host}" for host, uuid, _ in guests()})
    check.none("no disk is left", {f"{name} on {host}" for host, name in disks()})
    check.none("no file of a volume is left", set(os.listdir(CLOUD["volumes"])) if os.path.isdir(CLOUD["volumes"]) else set())
    providers = api.listed("/resource_providers", "resource_providers", "placement")
    left = {consumer for provider in providers for consumer in
            api.listed(f"/resource_providers/{provider['uuid']}/allocations", "allocations", "placement")}
    check.none("no allocation is left", left)
    used = api.patient("GET", "/limits")[1]["limits"]["absolute"]
    check.none("no quota is used", {f"{name}: {used[name]}" for name in
                                    ("totalInstancesUsed", "totalCoresUsed", "totalRAMUsed") if used[name]})
    return 1 if check.bad else 0


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(run(int(sys.argv[3]), int(sys.argv[4])))
    sys.exit({"settle": settle, "check": check, "clear": clear}[sys.argv[1]]())
