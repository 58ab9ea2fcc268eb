#!/bin/bash
# Calls the public methods of the SDK's compute proxy on a simulated fleet. tests/testbed/sdk.py lists the methods that
# it does not call, with reasons.
set -uo pipefail
. "$(dirname "$0")/../testbed/sim.sh"
command -v openstack >/dev/null || cannot "no openstack client on the PATH"
sim_open sdk '[DEFAULT]' 'reclaim_instance_interval = 3600' '[volume]' 'shared = true' '[chronova]' 'hypervisors = sim://3'
"$(dirname "$(readlink -f "$(command -v openstack)")")/python3" "$HERE/sdk.py" || FAILED=1
verdict
