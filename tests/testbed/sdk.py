"""Calls the public methods of openstacksdk's compute proxy, in an order in which they can succeed.

The list of methods is the SDK's own. The run fails if a method is neither called nor excused with a reason. A method
that the server does not serve is listed, and does not count as failed. OS_CLOUD names the cloud.
"""

import inspect
import sys
import time

import openstack
from openstack import exceptions, proxy
from openstack.compute.v2 import _proxy

MOVES = "tests/real/moves.sh and live.sh move and resize servers"
SHARES = "there is no share service"
VOLUMES = "the volume service has its own tests"
EXCUSED = {
    "abort_server_migration": MOVES, "confirm_server_resize": MOVES, "evacuate_server": MOVES,
    "force_complete_server_migration": MOVES, "get_server_migration": MOVES, "live_migrate_server": MOVES,
    "migrate_server": MOVES, "resize_server": MOVES, "revert_server_resize": MOVES, "server_migrations": MOVES,
    "create_share_attachment": SHARES, "delete_share_attachment": SHARES, "get_share_attachment": SHARES,
    "share_attachments": SHARES,
    "create_volume_attachment": VOLUMES, "delete_volume_attachment": VOLUMES, "get_volume_attachment": VOLUMES,
    "update_volume_attachment": VOLUMES,
    "validate_console_auth_token": "it needs the token of a console",
    "find_extension": "the SDK finds extensions by a call that the API lacks", "wait_for_delete": "other methods call it",
    "create_console": "create_server_remote_console is called", "get_server_console_url": "create_server_remote_console is called",
    "create_server_external_events": "events come from other services",
    "delete_service": "it would remove a host", "add_fixed_ip_to_server": "the action ended with 2.43",
    "remove_fixed_ip_from_server": "the action ended with 2.43",
    "get_hypervisor_uptime": "the call ended with 2.87", "update_service_forced_down": "force_service_down is called",
}

called, failed, unserved = set(), [], []


def call(method, *args, **kwargs):
    """Calls a method and reads its whole result; None if it failed or is not served."""
    called.add(method)
    try:
        answer = getattr(compute, method)(*args, **kwargs)
        return list(answer) if inspect.isgenerator(answer) else answer
    except exceptions.HttpException as error:
        if "is not implemented by this release" in str(error):
            unserved.append(method)
        else:
            failed.append(f"{method}: {error}")
    except Exception as error:  # an error of the SDK itself, for example about an answer that it cannot read
        failed.append(f"{method}: {type(error).__name__}: {error}")
    return None


def refused(words, method, *args, **kwargs):
    """A call that must be refused with this message."""
    called.add(method)
    try:
        getattr(compute, method)(*args, **kwargs)
        failed.append(f"{method}: it was not refused")
    except exceptions.HttpException as error:
        if words not in str(error):
            failed.append(f"{method}: {error}")


def change(state, server, method, *args, **kwargs):
    """A call that must bring the server into a state, if the operation is served."""
    before = len(unserved) + len(failed)
    answer = call(method, server, *args, **kwargs)
    if len(unserved) + len(failed) == before:
        until = time.monotonic() + 60
        while True:
            seen = compute.get_server(server.id)
            if seen.status == state and seen.task_state is None:
                break
            if time.monotonic() > until:
                failed.append(f"{method}: the server is {seen.status} ({seen.task_state}) and not {state}")
                break
            time.sleep(0.1)
    return answer


connection = openstack.connect()
compute = connection.compute
compute.default_microversion = "2.100"
project = connection.current_project_id

image = connection.image.create_image(
    name="image", data=bytes(65536), disk_format="raw", container_format="bare", visibility="public"
)
network = connection.network.create_network(name="network")
subnet = connection.network.create_subnet(network_id=network.id, ip_version=4, cidr="10.99.0.0/24")
public = connection.network.create_network(name="public", is_router_external=True)
connection.network.create_subnet(network_id=public.id, ip_version=4, cidr="203.0.113.0/24")
router = connection.network.create_router(name="router", external_gateway_info={"network_id": public.id})
connection.network.add_interface_to_router(router, subnet_id=subnet.id)
connection.network.create_security_group(name="web")

flavor = call("create_flavor", name="small", ram=64, vcpus=1, disk=1)
private = call("create_flavor", name="private", ram=64, vcpus=1, disk=1, is_public=False)
call("find_flavor", "small", get_extra_specs=True)
call("get_flavor", flavor)
call("flavors", details=True)
call("update_flavor", flavor, description="d")
call("flavor_add_tenant_access", private, project)
call("get_flavor_access", private)
call("flavor_remove_tenant_access", private, project)
call("create_flavor_extra_specs", flavor, {"hw:cpu_policy": "shared"})
call("fetch_flavor_extra_specs", flavor)
call("get_flavor_extra_specs_property", flavor, "hw:cpu_policy")
call("update_flavor_extra_specs_property", flavor, "hw:cpu_policy", "mixed")
call("delete_flavor_extra_specs_property", flavor, "hw:cpu_policy")
call("delete_flavor", private)
call("availability_zones", details=True)
call("extensions")
call("get_limits")

# The image proxies exist until 2.35.
compute.default_microversion = "2.35"
call("images", details=True)
call("find_image", "image")
call("get_image", image.id)
call("set_image_metadata", image.id, a="b")
call("fetch_image_metadata", image.id)
call("get_image_metadata", image.id)
call("delete_image_metadata", image.id, ["a"])
spare = connection.image.create_image(name="spare", data=bytes(512), disk_format="raw", container_format="bare")
call("delete_image", spare.id)
compute.default_microversion = "2.100"

