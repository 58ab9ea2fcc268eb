"""A visitor of Horizon, without a browser: fills in forms, follows the menu, and calls the addresses that Horizon's pages
call. Each check prints one line: `ok` or `FAIL`, and its name.

    horizon.py HORIZON USER PASSWORD NAME WORK [--long]   NAME is the name of the image, the flavor and the network to
                                                          use. The long visit uses more forms, of all services

Writes the addresses of the two consoles into WORK/vnc and WORK/serial, and waits for WORK/serial.seen before it deletes
the server. Exit status: 0 all checks passed; 1 a check failed.
"""

import html
import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from http.cookiejar import CookieJar

HORIZON, USER, PASSWORD, NAME, WORK = sys.argv[1:6]
LONG = "--long" in sys.argv
# Horizon on a busy machine takes seconds for a page that asks several services.
TIMEOUT = 120
# Addresses that the visit does not open: log-in, log-out, downloads of credentials, settings and static files.
SKIPPED = re.compile(r"/auth/|/logout|/api_access/.*(clouds|openrc)|^/settings/|/static/|/i18n/")

jar = CookieJar()
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
failed = 0


def check(what, good, why=""):
    global failed
    print(f"ok\t{what}" if good else f"FAIL\t{what}\t{' '.join(str(why).split())[:300]}", flush=True)
    failed += not good
    return good


def cookie(name):
    return next((cookie.value for cookie in jar if cookie.name == name), "")


def send(path, form=None, body=None, method=None, ajax=False):
    """Returns the status, the address after redirects, and the text."""
    headers = {"Referer": HORIZON + path, "Accept-Language": "en"}
    data = None
    if form is not None:
        form = [*form, ("csrfmiddlewaretoken", cookie("csrftoken"))]
        data = urllib.parse.urlencode(form).encode()
    if body is not None or method in ("DELETE", "POST"):
        headers["X-CSRFToken"] = cookie("csrftoken")
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    if ajax:
        headers["X-Requested-With"] = "XMLHttpRequest"
    request = urllib.request.Request(urllib.parse.urljoin(HORIZON, path), data, headers, method=method)
    try:
        with opener.open(request, timeout=TIMEOUT) as answer:
            return answer.status, answer.url, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.url, refusal.read().decode(errors="replace")


def alerts(text):
    """The errors and warnings that a page shows to its reader."""
    found = re.findall(r'<div class="alert alert-(?:danger|warning) alert-dismissable.*?</div>', text, re.S)
    return [" ".join(re.sub(r"<[^>]*>", " ", html.unescape(part)).split()) for part in found]


def page(path, what=None):
    """Opens a page. It must be there, be its own address (no way back to the log-in), and show no error."""
    status, url, text = send(path)
    shown = alerts(text)
    good = status == 200 and "/auth/login" not in url and not shown
    check(f"the page {what or path} is shown", good, f"{status} {url} {shown}")
    return text


def api(path, body=None, method=None):
    status, _, text = send("/api/" + path, body=body, method=method, ajax=True)
    check(f"Horizon's own interface answers {method or ('POST' if body else 'GET')} {re.sub('[0-9a-f-]{32,36}', 'ID', path)}", status in (200, 201, 204), f"{status} {text}")
    return json.loads(text) if text and status < 300 else {}


class Forms(HTMLParser):
    """The forms of a page: action, and the fields with the values that a browser would send."""

    def __init__(self, text):
        super().__init__()
        self.forms, self.select, self.area = [], None, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        has = dict(attributes)
        if tag == "form":
            self.forms.append((has.get("action", "").strip(), []))
        if not self.forms:
            return
        fields, name = self.forms[-1][1], has.get("name")
        if tag == "input" and name and has.get("type") not in ("submit", "button", "file"):
            if has.get("type") not in ("checkbox", "radio") or "checked" in has:
                fields.append((name, has.get("value", "on" if has.get("type") == "checkbox" else "")))
        elif tag == "select" and name:
            self.select, self.several, self.chosen = name, "multiple" in has, []
        elif tag == "option" and self.select:
            if "selected" in has and not self.several:
                self.chosen = [has.get("value", "")]
            elif "selected" in has or not (self.several or self.chosen):
                self.chosen.append(has.get("value", ""))
        elif tag == "textarea" and name:
            self.area = name
            fields.append((name, ""))

    def handle_endtag(self, tag):
        if tag == "select" and self.select:
            self.forms[-1][1].extend((self.select, value) for value in self.chosen)
            self.select = None
        elif tag == "textarea":
            self.area = None

    def handle_data(self, data):
        if self.area:
            name, value = self.forms[-1][1].pop()
            self.forms[-1][1].append((name, value + (data if value else data.removeprefix("\n"))))


