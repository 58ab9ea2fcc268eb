#!/usr/bin/env python3
"""cinder_one.py --config-file FILE: API, scheduler and volume service of a real Cinder in one process.

They reach each other through oslo.messaging's in-memory driver (`transport_url = fake://`), so no RabbitMQ is needed.
Cinder's own functional tests run them in the same way.
"""
import sys

# Patches the standard library for eventlet, before the other modules are imported.
from cinder.cmd import volume as first  # isort: skip

from cinder import objects, rpc, service, utils, version
from cinder.api import common  # noqa: F401
from cinder.common import config, constants
from oslo_config import cfg
from oslo_log import log
from oslo_privsep import priv_context
from oslo_service import service as processes
import os_brick
import shlex

CONF = cfg.CONF
objects.register_all()
CONF(sys.argv[1:], project="cinder", version=version.version_string())
config.set_middleware_defaults() if hasattr(config, "set_middleware_defaults") else None
log.setup(CONF, "cinder")
priv_context.init(root_helper=shlex.split(utils.get_root_helper()))
os_brick.setup(CONF)
rpc.init(CONF)
launcher = processes.ServiceLauncher(CONF)
launcher.launch_service(service.Service.create(binary=constants.SCHEDULER_BINARY))
for backend in CONF.enabled_backends:
    CONF.register_opt(first.host_opt, group=backend)
    host = "%s@%s" % (CONF.host, backend)
    launcher.launch_service(service.Service.create(
        host=host, service_name=backend, binary=constants.VOLUME_BINARY, coordination=True))
launcher.launch_service(service.WSGIService("osapi_volume"))
launcher.wait()
