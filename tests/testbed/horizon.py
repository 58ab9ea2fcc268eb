"""A visitor of Horizon, without a browser: fills in forms, follows the menu, and calls the addresses that Horizon's pages
call. Each call prints one line: `ok` or `FAIL`, and the check.

    horizon.py HORIZON USER PASSWORD NAME WORK     NAME is the name of the image, the flavor and the network to use

Writes the console's address that Horizon gave into WORK/vnc and WORK/serial, and waits for WORK/serial.seen before it
deletes the server. Exit status: 0 all checks passed; 1 a check failed.
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
from http.cookiejar import CookieJar

HORIZON, USER, PASSWORD, NAME, WORK = sys.argv[1:]
# Horizon on a busy machine takes seconds for a page that asks several services.
TIMEOUT = 120
# Pages that ask for a service that is not there (object storage) or that Horizon shows with a warning of its own.
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

# What the form of a new server asks before it is shown.
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

# The other services, each by one form or call.
status, _, text = send("/project/instances/%s/update" % server)
keypair = api("nova/keypairs/", body={"name": "by-horizon", "key_type": "ssh"})
check("a key pair is made", "BEGIN" in keypair.get("private_key", ""), keypair)
page("/project/key_pairs/", "with the key pair")
group = api("nova/servergroups/", body={"name": "by-horizon", "policies": ["anti-affinity"]})
page("/project/server_groups/", "with the server group")
api(f"nova/servergroups/{group.get('id')}/", method="DELETE") if group else None
volume = api("cinder/volumes/", body={"name": "by-horizon", "size": 1, "description": "", "volume_type": "", "metadata": {},
                                      "snapshot_id": None, "image_id": None, "source_volid": None, "availability_zone": ""})
page("/project/volumes/", "with the volume")
if volume:
    ready = lambda: "available" in [row.get("status") for row in json.loads(send("/api/cinder/volumes/", ajax=True)[2])["items"]]
    until("the volume is available", 60, ready)
    page(f"/project/volumes/{volume['id']}/", "of the volume")
    act("delete", volume["id"], "/project/volumes/", "volumes")
api("nova/keypairs/by-horizon", method="DELETE")

act("delete")
until("the server is gone after the action delete", 60, lambda: state(server) is None)
text = page("/project/instances/", "without the server")
check("the list does not show the server any more", "by-horizon" not in text)
status, url, text = send("/auth/logout/")
status, url, text = send("/project/instances/")
check("after the log-out, the pages lead to the log-in", "/auth/login" in url, url)
sys.exit(1 if failed else 0)