def fill(what, path, **values):
    """Opens the page of a form, fills the form in, and sends it. Horizon then shows another page."""
    status, _, text = send(path)
    plain = path.split("?")[0].rstrip("/")
    forms = [form for form in Forms(text).forms if urllib.parse.urlparse(form[0]).path.rstrip("/") == plain]
    if not check(f"the form is shown: {what}", status == 200 and forms, f"{status} {alerts(text)} {Forms(text).forms}"):
        return ""
    action, fields = forms[0]
    wanted = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    sent = [(name, value) for name, value in fields if name not in wanted and name != "csrfmiddlewaretoken"]
    sent += [(name, value) for name, several in wanted.items() for value in several if value is not None]
    status, url, text = send(action, form=sent)
    errors = re.findall(r'<(?:span|div|li)[^>]*class="[^"]*(?:help-block alert alert-danger|errorlist)[^"]*"[^>]*>(.*?)</', text, re.S)
    stays = urllib.parse.urlparse(url).path.rstrip("/") == plain
    check(f"the form is accepted: {what}", status == 200 and not stays and not alerts(text), f"{status} {url} {alerts(text)} {errors} {sent}")
    return text


def state(server):
    """The status of a server; None if Horizon answers that there is none."""
    status, _, text = send(f"/api/nova/servers/{server}", ajax=True)
    return json.loads(text)["status"] if status == 200 else None


def named(rows, name):
    return next((row for row in rows.get("items", []) if row.get("name") == name), {})


def until(what, seconds, question):
    end = time.monotonic() + seconds
    while not (seen := question()):
        if time.monotonic() > end:
            return check(what, False, "not in time")
        time.sleep(0.5)
    return check(what, True) and seen


def log_in(password):
    send("/auth/login/")
    return send("/auth/login/", form=[("username", USER), ("password", password), ("region", "default"), ("next", "/")])


# ------------------------------------------------------------------------------------------------------------ the visit

_, url, text = log_in("wrong")
check("a wrong password is refused", "/auth/login" in url and "Invalid credentials" in text, alerts(text))
status, url, text = log_in(PASSWORD)
if not check("the right password opens Horizon", status == 200 and "/auth/login" not in url, f"{status} {url} {alerts(text)}"):
    sys.exit(1)

# Every page of the menu that Horizon offers for this cloud and this user.
menu = []
for group in "/project/", "/admin/", "/identity/":
    for path in re.findall(r'href="(/(?:project|admin|identity)/[a-z_/-]*)"', page(group)):
        if path not in menu and not SKIPPED.search(path):
            menu.append(path)
check("the menu has the pages of an administrator", {"/project/instances/", "/admin/hypervisors/", "/identity/users/"} <= set(menu), menu)
for path in menu:
    page(path)

# The requests that the form of a new server sends before it is shown.
image = named(api("glance/images/"), NAME)
flavor = named(api("nova/flavors/"), NAME)
network = named(api("neutron/networks/"), NAME)
for path in (
    "nova/availzones/", "nova/keypairs/", "nova/servergroups/", "nova/limits/?reserved=true", "network/securitygroups/",
    "nova/features/key_types/", "cinder/volumes/", "cinder/volumesnapshots/", "neutron/ports/", "nova/services/",
    "cinder/tenantabsolutelimits/", "nova/quota-sets/defaults/",
):  # fmt: skip
    api(path)
wanted = {
    "name": "by-horizon", "source_id": image.get("id"), "flavor_id": flavor.get("id"), "key_name": None, "user_data": "",
    "security_groups": ["default"], "nics": [{"net-id": network.get("id"), "v4-fixed-ip": ""}], "instance_count": 1,
    "availability_zone": None, "config_drive": False, "disk_config": "AUTO", "description": None, "meta": {},
    "scheduler_hints": {}, "block_device_mapping_v2": None,
}  # fmt: skip
made = api("nova/servers/", body=wanted)
server = made.get("id", "none")
until("the server that Horizon launched is ACTIVE", 120, lambda: state(server) == "ACTIVE")
text = page("/project/instances/", "with the server")
check("the list shows the server, its flavor and its address", all(word in text for word in ("by-horizon", NAME, server)))
text = page("/admin/instances/", "of all projects' servers")
check("the administrator's list shows the server", "by-horizon" in text)
for tab in "overview", "log", "interfaces", "audit":
    page(f"/project/instances/{server}/?tab=instance_details__{tab}", f"of the server: {tab}")