key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0bTWZyLQGKlW5yQmNzFq9hJ1mX5x0yQ1V2kT3dYv3x me@home"
keypair = call("create_keypair", name="key", public_key=key, type="ssh")
call("get_keypair", keypair)
call("find_keypair", "key")
call("keypairs")

services = call("services", binary="nova-compute")
call("disable_service", services[0], disabled_reason="why")
call("enable_service", services[0])
call("force_service_down", services[0])
call("update_service", services[0], forced_down=False)
call("find_service", "nova-compute", host=services[0].host)
hypervisors = call("hypervisors", details=True)
call("get_hypervisor", hypervisors[0])
call("find_hypervisor", hypervisors[0].name)
aggregate = call("create_aggregate", name="aggregate")
call("get_aggregate", aggregate)
call("find_aggregate", "aggregate")
call("aggregates")
call("update_aggregate", aggregate, name="other")
call("set_aggregate_metadata", aggregate, {"a": "b"})
call("add_host_to_aggregate", aggregate, services[0].host)
call("aggregate_precache_images", aggregate, [image.id])
call("remove_host_from_aggregate", aggregate, services[0].host)
call("delete_aggregate", aggregate)

call("get_quota_set", project, usage=True)
call("get_quota_set_defaults", project)
call("update_quota_set", project, instances=50)
call("revert_quota_set", project)
call("get_quota_class_set")
call("update_quota_class_set", "default", cores=40)
group = call("create_server_group", name="group", policy="soft-anti-affinity")
call("get_server_group", group)
call("find_server_group", "group")
call("server_groups")

server = call(
    "create_server", name="server", image_id=image.id, flavor_id=flavor.id, networks=[{"uuid": network.id}], key_name="key"
)
server = call("wait_for_server", server, interval=1)
called.add("wait_for_status")
call("find_server", "server")
call("get_server", server)
call("servers", details=True)
call("update_server", server, name="server", description="d")
call("server_ips", server)
call("server_interfaces", server)
interface = call("create_server_interface", server, net_id=network.id)
if interface:
    until = time.monotonic() + 30
    while len(list(compute.server_interfaces(server))) < 2 and time.monotonic() < until:
        time.sleep(0.2)
    call("get_server_interface", interface, server)
    call("delete_server_interface", interface, server)
else:
    called.update(["get_server_interface", "delete_server_interface"])
floating = connection.network.create_ip(floating_network_id=public.id)
# These actions exist until 2.43.
compute.default_microversion = "2.43"
call("add_floating_ip_to_server", server, floating.floating_ip_address)
shown = [ip["addr"] for ips in compute.get_server(server.id).addresses.values() for ip in ips]
if floating.floating_ip_address not in shown:
    failed.append(f"add_floating_ip_to_server: the server shows {shown}")
call("remove_floating_ip_from_server", server, floating.floating_ip_address)
compute.default_microversion = "2.100"
connection.network.delete_ip(floating)
call("set_server_metadata", server, a="b")
call("fetch_server_metadata", server)
call("get_server_metadata", server)
call("delete_server_metadata", server, ["a"])
call("add_tag_to_server", server, "tag")
call("remove_tag_from_server", server, "tag")
call("remove_tags_from_server", server)
call("add_security_group_to_server", server, "web")
call("fetch_server_security_groups", server)
call("remove_security_group_from_server", server, "web")
call("get_server_console_output", server)
call("create_server_remote_console", server, protocol="vnc", type="novnc")
call("get_server_diagnostics", server)
call("get_server_password", server)
call("clear_server_password", server)
call("change_server_password", server, "secret")
actions = call("server_actions", server)
call("get_server_action", actions[0].request_id, server)
call("volume_attachments", server)
call("lock_server", server, locked_reason="why")
call("unlock_server", server)
change("PAUSED", server, "pause_server")
change("ACTIVE", server, "unpause_server")
change("SUSPENDED", server, "suspend_server")
change("ACTIVE", server, "resume_server")
change("SHUTOFF", server, "stop_server")
change("ACTIVE", server, "start_server")
change("ACTIVE", server, "reboot_server", "HARD")
call("trigger_server_crash_dump", server)
change("ACTIVE", server, "create_server_image", name="picture", wait=False)
change("ACTIVE", server, "backup_server", "backup", "daily", 1)
change("ACTIVE", server, "rebuild_server", image=image.id)
change("RESCUE", server, "rescue_server")
change("ACTIVE", server, "unrescue_server")
change("SHELVED_OFFLOADED", server, "shelve_server")
refused("while it is in vm_state shelved_offloaded", "shelve_offload_server", server)
change("ACTIVE", server, "unshelve_server")
change("ERROR", server, "reset_server_state", "error")
change("ACTIVE", server, "reset_server_state", "active")
call("migrations")
call("usages")
call("get_usage", project)
change("SOFT_DELETED", server, "delete_server")
change("ACTIVE", server, "restore_server")
call("delete_server", server, force=True)
call("delete_server_group", group)
call("delete_keypair", keypair)
call("delete_flavor", flavor)

inherited = {name for name, _ in inspect.getmembers(proxy.Proxy, inspect.isfunction)}
public = {name for name, _ in inspect.getmembers(_proxy.Proxy, inspect.isfunction) if not name.startswith("_")} - inherited
unasked = sorted(public - called - set(EXCUSED))
for name in unasked:
    print(f"{name} is neither called nor excused")
for line in failed:
    print(f"FAIL {line}")
if unserved:
    print("not served yet: " + ", ".join(sorted(set(unserved))))
print(f"{len(called)} of {len(public)} methods called, {len(failed)} failed")
sys.exit(bool(failed or unasked))