api(f"nova/servers/{server}/actions/")
api(f"nova/servers/{server}/security-groups/")
api(f"nova/servers/{server}/volumes/")
check("the console's output is shown", bool(api(f"nova/servers/{server}/console-output/", body={"length": 20}).get("lines")))

# The console: the tab has a frame, whose address the caller opens.
text = page(f"/project/instances/{server}/?tab=instance_details__console", "of the server: console")
frame = re.search(r'<iframe[^>]*src="([^"]+)"', text)
if check("the tab of the console has a frame", frame, text[:200]):
    open(os.path.join(WORK, "vnc"), "w").write(html.unescape(frame.group(1)))
info = api(f"nova/servers/{server}/console-info/", body={"console_type": "SERIAL"})
if check("a serial console is given", info.get("type") == "SERIAL", info):
    open(os.path.join(WORK, "serial.new"), "w").write(info["url"])
    os.rename(os.path.join(WORK, "serial.new"), os.path.join(WORK, "serial"))
    until("the caller has used the console", 120, lambda: os.path.exists(os.path.join(WORK, "serial.seen")))
page(f"/project/instances/{server}/serial", "of the serial console")

# Forms and actions of the table.
for path in "update", "resize", "rebuild", "attach_interface", "rescue":
    page(f"/project/instances/{server}/{path}", f"of the form: {path}")
page(f"/project/instances/{server}/attach_volume/", "of the form: attach_volume")


def act(action, row=None, table="/project/instances/", name="instances"):
    """Presses a button of a table's row."""
    status, url, text = send(table, form=[("action", f"{name}__{action}__{row or server}")])
    shown = alerts(text)
    check(f"the action {action} is accepted", status == 200 and not shown, f"{status} {url} {shown}")


act("stop")
until("the server is SHUTOFF after the action stop", 60, lambda: state(server) == "SHUTOFF")
act("start")
until("the server is ACTIVE after the action start", 60, lambda: state(server) == "ACTIVE")
act("soft_reboot")
until("the server is ACTIVE after the reboot", 60, lambda: state(server) == "ACTIVE")

def settled(what, wanted, seconds=60):
    until(f"the server is {wanted} after {what}", seconds, lambda: state(server) == wanted)


def servers_forms():
    """Uses every form and button of a server. Returns the larger flavor, and a function that lists the ports."""
    for action, wanted in ("pause", "PAUSED"), ("pause", "ACTIVE"), ("suspend", "SUSPENDED"), ("suspend", "ACTIVE"):
        act(action)
        settled(f"the action {action}", wanted)
    act("lock")
    act("unlock")
    act("shelve")
    until("the server is shelved", 60, lambda: (state(server) or "").startswith("SHELVED"))
    act("shelve")
    settled("the action unshelve", "ACTIVE")
    larger = api("nova/flavors/", body={"id": "auto", "name": "larger", "ram": 128, "vcpus": 2, "disk": 1, "OS-FLV-EXT-DATA:ephemeral": 0, "swap": 0, "rxtx_factor": 1,
                                        "is_public": True, "flavor_access": []})
    fill("resize", f"/project/instances/{server}/resize", flavor=larger.get("id"))
    settled("the resize", "VERIFY_RESIZE")
    act("confirm")
    settled("the confirmation", "ACTIVE")
    fill("rebuild", f"/project/instances/{server}/rebuild", image=image.get("id"))
    settled("the rebuild", "ACTIVE")
    fill("rescue", f"/project/instances/{server}/rescue", image=image.get("id"))
    settled("the rescue", "RESCUE")
    act("unrescue")
    settled("the end of the rescue", "ACTIVE")
    fill("snapshot", f"/project/images/{server}/create/", name="by-horizon")
    until("the snapshot is active", 60, lambda: named(json.loads(send("/api/glance/images/", ajax=True)[2]), "by-horizon").get("status") == "active")
    fill("edit", f"/project/instances/{server}/update", name="by-horizon-2", description="by a form")
    check("the server has its new name", "by-horizon-2" in page("/project/instances/", "with the new name"))
    fill("attach interface", f"/project/instances/{server}/attach_interface", specification_method="network", network=network.get("id"))
    ports = lambda: [row["id"] for row in api("neutron/ports/")["items"] if row.get("device_id") == server]
    until("the server has two ports", 60, lambda: len(ports()) == 2)
    fill("detach interface", f"/project/instances/{server}/detach_interface", port=ports()[0])
    until("the server has one port", 60, lambda: len(ports()) == 1)
    return larger, ports


def other_services(ports):
    """Key pairs, volumes, security groups, networks, routers, floating addresses."""
    keypair = api("nova/keypairs/", body={"name": "by-horizon", "key_type": "ssh"})
    check("a key pair is made", "BEGIN" in keypair.get("private_key", ""), keypair)
    page("/project/key_pairs/", "with the key pair")
    api("nova/keypairs/by-horizon")
    api("nova/keypairs/by-horizon", method="DELETE")
    group = api("nova/servergroups/", body={"name": "by-horizon", "policies": ["anti-affinity"]})
    page("/project/server_groups/", "with the server group")
    api(f"nova/servergroups/{group.get('id')}/", method="DELETE")

    volume = api("cinder/volumes/", body={"name": "by-horizon", "size": 1, "description": "", "volume_type": "", "metadata": {},
                                          "snapshot_id": None, "image_id": None, "source_volid": None, "availability_zone": ""})
    volume_is = lambda wanted: wanted in [row.get("status") for row in json.loads(send("/api/cinder/volumes/", ajax=True)[2])["items"]]
    until("the volume is available", 60, lambda: volume_is("available"))
    page("/project/volumes/", "with the volume")
    page(f"/project/volumes/{volume['id']}/", "of the volume")
    fill("extend volume", f"/project/volumes/{volume['id']}/extend/", new_size="2")
    until("the volume is available again", 60, lambda: volume_is("available"))
    fill("snapshot of a volume", f"/project/volumes/{volume['id']}/create_snapshot/", name="by-horizon")
    snapshots = lambda: [row for row in api("cinder/volumesnapshots/")["items"] if row.get("status") == "available"]
    until("the snapshot of the volume is available", 60, snapshots)
    page("/project/snapshots/", "with the snapshot")
    act("delete", snapshots()[0]["id"], "/project/snapshots/", "volume_snapshots")
    until("the snapshot of the volume is gone", 60, lambda: not api("cinder/volumesnapshots/")["items"])
    # The embedded service keeps a volume on one host, so the server moves there.
    place = lambda: json.loads(send(f"/api/nova/servers/{server}", ajax=True)[2]).get("OS-EXT-SRV-ATTR:host")
    before, reach = place(), api(f"cinder/volumes/{volume['id']}/").get("os-vol-host-attr:host", "").split("@")[0]
    check("Horizon knows the hosts of the server and of the volume", before and reach, f"{before} {reach}")
    for host in [reach] if reach != before else ["AUTO_SCHEDULE", reach]:
        fill(f"live migration to {host}", f"/admin/instances/{server}/live_migrate", host=host, block_migration="on")
        until(f"the server is ACTIVE after the live migration to {host}", 60, lambda: state(server) == "ACTIVE" and place() != before)
        before = place()
    fill("attach volume", f"/project/instances/{server}/attach_volume/", volume=volume["id"])
    until("the volume is in use", 60, lambda: volume_is("in-use"))
    fill("detach volume", f"/project/instances/{server}/detach_volume/", volume=volume["id"])
    until("the volume is available after its detachment", 60, lambda: volume_is("available"))
    act("delete", volume["id"], "/project/volumes/", "volumes")

    fill("create security group", "/project/security_groups/create/", name="by-horizon", description="made by a form")
    group = named(api("network/securitygroups/"), "by-horizon")
    fill("add rule", f"/project/security_groups/{group.get('id')}/add_rule/", rule_menu="tcp", direction="ingress", port_or_range="port",
         port="22", remote="cidr", cidr="0.0.0.0/0")
    check("the rule is shown", "22" in page(f"/project/security_groups/{group.get('id')}/", "of the security group"))
    act("delete", group.get("id"), "/project/security_groups/", "security_groups")

    fill("create network", "/project/networks/create", net_name="inner", subnet_name="inner", cidr="10.98.0.0/24", ip_version="4")
    inner = named(api("neutron/networks/"), "inner")
    page(f"/project/networks/{inner.get('id')}/detail", "of the network")
    outside = named(api("neutron/networks/"), "outside")
    fill("create router", "/project/routers/create/", name="by-horizon", external_network=outside.get("id"))
    router = re.search(r'/project/routers/([0-9a-f-]{36})/', page("/project/routers/", "with the router"))
    router = router.group(1) if router else "none"
    subnet = [row["id"] for row in api(f"neutron/subnets/?network_id={network.get('id')}")["items"]][0]
    fill("add interface", f"/project/routers/{router}/addinterface", subnet_id=subnet)
    page(f"/project/routers/{router}/", "of the router")
    page("/project/network_topology/", "of the topology")
    status, _, text = send("/project/network_topology/json", ajax=True)
    check("the topology is answered", status == 200 and router in text, f"{status} {text}")
    fill("allocate floating address", "/project/floating_ips/allocate/", pool=outside.get("id"))
    address = api("network/floatingips/")["items"][0]
    port = ports()[0]
    targets = re.findall(r'<option value="([^"]+)"', send("/project/floating_ips/associate/")[2])
    target = next((one for one in targets if one.startswith(port)), "none")
    fill("associate floating address", "/project/floating_ips/associate/", ip_id=address["id"], port_id=target)
    check("the list of servers shows the floating address", address["ip"] in page("/project/instances/", "with the floating address"))
    act("disassociate", address["id"], "/project/floating_ips/", "floating_ips")
    act("release", address["id"], "/project/floating_ips/", "floating_ips")


def administrators(larger):
    """Hosts, aggregates, flavors, projects, users, quotas."""
    hosts = re.findall(r'/admin/hypervisors/([^/"]+)/', page("/admin/hypervisors/", "of the hypervisors"))
    services = [row for row in api("nova/services/")["items"] if row["binary"] == "nova-compute"]
    host = services[0]["host"]
    fill("disable service", f"/admin/hypervisors/{host}/disable_service", reason="by a form")
    page("/admin/hypervisors/?tab=hypervisor_info__compute_host", "of the hosts")
    check("the service has the reason", "by a form" in json.dumps(api("nova/services/")))
    act("enable", host, "/admin/hypervisors/?tab=hypervisor_info__compute_host", "compute_host")
    fill("create aggregate", "/admin/aggregates/create/", name="by-horizon", availability_zone="by-horizon")
    check("the zone is shown", "by-horizon" in page("/admin/aggregates/", "with the aggregate"))
    page("/admin/info/", "of the system")
    api(f"nova/flavors/{larger.get('id')}/", method="DELETE")

    fill("create project", "/identity/create", name="by-horizon")
    project = named(api("keystone/projects/"), "by-horizon")
    page(f"/identity/{project.get('id')}/detail/", "of the project")
    fill("quotas", f"/identity/{project.get('id')}/update_quotas/", instances="3")
    check("the quota is shown", 'name="instances" value="3"' in page(f"/identity/{project.get('id')}/update_quotas/", "of the quotas"))
    member = named(api("keystone/roles/"), "member")
    fill("create user", "/identity/users/create/", name="ann", password="a-long-secret", confirm_password="a-long-secret", email="ann@example.org",
         project=project.get("id"), role_id=member.get("id"))
    check("the user is shown", "ann@example.org" in page("/identity/users/", "with the user"))


if LONG:
    larger, ports = servers_forms()
    other_services(ports)
    administrators(larger)

# ------------------------------------------------------------------------------------------------------------- the end

act("delete")
until("the server is gone after the action delete", 60, lambda: state(server) is None)
text = page("/project/instances/", "without the server")
check("the list does not show the server any more", server not in text)
status, url, text = send("/auth/logout/")
status, url, text = send("/project/instances/")
check("after the log-out, the pages lead to the log-in", "/auth/login" in url, url)
if LONG:
    USER = "ann"
    _, url, _ = log_in("a-long-secret")
    check("the new user logs in", "/auth/login" not in url, url)
    check("the new user sees no server of others", server not in page("/project/instances/", "of the new user"))
    status, url, _ = send("/admin/instances/")
    check("the new user does not see the pages of administrators", status in (401, 403, 404) or "/auth/login" in url, f"{status} {url}")
sys.exit(1 if failed else 0)
